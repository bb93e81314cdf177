"""The capture-file reader and writer (sluice/runtime/io), driven through ctypes.

Captures are made here, field by field, and the reader's bytes lie directly in front of a page without access:
a read past the end ends the test run.
"""

import ctypes
import importlib.util
import json
import os
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from sluice.engine.compiler import INCLUDES, compiler
from tests.corpus.collect import packets_digest
from tests.support.corpus import captures, corpus

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "sluice" / "runtime" / "io"
SECOND = 10**9
LAST_TIME = 2**64 - 1
MESSAGE = 512


class Frame(NamedTuple):
    """A packet as Python sees it: struct sl_frame, with the bytes in place of at and captured."""

    data: bytes
    length: int
    time: int
    link_type: int = 1
    port: int = 0
    number: int = 1


class SlFrame(ctypes.Structure):
    _fields_ = [
        ("at", ctypes.c_void_p),
        ("captured", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
        ("time", ctypes.c_uint64),
        ("link_type", ctypes.c_uint16),
        ("port", ctypes.c_uint16),
        ("buffer", ctypes.c_uint16),
        ("queue", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("number", ctypes.c_uint64),
    ]


class Result(NamedTuple):
    """All of a capture: its packets, what ended it (None: the clean end), how far the reader came, and the secrets.

    Of these the kind, the bytes, and how many packets were in front of them.
    """

    frames: list[Frame]
    fault: str | None
    position: int
    secrets: list[tuple[int, bytes, int]]


class SlBytes(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("captured", ctypes.c_uint32), ("length", ctypes.c_uint32)]


TAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, SlBytes)


class OpenError(Exception):
    """sl_capture_open or sl_writer_open refused; the text is its message."""


# ---- the library ----


class Library:
    """capture.c, pcapng.c, writer.c and compressor.c, compiled with the system's compiler."""

    def __init__(self, path: Path) -> None:
        c = self.c = ctypes.CDLL(str(path))
        handle, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        out, frame = ctypes.POINTER(handle), ctypes.POINTER(SlFrame)
        u32, u64 = ctypes.c_uint32, ctypes.c_uint64
        for name, result, arguments in [
            ("sl_capture_open", ctypes.c_int, [out, text, text, size]),
            ("sl_capture_open_memory", ctypes.c_int, [out, handle, size, text, size]),
            ("sl_capture_next", ctypes.c_int, [handle, frame]),
            ("sl_capture_fault", text, [handle]),
            ("sl_capture_position", u64, [handle]),
            ("sl_capture_size", u64, [handle]),
            ("sl_capture_close", None, [handle]),
            ("sl_capture_on_secrets", None, [handle, TAKE, handle]),
            ("sl_writer_open", ctypes.c_int, [out, text, u32, u32, text, size]),
            ("sl_writer_write", ctypes.c_int, [handle, frame]),
            ("sl_writer_fault", text, [handle]),
            ("sl_writer_close", ctypes.c_int, [handle, text, size]),
        ]:
            function = getattr(c, name)
            function.restype, function.argtypes = result, arguments

    def open(self, path: Path | str) -> ctypes.c_void_p:
        handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(MESSAGE)
        if self.c.sl_capture_open(ctypes.byref(handle), os.fsencode(path), message, MESSAGE):
            assert not handle
            raise OpenError(message.value.decode())
        return handle

    def read_file(self, path: Path | str) -> Result:
        return self.drain(self.open(path))

    def read_memory(self, address: int | None, n: int) -> Result:
        handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(MESSAGE)
        if self.c.sl_capture_open_memory(ctypes.byref(handle), address, n, message, MESSAGE):
            assert not handle
            raise OpenError(message.value.decode())
        return self.drain(handle)

    def drain(self, handle: ctypes.c_void_p) -> Result:
        """Reads the capture to its end, checks that the end repeats, and closes it."""
        frames: list[Frame] = []
        secrets: list[tuple[int, bytes, int]] = []
        frame = SlFrame()

        def take(_user: int, kind: int, found: SlBytes) -> None:
            assert found.captured == found.length
            secrets.append((kind, ctypes.string_at(found.at, found.length), len(frames)))

        callback = TAKE(take)
        self.c.sl_capture_on_secrets(handle, callback, None)
        while (got := self.c.sl_capture_next(handle, frame)) == 1:
            data = ctypes.string_at(frame.at, frame.captured)
            frames.append(Frame(data, frame.length, frame.time, frame.link_type, frame.port, frame.number))
        assert self.c.sl_capture_next(handle, frame) == got
        fault, position = self.c.sl_capture_fault(handle), self.c.sl_capture_position(handle)
        assert (got == -1) == (fault is not None)
        assert got == -1 or position == self.c.sl_capture_size(handle)
        self.c.sl_capture_close(handle)
        return Result(frames, fault and fault.decode(), position, secrets)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    path = tmp_path_factory.mktemp("io") / "io.so"
    command = [*compiler(), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    command += [
        *INCLUDES,
        *(str(SOURCES / name) for name in ("capture.c", "pcapng.c", "writer.c", "compressor.c")),
        "-o",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return Library(path)


class Guarded:
    """Memory that ends at a page without access; read() puts a capture directly in front of it."""

    ROOM = 1 << 16

    def __init__(self, library: Library) -> None:
        self.library = library
        c = ctypes.CDLL(None, use_errno=True)
        c.mmap.restype = ctypes.c_void_p
        c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        page = os.sysconf("SC_PAGESIZE")
        read_write, private_anonymous = 0x1 | 0x2, 0x2 | (0x20 if os.uname().sysname == "Linux" else 0x1000)
        base = c.mmap(None, self.ROOM + page, read_write, private_anonymous, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
        self.end = base + self.ROOM
        assert c.mprotect(self.end, page, 0) == 0

    def read(self, capture: bytes) -> Result:
        assert len(capture) <= self.ROOM
        ctypes.memmove(self.end - len(capture), capture, len(capture))
        return self.library.read_memory(self.end - len(capture), len(capture))

    def frames(self, capture: bytes) -> list[Frame]:
        """The packets of a capture that must have no fault."""
        result = self.read(capture)
        assert result.fault is None
        return result.frames

    def refusal(self, capture: bytes) -> str:
        with pytest.raises(OpenError) as error:
            self.read(capture)
        return str(error.value)


@pytest.fixture(scope="session")
def guarded(library: Library) -> Guarded:
    return Guarded(library)


# ---- captures, field by field ----


def pcap_header(order: str = "<", magic: int = 0xA1B2C3D4, link_type: int = 1) -> bytes:
    return struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)


def record(
    data: bytes,
    order: str = "<",
    seconds: int = 0,
    fraction: int = 0,
    length: int | None = None,
    captured: int | None = None,
    extra: bytes = b"",
) -> bytes:
    captured = len(data) if captured is None else captured
    length = captured if length is None else length
    return struct.pack(order + "IIII", seconds, fraction, captured, length) + extra + data


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<", major: int = 1, options: bytes = b"") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1) + options, order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(link_type: int = 1, options: bytes = b"", order: str = "<", snap: int = 0) -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snap) + options, order)


def enhanced(
    data: bytes,
    ticks: int = 0,
    number: int = 0,
    order: str = "<",
    length: int | None = None,
    captured: int | None = None,
    options: bytes = b"",
) -> bytes:
    captured = len(data) if captured is None else captured
    length = captured if length is None else length
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, captured, length)
    return block(6, head + data + bytes(-len(data) % 4) + options, order)


def secrets_block(content: bytes, order: str = "<", kind: int = 0x544C534B, length: int | None = None) -> bytes:
    head = struct.pack(order + "II", kind, len(content) if length is None else length)
    return block(10, head + content, order)


def simple(data: bytes, length: int | None = None, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", len(data) if length is None else length) + data, order)


def old_packet(data: bytes, ticks: int = 0, number: int = 0, order: str = "<") -> bytes:
    n = len(data)
    head = struct.pack(order + "HHIIII", number, 0, ticks >> 32, ticks & 0xFFFFFFFF, n, n)
    return block(2, head + data, order)


BOTH = pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])

# ---- pcap ----


@BOTH
def test_pcap_microseconds(guarded: Guarded, order: str) -> None:
    file = pcap_header(order)
    file += record(b"abc", order, 7, 5) + record(b"", order, 2**32 - 1, 999_999, length=60)
    assert guarded.frames(file) == [
        Frame(b"abc", 3, 7 * SECOND + 5000, number=1),
        Frame(b"", 60, (2**32 - 1) * SECOND + 999_999_000, number=2),
    ]


@BOTH
def test_pcap_nanoseconds(guarded: Guarded, order: str) -> None:
    file = pcap_header(order, 0xA1B23C4D) + record(b"abc", order, 7, 999_999_999)
    assert guarded.frames(file) == [Frame(b"abc", 3, 7 * SECOND + 999_999_999)]


@BOTH
def test_pcap_modified(guarded: Guarded, order: str) -> None:
    file = pcap_header(order, 0xA1B2CD34)
    file += record(b"abc", order, 1, 2, extra=b"\xff" * 8) + record(b"de", order, 1, 3, extra=b"\xff" * 8)
    assert guarded.frames(file) == [
        Frame(b"abc", 3, SECOND + 2000, number=1),
        Frame(b"de", 2, SECOND + 3000, number=2),
    ]


@BOTH
def test_pcap_link_type_is_the_low_16_bits(guarded: Guarded, order: str) -> None:
    file = pcap_header(order, link_type=0xF400_0114) + record(b"a", order)
    assert guarded.frames(file)[0].link_type == 0x114


def test_pcap_without_packets(guarded: Guarded) -> None:
    assert guarded.read(pcap_header()) == Result([], None, 24, [])


def test_pcap_fraction_beyond_a_second_counts_on(guarded: Guarded) -> None:
    file = pcap_header() + record(b"a", seconds=1, fraction=3_000_000)
    assert guarded.frames(file)[0].time == 4 * SECOND


def test_pcap_length_is_at_least_captured(guarded: Guarded) -> None:
    assert guarded.frames(pcap_header() + record(b"abcd", length=2))[0].length == 4


def test_pcap_record_cut_short(guarded: Guarded) -> None:
    file = pcap_header() + record(b"abcd") + record(b"efgh", captured=5)
    result = guarded.read(file)
    assert [frame.data for frame in result.frames] == [b"abcd"]
    assert result.fault == "byte 44, packet 2: cut short: 4 bytes are left for a packet of 5"
    assert result.position == 44


def test_pcap_record_header_cut_short(guarded: Guarded) -> None:
    result = guarded.read(pcap_header() + record(b"abcd") + bytes(15))
    assert result.fault == "byte 44, packet 2: cut short: 15 bytes are left for a packet header of 16"


@pytest.mark.parametrize("captured", [2**28 + 1, 2**31, 2**32 - 1])
def test_pcap_absurd_captured_length(guarded: Guarded, captured: int) -> None:
    result = guarded.read(pcap_header() + record(b"abcd") + record(b"", captured=captured))
    assert len(result.frames) == 1
    assert result.fault == f"byte 44, packet 2: corrupt: a packet of {captured} bytes"


def test_pcap_largest_captured_length_is_not_absurd(guarded: Guarded) -> None:
    result = guarded.read(pcap_header() + record(b"", captured=2**28))
    assert result.fault is not None and "cut short" in result.fault


def test_pcap_of_more_than_4_gib(library: Library, tmp_path: Path) -> None:
    """The packets are holes of a sparse file, and only their headers are read."""
    path, large, count = tmp_path / "large.pcap", 2**28, 17
    with path.open("wb") as file:
        file.write(pcap_header())
        for i in range(count):
            file.write(record(b"", seconds=i, captured=large))
            file.seek(large, os.SEEK_CUR)
        file.write(record(b"last", seconds=count))
    size = path.stat().st_size
    assert size > 2**32
    handle, frame = library.open(path), SlFrame()
    assert library.c.sl_capture_size(handle) == size
    for i in range(count):
        assert library.c.sl_capture_next(handle, frame) == 1
        assert (frame.captured, frame.time, frame.number) == (large, i * SECOND, i + 1)
        assert library.c.sl_capture_position(handle) == 24 + (i + 1) * (16 + large)
    assert library.c.sl_capture_next(handle, frame) == 1
    assert ctypes.string_at(frame.at, frame.captured) == b"last"
    assert library.c.sl_capture_next(handle, frame) == 0
    library.c.sl_capture_close(handle)


# ---- pcapng ----


@BOTH
def test_enhanced_packet(guarded: Guarded, order: str) -> None:
    file = section(order) + interface(order=order)
    file += enhanced(b"abcde", 0x1_0000_0007, order=order, length=99)
    assert guarded.frames(file) == [Frame(b"abcde", 99, 0x1_0000_0007 * 1000)]


def test_enhanced_packet_with_options(guarded: Guarded) -> None:
    file = section() + interface() + enhanced(b"abcde", options=option(1, b"a comment") + option(0, b""))
    assert guarded.frames(file) == [Frame(b"abcde", 5, 0)]


@BOTH
def test_old_packet(guarded: Guarded, order: str) -> None:
    file = section(order) + interface(order=order) + interface(101, order=order)
    file += old_packet(b"abc", 2**32 + 1, 1, order)
    assert guarded.frames(file) == [Frame(b"abc", 3, (2**32 + 1) * 1000, 101, 1)]


@BOTH
def test_simple_packet_is_of_the_first_interface_and_has_no_time(guarded: Guarded, order: str) -> None:
    file = section(order) + interface(113, order=order) + interface(1, order=order)
    file += enhanced(b"x", 5, 1, order) + simple(b"abcde", order=order)
    assert guarded.frames(file)[1] == Frame(b"abcde", 5, 0, 113, 0, 2)


@pytest.mark.parametrize(
    ("snap", "length", "captured"),
    [(0, 8, 8), (0, 6, 6), (0, 100, 8), (5, 100, 5), (5, 3, 3), (20, 100, 8), (0, 0, 0)],
)
def test_simple_packet_captured_length(guarded: Guarded, snap: int, length: int, captured: int) -> None:
    file = section() + interface(snap=snap) + simple(b"abcdefgh", length)
    assert guarded.frames(file) == [Frame(b"abcdefgh"[:captured], length, 0)]


def test_interfaces_have_their_own_link_type_and_resolution(guarded: Guarded) -> None:
    file = section() + interface(1) + interface(276, option(9, b"\x09"))
    file += enhanced(b"a", 3, 1) + interface(228, option(9, b"\x03")) + enhanced(b"b", 3, 0)
    file += enhanced(b"c", 3, 2)
    assert guarded.frames(file) == [
        Frame(b"a", 1, 3, 276, 1, 1),
        Frame(b"b", 1, 3000, 1, 0, 2),
        Frame(b"c", 1, 3_000_000, 228, 2, 3),
    ]


def test_sections_have_their_own_byte_order_and_interfaces(guarded: Guarded) -> None:
    file = section("<") + interface(1) + interface(2) + enhanced(b"a", 1, 1)
    file += section(">") + interface(3, order=">") + enhanced(b"b", 2, 0, ">")
    file += section("<") + interface(4) + enhanced(b"c", 3, 0)
    assert guarded.frames(file) == [
        Frame(b"a", 1, 1000, 2, 1, 1),
        Frame(b"b", 1, 2000, 3, 0, 2),
        Frame(b"c", 1, 3000, 4, 0, 3),
    ]


def test_a_section_forgets_the_interfaces_before_it(guarded: Guarded) -> None:
    before = section() + interface() + enhanced(b"a") + section()
    result = guarded.read(before + enhanced(b"b"))
    assert len(result.frames) == 1
    assert result.fault == f"byte {len(before)}, packet 2: corrupt: a packet of interface 0, the section has 0"


@pytest.mark.parametrize("exponent", range(0, 128))
def test_decimal_resolution(guarded: Guarded, exponent: int) -> None:
    for ticks in (0, 1, 123_456_789_012, 2**63, 2**64 - 1):
        expected = min(ticks * SECOND // 10**exponent, LAST_TIME)
        file = section() + interface(options=option(9, bytes([exponent]))) + enhanced(b"", ticks)
        assert guarded.frames(file)[0].time == expected


@pytest.mark.parametrize("exponent", range(0, 128))
def test_binary_resolution(guarded: Guarded, exponent: int) -> None:
    for ticks in (0, 1, 123_456_789_012, 2**63, 2**64 - 1):
        expected = min(ticks * SECOND >> exponent, LAST_TIME)
        file = section() + interface(options=option(9, bytes([0x80 | exponent]))) + enhanced(b"", ticks)
        assert guarded.frames(file)[0].time == expected


@BOTH
@pytest.mark.parametrize("offset", [0, 1, 1_700_000_000, -1, -3, -4, 2**63 - 1, -(2**63)])
def test_time_offset(guarded: Guarded, order: str, offset: int) -> None:
    options = option(14, struct.pack(order + "q", offset), order)
    file = section(order) + interface(order=order, options=options)
    file += enhanced(b"", 3_500_000, order=order)
    expected = min(max(3 * SECOND + SECOND // 2 + offset * SECOND, 0), LAST_TIME)
    assert guarded.frames(file)[0].time == expected


def test_options_before_and_after_the_resolution(guarded: Guarded) -> None:
    options = option(2, b"eth0\0") + option(9, b"\x09") + option(14, struct.pack("<q", 2)) + option(12, b"Linux")
    file = section() + interface(options=options) + enhanced(b"", 5)
    assert guarded.frames(file)[0].time == 2 * SECOND + 5


@pytest.mark.parametrize(
    "options",
    [
        option(0, b"") + option(9, b"\x09"),
        option(9, b""),
        option(14, b"\x01\x00\x00\x00"),
        struct.pack("<HH", 9, 5) + b"\x09\0\0\0",
        struct.pack("<HH", 2, 0xFFFF) + option(9, b"\x09"),
        struct.pack("<HH", 9, 0xFFFD),
    ],
    ids=["after the end", "no value", "short offset", "past the block", "longest", "nothing after"],
)
def test_options_that_do_not_count(guarded: Guarded, options: bytes) -> None:
    file = section() + interface(options=options) + enhanced(b"", 5)
    assert guarded.frames(file)[0].time == 5000


def test_unknown_blocks_are_skipped(guarded: Guarded) -> None:
    other = block(4, b"names") + block(5, bytes(12)) + block(10, b"keys") + block(0x40000BAD, b"") + block(0, b"")
    file = section() + other + interface() + other + enhanced(b"a") + other
    assert guarded.read(file) == Result([Frame(b"a", 1, 0)], None, len(file), [])


@BOTH
def test_secrets_are_handed_on_before_the_packets_after_them(guarded: Guarded, order: str) -> None:
    file = section(order) + secrets_block(b"one", order) + interface(order=order) + enhanced(b"a", order=order)
    file += secrets_block(b"two", order, kind=7) + secrets_block(b"", order) + enhanced(b"b", order=order)
    result = guarded.read(file)
    assert (len(result.frames), result.fault) == (2, None)
    assert result.secrets == [(0x544C534B, b"one", 0), (7, b"two", 1), (0x544C534B, b"", 1)]


@pytest.mark.parametrize("length", [5, 9, 2**31, 2**32 - 1])
def test_secrets_that_claim_more_than_there_is_of_them(guarded: Guarded, length: int) -> None:
    """The packets after them are there all the same."""
    file = section() + secrets_block(b"keys", length=length) + block(10, b"none") + interface() + enhanced(b"a")
    result = guarded.read(file)
    assert (result.frames, result.fault) == ([Frame(b"a", 1, 0)], None)
    assert result.secrets == [(0x544C534B, b"keys", 0)]


START = section() + interface() + enhanced(b"abcd")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (bytes(11), "cut short: 11 bytes are left for a block of 12 or more"),
        (struct.pack("<III", 6, 8, 8), "corrupt: a block (type 0x6) of 8 bytes"),
        (struct.pack("<III", 6, 0, 0), "corrupt: a block (type 0x6) of 0 bytes"),
        (struct.pack("<IIHI", 6, 14, 0, 14), "corrupt: a block (type 0x6) of 14 bytes"),
        (
            struct.pack("<III", 6, 2**32 - 4, 0),
            "cut short: 12 bytes are left for a block (type 0x6) of 4294967292",
        ),
        (struct.pack("<III", 9, 12, 16), "corrupt: a block (type 0x9) has length 12 in front and 16 at its end"),
        (block(6, bytes(16)), "corrupt: a block (type 0x6) of 28 bytes, which needs 32"),
        (block(2, bytes(16)), "corrupt: a block (type 0x2) of 28 bytes, which needs 32"),
        (block(3, b""), "corrupt: a block (type 0x3) of 12 bytes, which needs 16"),
        (block(1, bytes(4)), "corrupt: a block (type 0x1) of 16 bytes, which needs 20"),
        (enhanced(b"abcd", captured=5), "corrupt: a packet of 5 bytes in a block of 36"),
        (enhanced(b"abcd", captured=2**32 - 1), "corrupt: a packet of 4294967295 bytes in a block of 36"),
        (enhanced(b"", number=1), "corrupt: a packet of interface 1, the section has 1"),
        (enhanced(b"", number=2**32 - 1), "corrupt: a packet of interface 4294967295, the section has 1"),
        (section() + simple(b"a"), "corrupt: a packet of interface 0, the section has 0"),
        (section(major=2), "corrupt: a section of pcapng version 2, only 1 is known"),
        (block(0x0A0D0D0A, bytes(16)), "corrupt: a section header without byte-order magic"),
        (
            block(0x0A0D0D0A, struct.pack("<IHHI", 0x1A2B3C4D, 1, 0, 0)),
            "corrupt: a block (type 0xa0d0d0a) of 24 bytes, which needs 28",
        ),
    ],
)
def test_pcapng_faults(guarded: Guarded, bad: bytes, reason: str) -> None:
    result = guarded.read(START + bad)
    assert [frame.data for frame in result.frames] == [b"abcd"]
    assert result.fault is not None
    at, fault = result.fault.split(": ", 1)
    assert fault == reason
    assert at == f"byte {result.position}, packet 2"
    assert result.position in (len(START), len(START) + 28)  # 28: after a section that is in order


def test_interfaces_of_a_section_are_bounded(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "many.pcapng"
    path.write_bytes(section() + interface() * 2**16 + enhanced(b"a", number=2**16 - 1))
    assert library.read_file(path).frames == [Frame(b"a", 1, 0, 1, 2**16 - 1)]
    path.write_bytes(section() + interface() * (2**16 + 1))
    fault = library.read_file(path).fault
    assert fault is not None and fault.endswith("corrupt: more than 65536 interfaces in a section")


# ---- opening ----


def test_refusals(guarded: Guarded) -> None:
    for capture, message in [
        (b"", "empty file"),
        (b"\xd4\xc3\xb2", "header cut short: the file has 3 bytes"),
        (pcap_header()[:23], "header cut short: 23 of its 24 bytes"),
        (section()[:27], "header cut short: 27 of its 28 bytes"),
        (b"PK\3\4....", "unknown format, neither pcap nor pcapng: magic 504b0304 (zip: decompress it first)"),
        (
            b"\x1f\x8b\x08\0",
            "unknown format, neither pcap nor pcapng: magic 1f8b0800",
        ),
        (section(major=7), "byte 0, packet 1: corrupt: a section of pcapng version 7, only 1 is known"),
    ]:
        assert guarded.refusal(capture) == message


def test_refusals_of_files_begin_with_the_path(library: Library, tmp_path: Path) -> None:
    empty, other, pipe = tmp_path / "empty.pcap", tmp_path / "other.pcap", tmp_path / "pipe"
    empty.touch()
    other.write_bytes(b"\x7fELF")
    os.mkfifo(pipe)
    for path, message in [
        (tmp_path / "absent.pcap", "cannot open: No such file or directory"),
        (tmp_path, "cannot open: not a regular file"),
        (pipe, "cannot open: not a regular file"),
        (empty, "empty file"),
        (other, "unknown format, neither pcap nor pcapng: magic 7f454c46"),
    ]:
        with pytest.raises(OpenError) as error:
            library.open(path)
        assert str(error.value) == f"{path}: {message}"


def test_a_message_is_cut_to_its_buffer(library: Library) -> None:
    handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(b"x" * 9, 10)
    assert library.c.sl_capture_open(ctypes.byref(handle), b"/absent", message, 9) == -1
    assert message.raw == b"/absent:\0\0"
    assert library.c.sl_capture_open(ctypes.byref(handle), b"/absent", None, 0) == -1


def test_positions_are_for_progress(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(pcap_header() + record(b"abc") + record(b"de"))
    handle, frame, positions = library.open(path), SlFrame(), []
    while library.c.sl_capture_next(handle, frame) == 1:
        positions.append(library.c.sl_capture_position(handle))
    assert positions == [43, 61]
    assert library.c.sl_capture_size(handle) == 61
    library.c.sl_capture_close(handle)
    library.c.sl_capture_close(None)


# ---- hostile files ----


Make = Callable[[], tuple[bytes, list[int], int]]


def long_pcap() -> tuple[bytes, list[int], int]:
    """A capture, the offset after each of its packets, and where it can first be opened."""
    file, ends = pcap_header(), []
    while len(file) < 2000:
        file += record(bytes(len(ends) * 7 % 90), seconds=len(ends))
        ends.append(len(file))
    return file, ends, 24


def long_pcapng() -> tuple[bytes, list[int], int]:
    first = section("<", options=option(4, b"a program"))
    file, ends = first + interface() + interface(101, option(9, b"\x09")), []
    while len(file) < 2000:
        n, order = len(ends), "<>"[len(ends) // 8 % 2]
        if n and n % 8 == 0:
            file += section(order) + interface(order=order) + interface(9, order=order)
        data = bytes(n * 7 % 90)
        file += [enhanced(data, n, 1, order), simple(data, order=order), old_packet(data, n, 1, order)][n % 3]
        ends.append(len(file))
        file += block(5, bytes(n % 5), order) + secrets_block(bytes(n % 7), order)
    return file, ends, len(first)


@pytest.mark.parametrize("make", [long_pcap, long_pcapng])
def test_cut_at_every_byte(guarded: Guarded, make: Make) -> None:
    file, ends, opens = make()
    whole = guarded.read(file)
    assert whole.fault is None and len(whole.frames) == len(ends)
    for cut in range(len(file)):
        if cut < opens:
            assert ("empty file" if cut == 0 else "cut short") in guarded.refusal(file[:cut])
            continue
        result = guarded.read(file[:cut])
        assert result.frames == [frame for frame, end in zip(whole.frames, ends, strict=True) if end <= cut]
        if result.position == cut:
            assert result.fault is None
        else:
            place = f"byte {result.position}, packet {len(result.frames) + 1}: cut short: "
            assert result.fault is not None and result.fault.startswith(place)


@pytest.mark.parametrize("make", [long_pcap, long_pcapng])
def test_damaged_bytes_do_not_crash(guarded: Guarded, make: Make) -> None:
    file, _, opens = make()
    chance = random.Random(1)
    for _ in range(3000):
        damaged = bytearray(file)
        for _ in range(chance.randrange(1, 5)):
            damaged[chance.randrange(opens, len(file))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        result = guarded.read(bytes(damaged))
        assert all(frame.length >= len(frame.data) for frame in result.frames)


# ---- the writer ----


def write(
    library: Library, path: Path | str, frames: list[Frame], link_type: int = 1, snap: int = 0
) -> tuple[list[str | None], str | None]:
    """Writes a capture: what each frame was refused for, and what closing said."""
    handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(MESSAGE)
    if library.c.sl_writer_open(ctypes.byref(handle), os.fsencode(path), link_type, snap, message, MESSAGE):
        assert not handle
        raise OpenError(message.value.decode())
    faults: list[str | None] = []
    for frame in frames:
        data = ctypes.create_string_buffer(frame.data, len(frame.data) or 1)
        c_frame = SlFrame(ctypes.addressof(data), len(frame.data), *frame[1:5], number=frame.number)
        failed = library.c.sl_writer_write(handle, c_frame)
        faults.append(library.c.sl_writer_fault(handle).decode() if failed else None)
    failed = library.c.sl_writer_close(handle, message, MESSAGE)
    return faults, message.value.decode() if failed else None


def test_written_bytes(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    assert write(library, path, [Frame(b"abc", 60, 7 * SECOND + 8, 101)], 101, 96) == ([None], None)
    header = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 101)
    assert path.read_bytes() == header + record(b"abc", seconds=7, fraction=8, length=60)


def test_what_is_written_is_read_back(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    last = 2**32 * SECOND - 1
    frames = [
        Frame(bytes(i % 256 for i in range(n)), n + extra, time, 228, 0, number)
        for number, (n, extra, time) in enumerate(
            [(0, 0, 0), (0, 9, 1), (1, 0, SECOND - 1), (1500, 1, last), (262_144, 0, SECOND)], start=1
        )
    ]
    assert write(library, path, frames, 228) == ([None] * 5, None)
    assert library.read_file(path) == Result(frames, None, path.stat().st_size, [])


def test_longer_packets_are_cut_to_the_snap_length(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    assert write(library, path, [Frame(b"abcdef", 6, 0), Frame(b"abc", 3, 0)], snap=4)[1] is None
    assert [(f.data, f.length) for f in library.read_file(path).frames] == [(b"abcd", 6), (b"abc", 3)]
    write(library, path, [Frame(bytes(262_145), 262_145, 0)])
    assert [(len(f.data), f.length) for f in library.read_file(path).frames] == [(262_144, 262_145)]


def test_a_length_below_captured_is_not_written(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    write(library, path, [Frame(b"abcdef", 2, 0)], snap=4)
    assert path.read_bytes()[24:] == record(b"abcd", length=6)


def test_refused_frames_leave_the_file_in_order(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    frames = [
        Frame(b"a", 1, 0, number=1),
        Frame(b"b", 1, 0, 113, number=2),
        Frame(b"c", 1, 2**32 * SECOND, number=3),
        Frame(b"d", 1, 0, number=4),
    ]
    faults, closing = write(library, path, frames)
    assert faults == [
        None,
        "packet 2 has link type 113, the file 1",
        "packet 3: a time of 4294967296 seconds is beyond the 32 bits of pcap",
        None,
    ]
    assert closing is None
    assert [frame.data for frame in library.read_file(path).frames] == [b"a", b"d"]


def test_writer_refusals_begin_with_the_path(library: Library, tmp_path: Path) -> None:
    absent, path = tmp_path / "absent" / "out.pcap", tmp_path / "out.pcap"
    for file, link_type, snap, message in [
        (absent, 1, 0, "cannot create: No such file or directory"),
        (path, 65536, 0, "link type 65536 is beyond the 16 bits of pcap"),
        (path, 1, 2**28 + 1, "snap length 268435457 is beyond the largest packet, 268435456"),
    ]:
        with pytest.raises(OpenError) as error:
            write(library, file, [], link_type, snap)
        assert str(error.value) == f"{file}: {message}"
    assert not path.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to stand for a full disk")
def test_a_full_disk_is_told(library: Library) -> None:
    full = "cannot write: No space left on device"
    assert write(library, "/dev/full", [Frame(b"a", 1, 0)]) == ([None], full)  # only closing writes it out
    faults, closing = write(library, "/dev/full", [Frame(bytes(50_000), 50_000, 0)] * 3)
    assert faults[1:] == [full, full] and closing == full


def test_closing_no_writer(library: Library) -> None:
    assert library.c.sl_writer_close(None, None, 0) == 0


# ---- real captures ----


CAPTURES = captures()
DIGESTS = corpus() / "packets.json"


@pytest.fixture(scope="session")
def truth() -> ModuleType:
    """The reader of the shared corpus."""
    if not (corpus() / "truth.py").is_file():
        pytest.skip("this corpus has no truth.py")
    spec = importlib.util.spec_from_file_location("corpus_truth", corpus() / "truth.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected(truth: ModuleType, path: Path) -> Iterator[tuple[int, bytes, int, int]]:
    for link_type, data, length, time in truth.read_capture(path):
        yield link_type, data, max(length, len(data)), min(time, LAST_TIME)


@pytest.mark.corpus
def test_times_beyond_64_bits(library: Library, truth: ModuleType) -> None:
    """One real file has 100 packets around the year 586524: the upper half of their ticks is all ones."""
    paths = [path for path in CAPTURES if path.name == "seladb_PcapPlusPlus__pcapng-example.pcapng"]
    if not paths:
        pytest.skip("this corpus does not have that file")
    wanted = [time for _, _, _, time in truth.read_capture(paths[0])]
    found = [frame.time for frame in library.read_file(paths[0]).frames]
    beyond = [i for i, time in enumerate(wanted) if time > LAST_TIME]
    assert len(beyond) == 100
    assert [i for i, time in enumerate(found) if time != wanted[i]] == beyond
    assert {found[i] for i in beyond} == {LAST_TIME}


@pytest.mark.corpus
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_agrees_with_truth(library: Library, request: pytest.FixtureRequest, path: Path) -> None:
    """Times too, exactly: all captures of the corpus have decimal resolutions, in which truth.py is exact.

    But for times that no sl_frame can hold: truth.py's integers have no end, ours stop at LAST_TIME (see
    test_times_beyond_64_bits). The corpus of the repository has digests of what truth.py reads in its place.
    """
    result = library.read_file(path)
    assert result.fault is None
    assert [frame.number for frame in result.frames] == list(range(1, len(result.frames) + 1))
    if DIGESTS.is_file():
        packets = ((frame.link_type, frame.data, frame.length, frame.time) for frame in result.frames)
        assert packets_digest(packets) == json.loads(DIGESTS.read_text())[path.name]
        return
    found = [(frame.link_type, frame.data, frame.length, frame.time) for frame in result.frames]
    wanted = list(expected(request.getfixturevalue("truth"), path))
    assert len(found) == len(wanted)
    pairs = enumerate(zip(found, wanted, strict=True), start=1)
    different = next((i for i, (ours, theirs) in pairs if ours != theirs), None)
    assert different is None, f"packet {different} is not the same"


@pytest.mark.corpus
def test_there_is_a_corpus() -> None:
    """The parametrised test above would pass without a capture."""
    assert CAPTURES
