"""Data that come without a packet (a timeout, the end of input) bring along what layers above ask of it."""

from __future__ import annotations

from typing import Any

import pytest

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
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled

SETTINGS = Settings(memory=1 << 20, max_instances=16, seed=1)
FAR, NEAR = bytes(range(16)), bytes(range(100, 116))


class net_hdr(layout):
    src = Bit(128)
    dst = Bit(128)
    tag = UInt(16)


class stream_hdr(layout):
    sport = UInt(16)
    dport = UInt(16)
    number = UInt(32, serial=True)


class stream_perm(layout):
    first = UInt(16)


class above_hdr(layout):
    kind = Bit(8)


class told(layout):
    src = Bit(128)
    dst = Bit(128)
    tag = UInt(16)
    sport = UInt(16)
    first = UInt(16)
    sent_to_passive = Bit(1)


def describe(by_offer: bool) -> Stack:
    """A stream between two ends, and above it a layer that tells what it learns from below of each piece."""
    net: Any = Connectionless("net")
    net.header = net_hdr
    net.offer(src=net.header.src, dst=net.header.dst, tag=net.header.tag)

    s: Any = ConnectionOriented("stream")
    s.header = stream_hdr
    ends = s.below if by_offer else net.header
    s.selector = [ends.src, s.header.sport], [ends.dst, s.header.dport]
    s.perm = stream_perm
    s.prep = If(s.created) >> Assign(s.perm.first, s.header.number)
    s.seq = Sequence(meta=s.header.number, data=s.payload, zero_based=False)
    s.event.asm = Assemble()
    s.offer(sport=s.header.sport, first=s.perm.first, to_passive=s.to_passive)

    up: Any = Connectionless("up")
    up.header = above_hdr
    asked = (
        (up.below.src, up.below.dst, up.below.tag, up.below.sport, up.below.first, up.below.to_passive)
        if by_offer
        else (net.header.src, net.header.dst, net.header.tag, s.header.sport, s.perm.first, s.to_passive)
    )
    up.selector = [asked[0], asked[3]]
    up.event.told = (
        Assign(told.src, asked[0])
        + Assign(told.dst, asked[1])
        + Assign(told.tag, asked[2])
        + Assign(told.sport, asked[3])
        + Assign(told.first, asked[4])
        + Assign(told.sent_to_passive, asked[5])
        + Callback(told)
    )
    stack = Stack("without")
    stack.net, stack.stream, stack.up = net, s, up
    stack += (stack.net >> stack.stream) + Pred(1)
    stack += (stack.stream >> stack.up) + Pred(1)
    return stack


@pytest.fixture(scope="module", params=[True, False], ids=["offered", "by name"])
def stack(request: pytest.FixtureRequest) -> Compared:
    return compiled(describe(request.param))


def packet(to_far: bool, number: int, data: bytes, tag: int) -> Packet:
    ends, ports = [(NEAR, FAR), (FAR, NEAR)][to_far], [(1000, 2000), (2000, 1000)][to_far]
    head = ends[0] + ends[1]
    return Packet(
        head
        + tag.to_bytes(2, "big")
        + b"".join(p.to_bytes(2, "big") for p in ports)
        + number.to_bytes(4, "big")
        + data,
        0,
    )


def tellings(stack: Compared, packets: list[Packet]) -> list[dict[str, Any]]:
    assert_same(stack, packets, SETTINGS)
    events, _ = run_compiled(stack, packets, SETTINGS)
    names = [name for name, _ in next(iter(stack.program.layers["up"].events.values())).fields]
    return [dict(zip(names, values, strict=True)) for layer, name, _, _, values in events if name == "told"]


def test_what_waits_after_a_hole_at_the_end(stack: Compared) -> None:
    """Either side leaves a piece after a hole; at the end each comes with its own side's values."""
    packets = [
        packet(True, 10, b"a", 7),
        packet(False, 500, b"x", 9),
        packet(True, 20, b"b", 8),
        packet(False, 510, b"y", 6),
    ]
    seen = tellings(stack, packets)
    assert len(seen) == 4
    at_once, at_the_end = seen[:2], seen[2:]
    assert at_the_end == at_once
    assert [(t["src"], t["dst"], t["sport"]) for t in seen[:2]] == [(FAR, NEAR, 2000), (NEAR, FAR, 1000)]
    assert [t["tag"] for t in seen[:2]] == [7, 9]
    assert [t["sent_to_passive"] for t in seen] == [1, 0, 1, 0] and {t["first"] for t in seen} == {10}
