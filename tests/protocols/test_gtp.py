"""GTP-U: optional bytes, extension headers, where the payload ends."""

import functools
import operator
import struct
from typing import Any

import pytest

from sluice.engine.box import CompiledStack
from sluice.ir.hook import Hook
from sluice.ir.interpreter import Interpreter
from sluice.lang import Assign, Bit, Callback, Connectionless, Pred, Stack, layout
from sluice.lower.build import build
from sluice.protocols.gtp import gtp_parser
from tests.support.run import run as run_compiled
from tests.support.run import watch_all

E, S, PN = 4, 2, 1
TEID = 0x1234


class inner_hdr(layout):
    first = Bit(8)


def inner_parser() -> Connectionless:
    """Keeps one instance, so that its packets are told of."""
    inner = Connectionless("inner")
    inner.header = inner_hdr
    inner.selector = [inner.below.tunnel]
    return inner


def stack() -> Stack:
    made = Stack()
    made.gtp, made.inner = gtp_parser(), inner_parser()
    made += (made.gtp >> made.inner) + Pred(made.gtp.header.MT == 255)
    return made


PROGRAM = build(stack(), frozenset({Hook("inner", "packet")}))


def gtp(payload: bytes, flags: int = 0, options: bytes = b"", length: int | None = None, first: int = 0x30) -> bytes:
    said = len(options) + len(payload) if length is None else length
    return struct.pack(">BBHI", first | flags, 255, said, TEID) + options + payload


def optional(following: int = 0) -> bytes:
    return struct.pack(">HBB", 7, 0, following)


def extension(words: int, following: int) -> bytes:
    return bytes([words]) + bytes(4 * words - 2) + bytes([following])


def run(packet: bytes, length: int | None = None) -> tuple[list[int], dict[str, int]]:
    """Payload lengths that came through, and the counters of the layer that are not 0."""
    box = Interpreter(PROGRAM)
    box.packet(packet, 0, 1, len(packet) if length is None else length)
    box.close()
    assert box.conserves()
    lengths = [int(event.values[0]) + 1 for event in box.events]
    return lengths, {
        name: value for name, value in box.counters["gtp"].items() if value and name not in ("packets", "bytes")
    }


@pytest.mark.parametrize("flags", range(8))
def test_optional_bytes(flags: int) -> None:
    assert run(gtp(b"inner", flags, optional() if flags else b""))[0] == [5]


@pytest.mark.parametrize("flags", range(8))
def test_type_of_extension_counts_only_with_its_flag(flags: int) -> None:
    options = (optional(0x85) + (extension(1, 0) if flags & E else b"")) if flags else b""
    assert run(gtp(b"inner", flags, options))[0] == [5]


@pytest.mark.parametrize("words", [[1], [2], [1, 1], [3, 1, 2], [255]])
def test_extension_headers(words: list[int]) -> None:
    followed = [0xC0] * (len(words) - 1) + [0]
    chain = b"".join(extension(size, more) for size, more in zip(words, followed, strict=True))
    assert run(gtp(b"inner", E | S, optional(0x85) + chain))[0] == [5]


@pytest.mark.parametrize(
    "packet, outcome",
    [
        (gtp(b"inner", E, optional(0x85) + bytes(4)), "malformed:extension header"),
        (gtp(b"", E, optional(0x85) + extension(1, 0x85)), "malformed:extension header"),
        (gtp(b"inn", E, optional(0x85) + b"\x09" + bytes(3)), "malformed:extension header"),
        (gtp(b"inner", first=0x10), "malformed:version"),
        (gtp(b"inner", first=0x20), "malformed:version"),
        (gtp(b"inner", S, optional(), length=3), "malformed:length"),
        (gtp(b"", S), "malformed:header too short"),
        (gtp(b"")[:7], "malformed:header too short"),
    ],
)
def test_malformed(packet: bytes, outcome: str) -> None:
    lengths, counters = run(packet)
    assert lengths == [] and counters[outcome] == 1


def test_payload_ends_where_the_length_says() -> None:
    assert run(gtp(b"inner and padding", length=5))[0] == [5]
    assert run(gtp(b"inner", length=500))[0] == [5]
    assert run(gtp(b"inner"), length=9)[0] == [1]


EXTENSION_FIELDS: list[tuple[int, bytes, dict[str, int | bytes]]] = [
    (0x20, b"\x07\0", {"service_class": 7}),
    (0x40, b"\x08\x68", {"udp_port": 2152}),
    (0x81, b"abcdef", {"ran_container": b"abcdef"}),
    (0x82, b"\xfe\x34\x56\0\0\0", {"long_pdcp_number": 0x23456}),
    (0x03, b"\x02\x34\x56\0\0\0", {"long_pdcp_number": 0x23456}),
    (0x83, b"abcdef", {"xw_ran_container": b"abcdef"}),
    (0x84, b"\x25\1\2\3\4\5", {"nr_pdu_type": 2, "nr_flags": 5, "nr_rest": b"\1\2\3\4\5"}),
    (0x85, b"\x00\x49", {"session_pdu_type": 0, "PPP": 0, "RQI": 1, "QFI": 9, "session_rest": b""}),
    (0x85, b"\x00\x89\xa0\1\2\3", {"PPP": 1, "RQI": 0, "QFI": 9, "PPI": 5, "session_rest": b"\1\2\3"}),
    # From the user the bit of PPP says something else, and no paging policy follows it.
    (0x85, b"\x10\xbf\xa0\1\2\3", {"session_pdu_type": 1, "QFI": 63, "PPI": 0, "session_rest": b"\xa0\1\2\3"}),
    (0xC0, b"\x01\x02", {"pdcp_number": 258}),
    (0xCF, b"\x01\x02", {"comprehension": 3, "extension_type": 15, "extension_content": b"\1\2"}),
    (0x8F, b"\x01\x02", {"comprehension": 2, "extension_type": 15, "extension_content": b"\1\2"}),
    (0x4F, b"\x01\x02", {"comprehension": 1, "extension_type": 15, "extension_content": b"\1\2"}),
]


@pytest.mark.parametrize(("kind", "content", "fields"), EXTENSION_FIELDS)
def test_extension_headers_are_read_by_name(kind: int, content: bytes, fields: dict[str, int | bytes]) -> None:
    """Alone, after another one and in front of one; and the payload goes up, whichever node must understand them."""
    words = len(content) + 2 >> 2
    this, other = bytes([words]) + content, b"\x01\xaa\xbb"
    chains = [(kind, this + b"\0"), (0x2A, other + bytes([kind]) + this + b"\0")]
    if kind & 0x3F != 15:  # of two unknown ones the last is told
        chains.append((kind, this + b"\x2a" + other + b"\0"))
    packets = [gtp(b"inner", E, optional(first) + chain) for first, chain in chains]
    result = run_compiled(telling(), packets)
    assert [{name: getattr(event, name) for name in fields} for event in result.named("told")] == [fields] * len(chains)
    assert len(result.named("packet")) == len(chains)


@functools.cache
def telling() -> CompiledStack:
    """A stack whose event `told` has all fields of the extension headers."""
    fields = {name: value for _, _, each in EXTENSION_FIELDS for name, value in each.items()}
    told = layout_of(fields)
    parser = gtp_parser()
    told_all = [Assign(getattr(told, name), getattr(parser.header, name)) for name in fields]
    parser.event.told = functools.reduce(operator.add, told_all[1:], told_all[0]) + Callback(told)
    made = Stack()
    made.gtp, made.inner = parser, inner_parser()
    made += (made.gtp >> made.inner) + Pred(made.gtp.header.MT == 255)
    return watch_all(made, ("gtp", "told"))


def layout_of(fields: dict[str, int | bytes]) -> Any:
    members = {name: Bit(999 if isinstance(value, bytes) else 32) for name, value in fields.items()}
    return type(layout)("told", (layout,), members)


def test_cut_by_the_snap_length() -> None:
    packet = gtp(b"inner", S, optional())
    for size in range(len(packet)):
        _, counters = run(packet[:size], len(packet))
        assert counters.get("cut:header", 0) == (size < 12)


def test_other_messages_end_here() -> None:
    lengths, counters = run(struct.pack(">BBHI", 0x32, 1, 4, 0) + optional())
    assert lengths == [] and counters == {"ended": 1}
