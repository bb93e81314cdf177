"""The captures and the values of templates with which `sluice new` begins a protocol, over UDP or over TCP."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

PORT = 4000
_CLIENT, _SERVER = bytes([10, 0, 0, 7]), bytes([10, 0, 0, 1])
_SYN, _ACK, _FIN = 2, 16, 1


@dataclass(frozen=True)
class StartingPoint:
    """The differences between protocols of datagrams and protocols of messages in a stream.

    values: of the marks in the templates. capture: the packets.
    """

    values: dict[str, str]
    capture: bytes


def starting_point(over: str, name: str) -> StartingPoint:
    """The starting point of protocol `name` over "udp" or "tcp"."""
    own = {
        "udp": ("17", "Pred, Stack", "5", "malformed:version", "five packets to UDP port"),
        "tcp": ("6", "Pred, Stack, one_of", "4", "lost:malformed", "a connection to TCP port"),
    }
    protocol, imported, packets, refused, capture = own[over]
    dport = f"stack.{over}.header.dport"
    condition = f"{dport} == PORT" if over == "udp" else f"one_of(PORT, stack.tcp.header.sport, {dport})"
    values = {
        "NAME": name,
        "OVER": over,
        "TITLE": over.upper(),
        "PORT": str(PORT),
        "PROTOCOL": protocol,
        "IMPORTED": imported,
        "CONDITION": condition,
        "PACKETS": packets,
        "REFUSED": refused,
        "CAPTURE": f"{capture} {PORT}",
    }
    return StartingPoint(values, _pcap(_datagrams() if over == "udp" else _connection()))


def _message(session: int, kind: int, data: bytes, version: int = 1) -> bytes:
    return struct.pack("!BHH", version << 4 | kind, session, len(data)) + data


def _datagrams() -> list[bytes]:
    """A session (two messages and its end), a message of another session, and a packet of version 2."""
    messages = [(7, 1, b"hello"), (9, 1, b"good morning"), (7, 1, b"again"), (7, 2, b"")]
    packets = [(session, _message(session, kind, data)) for session, kind, data in messages]
    packets.append((9, _message(9, 1, b"from the future", version=2)))
    return [
        _frame(17, struct.pack("!HHHH", 40000 + session, PORT, 8 + len(data), 0) + data, session)
        for session, data in packets
    ]


def _connection() -> list[bytes]:
    """The same in a connection, whose segments end anywhere in messages; two of them arrive out of order."""
    stream = _message(7, 1, b"hello") + _message(9, 1, b"good morning") + _message(9, 1, b"from the future", version=2)
    stream += _message(7, 1, b"again") + _message(7, 2, b"")
    cuts = [0, 3, 14, 40, 52, len(stream)]
    segments = [(1001 + low, _ACK, stream[low:high]) for low, high in pairwise(cuts)]
    segments[2], segments[3] = segments[3], segments[2]
    own = [(1000, _SYN, b""), (1001, _ACK, b""), *segments, (1001 + len(stream), _ACK | _FIN, b"")]
    frames = [_segment(_CLIENT, number, flags, data) for number, flags, data in own]
    frames.insert(1, _segment(_SERVER, 5000, _SYN | _ACK, b"", 1001))
    return frames


def _segment(sender: bytes, number: int, flags: int, data: bytes, acknowledged: int = 5001) -> bytes:
    """A frame with a TCP segment; its checksum is correct."""
    ports = (40007, PORT) if sender == _CLIENT else (PORT, 40007)
    acknowledged = acknowledged if flags & _ACK else 0
    head = struct.pack("!HHIIBBHHH", *ports, number, acknowledged, 5 << 4, flags, 65535, 0, 0)
    pseudo = _CLIENT + _SERVER + struct.pack("!HH", 6, len(head) + len(data))
    check = _checksum(pseudo + head + data)
    return _frame(6, head[:16] + struct.pack("!H", check) + head[18:] + data, 7, sender)


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) & 1)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def _frame(protocol: int, payload: bytes, host: int, sender: bytes = b"") -> bytes:
    """An Ethernet frame with an IPv4 packet from 10.0.0.`host` to 10.0.0.1, or back."""
    ends = [bytes([10, 0, 0, host]), _SERVER]
    source, target = ends if sender != _SERVER else ends[::-1]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), host, 0, 64, protocol, 0) + source + target
    ip = ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]
    return bytes.fromhex("020000000001 020000000002 0800") + ip + payload


def _pcap(packets: list[bytes]) -> bytes:
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for number, packet in enumerate(packets):
        out += struct.pack("<IIII", 1_700_000_000 + number, 0, len(packet), len(packet)) + packet
    return out
