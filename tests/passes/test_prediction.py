"""Golden cases of pass `prediction`, see tests/golden/passes/prediction.txt; and what it makes of real stacks."""

import pytest

from sluice.ir.expression import Reg
from sluice.ir.instruction import Branch
from sluice.lower.build import build
from sluice.passes import prediction
from sluice.passes.analysis.blocks import blocks_after
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack
from tests.passes.golden_passes import Case, cases, check

FILE = "prediction.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, prediction.run)


def test_a_bit_of_the_instance_that_is_tested_with_a_flag_is_no_fast_path() -> None:
    """TCP tests its doubts together with SYN: a packet without flags in a connection without doubts tests nothing else
    of them.
    """
    program = run(build(find_stack("tcp_ip")), ["constants", "lifting", "prediction"])
    graph = program.layers["tcp_over_ipv4"].main
    (fork,) = [block for block in graph.blocks.values() if any(prediction.RARE in i.written() for i in block.body)]
    flags = fork.terminator
    assert isinstance(flags, Branch)
    doubts = graph.blocks[flags.no].terminator
    assert isinstance(doubts, Branch)
    assert doubts.condition == Reg("perm.doubt", 1) and doubts.yes == flags.yes
    fast = [i for name in blocks_after(graph, doubts.no) for i in graph.blocks[name].instructions]
    assert not any(reg.name.endswith(("doubt", "doubts")) for i in fast for reg in i.read_registers())
    assert fork.name not in blocks_after(graph, fork.name), "a restart is no loop"
