"""802.11 frames in fragments are put together, in any order, between others."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import Assign, Bytes, Callback, Connectionless, Pred, Stack, layout
from sluice.protocols.wlan import wlan_parser
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.unoptimised import unoptimised

SETTINGS = Settings(timeouts=True, max_instances=64, seed=1)
STATION, POINT = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"


class got(layout):
    frame = Bytes()


@pytest.fixture(scope="module")
def frames() -> Compared:
    upper: Any = Connectionless("upper")
    upper.event.got = Assign(got.frame, upper.unit) + Callback(got)
    stack = Stack("frames")
    stack.wlan, stack.upper = wlan_parser(), upper
    stack += (stack.wlan >> stack.upper) + Pred(stack.wlan.header.type == 2)
    with unoptimised():
        return compiled(stack)


def part(data: bytes, number: int, more: bool, sequence: int = 7, sender: bytes = STATION, time: float = 0) -> Packet:
    """A data frame to the access point; `number` of the fragment of frame `sequence`."""
    head = bytes([0x08, 0x01 | more << 2]) + bytes(2) + POINT + sender + POINT
    return Packet(head + (sequence << 4 | number).to_bytes(2, "little") + data, int(time * 10**9), 105)


PARTS = [part(b"first ", 0, True), part(b"second ", 1, True), part(b"third", 2, False)]


def above(made: Compared, packets: list[Packet]) -> list[bytes]:
    assert_same(made, packets, SETTINGS)
    events, _ = run_compiled(made, packets, SETTINGS)
    return [values[0] for _, name, *_, values in events if name == "got"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_fragments_of_a_frame_in_any_order(frames: Compared, order: tuple[int, ...]) -> None:
    assert above(frames, [PARTS[n] for n in order]) == [b"first second third"]


def test_whole_frames_need_no_instance(frames: Compared) -> None:
    assert above(frames, [part(b"whole", 0, False), part(b"another", 0, False)]) == [b"whole", b"another"]
    _, counters = run_compiled(frames, [part(b"whole", 0, False)], SETTINGS)
    assert counters["wlan"]["instances"] == 0


def test_frames_of_several_stations_and_fragments_sent_again(frames: Compared) -> None:
    other = [part(b"A", 0, True, sender=b"\2\0\0\0\0\3"), part(b"B", 1, False, sender=b"\2\0\0\0\0\3")]
    later = [part(b"x", 0, True, sequence=8), part(b"y", 1, False, sequence=8)]
    packets = [PARTS[0], other[0], later[0], PARTS[1], PARTS[1], other[1], PARTS[2], later[1]]
    assert above(frames, packets) == [b"AB", b"first second third", b"xy"]


def test_a_fragment_that_is_too_late_belongs_to_another_frame(frames: Compared) -> None:
    assert above(frames, [PARTS[0], part(b"late", 1, False, time=3)]) == []


def test_random_fragments(frames: Compared) -> None:
    chance = random.Random(5)
    for _ in range(10):
        packets = [
            part(bytes(chance.randrange(256) for _ in range(chance.randrange(40))), chance.randrange(4),
                 chance.random() < 0.6, chance.randrange(3), time=number / 20)
            for number in range(80)
        ]  # fmt: skip
        assert_same(frames, packets, SETTINGS)
