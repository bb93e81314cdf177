"""What one packet costs, by its shape: `.venv/bin/python bench/shapes.py [--rounds N] [SHAPE ...]`.

Each shape is packets of one length that a sender fills with as many tunnels, headers, records, chunks or elements of a
list as fit, for stack everything with its default bounds. Prints the CPU time of a packet, and how many times that of
a packet of this length in order in a connection of TCP. The captures are long, so that opening the box costs little.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent))

from sluice.engine.box import Settings, compile_stack  # noqa: E402
from sluice.engine.measure import Candidate, measure  # noqa: E402
from sluice.stacks.find import find_stack  # noqa: E402

from aioquic.quic.crypto import CryptoPair  # noqa: E402  isort: skip
from aioquic.quic.packet import QuicProtocolVersion  # noqa: E402  isort: skip

LENGTH = 1460
"""Bytes of a packet."""
PACKETS = 60_000
IPV4, IPV6 = 0x0800, 0x86DD
Make = Callable[[int, random.Random], bytes]
"""Makes packet number N."""


def eth(body: bytes, kind: int = IPV4) -> bytes:
    return b"\2\0\0\0\0\1\2\0\0\0\0\2" + struct.pack(">H", kind) + body


def ip4(body: bytes, protocol: int, src: bytes = b"\x0a\0\0\1", dst: bytes = b"\x0a\0\0\2") -> bytes:
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + src + dst + body


def ip6(body: bytes, following: int) -> bytes:
    return struct.pack(">IHBB", 6 << 28, len(body), following, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + body


def udp(sport: int, dport: int, body: bytes) -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + len(body), 0) + body


INNER = ip4(udp(1, 9, b"x"), 17)


def filled(inner: bytes, around: Callable[[bytes], bytes], room: int) -> bytes:
    """As many layers around it as there is room for."""
    while len(more := around(inner)) <= room:
        inner = more
    return inner


def in_order(number: int, _: random.Random) -> bytes:
    data, turn = LENGTH - 54, number // 512
    head = struct.pack(">HHIIBBHHH", 1000 + number % 512, 80, 1 + turn * data, 1, 0x50, 0x10, 65535, 0, 0)
    return eth(ip4(head + bytes(data), 6))


def messages(port: int, message: bytes, number: int, _: random.Random) -> bytes:
    """Messages in order in connections of TCP to a port."""
    data, turn = message * ((LENGTH - 54) // len(message)), number // 512
    head = struct.pack(">HHIIBBHHH", 1000 + number % 512, port, 1 + turn * len(data), 1, 0x50, 0x10, 65535, 0, 0)
    return eth(ip4(head + data, 6))


def tunnels(head: bytes, protocol: int, *_: object) -> bytes:
    return eth(filled(INNER, lambda inner: ip4(head + inner, protocol), LENGTH - 14))


def in_udp(head: bytes, port: int, framed: bool, _: int, chance: random.Random) -> bytes:
    """Each tunnel between other addresses and ports."""

    def around(inner: bytes) -> bytes:
        outer = udp(chance.getrandbits(16), port, head + (eth(inner) if framed else inner))
        return ip4(outer, 17, chance.randbytes(4), chance.randbytes(4))

    return eth(filled(INNER, around, LENGTH - 14))


def extensions(body: bytes, *_: object) -> bytes:
    packet, following = udp(1, 9, b"x"), 17
    for _number in range((LENGTH - 54 - len(packet)) // 8):
        packet, following = bytes([following, 0]) + body + packet, 60
    return eth(ip6(packet, following), IPV6)


def listed(head: bytes, element: bytes, tail: bytes = b"") -> bytes:
    """A frame of as many elements as fit between a beginning and an end."""
    return head + element * ((LENGTH - len(head) - len(tail)) // len(element)) + tail


def ppp_options(*_: object) -> bytes:
    head, size = b"\2\0\0\0\0\1\2\0\0\0\0\2\x88\x64\x11\0\0\1", LENGTH - 20
    return listed(head + struct.pack(">HHBBH", size, 0xC021, 1, 1, size - 2), b"\x99\2")


def pppoe_tags(*_: object) -> bytes:
    size = (LENGTH - 20) // 4 * 4
    return listed(b"\2\0\0\0\0\1\2\0\0\0\0\2\x88\x63\x11\x09\0\0" + struct.pack(">H", size), b"\1\1\0\0")


def in_datagram(port: int, head: bytes, element: bytes, tail: bytes, number: int, _: random.Random) -> bytes:
    """A datagram of UDP to a port: a header and a list."""
    body = listed(bytes(42) + head, element, tail)[42:]
    return eth(ip4(udp(4000 + number % 512, port, body), 17))


def hello(number: int, _: random.Random) -> bytes:
    """A ClientHello of TLS with empty extensions, in CRYPTO of QUIC or in a connection of TCP."""
    count, turn = (LENGTH - 54 - 49) // 4, number // 512
    body = b"\3\3" + bytes(32) + b"\0\0\2\x13\1\1\0" + struct.pack(">H", 4 * count) + b"\x12\x34\0\0" * count
    body = b"\1\0" + struct.pack(">H", len(body)) + body
    body = b"\x16\3\1" + struct.pack(">H", len(body)) + body
    head = struct.pack(">HHIIBBHHH", 1000 + number % 512, 443, 1 + turn * len(body), 1, 0x50, 0x10, 65535, 0, 0)
    return eth(ip4(head + body, 6))


def initial(frames: bytes, number: int, _: random.Random) -> bytes:
    """An Initial packet of QUIC with these frames, of one of 64 connection ids, sealed with the key that it names."""
    connection, sealed = (number % 64).to_bytes(8, "big"), frames + bytes(LENGTH - 42 - 36 - len(frames))
    if (connection, sealed) not in _sealed:
        head = b"\xc0\0\0\0\1\x08" + connection + b"\0\0" + (0x4000 | len(sealed) + 17).to_bytes(2, "big") + b"\0"
        pair = CryptoPair()
        pair.setup_initial(connection, is_client=True, version=QuicProtocolVersion.VERSION_1)
        _sealed[connection, sealed] = pair.encrypt_packet(head, sealed, 0)
    return eth(ip4(udp(4000 + number % 64, 443, _sealed[connection, sealed]), 17))


_sealed: dict[tuple[bytes, bytes], bytes] = {}


def padding(*_: object) -> bytes:
    count = (LENGTH - 54 - 9) // 8
    return eth(ip6(bytes([17, count - 1]) + bytes(8 * count - 2) + udp(1, 9, b"x"), 60), IPV6)


def names(record: bytes, at: int, number: int, _: random.Random) -> bytes:
    """A message of DNS with these questions (at 0) or answers (at 1)."""
    count = (LENGTH - 54) // len(record)
    counts = [count if place == at else 0 for place in range(4)]
    return eth(ip4(udp(5353 - at, 53, struct.pack(">6H", number & 0xFFFF, 0, *counts) + record * count), 17))


def groups(*_: object) -> bytes:
    count = (LENGTH - 42) // 8
    return eth(ip4(struct.pack(">BBHHH", 0x22, 0, 0, 0, count) + b"\4\0\0\0\xe0\1\2\3" * count, 2))


def chunks(count: int, step: int, number: int, _: random.Random) -> bytes:
    """DATA chunks of SCTP whose numbers are `step` apart."""
    first = 1 + number * count * step
    heads = (struct.pack(">BBHIHHI", 0, 3, 17, first + n * step, 0, 0, 0) for n in range(count))
    return eth(ip4(struct.pack(">HHII", 1000, 2000, 7, 0) + b"".join(head + b"x\0\0\0" for head in heads), 132))


def fragments(number: int, _: random.Random) -> bytes:
    """I-DATA chunks, each the beginning of a message that does not end."""
    count = (LENGTH - 46) // 24
    first = number * count
    heads = (struct.pack(">BBHIHHII", 64, 2, 21, 1 + first + n, n, 0, first + n, 0) for n in range(count))
    return eth(ip4(struct.pack(">HHII", 1000, 2000, 7, 0) + b"".join(head + b"x\0\0\0" for head in heads), 132))


def initials(count: int, number: int, chance: random.Random) -> bytes:
    """Initial packets of QUIC, each of another connection id, in a datagram of another connection."""
    size = (LENGTH - 42) // count - 20
    head = b"\xc3\0\0\0\1\x08"
    datagram = b"".join(
        head + chance.randbytes(8) + struct.pack(">BBH", 0, 0, 0x4000 | size) + chance.randbytes(size)
        for _ in range(count)
    )
    return eth(ip4(udp(1024 + number % 60_000, 443, datagram), 17, number.to_bytes(4, "big")))


SHAPES: dict[str, Make] = {
    "TCP in order": in_order,
    "IP in IP": partial(tunnels, b"", 4),
    "GRE": partial(tunnels, b"\0\0\x08\0", 47),
    "VXLAN, other addresses": partial(in_udp, b"\x08\0\0\0\0\0\1\0", 4789, True),
    "GUE, other addresses": partial(in_udp, b"\0\4\0\0", 6080, False),
    "IPv6 extension headers": partial(extensions, b"\1\4\0\0\0\0"),
    "IPv6 padding options": padding,
    "DNS questions": partial(names, b"\0\0\1\0\1", 0),
    "DNS records": partial(names, b"\0\0\x10\0\1\0\0\0\0\0\0", 1),
    "DNS names of 127 labels": partial(names, b"\1a" * 127 + b"\0\0\x10\0\1\0\0\0\0\0\0", 1),
    "DNS names over TCP": partial(
        messages, 53, b"\1\x15" + bytes(7) + b"\1" + bytes(4) + b"\1a" * 127 + b"\0\0\x10\0\1" + bytes(6)
    ),
    "PPP options": ppp_options,
    "PPPoE tags": pppoe_tags,
    "GTP extension headers": partial(
        in_datagram, 2152, b"\x34\xff\5\x5c\0\0\0\1\0\0\0\x40", b"\1\0\0\x40", b"\1\0\0\0"
    ),
    "L2TP attributes": partial(
        in_datagram, 1701, b"\xc8\2\5\x88\0\1\0\0\0\0\0\0\x80\x08\0\0\0\0\0\1", b"\0\6\0\0\0\x63", b""
    ),
    "TZSP tags": partial(in_datagram, 37008, b"\1\0\0\1", b"\x99\0", b"\1"),
    "TZSP padding": partial(in_datagram, 37008, b"\1\0\0\1", b"\0", b"\1"),
    "GRE source route": lambda *_: eth(
        ip4(listed(bytes(34) + b"\x40\0\x08\0\0\0\0\0", b"\0\2\0\1a", bytes(4))[34:], 47)
    ),
    "TLS extensions": hello,
    "QUIC Initials": partial(initial, b""),
    "QUIC acknowledged ranges": partial(initial, b"\2\x44\0\0\x42\x60\0" + bytes(2 * 0x260)),
    "DNS messages over TCP": partial(messages, 53, b"\0\x0c" + bytes(12)),
    "DNS questions over TCP": partial(messages, 53, b"\0\x11" + bytes(5) + b"\1" + bytes(6) + b"\0\0\1\0\1"),
    "PPTP messages": partial(messages, 1723, b"\0\x0c\0\1\x1a\x2b\x3c\x4d\0\5\0\0"),
    "PPTP, no messages": partial(messages, 1723, b"\0\x9c\0\1\x1a\x2b\x3c\0" * 175),
    "PPTP, nearly messages": partial(messages, 1723, b"\0\x0c\0\1\x1a\x2b\x3c\x4e\0\5\0\0"),
    "IGMP records": groups,
    "SCTP chunks": partial(chunks, (LENGTH - 46) // 20, 1),
    "SCTP, 12 chunks": partial(chunks, 12, 1),
    "SCTP chunks with holes": partial(chunks, (LENGTH - 46) // 20, 2),
    "SCTP messages that never end": fragments,
    "QUIC Initials, other ids": partial(initials, 1),
    "QUIC Initials, 25 a datagram": partial(initials, 25),
    "VLAN tags": lambda *_: eth(b"\0\1\x81\0" * 350 + b"\0\1\x08\0" + INNER, 0x8100),
    "MPLS labels": lambda *_: eth(b"\0\1\0\x40" * 349 + b"\0\1\1\x40" + INNER, 0x8847),
}


def write(path: Path, make: Make) -> None:
    """A capture of a shape."""
    chance = random.Random(1)
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number in range(PACKETS):
            packet, at = make(number, chance), 10 * number
            out.write(struct.pack("<4I", 1_700_000_000 + at // 10**6, at % 10**6, len(packet), len(packet)) + packet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    first, *others = SHAPES
    unknown = set(options.shapes) - set(SHAPES)
    if unknown:
        raise SystemExit(f"shapes: no shape '{min(unknown)}': there are {', '.join(SHAPES)}")
    candidate = Candidate(compile_stack(find_stack("everything")), Settings(seed=1))
    base = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shape.pcap"
        for name in [first, *(options.shapes or others)]:
            write(path, SHAPES[name])
            (found,) = measure([candidate], str(path), options.rounds)
            spent = min(found.cpu_ns) / found.packets
            base = base or spent
            print(f"{name:<30} {spent:8.1f} ns {spent / base:6.1f}", flush=True)


if __name__ == "__main__":
    main()
