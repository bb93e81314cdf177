"""Builds packets from their fields, byte by byte. Checksums are 0 unless `checksums` is set."""

from __future__ import annotations

import struct

A4, B4 = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
A6, B6 = bytes.fromhex("20010db8000000000000000000000001"), bytes.fromhex("20010db8000000000000000000000002")
FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32}
TCP, UDP, FRAGMENT = 6, 17, 44

WINDOW_SCALE = 3


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    data += b"\0" * (len(data) & 1)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def pseudo_header(src: bytes, dst: bytes, protocol: int, length: int) -> bytes:
    """The pseudo header that the checksums of TCP and UDP cover."""
    if len(src) == 4:
        return src + dst + struct.pack(">BBH", 0, protocol, length)
    return src + dst + struct.pack(">II", length, protocol)


def tcp(
    sport: int,
    dport: int,
    number: int,
    flags: str,
    payload: bytes = b"",
    ack: int = 0,
    window: int = 65535,
    options: bytes = b"",
    addresses: tuple[bytes, bytes] | None = None,
) -> bytes:
    """A TCP segment; `flags` consists of letters of FLAGS; with `addresses`, its checksum is correct."""
    options += b"\1" * (-len(options) % 4)
    bits = sum(FLAGS[letter] for letter in flags)
    size = 20 + len(options)
    parts = (sport, dport, number & 0xFFFFFFFF, ack & 0xFFFFFFFF, size // 4 << 12 | bits, window)
    head = struct.pack(">HHIIHH", *parts)
    total = 0
    if addresses is not None:
        segment = head + bytes(4) + options + payload
        total = checksum(pseudo_header(*addresses, TCP, len(segment)) + segment)
    return head + struct.pack(">HH", total, 0) + options + payload


def udp(sport: int, dport: int, payload: bytes = b"") -> bytes:
    """A UDP datagram without a checksum."""
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload


def scale(shift: int) -> bytes:
    """The TCP option that gives the shift of windows, in bits."""
    return bytes([WINDOW_SCALE, 3, shift])


def ip4(
    payload: bytes,
    protocol: int = TCP,
    src: bytes = A4,
    dst: bytes = B4,
    *,
    id: int = 7,
    offset: int = 0,
    more: bool = False,
    options: bytes = b"",
    length: int | None = None,
) -> bytes:
    """An IPv4 packet; `offset` in bytes; `length` is for a header with a wrong length."""
    size = 20 + len(options)
    length = size + len(payload) if length is None else length
    head = struct.pack(">BBHHHBB", 0x40 | size // 4, 0, length, id, more << 13 | offset // 8, 64, protocol)
    return head + struct.pack(">H", checksum(head + bytes(2) + src + dst + options)) + src + dst + options + payload


def ip6(payload: bytes, protocol: int = TCP, src: bytes = A6, dst: bytes = B6) -> bytes:
    """An IPv6 packet."""
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + src + dst + payload


def fragment_header(payload: bytes, protocol: int, id: int, offset: int, more: bool) -> bytes:
    """An IPv6 fragment header and its payload; `offset` in bytes."""
    return struct.pack(">BBHI", protocol, 0, offset | more, id) + payload


def eth(packet: bytes, *tags: int) -> bytes:
    """An Ethernet frame around an IP packet, with VLAN tags if any are given."""
    kind = 0x86DD if packet[:1] and packet[0] >> 4 == 6 else 0x0800
    types = [0x8100] * len(tags) + [kind]
    head = bytes.fromhex("020000000001020000000002") + struct.pack(">H", types[0])
    for tag, following in zip(tags, types[1:], strict=True):
        head += struct.pack(">HH", tag, following)
    return head + packet


def cuts(body: bytes, *sizes: int) -> list[tuple[int, bytes, bool]]:
    """`body` split for fragments: (offset, bytes, whether more follow); the last part has the remaining size."""
    found: list[tuple[int, bytes, bool]] = []
    at = 0
    for size in (*sizes, len(body) - sum(sizes)):
        found.append((at, body[at : at + size], at + size < len(body)))
        at += size
    return found


def fragments4(
    body: bytes, *sizes: int, protocol: int = TCP, id: int = 7, src: bytes = A4, dst: bytes = B4
) -> list[bytes]:
    """Ethernet frames with the IPv4 fragments of one datagram."""
    return [eth(ip4(part, protocol, src, dst, id=id, offset=at, more=more)) for at, part, more in cuts(body, *sizes)]


def fragments6(
    body: bytes, *sizes: int, protocol: int = TCP, id: int = 7, src: bytes = A6, dst: bytes = B6
) -> list[bytes]:
    """Ethernet frames with the IPv6 fragments of one datagram."""
    return [
        eth(ip6(fragment_header(part, protocol, id, at, more), FRAGMENT, src, dst))
        for at, part, more in cuts(body, *sizes)
    ]
