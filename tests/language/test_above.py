"""Bytes that are delivered without their packet go to the layer above to which their side's bytes go."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    Length,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
    one_of,
)
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled

SETTINGS = Settings(timeouts=True, memory=1 << 20, max_instances=4, seed=1)
SECOND = 10**9
ASKER, ANSWERER = 1, 2
BEGIN, DATA, OTHER, LAST, PLAIN = range(5)


class stream_hdr(layout):
    src = Bit(8)
    dst = Bit(8)
    kind = Bit(8)
    tag = Bit(8)
    number = UInt(16, serial=True)


class first_byte(layout):
    letter = Bit(8)


class told(layout):
    tag = Bit(8)
    body = Bit(999)


class length_hdr(layout):
    length = Bit(8)


def stream_parser(oriented: bool = True, **settings: Any) -> Any:
    """A stream between two ends; its first number is that of its first packet."""
    s: Any = (ConnectionOriented if oriented else Connectionless)("stream")
    s.header = stream_hdr
    s.selector = ([s.header.src], [s.header.dst]) if oriented else [s.header.src, s.header.dst]
    s.timeout = 60
    on, over = PSMState(start=True), PSMState(accept=True)
    s.psm = PSM(on, over)
    s.psm.last = (on >> over) + Pred(s.header.kind == LAST)
    s.psm.anew = (on >> on) + Pred((s.header.kind == BEGIN) & ~s.created)
    s.psm.anew.restart = True
    s.psm.other = (on >> on) + Pred(s.header.kind == OTHER)
    s.seq = Sequence(meta=s.header.number, data=s.payload, zero_based=False, **settings)
    s.event.asm = Assemble()
    s.offer(tag=s.header.tag)
    return s


def listener(name: str) -> Any:
    """A layer that tells all that it is given, and what the layer below offers of it."""
    p: Any = Connectionless(name)
    p.header = first_byte
    p.event.told = Assign(told.tag, p.below.tag) + Assign(told.body, p.unit) + Callback(told)
    return p


def describe(which: Callable[[Any], Any], s: Any = None) -> Compared:
    """A stream and two layers above it; `which` says for which packets it is the first, else it is the second."""
    stack = Stack("above")
    stack.stream, stack.one, stack.two = s or stream_parser(), listener("one"), listener("two")
    stack += (stack.stream >> stack.one) + Pred(which(stack.stream))
    stack += (stack.stream >> stack.two) + Pred(stack.stream.header.kind != OTHER)
    return compiled(stack)


@pytest.fixture(scope="module")
def by_side() -> Compared:
    """What the active side sends goes to layer one, what the passive side sends to layer two."""
    return describe(lambda s: s.to_passive == 1)


@pytest.fixture(scope="module")
def by_kind() -> Compared:
    """What is of kind DATA goes to layer one, of kind OTHER nowhere, else to layer two."""
    return describe(lambda s: s.header.kind == DATA)


def ask(number: int, data: bytes, kind: int = DATA, tag: int = 0, missing: int = 0, second: int = 0) -> Packet:
    """From the side that begins; `missing` bytes of it were not captured."""
    head = bytes([ASKER, ANSWERER, kind, tag]) + number.to_bytes(2, "big")
    return Packet(head + data, second * SECOND, 1, len(head + data) + missing)


def answer(number: int, data: bytes, kind: int = DATA, tag: int = 0, missing: int = 0) -> Packet:
    """From the other side."""
    packet = ask(number, data, kind, tag, missing)
    return Packet(bytes([ANSWERER, ASKER]) + packet.data[2:], 0, 1, packet.length)


def heard(made: Compared, packets: list[Packet], settings: Settings = SETTINGS) -> list[tuple[str, int, bytes]]:
    """What the layers above were given, in order: which layer, the tag from below, the bytes."""
    assert_same(made, packets, settings)
    events, _ = run_compiled(made, packets, settings)
    return [(layer, *values) for layer, name, _, _, values in events if name == "told"]


ENDINGS: dict[str, list[Packet]] = {
    "end of input": [],
    "timeout": [Packet(bytes([8, 9, DATA, 0, 0, 0]), 100 * SECOND)],
    "eviction": [Packet(bytes([host, 99, DATA, 0, 0, 0]), 0) for host in range(10, 14)],
    "accept": [ask(90, b"", LAST)],
    "restart": [ask(90, b"", BEGIN)],
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_each_side_has_a_way_of_its_own(by_side: Compared, ending: list[Packet]) -> None:
    """Whoever spoke last, and whatever ends the instance."""
    pieces = [ask(0, b"asked"), ask(50, b"again"), answer(0, b"told"), answer(50, b"more")]
    for order in itertools.permutations(pieces):
        found = heard(by_side, [ask(0, b""), answer(0, b""), *order, *ending])
        assert [body for layer, _, body in found if layer == "one"] == [b"asked", b"again"]
        assert [body for layer, _, body in found if layer == "two"] == [b"told", b"more"]


def test_one_side_has_one_way() -> None:
    made = describe(lambda s: s.header.kind == DATA, stream_parser(oriented=False))
    packets = [ask(0, b"a", DATA), ask(50, b"b", DATA), answer(0, b"x", PLAIN), answer(50, b"y", PLAIN)]
    assert heard(made, packets) == [("one", 0, b"a"), ("two", 0, b"x"), ("one", 0, b"b"), ("two", 0, b"y")]


def test_it_is_the_way_of_the_last_bytes(by_kind: Compared) -> None:
    packets = [ask(0, b"one"), ask(3, b"two", PLAIN), ask(50, b"three")]
    assert heard(by_kind, packets)[1:] == [("two", 0, b"two"), ("two", 0, b"three")]


def test_after_bytes_that_nobody_takes_nobody_takes_them(by_kind: Compared) -> None:
    packets = [ask(0, b"one"), ask(3, b"nobody's", OTHER), ask(50, b"behind a hole", OTHER)]
    assert heard(by_kind, packets) == [("one", 0, b"one")]


# --- packets that are cut ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [ask, answer])
def test_a_first_packet_that_is_cut(by_side: Compared, side: Callable[..., Packet]) -> None:
    """It is there when its bytes are delivered: with what its layer leaves for those above."""
    packets = [ask(0, b""), side(0, b"the beg", tag=7, missing=5), side(12, b"and on", tag=8)]
    layer = "one" if side is ask else "two"
    assert heard(by_side, packets) == [(layer, 7, b"the beg"), (layer, 8, b"and on")]


def test_the_packet_that_makes_the_instance_is_cut(by_side: Compared) -> None:
    assert heard(by_side, [ask(10, b"all th", tag=7, missing=9)]) == [("one", 7, b"all th")]


def test_cut_bytes_go_where_their_packet_goes(by_kind: Compared) -> None:
    """Not where bytes went before it."""
    packets = [ask(0, b"one", tag=1), ask(3, b"tw", PLAIN, tag=2, missing=1), ask(6, b"nob", OTHER, missing=3)]
    assert heard(by_kind, packets) == [("one", 1, b"one"), ("two", 2, b"tw")]


def test_what_waited_after_cut_bytes_goes_with_them(by_kind: Compared) -> None:
    packets = [ask(0, b""), ask(6, b"second", PLAIN), ask(0, b"fir", missing=3)]
    assert heard(by_kind, packets) == [("one", 0, b"fir"), ("one", 0, b"second")]


def test_a_cut_packet_asks_for_a_transition_that_it_has_not_taken_yet() -> None:
    """Steps come after the place in the sequence."""
    made = describe(lambda s: s.psm.other)
    packets = [ask(0, b"on", OTHER), ask(2, b"cu", OTHER, missing=2), ask(6, b"by", DATA)]
    assert heard(made, packets) == [("one", 0, b"on"), ("two", 0, b"by")]


def test_messages_of_a_first_packet_that_is_cut() -> None:
    made = messages()
    packets = [ask(0, b"\x03ab\x02x\x05cut", missing=1), ask(10, b"\x02z")]
    assert heard(made, packets) == [("message", 0, b"\x03ab"), ("message", 0, b"\x02x"), ("message", 0, b"\x02z")]


def messages() -> Compared:
    m: Any = Connectionless("message")
    m.header = length_hdr
    m.message = Length(m.header.length, limit=50, resync=one_of(m.header.length, 2, 3))
    m.event.told = Assign(told.tag, 0) + Assign(told.body, m.unit) + Callback(told)
    stack = Stack("above")
    stack.stream, stack.message = stream_parser(), m
    stack += (stack.stream >> stack.message) + Pred(1)
    return compiled(stack)


# --- bytes that come before any were delivered -------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_what_waits_after_a_hole_at_the_beginning(by_side: Compared, ending: list[Packet]) -> None:
    """Nothing went up before: it goes where its packet would have gone."""
    packets = [ask(0, b""), answer(0, b""), ask(5, b"asked", tag=3), answer(5, b"told", tag=4), *ending]
    assert heard(by_side, packets) == [("one", 3, b"asked"), ("two", 4, b"told")]


def test_the_packet_that_ends_the_instance_lies_after_a_hole_at_the_beginning(by_side: Compared) -> None:
    packets = [ask(0, b""), answer(0, b""), answer(5, b"told", LAST, tag=4)]
    assert heard(by_side, packets) == [("two", 4, b"told")]


def test_what_waited_first_says_where_it_goes(by_kind: Compared) -> None:
    packets = [ask(0, b""), ask(9, b"first", PLAIN, tag=3), ask(5, b"next", tag=4)]
    assert heard(by_kind, packets) == [("two", 3, b"nextfirst")]


def test_what_waits_at_a_limit() -> None:
    made = describe(lambda s: s.to_passive == 1, stream_parser(limit=8))
    packets = [ask(0, b""), ask(5, b"waits", tag=3), ask(20, b"too much", tag=4)]
    assert heard(made, packets)[0] == ("one", 3, b"waits")


# --- layers that share a table ------------------------------------------------------------------------------------


class way_hdr(layout):
    kind = UInt(8)


def test_a_layer_that_takes_an_instance_over_begins_anew() -> None:
    """The layers above one layer are not those above another that shares its table."""
    way: Any = Connectionless("way")
    way.header = way_hdr
    s = stream_parser()
    stack = Stack("above")
    stack.way, stack.left, stack.right = way, s, s
    stack.one, stack.two = listener("one"), listener("two")
    stack += (stack.way >> stack.left) + Pred(way.header.kind == 0)
    stack += (stack.way >> stack.right) + Pred(way.header.kind == 1)
    stack += (stack.left >> stack.one) + Pred(1)
    stack += (stack.right >> stack.two) + Pred(1)
    made = compiled(stack)
    sent = [(0, ask(0, b"one")), (0, answer(0, b"x")), (0, answer(50, b"y")), (1, ask(3, b"two")), (1, ask(50, b"z"))]
    packets = [Packet(bytes([kind]) + p.data, p.time) for kind, p in sent]
    assert heard(made, packets)[2:] == [("two", 0, b"two"), ("two", 0, b"z")]
