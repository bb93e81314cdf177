"""Random stacks whose packets do to fields of their own side what those of the other do to theirs: in C by one way."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import Assign, ConnectionOriented, DescriptionWarning, If, Pred, Stack, swap_sides
from sluice.lower.build import build
from sluice.passes.pipeline import PASSES, run
from tests.differential.both import assert_same, compiled, everything
from tests.differential.sides import sided
from tests.differential.stacks import add_sides, head, scratch
from tests.differential.traffic import Seeded
from tests.support.budget import thinned
from tests.support.unoptimised import unoptimised

WITHOUT_MERGING = [one.name for one in PASSES if one.name != "merge_sides"]


def sided_stack(seed: int) -> Stack:
    """A parser of connections, perhaps twice, so that instances of both lie in one table."""
    rnd = random.Random(seed)
    p: Any = ConnectionOriented("p")
    p.header, p.temp, p.perm = head, scratch, sided
    p.selector = [p.header.one & 3, p.header.kind & 1], [p.header.other & 3, p.header.kind & 1]
    p.prep = Assign(p.temp.x, p.header.number + p.header.kind)
    if rnd.random() < 0.5:
        p.prep += If(p.header.flag_b == 1) >> swap_sides()
    add_sides(rnd, p)
    made = Stack("sided", depth=3)
    made.lower = p
    if rnd.random() < 0.5:
        made.upper = p
        made += (made.lower >> made.upper) + Pred(made.lower.header.flag_c == 1)
    return made


@pytest.mark.parametrize("seed", thinned(range(10), 3))
def test_fields_of_both_sides(seed: int) -> None:
    with warnings.catch_warnings(), unoptimised():
        warnings.simplefilter("ignore", DescriptionWarning)
        library = compiled(sided_stack(seed), "constants" if seed % 2 else "all")
    for number in range(3):
        for most in (2, 1 << 10):
            box = Settings(memory=1 << 24, max_instances=most, seed=1)
            assert_same(library, Seeded(3 * seed + number, 300).packets(), box)


def test_there_is_one_path_for_both() -> None:
    merged = 0
    for seed in range(10):
        stack = sided_stack(seed)
        program = run(build(stack, everything(stack)), ["constants"] if seed % 2 else WITHOUT_MERGING)
        after = run(program, ["merge_sides"])
        merged += any(after.layers[name].main != layer.main for name, layer in program.layers.items())
    assert merged >= 5
