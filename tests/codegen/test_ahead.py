"""What a box asks memory for before it needs it: each packet's header once, and not those of all packets together."""

import ctypes
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, Frame, Settings, compile_stack
from sluice.lang import Connectionless, Stack, UInt, layout

RECORD = """
__attribute__((weak)) const void *asked[1 << 14];
__attribute__((weak)) _Bool asked_far[1 << 14];   /* into the second-level cache */
__attribute__((weak)) unsigned asked_count;
#define ASK(at, written, level, ...) \\
    (asked_far[asked_count % (1 << 14)] = (level) == 2, asked[asked_count++ % (1 << 14)] = (const void *)(at))
#define __builtin_prefetch(...) ASK(__VA_ARGS__, 0, 3, 0)
"""
PACKETS = 200
BEHIND = 64  # packets that no burst has
LENGTH = 4
ROOM = 256  # from one packet to the next, more than is asked for of one
APART = 1024  # so much that none is foreseen by the processor from those before


@pytest.fixture
def packets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> "Packets":
    (tmp_path / "record.h").write_text(RECORD)
    monkeypatch.setenv("SLUICE_CFLAGS", f"-O0 -include {tmp_path / 'record.h'}")
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))

    class head(layout):
        number = UInt(32)

    counted: Any = Connectionless("counted")
    counted.header = head
    counted.selector = [counted.header.number]
    counted.timeout = 60
    stack = Stack("counting")
    stack.counted = counted
    return Packets(Box(compile_stack(stack), Settings()), getattr(request, "param", ROOM))


class Packets:
    """Packets of an instance each, that lie one behind the other; and the box that gets them."""

    def __init__(self, box: Box, room: int) -> None:
        self.box = box
        self.room = room
        self.far: list[int] = []  # of what it asked for, the packets that came no nearer than the second-level cache
        self.bytes = ctypes.create_string_buffer((PACKETS + BEHIND) * room)
        self.frames = (Frame * (PACKETS + BEHIND))()
        self.begin = ctypes.addressof(self.bytes)
        for i, frame in enumerate(self.frames):
            self.bytes[i * room + LENGTH - 1] = i % 256
            frame.at = ctypes.cast(self.begin + i * room, ctypes.c_char_p)
            frame.captured = frame.length = LENGTH
            frame.time, frame.link_type, frame.number = i, 1, i + 1

    def process(self, bursts: Sequence[int], told: Sequence[int] = ()) -> list[int | None]:
        """Processes them in such bursts, before each of which, as far as there are, the box is `told` how many come
        behind it: what it asked for, in order. The number of a packet where that is its beginning, and None where it is
        none.
        """
        library = self.box._library  # pyright: ignore[reportPrivateUsage]
        handle = self.box._box  # pyright: ignore[reportPrivateUsage]
        for i, (first, count) in enumerate(zip(accumulate(bursts, initial=0), bursts, strict=False)):
            if i < len(told):
                library.sl_box_coming(handle, told[i])
            frames = ctypes.byref(self.frames, first * ctypes.sizeof(Frame))
            library.counting_process(handle, frames, ctypes.c_size_t(count))
        count = ctypes.c_uint.in_dll(library, "asked_count").value
        found: list[int | None] = []
        places = (ctypes.c_void_p * count).in_dll(library, "asked")
        for at, far in zip(places, (ctypes.c_bool * count).in_dll(library, "asked_far"), strict=True):
            number, within = divmod((at or 0) - self.begin, self.room)
            if not 0 <= number < len(self.frames):
                found.append(None)
            elif within == 0 and far:
                self.far.append(number)
            elif within == 0:
                found.append(number)
        return found


BURSTS = [[PACKETS], [8, 0, 192], [32] * 6 + [8], [1] * PACKETS, [5, 40, 1, 64, 90], [33, 31, 32, 2, 102]]


@pytest.mark.parametrize("tell", [True, False])
@pytest.mark.parametrize("bursts", BURSTS, ids=lambda bursts: f"{len(bursts)} bursts")
def test_each_header_is_asked_for_once(packets: Packets, bursts: list[int], tell: bool) -> None:
    assert sum(bursts) == PACKETS
    asked = packets.process(bursts, [*bursts[1:], 0] if tell else [])
    assert [number for number in asked if number is not None] == list(range(PACKETS))
    assert packets.box.counters()["counted"]["instances"] == PACKETS


@pytest.mark.parametrize(("bursts", "told"), [([8, 192], [8]), ([8, 0, 192], [0, 8])])
def test_what_was_told_is_told_of_one_burst(packets: Packets, bursts: list[int], told: list[int]) -> None:
    """Behind any other there may be no frames."""
    asked = packets.process(bursts, told)
    assert max(number for number in asked if number is not None) == PACKETS - 1


@pytest.mark.parametrize("bursts", [[64], [32, 32]], ids=["within a burst", "from one to the next"])
def test_those_of_the_next_group_one_at_a_packet(packets: Packets, bursts: list[int]) -> None:
    """All of them at once fill the buffers for misses. What is asked for between them are instances."""
    asked = packets.process(bursts, bursts[1:])
    places = [asked.index(number) for number in range(32, 56)]
    assert all(behind - before > 1 for before, behind in pairwise(places))
    assert max(asked.index(number) for number in range(32)) < min(places)


@pytest.mark.parametrize("packets", [APART], indirect=True)
def test_those_that_lie_apart_come_to_the_second_level_and_nearer_with_their_group(packets: Packets) -> None:
    asked = packets.process([32, 64, 8, 96], [64, 8, 96, 0])
    assert packets.far == [number for number in asked if number is not None] == list(range(PACKETS))
    assert [asked.index(number) - asked.index(32) for number in range(32, 64)] == list(range(32))


def test_others_come_near_at_once(packets: Packets) -> None:
    packets.process([32, 168])
    assert packets.far == []
