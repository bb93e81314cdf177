"""Messages of TLS and DNS, built byte by byte."""

from __future__ import annotations

import struct


def client_hello(name: bytes, version: int = 0x0303, more: bytes = b"") -> bytes:
    """A record with a ClientHello that offers a version at most, with a server name; `more` are further versions."""
    listed = struct.pack(">BH", 0, len(name)) + name
    extensions = struct.pack(">HHH", 0, len(listed) + 2, len(listed)) + listed
    if version > 0x0303:
        extensions += struct.pack(">HHBH", 43, 3 + len(more), 2 + len(more), version) + more
    body = struct.pack(">H", min(version, 0x0303)) + bytes(32) + b"\0" + b"\0\2\x13\x01" + b"\1\0"
    return _record(1, body + struct.pack(">H", len(extensions)) + extensions)


def server_hello(version: int = 0x0303) -> bytes:
    """A record with a ServerHello that chooses a version."""
    return _record(2, struct.pack(">H", version) + bytes(32) + b"\0" + b"\x00\x2f" + b"\0")


def _record(kind: int, body: bytes) -> bytes:
    message = bytes([kind]) + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def dns_query(*names: bytes, kind: int = 1, response: bool = False) -> bytes:
    """A DNS message that queries names."""
    flags = 0x8180 if response else 0x0100
    head = struct.pack(">HHHHHH", 0x1234, flags, len(names), 0, 0, 0)
    for name in names:
        head += b"".join(bytes([len(label)]) + label for label in name.split(b".")) + b"\0"
        head += struct.pack(">HH", kind, 1)
    return head
