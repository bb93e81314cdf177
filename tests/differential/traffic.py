"""Packets for random stacks: few connections, numbers near each other, headers on headers, cut now and then."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.differential.both import Packet

BEGIN = 10**18
STEPS = [0, 10**6, 10**8, 10**9, -(10**8), 10**10]
"""Nanoseconds between packets."""

bodies = st.binary(max_size=4) | st.binary(max_size=24)
numbers = st.integers(0, 29) | st.integers(0, 255)
options = st.lists(st.sampled_from([1, 2, 3, 200]), max_size=5).map(bytes)


def head(key: int, other: int, number: int, flags: int) -> bytes:
    """A header as `stacks.head` has it; numbers begin at 240, so that they soon wrap."""
    return bytes([key, other, (number + 240) % 256, flags])


@st.composite
def single(draw: st.DrawFn, time: int) -> Packet:
    """A packet whose parts are drawn one by one."""
    data = b""
    for _ in range(draw(st.integers(1, 3))):
        data += head(draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(numbers), draw(st.integers(0, 255)))
        data += draw(options)
    data += draw(bodies)
    beyond, captured = draw(st.sampled_from([0, 0, 0, 0, 5])), len(data)
    if draw(st.integers(0, 15)) == 15:
        captured = draw(st.integers(0, len(data)))
    return Packet(data[:captured], time, draw(st.sampled_from([1, 1, 1, 7])), len(data) + beyond)


@st.composite
def drawn(draw: st.DrawFn) -> list[Packet]:
    """A few packets that Hypothesis shrinks one by one."""
    time, found = BEGIN, list[Packet]()
    for _ in range(draw(st.integers(0, 24))):
        time += draw(st.sampled_from(STEPS))
        found.append(draw(single(time)))
    return found


@dataclass(frozen=True)
class Seeded:
    """Many packets, more than could be drawn one by one: the first `count` of those that a seed stands for."""

    seed: int
    count: int

    def packets(self) -> list[Packet]:
        rnd = random.Random(self.seed)
        found: list[Packet] = []
        time = BEGIN
        for _ in range(self.count):
            data = b""
            for _ in range(rnd.choice([1, 1, 2, 3])):
                number = rnd.randrange(30) if rnd.random() < 0.9 else rnd.randrange(256)
                data += head(rnd.randrange(3), rnd.randrange(3), number, rnd.randrange(256))
                if rnd.random() < 0.3:
                    data += bytes(rnd.choice([1, 2, 3, rnd.randrange(256)]) for _ in range(rnd.randrange(6)))
            data += rnd.randbytes(rnd.choice([0, 0, 1, 3, 8, 20]))
            length = len(data)
            if rnd.random() < 0.05:
                length += rnd.randrange(9)
            if rnd.random() < 0.05:
                data = data[: rnd.randrange(len(data) + 1)]
            time += rnd.choice([0, 10**6, 10**8, 10**9, -(10**8), 10**10 if rnd.random() < 0.1 else 0])
            found.append(Packet(data, time, rnd.choice([1, 1, 1, 7]), max(length, len(data))))
        return found


seeded = st.builds(Seeded, st.integers(0, 2**32), st.just(400) | st.integers(0, 400))
"""Most are long; what fails shrinks to the first packet that shows it."""
