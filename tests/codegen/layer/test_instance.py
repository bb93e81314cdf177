"""Instances in C (sluice.codegen.layer.instance): one that begins where another one ended under the same key."""

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
    """The statements behind each end of an instance whose key is used again."""
    return re.findall(r"/\* reused \*/.*\n *(.*)", generate(program, Functions()).source)


@pytest.mark.parametrize(
    ("passes", "behind"),
    [
        pytest.param("all", "inst->head.deadline = SL_NEVER;", id="one begins at once"),
        pytest.param("none", "sl_table_remove(", id="one begins where others do that take nobody's place"),
    ],
)
def test_it_takes_the_place_in_the_table(passes: str, behind: str) -> None:
    found = begun_again(run(build(find_stack("gtp")), passes))
    assert found and all(statement.startswith(behind) for statement in found)


def test_it_does_not_where_the_one_before_may_have_had_none() -> None:
    program = optimised("gtp")
    layer = program.layers["tcp"]
    fresh = Block("fresh", [FreshInst(), End("ended")])
    main = replace(layer.main, blocks={**layer.main.blocks, "fresh": fresh})
    program = replace(program, layers={**program.layers, "tcp": replace(layer, main=main)})
    found = begun_again(program)
    assert found and all("SL_SLOT_FRESH" in statement for statement in found)
