"""A time bound on reordering: Sequence(wait=...)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import (
    Assemble,
    Bit,
    Connectionless,
    ConnectionOriented,
    DescriptionError,
    Sequence,
    Stack,
    UInt,
    layout,
)
from sluice.lang.events import GAP_CAUSES
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.unoptimised import unoptimised

SECOND = 10**9
SETTINGS = Settings(timeouts=True, max_instances=16, seed=1)
WAIT = 2


class numbered_hdr(layout):
    src = Bit(8)
    dst = Bit(8)
    number = UInt(16, serial=True)


def describe(oriented: bool) -> Stack:
    p: Any = (ConnectionOriented if oriented else Connectionless)("numbered")
    p.header = numbered_hdr
    p.selector = ([p.header.src], [p.header.dst]) if oriented else [p.header.src, p.header.dst]
    p.seq = Sequence(meta=p.header.number, data=p.payload, zero_based=False, wait=WAIT)
    p.event.asm = Assemble()
    stack = Stack("wait")
    stack.numbered = p
    return stack


@pytest.fixture(scope="module")
def streams() -> Compared:
    with unoptimised():
        return compiled(describe(oriented=True))


def packet(number: int, data: bytes, second: float, answer: bool = False) -> Packet:
    ends = b"\2\1" if answer else b"\1\2"
    return Packet(ends + number.to_bytes(2, "big") + data, round(second * SECOND))


def delivered(made: Compared, packets: list[Packet]) -> list[Any]:
    """What the layer delivered of the first side, and the gaps as (length, cause), in order; the same in both."""
    assert_same(made, packets, SETTINGS)
    events, _ = run_compiled(made, packets, SETTINGS)
    found: list[Any] = []
    for _, name, _, side, values in events:
        if name == "data" and side == 0:
            found.append(values[1])
        elif name == "gap" and side == 0:
            found.append((values[1], GAP_CAUSES[values[2]]))
        elif name == "packet":
            found.append("")
    return found


def test_a_hole_is_given_up_after_the_time_that_sequence_wait_says(streams: Compared) -> None:
    packets = [packet(0, b"a", 0), packet(2, b"c", 1), packet(3, b"d", 2.9), packet(4, b"e", 3)]
    assert delivered(streams, packets) == ["", b"a", "", "", (1, "timeout"), b"cd", "", b"e"]


def test_a_hole_that_is_filled_in_time_is_none(streams: Compared) -> None:
    packets = [packet(0, b"a", 0), packet(2, b"c", 1), packet(1, b"b", 2.9), packet(3, b"d", 9)]
    assert delivered(streams, packets) == ["", b"a", "", "", b"bc", "", b"d"]


def test_the_other_side_moves_time_too(streams: Compared) -> None:
    packets = [packet(0, b"a", 0), packet(2, b"c", 1), packet(7, b"x", 3.5, answer=True), packet(3, b"d", 4)]
    assert delivered(streams, packets) == ["", b"a", "", (1, "timeout"), b"c", "", "", b"d"]


def test_no_byte_waits_longer_however_many_holes_there_are(streams: Compared) -> None:
    """Every second byte is missing: each that was held is delivered within twice the time, by the next packet."""
    packets = [packet(2 * n, b"x", n / 2) for n in range(40)]
    came: list[float] = []
    got: list[float] = []
    for count in range(1, len(packets) + 1):
        bytes_ = sum(len(item) for item in delivered_by_c(streams, packets[:count]) if isinstance(item, bytes))
        came.append((count - 1) / 2)
        got += [(count - 1) / 2] * (bytes_ - len(got))
    for arrival, delivery in zip(came, got, strict=False):
        assert delivery - arrival <= 2 * WAIT + 0.5
    assert len(got) >= len(packets) - 4 * WAIT - 1
    assert_same(streams, packets, SETTINGS)


def delivered_by_c(made: Compared, packets: list[Packet]) -> list[Any]:
    """What was delivered before the end of the input."""
    events, _ = run_compiled(made, [*packets], Settings(timeouts=True, max_instances=16, seed=1))
    end = max(n for n, event in enumerate(events) if event[1] == "packet")
    return [values[1] for _, name, _, _, values in events[:end] if name == "data"]


def test_the_interpreter_and_c_agree_on_random_arrivals(streams: Compared) -> None:
    chance = random.Random(7)
    for _ in range(12):
        packets: list[Packet] = []
        time, numbers = 0.0, [0, 0]
        for _ in range(120):
            time += chance.choice([0, 0.05, 0.3, 1.1, 2.5])
            side = chance.randrange(2)
            at = numbers[side] + chance.randrange(-4, 12)
            data = bytes(chance.randrange(256) for _ in range(chance.randrange(6)))
            numbers[side] = max(numbers[side], at)
            packets.append(packet(at % 65536, data, time, bool(side)))
        assert_same(streams, packets, SETTINGS)


@pytest.mark.parametrize("wait", [0, -1, 4000, "1"])
def test_wait_out_of_range_is_refused(wait: Any) -> None:
    with pytest.raises(DescriptionError, match=r"wait is 0\.000001 to 3600 seconds"):
        p: Any = Connectionless("p")
        p.header = numbered_hdr
        Sequence(meta=p.header.number, data=p.payload, wait=wait)
