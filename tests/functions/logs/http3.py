"""Streams of HTTP/3 in packets of QUIC that are in the clear, and boxes with httplog over QUIC, compiled once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack
from tests.functions.logs import http2
from tests.functions.logs.http2 import Fields, Found, integer, loads
from tests.quic.traffic import CLIENT, SERVER
from tests.support.packets import eth, ip4, udp
from tests.support.unoptimised import unoptimised

needs_nghttp3 = pytest.mark.skipif(
    not (loads("libnghttp3.so.9") or loads("libnghttp3.so.3")), reason="no libnghttp3, with which HTTP/3 is read"
)

# --- frames (RFC 9114, 7) and header blocks of literals (RFC 9204, 4.5) ---

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
CONTROL, PUSH, ENCODER, DECODER = b"\0", b"\1", b"\2", b"\3"
"""Types of streams."""


def varint(number: int) -> bytes:
    """In as few bytes as possible (RFC 9000, 16)."""
    for size in range(4):
        if number < 1 << (8 << size) - 2:
            return (size << (8 << size) - 2 | number).to_bytes(1 << size, "big")
    raise ValueError(number)


def frame(kind: int, payload: bytes = b"") -> bytes:
    """A frame."""
    return varint(kind) + varint(len(payload)) + payload


def block(fields: Fields) -> bytes:
    """A header block that needs no table."""
    out = b"\0\0"
    for name, value in fields:
        out += integer(len(name), 3, 0x20) + name.encode("latin-1") + integer(len(value), 7) + value.encode("latin-1")
    return out


def request(path: str, *more: tuple[str, str], method: str = "GET") -> bytes:
    """The HEADERS of a request."""
    return frame(HEADERS, block(asked(path, *more, method=method)))


def asked(path: str, *more: tuple[str, str], method: str = "GET") -> Fields:
    """The fields of a request."""
    return ((":method", method), (":scheme", "https"), (":authority", "a.example"), (":path", path), *more)


def response(status: int, *more: tuple[str, str]) -> bytes:
    """The HEADERS of a response."""
    return frame(HEADERS, block(((":status", str(status)), *more)))


def settings(table: int = 0, *more: tuple[int, int]) -> bytes:
    """A SETTINGS frame; `table`: the maximum size of the peer's table."""
    return frame(SETTINGS, b"".join(varint(name) + varint(value) for name, value in ((1, table), *more)))


# --- streams in packets ---

Piece = tuple[str, int, bytes, bool]
""" ">" the client or "<" the server, a stream, bytes that follow on it, and whether they are its last ones."""


def controls(table: int = 0) -> list[Piece]:
    """The control streams of both sides."""
    return [(">", 2, CONTROL + settings(table), False), ("<", 3, CONTROL + settings(table), False)]


def exchange(stream: int, path: str, body: bytes = b"", status: int = 200) -> list[Piece]:
    """A request, and its response."""
    return [
        (">", stream, request(path), True),
        ("<", stream, response(status) + (frame(DATA, body) if body else b""), True),
    ]


def packet(who: str, frames: bytes) -> bytes:
    """An Initial packet as it was before its protection."""
    rest = b"\0" + frames
    ids = (b"\x08abcdefgh", b"\x08ABCDEFGH")
    head = (
        b"\xc0\0\0\0\1" + b"".join(ids if who == ">" else ids[::-1]) + b"\0" + (0x4000 | len(rest)).to_bytes(2, "big")
    )
    source, target = (CLIENT, SERVER) if who == ">" else (SERVER, CLIENT)
    return eth(ip4(udp(source[1], target[1], head + rest), 17, source[0], target[0]))


def stream_frame(stream: int, offset: int, data: bytes, fin: bool) -> bytes:
    """A STREAM frame (RFC 9000, 19.8)."""
    return bytes([0x0E | fin]) + varint(stream) + varint(offset) + varint(len(data)) + data


def reset(stream: int, code: int, size: int) -> bytes:
    """A RESET_STREAM frame (RFC 9000, 19.4)."""
    return b"\x04" + varint(stream) + varint(code) + varint(size)


def packets(pieces: Iterable[Piece], cut: int = 1000) -> list[bytes]:
    """Packets with the pieces, each cut into frames of at most `cut` bytes."""
    sent: dict[tuple[str, int], int] = defaultdict(int)
    out: list[bytes] = []
    for who, stream, data, fin in pieces:
        for at in range(0, len(data), cut) if data else [0]:
            part = data[at : at + cut]
            last = fin and at + cut >= len(data)
            out.append(packet(who, stream_frame(stream, sent[who, stream], part, last)))
            sent[who, stream] += len(part)
    return out


# --- boxes ---


@cache
def compiled(stack: str = "quic_deciphered", function: str = "httplog") -> CompiledStack:
    """A function over QUIC."""
    with unoptimised():
        return compile_stack(find_stack(stack), tuple(find_functions([function]).c))


def run(
    feed: Callable[[Box], object],
    parameters: str = "",
    program: CompiledStack | None = None,
    keylog: Path | None = None,
) -> Found:
    """The rows about what `feed` gives a box, of this program if there is no other one."""
    return http2.run(feed, parameters, program or compiled(), keylog)


def run_packets(frames: Sequence[bytes], parameters: str = "", program: CompiledStack | None = None) -> Found:
    """The rows about packets that come a millisecond apart."""
    return http2.run_packets(frames, parameters, program or compiled())


def read(pieces: Iterable[Piece], cut: int = 1000, parameters: str = "") -> Found:
    """The rows about streams in the clear."""
    return run_packets(packets(pieces, cut), parameters)


def counted(found: Found) -> dict[str, int]:
    """What is counted about HTTP."""
    return {name: count for name, count in found.reports.items() if name.startswith("http_") and count}
