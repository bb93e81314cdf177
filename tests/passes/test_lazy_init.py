"""Golden cases of pass `lazy_init`, see tests/golden/passes/lazy_init.txt; and the places that it chooses."""

import random
from collections.abc import Iterator

import pytest

from sluice.ir.expression import ONE, Reg
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Assign, Branch, Return
from sluice.passes import lazy_init
from sluice.passes.analysis.packet_bytes import after
from sluice.passes.lazy_init import BEFORE, lazily_initialised
from tests.passes.golden_passes import Case, cases, check

FILE = "lazy_init.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case) -> None:
    check(case, FILE, lazy_init.run)


USES = Assign(Reg("v.uses", 8), ONE)
OTHER = Assign(Reg("v.other", 8), ONE)


def any_graph(choose: random.Random) -> tuple[Graph, dict[str, int]]:
    """A graph with loops, and by block its first instruction that uses the variable."""
    count = choose.randrange(2, 10)
    blocks: dict[str, Block] = {}
    for at in range(count):
        does = [choose.choice([USES, OTHER, OTHER, OTHER]) for _ in range(choose.randrange(3))]
        yes, no = choose.randrange(count), choose.randrange(count)
        end = (
            Return(ONE) if at == count - 1 or choose.random() < 0.2 else Branch(Reg("v.taken", 1), f"b{yes}", f"b{no}")
        )
        blocks[f"b{at}"] = Block(f"b{at}", [*does, end])
    graph = Graph("any", "b0", (), blocks)
    reached = graph.order()
    graph.blocks = {name: blocks[name] for name in reached}
    first = {name: blocks[name].body.index(USES) for name in reached if USES in blocks[name].body}
    return graph, first


def paths(graph: Graph, choose: random.Random) -> Iterator[list[str]]:
    """Some paths through a graph, by blocks."""
    for _ in range(30):
        name, path = graph.entry, [graph.entry]
        while len(path) < 30 and (targets := graph.blocks[name].terminator.targets()):
            name = choose.choice(targets)
            path.append(name)
        yield path


def test_initialised_once_before_its_use_on_every_path() -> None:
    never = 0
    for seed in range(400):
        choose = random.Random(seed)
        graph, first = any_graph(choose)
        begins = lazily_initialised(graph, first)
        for path in paths(graph, choose):
            begun, used = int(BEFORE in begins), False
            for name in path:
                for at, instruction in enumerate([*graph.blocks[name].body, None]):
                    begun += begins.get(name) == at
                    if instruction is USES:
                        assert begun == 1, (seed, path)
                        used = True
            assert begun <= 1, (seed, path)
            never += begun == 0 and not used
    assert never > 1000, "paths without a use, on which it is not initialised"


def test_what_may_come_after() -> None:
    for seed in range(400):
        choose = random.Random(seed)
        graph, first = any_graph(choose)
        found = after(graph, first)
        for path in paths(graph, choose):
            passed = False
            for name in path:
                for at, instruction in enumerate(graph.blocks[name].body):
                    assert not passed or at >= found[name], (seed, path)
                    passed |= instruction is USES
    assert "b0" not in after(Graph("none", "b0", (), {"b0": Block("b0", [Return(ONE)])}), {})
