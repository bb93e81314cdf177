"""Random stacks on random packets: compiled code does what the interpreter says, with all passes, none and each alone.

Hypothesis makes both and shrinks what fails. SLUICE_STACKS sets how many stacks are tried (a long campaign: some
thousands); each is compiled once, however many packets are tried on it.
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
from __future__ import annotations

import os
import warnings
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.engine.box import Settings
from sluice.lang import AnyUntil, Assemble, Bit, Connectionless, DescriptionWarning, Pred, Sequence, Stack, layout
from sluice.passes.pipeline import PASSES
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.differential.choices import Choices, Chosen, chosen
from tests.differential.stacks import OPTION, stack
from tests.differential.traffic import Seeded, drawn, seeded
from tests.support.budget import examples, thinned
from tests.support.unoptimised import unoptimised

STACKS = int(os.environ.get("SLUICE_STACKS") or examples(32, 16))
WAYS = ["all", "none", *(item.name for item in PASSES)]
"""What the passes are that a stack is compiled with."""

BOXES = {
    "plain": Settings(memory=1 << 24, max_instances=1 << 10, seed=1),
    "few instances": Settings(memory=1 << 24, max_instances=2, seed=1),
    "no timeouts": Settings(memory=1 << 24, max_instances=1 << 10, timeouts=False, seed=1),
}
traffic = st.lists(st.tuples(st.sampled_from(list(BOXES)), drawn() | seeded), min_size=5, max_size=5)
"""What is tried on a stack: boxes, each with its packets."""


@lru_cache(maxsize=64)
def made(what: Chosen, way: str, options: frozenset[str]) -> Compared:
    # The C compiler's optimiser is not what is tested here, and without it a stack takes a third of the time.
    with warnings.catch_warnings(), unoptimised():
        warnings.simplefilter("ignore", DescriptionWarning)
        found = compiled(stack(Choices(what)), way, options)
    assert found.compiled.messages == ""
    return found


@pytest.mark.parametrize("way", [*WAYS[:2], *thinned(WAYS[2:], 3)])
@settings(
    max_examples=max(1, STACKS // len(WAYS)),
    deadline=None,
    derandomize="SLUICE_STACKS" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(what=chosen, options=st.sampled_from([frozenset[str](), frozenset([OPTION])]), tried=traffic)
def test_compiled_code_does_what_the_interpreter_says(
    way: str, what: Chosen, options: frozenset[str], tried: list[tuple[str, list[Packet] | Seeded]]
) -> None:
    library = made(what, way, options)
    for kind, packets in tried:
        assert_same(library, packets.packets() if isinstance(packets, Seeded) else packets, BOXES[kind])


def test_a_list_of_empty_items_ends() -> None:
    class counted(layout):
        n = Bit(8)

    class item(layout):
        value = Bit(counted.n << 3)

    p: Any = Connectionless("p")
    p.header = counted + AnyUntil([item], p.payload_len > 0)
    p.selector = [p.header.n]
    made_stack = Stack("empty")
    made_stack.p = p
    made = compiled(made_stack)
    found = [Packet(b"\0abc", 0), Packet(b"\1abc", 0)]
    assert_same(made, found)
    _, counters = run_compiled(made, found, Settings(memory=1 << 20, max_instances=9))
    assert counters["p"]["list broken"] == 1


def test_a_layer_that_hands_all_that_it_takes_to_itself_ends() -> None:
    """Behind a hole, so that only the end of input hands on, to an instance of another key, which waits in its turn."""

    class numbered(layout):
        number = Bit(8)
        who = Bit(8)

    p: Any = Connectionless("p")
    p.header = numbered
    p.selector = [p.header.number]
    p.offer(who=p.header.who)
    p.seq = Sequence(meta=p.header.number, data=p.unit, units=True, zero_based=True)
    p.event.asm = Assemble()
    made_stack = Stack("endless", depth=4)
    made_stack.p = p
    made_stack += (made_stack.p >> made_stack.p) + Pred(1)
    made_stack.join("who")
    made = compiled(made_stack)
    found = [Packet(b"\5\1", 0)]
    assert_same(made, found)
    _, counters = run_compiled(made, found, Settings(memory=1 << 20, max_instances=9))
    assert counters["p"]["instances"] == 1 + 2 * made_stack.depth  # the slot of one is free again for the next but one
    assert counters["box"]["too deep"] == 1
