"""Random stacks on random packets: compiled code does what the interpreter says, with all passes, none and each alone.

SLUICE_STACKS sets how many stacks are tried (a long campaign: some thousands).
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
from __future__ import annotations

import os
import random
import warnings
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import AnyUntil, Bit, Connectionless, DescriptionWarning, Stack, layout
from sluice.passes.pipeline import PASSES
from tests.differential.both import Packet, assert_same, compiled, run_compiled
from tests.differential.stacks import packets, stack

STACKS = int(os.environ.get("SLUICE_STACKS", "24"))


@pytest.mark.parametrize("seed", range(STACKS))
def test_compiled_code_does_what_the_interpreter_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The C compiler's optimiser is not what is tested here, and without it a stack takes a third of the time.
    monkeypatch.setenv("SLUICE_CFLAGS", "-O0")
    rnd = random.Random(seed)
    passes = ["all", "none", *([item.name] for item in PASSES)][seed % (2 + len(PASSES))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        made = compiled(stack(rnd), passes)
    assert made.compiled.messages == ""
    for settings in (
        Settings(memory=1 << 24, max_instances=1 << 10, seed=seed),
        Settings(memory=1 << 24, max_instances=2, seed=seed),
        Settings(memory=1 << 24, max_instances=1 << 10, timeouts=False, seed=seed),
    ):
        assert_same(made, packets(rnd, 400), settings)


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
