"""A sequence of units: meta counts whole units of any length; each is delivered on its own, in order."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.box import Settings
from sluice.lang import (
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    If,
    Pred,
    Sequence,
    Stack,
    UInt,
    layout,
)
from sluice.lang.events import GAP_CAUSES
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.budget import examples

SETTINGS = Settings(memory=1 << 22, max_instances=16, seed=1)
BASE = 2**32 - 3
FIRST, UNIT, LAST, SKIP, SKIP_WITH_UNIT = 1, 0, 2, 3, 4


class chunk_hdr(layout):
    src = Bit(8)
    dst = Bit(8)
    number = UInt(32, serial=True)
    kind = UInt(8)


class part_hdr(layout):
    address = Bit(56)


class got(layout):
    dst = Bit(8)
    body = Bit(9999)


def describe(**limits: Any) -> Stack:
    """Numbered chunks between two ends, and a layer that gets each of them, its header included."""
    c: Any = ConnectionOriented("chunk")
    c.header = chunk_hdr
    c.selector = [c.header.src], [c.header.dst]
    c.seq = Sequence(
        meta=c.header.number,
        data=c.unit,
        data_len=(c.header.kind != FIRST) & (c.header.kind != SKIP),
        zero_based=False,
        start=c.header.kind == FIRST,
        skip=(c.header.kind == SKIP) | (c.header.kind == SKIP_WITH_UNIT),
        units=True,
        head=7,
        **limits,
    )
    c.event.asm = If(c.header.kind != LAST) >> Assemble()
    c.timeout = 10
    c.offer(dst=c.header.dst)
    p: Any = Connectionless("part")
    p.header = part_hdr
    p.event.whole = Assign(got.dst, p.below.dst) + Assign(got.body, p.payload) + Callback(got)
    s = Stack("units")
    s.chunk, s.part = c, p
    s += (s.chunk >> s.part) + Pred(1)
    return s


@pytest.fixture(scope="module")
def plain() -> Compared:
    return compiled(describe())


@pytest.fixture(scope="module")
def few() -> Compared:
    return compiled(describe(limit_pieces=3))


@pytest.fixture(scope="module")
def small() -> Compared:
    return compiled(describe(limit=100))


def packet(number: int, body: bytes = b"", kind: int = UNIT, src: int = 1, dst: int = 2, time: int = 0) -> Packet:
    number = (BASE + number) % 2**32
    return Packet(bytes([src, dst]) + number.to_bytes(4, "big") + bytes([kind]) + body, time)


def body(number: int) -> bytes:
    return bytes([number % 256]) * (number * 7 % 23)


def units(count: int, src: int = 1, dst: int = 2) -> list[Packet]:
    return [packet(number, body(number), UNIT, src, dst) for number in range(count)]


def seen(made: Compared, packets: list[Packet]) -> list[tuple[str, Any]]:
    """What happens: units as the layer above sees them, and the events of the sequence."""
    assert_same(made, packets, SETTINGS)
    events, _ = run_compiled(made, packets, SETTINGS)
    found: list[tuple[str, Any]] = []
    for layer, name, _, _, values in events:
        if name == "gap":
            found.append((name, (*values[:2], GAP_CAUSES[values[2]])))
        elif name in ("whole", "rexmit") or (layer == "chunk" and name == "data"):
            found.append((name, values[-1] if name == "whole" else values))
    return found


def only(found: list[tuple[str, Any]], name: str) -> list[Any]:
    return [value for known, value in found if known == name]


def test_in_order_each_is_delivered_on_its_own(plain: Compared) -> None:
    """The number wraps on the way. Event `data` tells what is after the head, and the number of the unit."""
    found = seen(plain, [packet(0, kind=FIRST), *units(8)])
    assert only(found, "whole") == [body(number) for number in range(8)]
    assert only(found, "data") == [(number, body(number)) for number in range(8)]


@pytest.mark.parametrize("there", [[], [0], [1], [3], [0, 1, 2], [0, 4], [2, 4, 5], [1, 3, 6]], ids=str)
@pytest.mark.parametrize("to", range(8))
def test_what_is_skipped_will_not_come(plain: Compared, to: int, there: list[int]) -> None:
    """Holes before the position are gaps at once; what is held goes on; holes after it stay."""
    sent = [packet(0, kind=FIRST), *(packet(number, body(number)) for number in there)]
    found = seen(plain, [*sent, packet(to, kind=SKIP)])
    reach = to
    while reach in there:
        reach += 1
    until_end = [number for number in there if number > reach]  # delivered when the input ends
    first = next((number for number in range(99) if number not in there), 0)
    assert only(found, "whole") == [body(number) for number in sorted(there)]
    holes = [number for number in range(to) if number not in there]
    skipped = [number for gap in only(found, "gap") if gap[2] == "skipped" for number in range(gap[0], gap[0] + gap[1])]
    assert skipped == holes and (first < to) == bool(skipped)
    assert bool(until_end) == any(gap[2] == "close" for gap in only(found, "gap"))


def test_a_unit_may_skip_what_is_before_it(plain: Compared) -> None:
    sent = [packet(0, kind=FIRST), packet(0, body(0)), packet(2, body(2)), packet(5, body(5), SKIP_WITH_UNIT)]
    found = seen(plain, [*sent, packet(6, body(6)), packet(4, body(4))])
    assert only(found, "whole") == [body(number) for number in (0, 2, 5, 6)]
    assert only(found, "gap") == [(1, 1, "skipped"), (3, 2, "skipped")]


def test_in_order_units_are_not_copied(plain: Compared) -> None:
    """Without any memory they pass."""
    packets = [packet(0, kind=FIRST), *units(8)]
    events, counters = run_compiled(plain, packets, Settings(memory=1, max_instances=4, seed=1))
    assert [values[-1] for _, name, _, _, values in events if name == "whole"] == [body(n) for n in range(8)]
    assert counters["chunk"]["no memory"] == 0


@settings(max_examples=examples(60, 20), deadline=None)
@given(order=st.permutations(range(9)), again=st.lists(st.integers(0, 8), max_size=4))
def test_any_order_gives_the_same(plain: Compared, order: list[int], again: list[int]) -> None:
    packets = [packet(0, kind=FIRST), *(units(9)[number] for number in [*order, *again])]
    found = seen(plain, packets)
    assert only(found, "whole") == [body(number) for number in range(9)]
    assert [value[:2] for value in only(found, "rexmit")] == [(number, 1) for number in again]
    assert only(found, "gap") == []


def test_the_base_is_that_of_the_first_unit_where_nothing_sets_it(plain: Compared) -> None:
    assert only(seen(plain, units(9)[4:]), "data") == [(number - 4, body(number)) for number in range(4, 9)]


def test_sides_have_numbers_of_their_own(plain: Compared) -> None:
    packets = [part for pair in zip(units(5), units(5, 2, 1), strict=True) for part in pair]
    assert only(seen(plain, packets), "whole") == [body(number) for number in range(5) for _ in range(2)]


def test_the_first_copy_of_a_unit_stays(plain: Compared) -> None:
    """Whatever the second one is: held or delivered, longer or shorter."""
    packets = [packet(0, kind=FIRST), packet(1, b"held"), packet(1, b"another"), packet(0, b"one"), packet(0, b"x")]
    found = seen(plain, packets)
    assert only(found, "whole") == [b"one", b"held"]
    assert [value[:2] for value in only(found, "rexmit")] == [(1, 1), (0, 1)]
    old = [value[3] for value in only(found, "rexmit")]
    assert old[0].endswith(b"held") and old[1] == b""


def test_what_is_missing_is_given_up_at_the_end(plain: Compared) -> None:
    """The units after it are delivered, each to the layer above."""
    packets = [packet(0, kind=FIRST), *units(9)[:2], units(9)[5], units(9)[3], units(9)[4]]
    found = seen(plain, packets)
    assert only(found, "gap") == [(2, 1, "close")]
    assert only(found, "whole") == [body(number) for number in (0, 1, 3, 4, 5)]
    assert [number for number, _ in only(found, "data")] == [0, 1, 3, 4, 5]


def test_units_that_never_had_one_in_front_reach_the_layer_above(plain: Compared) -> None:
    found = seen(plain, [packet(0, kind=FIRST), units(9)[3]])
    assert only(found, "gap") == [(0, 3, "close")]
    assert only(found, "whole") == [body(3)]


def test_what_is_missing_is_given_up_by_time(plain: Compared) -> None:
    packets = [packet(0, kind=FIRST), units(9)[1], packet(7, b"late", time=11 * 10**9)]
    assert only(seen(plain, packets), "gap") == [(0, 1, "timeout")]


def test_as_many_units_are_held_as_may_be(few: Compared) -> None:
    found = seen(few, [packet(0, kind=FIRST), *(units(9)[number] for number in (1, 3, 5, 7))])
    assert only(found, "gap") == [(0, 1, "limit"), (2, 1, "close"), (4, 1, "close"), (6, 1, "close")]
    assert only(found, "whole") == [body(number) for number in (1, 3, 5, 7)]


def test_as_many_bytes_are_held_as_may_be(small: Compared) -> None:
    found = seen(small, [packet(0, kind=FIRST), *(packet(number, bytes(33)) for number in (1, 2, 4))])
    assert only(found, "gap") == [(0, 1, "limit"), (3, 1, "close")]
    assert len(only(found, "whole")) == 3


def test_a_unit_that_is_longer_than_all_that_may_be_held(small: Compared) -> None:
    """It is delivered, as it needs no room; what is missing before it is given up."""
    found = seen(small, [packet(0, kind=FIRST), packet(1, bytes(200)), packet(2, b"next")])
    assert found == [
        ("gap", (0, 1, "limit")),
        ("data", (1, bytes(200))),
        ("whole", bytes(200)),
        ("data", (2, b"next")),
        ("whole", b"next"),
    ]


def test_a_number_far_ahead_costs_one_unit(plain: Compared) -> None:
    found = seen(
        plain, [packet(0, kind=FIRST), packet(2**31 - 1, b"far"), packet(0, b"one"), packet(2**31 + 1, b"behind")]
    )
    assert only(found, "whole") == [b"one", b"far"]
    assert only(found, "gap") == [(1, 2**31 - 2, "close")]


def test_units_wait_until_they_are_assembled(plain: Compared) -> None:
    """A unit of kind LAST assembles nothing; the next that does delivers it, too, each on its own."""
    packets = [packet(0, kind=FIRST), packet(0, b"a", LAST), packet(1, b"b", LAST), packet(2, b"c"), packet(3, b"d")]
    assert only(seen(plain, packets), "whole") == [b"a", b"b", b"c", b"d"]


def test_a_unit_that_the_snap_length_cut_is_passed_on_as_it_is(plain: Compared) -> None:
    def cut(number: int) -> Packet:
        one = packet(number, b"abcdef")
        return Packet(one.data[:-2], 0, 1, len(one.data))

    found = seen(plain, [packet(0, kind=FIRST), cut(1), cut(0)])
    assert only(found, "whole") == [b"abcd", b"abcd"]
    assert only(found, "gap") == []


def test_without_memory_a_hole_is_given_up(plain: Compared) -> None:
    """The unit after it needs none. The interpreter has all the memory it wants."""
    events, counters = run_compiled(
        plain, [packet(0, kind=FIRST), packet(1, bytes(900)), packet(2, b"x")], Settings(memory=64, max_instances=4)
    )
    assert [values[-1] for _, name, _, _, values in events if name == "whole"] == [bytes(900), b"x"]
    assert counters["chunk"]["gaps"] == 1


def test_what_is_given_up_is_counted_in_units(plain: Compared) -> None:
    _, counters = run_compiled(plain, [packet(0, kind=FIRST), units(9)[5]], SETTINGS)
    assert counters["chunk"]["units:given up"] == 5


def test_any_packets(plain: Compared, few: Compared, small: Compared) -> None:
    rnd = random.Random(1)
    for made in (plain, few, small):
        packets: list[Packet] = []
        for number in range(400):
            near = number // 4 + rnd.choice([0, 0, 0, 1, 2, 5, -1, rnd.randrange(2**32) if rnd.random() < 0.1 else 0])
            kind = rnd.choices([UNIT, LAST, FIRST], [8, 1, 1])[0]
            ends = rnd.choice([(1, 2), (2, 1), (3, 4)])
            one = packet(near, rnd.randbytes(rnd.randrange(60)), kind, *ends, time=number * 10**8)
            kept = len(one.data) - (rnd.randrange(9) if rnd.random() < 0.1 else 0)
            packets.append(Packet(one.data[:kept], one.time, 1, len(one.data)))
        seen(made, packets)
