"""Names in C: two registers never share one, whatever layouts, events and fields are called."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.codegen.c.names import variable
from sluice.ir.expression import Reg
from sluice.lang import Assemble, Assign, Bit, Callback, Connectionless, Sequence, Stack, layout
from tests.differential.both import Packet, assert_same, compiled


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("local.gap.length", "local.gap_length"),
        ("local.data.a_b.c", "local.data.a.b_c"),
        ("local.data.a__b.c", "local.data.a.b__c"),
    ],
)
def test_registers_have_variables_of_their_own(one: str, other: str) -> None:
    assert variable(Reg(one, 8)) != variable(Reg(other, 8))


@pytest.mark.parametrize("passes", ["none", "all"])
def test_an_event_related_to_gap_compiles_and_gets_its_values(passes: str) -> None:
    class numbered(layout):
        number = Bit(8)

    class seen(layout):
        offset = Bit(64)
        length = Bit(64)
        cause = Bit(8)

    p: Any = Connectionless("p")
    p.header = numbered
    p.selector = [p.header.number & 0]
    p.seq = Sequence(meta=p.header.number, data=p.payload, zero_based=True)
    p.event.asm = Assemble()
    p.event.hole = (
        Assign(seen.offset, p.event.gap.offset)
        + Assign(seen.length, p.event.gap.length)
        + Assign(seen.cause, p.event.gap.cause)
        + Callback(seen)
    )
    p.event_relation += p.event.gap >> p.event.hole
    stack = Stack("holes")
    stack.p = p
    assert_same(compiled(stack, passes), [Packet(b"\0abc", 0), Packet(b"\5fgh", 1)])
