"""Frames of HTTP/2 with header blocks of literals, and boxes with httplog over a small stack, compiled once."""

from __future__ import annotations

import ctypes
import json
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from tests.functions.logs.boxes import SECOND, START, Row
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.unoptimised import unoptimised


def loads(library: str) -> bool:
    """Whether a library is there."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


needs_nghttp2 = pytest.mark.skipif(not loads("libnghttp2.so.14"), reason="no libnghttp2, with which HTTP/2 is read")

# --- frames (RFC 9113, 4 and 6) ---

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, CONTINUATION = 0, 1, 3, 4, 5, 6, 9
END_STREAM, END_HEADERS, PADDED, PRIORITY = 1, 4, 8, 32
Fields = Sequence[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value: int, bits: int, first: int = 0) -> bytes:
    """An integer with a prefix of some bits, in a byte with further bits (RFC 7541, 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytes([first | most]), value - most
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def literal(name: str, value: str, indexed: bool = False) -> bytes:
    """A field (RFC 7541, 6.2); `indexed`: it is added to the table."""
    texts = (text.encode("latin-1") for text in (name, value))
    return (b"\x40" if indexed else b"\0") + b"".join(integer(len(text), 7) + text for text in texts)


def block(fields: Fields) -> bytes:
    """A header block."""
    return b"".join(literal(name, value) for name, value in fields)


def headers(stream: int, fields: Fields, flags: int = END_HEADERS) -> bytes:
    """A HEADERS frame."""
    return frame(HEADERS, flags, stream, block(fields))


def request(stream: int, path: str, *more: tuple[str, str], method: str = "GET", ends: bool = True) -> bytes:
    """A request."""
    fields = ((":method", method), (":scheme", "http"), (":path", path), (":authority", "a.example"), *more)
    return headers(stream, fields, END_HEADERS | ends)


def response(stream: int, status: int, *more: tuple[str, str], ends: bool = True) -> bytes:
    """A response."""
    return headers(stream, ((":status", str(status)), *more), END_HEADERS | ends)


CLIENT = PREFACE + frame(SETTINGS, 0, 0)
SERVER = frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)) + frame(SETTINGS, 1, 0)
"""What each side begins with."""

# --- boxes ---


@dataclass
class Found:
    """Rows, and what is counted."""

    rows: list[Row]
    reports: dict[str, int]


def stack() -> Stack:
    """TCP over IPv4 on Ethernet, which compiles fast."""
    s = Stack("http2", depth=4)
    s.eth, s.ipv4, s.tcp = ethernet_parser(), ipv4_parser(), tcp_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.offers.ethertype == 0x0800)
    s += (s.ipv4 >> s.tcp) + Pred(s.ipv4.header.protocol == 6)
    return s


@cache
def compiled() -> CompiledStack:
    """httplog over this stack."""
    return compiled_with("httplog")


def compiled_with(function: str) -> CompiledStack:
    """A function over this stack."""
    with unoptimised():
        return compile_stack(stack(), tuple(find_functions([function]).c))


def run(
    feed: Callable[[Box], object],
    parameters: str = "",
    program: CompiledStack | None = None,
    keylog: Path | None = None,
) -> Found:
    """The rows about what `feed` gives a box; each run is checked for what must hold after it.

    keylog: of the stack's layers.
    """
    program = program or compiled()
    settings = Settings(seed=1, timeouts=False, natives={"keylog": str(keylog)} if keylog else {})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "rows")
        with Box(program, settings, [], [f"out={out}{parameters}"]) as box:
            feed(box)
            box.finish()
            reports = box.reports()
            check_conservation(program.program, box.counters())
            check_all_ended(program.program, box.counters())
        return Found([json.loads(line) for line in out.read_text().splitlines()], reports)


def run_packets(packets: Sequence[bytes], parameters: str = "", program: CompiledStack | None = None) -> Found:
    """The rows about packets that come a millisecond apart."""

    def feed(box: Box) -> None:
        for number, data in enumerate(packets):
            box.packet(data, START + number * SECOND // 1000, 1, len(data))

    return run(feed, parameters, program)
