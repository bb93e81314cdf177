"""Headers of the PROXY protocol: good ones with what they say, and hostile ones."""

from __future__ import annotations

import struct

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def version_2(
    addresses: bytes, command: int = 0x21, family: int = 0x11, extensions: bytes = b"", size: int | None = None
) -> bytes:
    length = len(addresses) + len(extensions) if size is None else size
    return SIGNATURE + bytes([command, family]) + struct.pack(">H", length) + addresses + extensions


FOUR = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + struct.pack(">HH", 4660, 80)
SIX = bytes(15) + b"\1" + bytes(15) + b"\2" + struct.pack(">HH", 7, 80)
SAID = f"{10 << 24 | 1} 4660".encode()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def summed(wrong: int = 0) -> bytes:
    """A header with a checksum (section 2.2.4 of the specification), the first of two extensions."""
    zero = version_2(FOUR, extensions=b"\x03\0\4" + bytes(4) + b"\x04\0\1x")
    return zero.replace(b"\x03\0\4" + bytes(4), b"\x03\0\4" + struct.pack(">I", crc32c(zero) ^ wrong))


GOOD = [
    (b"PROXY TCP4 10.0.0.1 10.0.0.2 4660 80\r\n", SAID),
    (version_2(FOUR), SAID),
    (version_2(FOUR, extensions=b"\x04\0\3abc" + b"\x20\0\0"), SAID),
    (summed(), SAID),
    (b"PROXY TCP6 ::1 ::2 7 80\r\n", b"0 0"),
    (version_2(SIX, family=0x21), b"0 0"),
    (b"PROXY UNKNOWN\r\n", b""),
    (b"PROXY UNKNOWN " + b"x" * 90 + b"\r\n", b""),
    (version_2(b"", command=0x20, family=0), b""),
    (version_2(FOUR, command=0x20), b""),
    (version_2(bytes(216), family=0x31), b""),
]
HOSTILE = [
    b"GET / HTTP/1.1\r\n",
    b"PROXY\r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 4660\r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 4660 80 \r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 4660 65536\r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 04660 80\r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 -1 80\r\n",
    b"PROXY TCP4  10.0.0.1 10.0.0.2 1 80\r\n",
    b"PROXY TCP4 ::1 ::2 1 80\r\n",
    b"PROXY TCP4 10.0.0.256 10.0.0.2 1 80\r\n",
    b"PROXY UDP4 10.0.0.1 10.0.0.2 1 80\r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 1 80\n",
    b"PROXY UNKNOWN " + b"x" * 200,
    version_2(FOUR, command=0x11),
    version_2(FOUR, command=0x22),
    version_2(FOUR, family=0x41),
    version_2(FOUR[:-1]),
    version_2(FOUR, family=0x21),
    version_2(FOUR, size=65535),
    version_2(FOUR, extensions=b"\x04\0"),
    version_2(FOUR, extensions=b"\x04\0\5abc"),
    summed(wrong=1),
]
