"""Streams to messages: a layer that says how long its messages are sees them whole, however the stream was cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import (
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    If,
    Length,
    Pred,
    Sequence,
    Stack,
    layout,
)
from sluice.lang.events import LOSS_CAUSES, STREAM_LOSSES
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled

MAGIC = 0x55
SETTINGS = Settings(memory=1 << 22, max_instances=16, seed=1)


class stream_hdr(layout):
    key = Bit(8)
    number = Bit(16, serial=True)


class message_hdr(layout):
    magic = Bit(8)
    length = Bit(16)


class got(layout):
    body = Bit(999)


def describe(resync: bool = True, limit: int = 300, held: int = 1 << 16, alone: int | None = None) -> Stack:
    """alone: of packets with this key each is a stream of its own."""
    s: Any = Connectionless("stream")
    s.header = stream_hdr
    s.selector = [s.header.key] if alone is None else If(s.header.key != alone) >> [s.header.key]
    s.seq = Sequence(meta=s.header.number, data=s.payload, zero_based=False, limit=held)
    s.event.asm = Assemble()
    m: Any = Connectionless("message")
    m.header = message_hdr
    m.message = Length(m.header.length, limit=limit, resync=(m.header.magic == MAGIC) if resync else None)
    m.event.whole = Assign(got.body, m.payload) + Callback(got)
    stack = Stack("messages")
    stack.stream, stack.message = s, m
    stack += (stack.stream >> stack.message) + Pred(1)
    return stack


@pytest.fixture(scope="module")
def resyncing() -> Compared:
    return compiled(describe())


@pytest.fixture(scope="module")
def small() -> Compared:
    return compiled(describe(held=60))


@pytest.fixture(scope="module")
def ending() -> Compared:
    return compiled(describe(resync=False))


def message(body: bytes) -> bytes:
    return bytes([MAGIC]) + (len(body) + 3).to_bytes(2, "big") + body


def segment(at: int, data: bytes, key: int = 1, base: int = 65000) -> Packet:
    return Packet(bytes([key]) + ((base + at) % 65536).to_bytes(2, "big") + data, 0)


def segments(stream: bytes, sizes: list[int]) -> list[Packet]:
    found: list[Packet] = []
    at = 0
    for size in sizes:
        found.append(segment(at, stream[at : at + size]))
        at += size
    return [*found, segment(at, stream[at:])]


def bodies(made: Compared, packets: list[Packet]) -> tuple[list[bytes], list[int]]:
    """Bodies of the messages that were seen, and causes of the losses that were told."""
    assert_same(made, packets, SETTINGS)
    events, counters = run_compiled(made, packets, SETTINGS)
    causes = [values[2] for _, name, _, _, values in events if name == "lost"]
    for cause in STREAM_LOSSES:
        assert counters["message"].get(f"lost:{cause}", 0) == causes.count(LOSS_CAUSES.index(cause))
    return [values[0] for _, name, _, _, values in events if name == "whole"], causes


WANTED = [b"", b"a", b"x" * 200, b"bc", b"d" * 7]
STREAM = b"".join(message(body) for body in WANTED)


def test_several_in_a_segment(resyncing: Compared) -> None:
    assert bodies(resyncing, [segment(0, STREAM)]) == (WANTED, [])


def test_cut_at_every_byte(resyncing: Compared) -> None:
    for cut in range(1, len(STREAM)):
        assert bodies(resyncing, segments(STREAM, [cut])) == (WANTED, [])


def test_byte_by_byte(resyncing: Compared) -> None:
    assert bodies(resyncing, segments(STREAM, [1] * (len(STREAM) - 1))) == (WANTED, [])


def test_any_segments_in_any_order(resyncing: Compared) -> None:
    rnd = random.Random(1)
    for _ in range(20):
        packets = segments(STREAM, [rnd.randrange(1, 40) for _ in range(8)])
        head, rest = packets[0], packets[1:]
        rnd.shuffle(rest)
        assert bodies(resyncing, [head, *rest]) == (WANTED, [])


def test_after_a_gap_the_next_start_is_looked_for(small: Compared) -> None:
    lost = message(b"never seen")
    later = [message(bytes([n] * 20)) for n in range(1, 6)]
    packets = [segment(0, message(b"first"))]
    at = len(message(b"first")) + len(lost)
    for item in later:
        packets.append(segment(at, item))
        at += len(item)
    assert bodies(small, packets) == ([b"first", *(bytes([n] * 20) for n in range(1, 6))], [1])


def test_what_is_no_message_is_skipped_to_the_next_start(resyncing: Compared) -> None:
    assert bodies(resyncing, [segment(0, message(b"one") + b"\x55\x00\x00junk" + message(b"two"))]) == (
        [b"one", b"two"],
        [2],
    )


def test_a_message_beyond_the_limit_is_not_believed(resyncing: Compared) -> None:
    long = bytes([MAGIC]) + (301).to_bytes(2, "big")
    assert bodies(resyncing, [segment(0, message(b"one") + long + message(b"two"))]) == (
        [b"one", b"two"],
        [0],
    )
    longest = message(b"y" * 297)
    assert bodies(resyncing, [segment(0, longest + message(b"two"))]) == ([b"y" * 297, b"two"], [])


def test_without_resync_nothing_more_is_understood(ending: Compared) -> None:
    packets = [
        segment(0, message(b"one") + b"\x55\x00\x00" + message(b"two")),
        segment(400, message(b"three")),
    ]
    assert bodies(ending, packets) == ([b"one"], [2])


def test_streams_do_not_mix(resyncing: Compared) -> None:
    one, other = message(b"a" * 50), message(b"b" * 50)
    packets = [
        segment(0, one[:20], 1),
        segment(0, other[:30], 2),
        segment(20, one[20:], 1),
        segment(30, other[30:], 2),
    ]
    assert bodies(resyncing, packets) == ([b"a" * 50, b"b" * 50], [])


def test_a_packet_that_is_a_stream_of_its_own() -> None:
    """What it brings lies with the packet, not with the instances of the table."""
    made = compiled(describe(alone=0))
    packets = [segment(0, STREAM + message(b"cut")[:-1], key=0), segment(0, STREAM[:5]), segment(0, STREAM, key=0)]
    assert bodies(made, packets) == ([*WANTED, b"", *WANTED], [STREAM_LOSSES.index("close")] * 2)
