"""Pass `header_prefetch`: the headers on the path that templates take are prefetched."""

from dataclasses import replace
from typing import Any

import pytest

from sluice.codegen.stack import generate
from sluice.hooks.function import Functions
from sluice.ir.graph import PREFETCH_MOST
from sluice.ir.text import parse_program, print_program
from sluice.ir.verify import VerifyError, verify
from sluice.lang import AnyUntil, Bit, Connectionless, Pred, Stack, UInt, layout
from sluice.lower.build import build
from sluice.passes.header_prefetch import LIST
from sluice.passes.pipeline import PASSES, run
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
def test_headers_on_the_path_of_templates(stack: str, headers: int) -> None:
    assert optimised(stack).prefetch == headers + LIST


def test_a_loop_of_which_all_positions_are_known() -> None:
    """A list whose items have one size: its first item is counted, and not the loop."""

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
    assert program.prefetch == 2 + 2 + LIST


def test_at_most_the_maximum() -> None:
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
    assert run(build(stack)).prefetch == PREFETCH_MOST


def test_without_templates_the_maximum() -> None:
    program = build(find_stack("tcp_ip"))
    assert program.prefetch == run(program, "header_prefetch").prefetch == PREFETCH_MOST


def test_the_c_prefetches_it() -> None:
    """Switched off by name, the maximum is prefetched."""
    passes = [item.name for item in PASSES if item.name != "header_prefetch"]
    for program in (optimised("tcp_ip"), run(build(find_stack("tcp_ip")), passes)):
        source = generate(program, Functions()).source
        assert f"sl_lookahead_burst(&base->lookahead, frames, count, {program.prefetch});" in source
    assert run(build(find_stack("tcp_ip")), passes).prefetch == PREFETCH_MOST


def test_printed_parsed_and_verified() -> None:
    program = optimised("tcp_ip")
    text = print_program(program)
    assert f"  prefetch {program.prefetch} bytes\n" in text
    assert parse_program(text).prefetch == program.prefetch
    for size in (0, PREFETCH_MOST + 1):
        with pytest.raises(VerifyError, match=f"prefetches {size} bytes of a packet, it must be 1 to 192"):
            verify(replace(program, prefetch=size))
