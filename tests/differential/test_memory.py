"""Little memory: the longest holders give up, and compiled code and interpreter agree on what follows, byte for byte.

The interpreter does not model the pool. It gets the number of holders that gave up after each burst of compiled code,
and finds out itself which ones these are.
"""

from __future__ import annotations

import random
import struct
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.box import Settings
from sluice.lang import Assemble, Bit, Connectionless, DescriptionWarning, Length, Pred, Sequence, Stack, layout
from sluice.stacks.tcp_ip import tcp_ip
from tests.differential.both import REFUSED, Compared, Packet, Pressure, assert_same, compiled
from tests.support.budget import examples
from tests.support.packets import eth, fragments4, ip4, tcp
from tests.support.unoptimised import unoptimised

MESSAGES = 90
BEGIN = 10**18


class head(layout):
    length = Bit(16)


class numbered(layout):
    key = Bit(8)
    number = Bit(8)
    kind = Bit(8)


def made(stack: Stack) -> Compared:
    with warnings.catch_warnings(), unoptimised():
        warnings.simplefilter("ignore", DescriptionWarning)
        return compiled(stack, functions=(REFUSED,))


def message() -> Any:
    m: Any = Connectionless("message")
    m.header = head
    m.message = Length(m.header.length, limit=900)
    return m


@pytest.fixture(scope="module")
def internet() -> Compared:
    """Streams, fragments, and messages on a port."""
    stack = tcp_ip()
    stack.message = message()
    stack += (stack.tcp >> stack.message) + Pred(stack.tcp.header.dport == MESSAGES)
    return made(stack)


@pytest.fixture(scope="module")
def units() -> Compared:
    """Units, each delivered on its own, with conditions on virtual packets, so that records are held as well."""
    p: Any = Connectionless("p")
    p.header = numbered
    p.selector = [p.header.key]
    p.seq = Sequence(meta=p.header.number, data=p.payload, units=True, zero_based=False)
    p.event.asm = Assemble()
    stack = Stack("units")
    stack.p = p
    return made(stack)


def segments(seed: int, count: int) -> list[Packet]:
    """Segments at and after the next byte of 120 connections, fragments of 60 datagrams, messages of all lengths."""
    rnd, following, time, found = random.Random(seed), dict[int, int](), BEGIN, list[Packet]()
    for _ in range(count):
        time += rnd.choice([0, 10**6])
        port = 1000 + rnd.randrange(120)
        if rnd.random() < 0.15:
            body = tcp(port, 80, 1000, "S") + rnd.randbytes(1200)
            found.append(Packet(rnd.choice(fragments4(body, 8 * rnd.randrange(20, 60), id=rnd.randrange(60))), time))
            continue
        at, data = following.get(port, 1000), rnd.randbytes(rnd.randrange(1, 300))
        if rnd.random() < 0.3:
            data = struct.pack(">H", rnd.randrange(1, 1000)) + data
            following[port] = at + len(data)
        else:
            at += rnd.randrange(4000)
        flags = "A" if rnd.random() < 0.95 else "FA"
        found.append(Packet(eth(ip4(tcp(port, rnd.choice([80, MESSAGES]), at, flags, data))), time))
    return found


def chunks(seed: int, count: int) -> list[Packet]:
    rnd = random.Random(seed)
    heads = (bytes([rnd.randrange(60), 250 + rnd.randrange(12) & 255, rnd.randrange(4)]) for _ in range(count))
    return [Packet(head + rnd.randbytes(rnd.randrange(200)), BEGIN + n) for n, head in enumerate(heads)]


pressed = st.tuples(st.integers(0, 2**32), st.sampled_from([1 << 16, 100_000, 1 << 17, 1 << 18]), st.integers(1, 6))
ways = settings(max_examples=examples(8, 4), deadline=None, derandomize=True)


@ways
@given(what=pressed)
def test_streams_fragments_and_messages(internet: Compared, what: tuple[int, int, int]) -> None:
    seed, memory, most = what
    assert_same(internet, segments(seed, 700), Settings(memory=memory, max_instances=200, seed=1), Pressure(most))


@ways
@given(what=pressed)
def test_units(units: Compared, what: tuple[int, int, int]) -> None:
    seed, memory, most = what
    assert_same(units, chunks(seed, 700), Settings(memory=memory // 2, max_instances=50, seed=1), Pressure(most))


@pytest.mark.parametrize("memory", [1 << 16, 1 << 17])
def test_holders_do_give_up(internet: Compared, units: Compared, memory: int) -> None:
    """Otherwise the comparisons would say nothing."""
    for library, packets, size in [(internet, segments(1, 1200), memory), (units, chunks(1, 1200), 1 << 15)]:
        pressure = Pressure(1)
        assert_same(library, packets, Settings(memory=size, max_instances=1 << 10, seed=1), pressure)
        assert sum(pressure.moments) > 20 and not pressure.refused
