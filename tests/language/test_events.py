"""When events happen whose conditions ask for virtual packets."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    If,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
)
from tests.support.run import run, watch_all


class numbered(layout):
    key = UInt(8)
    number = UInt(8)
    mark = Bit(8)


class told(layout):
    by = UInt(8)


@cache
def compiled() -> CompiledStack:
    """Event `marked` tells which packet it happened for."""
    p: Any = Connectionless("p")
    p.header = numbered
    p.selector = [p.header.key]
    p.seq = Sequence(meta=p.header.number, data=p.payload)
    p.psm = PSM(PSMState(start=True))
    p.event.all = Assemble()
    p.event.marked = If(p.v.header.mark == 1) >> (Assign(told.by, p.header.number) + Callback(told))
    stack = Stack("marks")
    stack.p = p
    return watch_all(stack, ("p", "marked"))


@pytest.mark.parametrize(
    "order, marks, happened",
    [
        ([0, 1, 2], {1}, [1]),
        ([1, 0], {1}, [0]),  # beyond the next expected one nothing is known of it; 0 lets it follow
        ([1, 2, 0], {1}, [0]),  # in the first of two release steps
        ([1, 2, 0], {2}, [0]),  # in the last
        ([1, 0], {0}, [0]),  # in the arrival step, though the release step behind it does not fulfil it
        ([2, 1, 0], {1, 2}, [0]),  # once for a packet, however many steps did
        ([1, 2, 0], set(), []),
        ([2, 1], {1, 2}, []),
    ],
)
def test_a_condition_holds_if_it_held_in_one_step(order: list[int], marks: set[int], happened: list[int]) -> None:
    result = run(compiled(), [bytes([7, number, number in marks]) + b"x" for number in order])
    assert [event.by for event in result.named("marked")] == happened
