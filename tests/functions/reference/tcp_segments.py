"""TCP segments and the connections they belong to, read from a capture file (classic pcap or pcapng).

The input is read whole. Link layers: Ethernet with any number of VLAN tags (0x8100, 0x88a8), Linux cooked (113, 276),
raw IP (12, 14, 101, 228, 229) and BSD loopback (0, 108). IP fragments are skipped, and so is anything inside a tunnel.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
IPV4, IPV6, VLAN_TAGS = 0x0800, 0x86DD, (0x8100, 0x88A8)
RAW_IP = (12, 14, 101, 228, 229)
BSD_FAMILIES = {2: IPV4, 10: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}

Endpoint = tuple[str, int]


class Frame(NamedTuple):
    """One captured frame: its link type, its length on the wire, and the bytes that were kept of it."""

    link_type: int
    wire_length: int
    data: bytes


class Segment(NamedTuple):
    """One TCP segment: `length` payload bytes by the IP header, of which `data` holds those that were captured."""

    source: Endpoint
    target: Endpoint
    sequence: int
    flags: int
    length: int
    data: bytes


@dataclass(eq=False)
class Connection:
    """One connection: its two ends, the first sequence number seen from each, and whether a FIN or RST was seen."""

    active: Endpoint
    passive: Endpoint
    first: dict[Endpoint, int] = field(default_factory=dict[Endpoint, int])
    closing: bool = False


class Placed(NamedTuple):
    """One segment in its connection: `position` is that of its first payload byte, counted from the sender's first
    sequence number (so it can be negative), `end` the position after its payload and FIN. A RST has no payload.
    """

    connection: Connection
    from_active: bool
    position: int
    end: int
    flags: int
    length: int
    data: bytes


def read_frames(path: str) -> Iterator[Frame]:
    """The frames of a capture file in file order, up to its end or to the first record that is cut short."""
    raw = Path(path).read_bytes()
    if raw[:4] == b"\x0a\x0d\x0d\x0a":
        yield from _read_pcapng(raw)
    elif raw[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        yield from _read_pcap(raw, "<")
    elif raw[:4] in (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d"):
        yield from _read_pcap(raw, ">")
    else:
        raise ValueError(f"{path}: neither pcap nor pcapng")


def _read_pcap(raw: bytes, order: str) -> Iterator[Frame]:
    link_type: int = struct.unpack_from(order + "I", raw, 20)[0] & 0xFFFF
    at = 24
    while at + 16 <= len(raw):
        kept, wire_length = struct.unpack_from(order + "II", raw, at + 8)
        at += 16 + kept
        if at > len(raw):
            return
        yield Frame(link_type, wire_length, raw[at - kept : at])


def _read_pcapng(raw: bytes) -> Iterator[Frame]:
    order, at = "<", 0
    interfaces: list[tuple[int, int]] = []  # link type and snap length
    while at + 12 <= len(raw):
        if raw[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            order = "<" if raw[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        kind, size = struct.unpack_from(order + "II", raw, at)
        if size < 12 or at + size > len(raw):
            return
        body = raw[at + 8 : at + size - 4]
        if kind == 1:
            interfaces.append(struct.unpack_from(order + "HxxI", body))
        elif kind in (2, 6):  # the obsolete Packet Block differs in the width of the interface number only
            interface = struct.unpack_from(order + ("H" if kind == 2 else "I"), body)[0]
            kept, wire_length = struct.unpack_from(order + "II", body, 12)
            yield Frame(interfaces[interface][0], wire_length, body[20 : 20 + kept])
        elif kind == 3:
            link_type, snap_length = interfaces[0]
            wire_length = struct.unpack_from(order + "I", body)[0]
            yield Frame(link_type, wire_length, body[4 : 4 + min(wire_length, snap_length or wire_length)])
        at += (size + 3) & ~3


def read_segments(path: str) -> Iterator[Segment]:
    """The TCP segments of a capture file in file order."""
    for frame in read_frames(path):
        try:
            segment = _parse_frame(frame)
        except (struct.error, IndexError):  # a header cut by the snap length
            continue
        if segment:
            yield segment


def _parse_frame(frame: Frame) -> Segment | None:
    link_type, wire_length, data = frame
    if link_type in RAW_IP:
        kind, at = {4: IPV4, 6: IPV6}.get(data[0] >> 4, 0), 0
    elif link_type in (0, 108):
        family = min(int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big"))
        kind, at = BSD_FAMILIES.get(family, 0), 4
    elif link_type in (1, 113, 276):
        type_at, at = {1: (12, 14), 113: (14, 16), 276: (0, 20)}[link_type]
        kind = struct.unpack_from(">H", data, type_at)[0]
        while kind in VLAN_TAGS:
            kind = struct.unpack_from(">H", data, at + 2)[0]
            at += 4
    else:
        return None
    if kind == IPV4:
        return _parse_ipv4(data[at:], wire_length - at)
    if kind == IPV6:
        return _parse_ipv6(data[at:], wire_length - at)
    return None


def _parse_ipv4(packet: bytes, wire_length: int) -> Segment | None:
    total, fragment, protocol = struct.unpack_from(">2xH2xHxB", packet)
    header = (packet[0] & 15) * 4
    if packet[0] >> 4 != 4 or header < 20 or fragment & 0x3FFF or protocol != 6:
        return None
    source, target = str(IPv4Address(packet[12:16])), str(IPv4Address(packet[16:20]))
    total = total or wire_length  # 0: captured before the network card cut it up
    return _parse_tcp(source, target, packet[header:total], total - header)


def _parse_ipv6(packet: bytes, wire_length: int) -> Segment | None:
    length, protocol = struct.unpack_from(">4xHB", packet)
    if packet[0] >> 4 != 6 or len(packet) < 40:
        return None
    end = 40 + length if length else wire_length
    at = 40
    while protocol in (0, 43, 44, 51, 60, 135, 139, 140):
        if protocol == 44:
            size = 8
            if struct.unpack_from(">H", packet, at + 2)[0] & 0xFFF9:  # all but an "atomic" fragment (RFC 6946)
                return None
        else:
            size = (packet[at + 1] + 2) * 4 if protocol == 51 else (packet[at + 1] + 1) * 8
        protocol = packet[at]
        at += size
    if protocol != 6:
        return None
    source, target = str(IPv6Address(packet[8:24])), str(IPv6Address(packet[24:40]))
    return _parse_tcp(source, target, packet[at:end], end - at)


def _parse_tcp(source: str, target: str, data: bytes, length: int) -> Segment | None:
    """`length` is the length of header and payload by the IP header, `data` what was captured of them."""
    source_port, target_port, sequence, offset, flags = struct.unpack_from(">HHI4xBB", data)
    header = (offset >> 4) * 4
    if header < 20 or header > length:
        return None
    return Segment((source, source_port), (target, target_port), sequence, flags, length - header, data[header:length])


def place_segments(path: str) -> Iterator[Placed]:
    """The segments of a capture file in file order, each with its connection and its position in its direction.

    A connection is what two (address, port) pairs send each other. Its active side is the sender of its first segment,
    or the receiver if that is a SYN+ACK. After a FIN or RST, a SYN without ACK begins a new connection in place of the
    old one, unless its sequence number is the first one of its sender.
    """
    connections: dict[frozenset[Endpoint], Connection] = {}
    for source, target, sequence, flags, wire_length, captured in read_segments(path):
        pair = frozenset((source, target))
        connection = connections.get(pair)
        opening = flags & (SYN | ACK) == SYN
        if not connection or (opening and connection.closing and connection.first.get(source) != sequence):
            answer = flags & (SYN | ACK) == SYN | ACK
            connection = Connection(target, source) if answer else Connection(source, target)
            connections[pair] = connection
        first = connection.first.setdefault(source, sequence)
        position = (sequence - first + 2**31) % 2**32 - 2**31 + bool(flags & SYN)
        length, data = (0, b"") if flags & RST else (wire_length, captured)
        connection.closing |= bool(flags & (FIN | RST))
        end = position + length + bool(flags & FIN)
        yield Placed(connection, source == connection.active, position, end, flags, length, data)
