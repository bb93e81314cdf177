"""Golden cases of pass `lifting`, see tests/golden/passes/lifting.txt; and its bounds on real stacks."""

import pytest

from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.ir.instruction import FreshInst, Lookup, NextLayer
from sluice.lower.build import build
from sluice.passes import constants, lifting
from sluice.stacks.find import find_stack
from tests.passes.golden_passes import Case, cases, check

FILE = "lifting.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, lifting.run)


@pytest.fixture(scope="module")
def simple() -> Program:
    """TCP/IP after the passes before this one."""
    built = build(find_stack("tcp_ip"), frozenset({Hook("tcp", "data")}))
    return constants.run(built)


def test_growth_has_a_bound(simple: Program):
    lifted = lifting.run(simple)
    for name, layer in lifted.layers.items():
        for before, after in zip(simple.layers[name].graphs(), layer.graphs(), strict=True):
            assert len(after.blocks) <= len(before.blocks) * 3 // 2 + lifting.SMALL


def test_a_datagram_in_one_piece_uses_no_instance(simple: Program):
    """The path of nearly all packets through IPv4 has no look-up, no sequence, and no end of an instance."""
    graph = lifting.run(simple).layers["ipv4"].main
    seen: set[str] = set()
    waiting = [graph.entry]
    while waiting:
        name = waiting.pop()
        block = graph.blocks[name]
        if name in seen or any(isinstance(i, Lookup) for i in block.instructions):
            continue
        seen.add(name)
        waiting += block.terminator.targets()
    found = [i for name in seen for i in graph.blocks[name].instructions]
    assert any(isinstance(i, NextLayer) for i in found)
    assert not [i for i in found if i.NEEDS_INSTANCE or isinstance(i, FreshInst)]
