"""What a layer leaves for those above it: what they ask for, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.lang import Assign, Callback, Connectionless, Pred, Stack, UInt, layout
from sluice.lower.build import build


class hdr(layout):
    one = UInt(8)
    other = UInt(16)


class told(layout):
    number = UInt(16)


@pytest.mark.parametrize("asks", [True, False])
def test_an_offer_is_left_where_somebody_asks_for_it(asks: bool) -> None:
    low: Any = Connectionless("low")
    low.header = hdr
    low.offer(port=low.header.other)
    high: Any = Connectionless("high")
    high.header = hdr
    if asks:
        high.event.told = Assign(told.number, high.below.port) + Callback(told)
    stack = Stack("offers")
    stack.low, stack.high = low, high
    stack += (stack.low >> stack.high) + Pred(1)
    main = build(stack).layers["low"].main
    left = {reg.name for instruction in main.instructions() for reg in instruction.written() if reg.space == "slot"}
    assert left == ({"slot.port.16"} if asks else set())
