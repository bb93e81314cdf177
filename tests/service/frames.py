"""Frames of HTTP/2 (RFC 9113) that a test makes, and a client that reads what comes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluice.engine.compiler import compiler
from tests.service.peers import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def why_not() -> str:
    """Why there is no HTTP/2 here; empty if there is."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text("#include <nghttp2/nghttp2.h>\nint main(void) { return !nghttp2_version(0); }\n")
        command = [*compiler(), str(source), "-lnghttp2", "-o", str(Path(folder, "try"))]
        done = subprocess.run(command, capture_output=True)
    return "there are no headers of nghttp2 (Debian: libnghttp2-dev)" if done.returncode else ""


needs_http2 = pytest.mark.skipif(bool(why_not()), reason=why_not())


def frame(type: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([type, flags]) + stream.to_bytes(4, "big") + payload


def integer(value: int, bits: int) -> bytes:
    """An integer of HPACK (RFC 7541, section 5.1), whose first bits are 0."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out, value = [most], value - most
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def literal(name: bytes, value: bytes) -> bytes:
    """A field that enters no table (section 6.2.2)."""
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def request(
    stream: int,
    path: bytes = b"/",
    end: bool = True,
    more: Sequence[tuple[bytes, bytes]] = (),
    window: bool = False,
) -> bytes:
    """A GET; its head is divided if it is longer than a frame. With `window` the connection's window grows before."""
    fields = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"), *more]
    block = b"".join(literal(*each) for each in fields)
    parts = [block[at : at + 16384] for at in range(0, len(block), 16384)]
    out = frame(8, 0, 0, (1 << 24).to_bytes(4, "big")) if window else b""
    for number, part in enumerate(parts):
        last = 4 if number == len(parts) - 1 else 0
        out += frame(9 if number else 1, last | (int(end) if number == 0 else 0), stream, part)
    return out


@dataclass
class Got:
    """What has come: data and the number of heads of each stream, those that have ended, and that were reset."""

    data: dict[int, bytes] = field(default_factory=dict[int, bytes])
    heads: dict[int, int] = field(default_factory=dict[int, int])
    ended: set[int] = field(default_factory=set[int])
    reset: dict[int, int] = field(default_factory=dict[int, int])
    goaway: int | None = None


class Client:
    """A client that opens no window by itself, and acknowledges nothing."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.got = Got()
        self._bytes = b""
        self.send(PREFACE, frame(4, 0, 0, b""))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(b"".join(parts))

    def read_until(self, enough: Callable[[Got], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not enough(self.got):
            assert time.monotonic() < end, self.got
            part = self.socket.recv(1 << 16)
            assert part, f"the connection ended: {self.got}"
            self._take(part)

    def read_to_end(self) -> None:
        with contextlib.suppress(ConnectionResetError):
            while part := self.socket.recv(1 << 16):
                self._take(part)

    def _take(self, part: bytes) -> None:
        self._bytes += part
        while len(self._bytes) >= 9 and len(self._bytes) >= 9 + int.from_bytes(self._bytes[:3], "big"):
            size, type, flags = int.from_bytes(self._bytes[:3], "big"), self._bytes[3], self._bytes[4]
            stream = int.from_bytes(self._bytes[5:9], "big")
            payload, self._bytes = self._bytes[9 : 9 + size], self._bytes[9 + size :]
            if type == 0:
                self.got.data[stream] = self.got.data.get(stream, b"") + payload
            elif type == 1:
                self.got.heads[stream] = self.got.heads.get(stream, 0) + 1
            elif type == 3:
                self.got.reset[stream] = int.from_bytes(payload, "big")
            elif type == 7:
                self.got.goaway = int.from_bytes(payload[4:8], "big")
            if type in (0, 1) and flags & 1:
                self.got.ended.add(stream)
