"""How many header bytes are prefetched: those of the headers on the path that templates take."""

from typing import Any

import pytest

from sluice.lang import AnyUntil, Bit, Connectionless, Pred, Stack, UInt, layout
from sluice.lower.build import build
from sluice.passes.analysis.header_prefetch import LIST, UNKNOWN, header_bytes
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack
from tests.support.stacks import optimised

ETHERNET, IPV4, TCP, UDP, GTP = 14, 20, 20, 8, 8


@pytest.mark.parametrize(
    ("stack", "headers"),
    [
        pytest.param("tcp_ip", ETHERNET + IPV4 + TCP, id="TCP over IPv4"),
        pytest.param("gtp", ETHERNET + IPV4 + UDP + GTP + IPV4 + TCP, id="TCP in a tunnel"),
    ],
)
def test_headers_that_templates_lead_through(stack: str, headers: int) -> None:
    assert header_bytes(optimised(stack)) == headers + LIST


def test_a_loop_of_which_all_positions_are_known() -> None:
    """A list of two numbers again and again, of whatever is there."""

    class number(layout):
        value = UInt(16)

    stack = Stack("numbers")
    low: Any = Connectionless("low")
    low.header = number
    high: Any = Connectionless("high")
    high.header = AnyUntil([number])
    stack.low, stack.high = low, high
    stack += (stack.low >> stack.high) + Pred(stack.low.header.value == 1)
    program = run(build(stack))
    assert header_bytes(program) == 2 + 2 + LIST


def test_no_more_than_of_what_is_not_known() -> None:
    class long(layout):
        kind = UInt(16)
        rest = Bit(8 * 500)

    stack = Stack("long")
    low: Any = Connectionless("low")
    low.header = long
    high: Any = Connectionless("high")
    high.header = long
    stack.low, stack.high = low, high
    stack += (stack.low >> stack.high) + Pred(stack.low.header.kind == 1)
    assert header_bytes(run(build(stack))) == UNKNOWN


def test_without_templates_nothing_is_known() -> None:
    assert header_bytes(build(find_stack("tcp_ip"))) == UNKNOWN
