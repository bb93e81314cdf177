"""TLS hellos and records, as clients and servers send them."""

from __future__ import annotations

import struct
from pathlib import Path

RANDOM = bytes(range(32))
LIKE_HELLO = b"\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03"
"""The first bytes of a record with a ClientHello."""


def other_keys(path: Path) -> Path:
    """Write a key log with the secrets of a connection that is not in the traffic."""
    path.write_text("CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48 + "\n")
    return path


def vector(data: bytes, size: int = 2) -> bytes:
    """Bytes after their length."""
    return len(data).to_bytes(size, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    """One extension."""
    return struct.pack(">H", kind) + vector(data)


def message(kind: int, body: bytes) -> bytes:
    """A handshake message."""
    return bytes([kind]) + vector(body, 3)


def client_hello(
    name: bytes = b"a.example",
    ciphers: tuple[int, ...] = (0x0A0A, 0x1301, 0xC02F),
    session: bytes = b"",
    more: bytes = b"",
) -> bytes:
    """A ClientHello of TLS 1.3, with GREASE in its lists."""
    extensions = extension(0x1A1A, b"") + extension(0, vector(b"\0" + vector(name)))
    extensions += extension(10, vector(struct.pack(">3H", 0x2A2A, 29, 23))) + extension(11, b"\x01\x00")
    extensions += extension(13, vector(struct.pack(">2H", 0x0403, 0x0804)))
    extensions += extension(16, vector(vector(b"h2", 1) + vector(b"http/1.1", 1)))
    extensions += extension(43, vector(struct.pack(">3H", 0x3A3A, 0x0304, 0x0303), 1)) + more
    suites = vector(struct.pack(f">{len(ciphers)}H", *ciphers))
    return message(1, b"\x03\x03" + RANDOM + vector(session, 1) + suites + b"\x01\x00" + vector(extensions))


def server_hello(
    cipher: int = 0x1301, session: bytes = b"", extensions: bytes | None = None, random: bytes = RANDOM
) -> bytes:
    """A ServerHello; of TLS 1.3 unless its extensions are given."""
    chosen = extension(43, b"\x03\x04") + extension(51, b"\0\x1d\0\x01x") if extensions is None else extensions
    return message(2, b"\x03\x03" + random + vector(session, 1) + struct.pack(">HB", cipher, 0) + vector(chosen))


def record(messages: bytes, cut: int = 1 << 14) -> bytes:
    """Handshake records with at most `cut` bytes each."""
    parts = [messages[at : at + cut] for at in range(0, len(messages), cut)]
    return b"".join(b"\x16\x03\x01" + vector(part) for part in parts)
