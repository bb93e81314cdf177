"""Instances in C (sluice.codegen.layer.instance): one that replaces an instance with the same key."""

import re
from dataclasses import replace

import pytest

from sluice.codegen.stack import generate
from sluice.hooks.function import Functions
from sluice.ir.graph import Block, Program
from sluice.ir.instruction import End, FreshInst
from sluice.lower.build import build
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack
from tests.support.stacks import optimised


def begun_again(program: Program) -> list[str]:
    """The statements after each end of an instance whose key is used again."""
    return re.findall(r"/\* reused \*/.*\n *(.*)", generate(program, Functions()).source)


@pytest.mark.parametrize(
    ("passes", "following"),
    [
        pytest.param("all", "inst->head.deadline = SL_NEVER;", id="one begins at once"),
        pytest.param("none", "sl_table_remove(", id="one begins where others do that take nobody's place"),
    ],
)
def test_it_uses_the_slot_of_the_table(passes: str, following: str) -> None:
    found = begun_again(run(build(find_stack("gtp")), passes))
    assert found and all(statement.startswith(following) for statement in found)


def test_it_does_not_if_the_previous_instance_may_have_had_no_slot() -> None:
    program = optimised("gtp")
    layer = program.layers["tcp"]
    fresh = Block("fresh", [FreshInst(), End("ended")])
    main = replace(layer.main, blocks={**layer.main.blocks, "fresh": fresh})
    program = replace(program, layers={**program.layers, "tcp": replace(layer, main=main)})
    found = begun_again(program)
    assert found and all("SL_SLOT_FRESH" in statement for statement in found)
