"""Where something begins as late as may be (sluice.passes.analysis.lazy_init)."""

import random
from collections.abc import Iterator

from sluice.ir.expression import ONE, Reg
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Assign, Branch, Return
from sluice.passes.analysis.lazy_init import BEFORE, after, lazily_initialised

NEEDS = Assign(Reg("v.needs", 8), ONE)
OTHER = Assign(Reg("v.other", 8), ONE)


def any_graph(choose: random.Random) -> tuple[Graph, dict[str, int]]:
    """A graph with loops, and by block its first instruction that needs what is begun late."""
    count = choose.randrange(2, 10)
    blocks: dict[str, Block] = {}
    for at in range(count):
        does = [choose.choice([NEEDS, OTHER, OTHER, OTHER]) for _ in range(choose.randrange(3))]
        yes, no = choose.randrange(count), choose.randrange(count)
        end = Return(ONE) if at == count - 1 or choose.random() < 0.2 else Branch(Reg("v.way", 1), f"b{yes}", f"b{no}")
        blocks[f"b{at}"] = Block(f"b{at}", [*does, end])
    graph = Graph("any", "b0", (), blocks)
    reached = graph.order()
    graph.blocks = {name: blocks[name] for name in reached}
    first = {name: blocks[name].body.index(NEEDS) for name in reached if NEEDS in blocks[name].body}
    return graph, first


def ways(graph: Graph, choose: random.Random) -> Iterator[list[str]]:
    """Some ways through a graph, by blocks."""
    for _ in range(30):
        name, way = graph.entry, [graph.entry]
        while len(way) < 30 and (targets := graph.blocks[name].terminator.targets()):
            name = choose.choice(targets)
            way.append(name)
        yield way


def test_on_every_way_it_begins_once_before_it_is_needed() -> None:
    late = 0
    for seed in range(400):
        choose = random.Random(seed)
        graph, first = any_graph(choose)
        begins = lazily_initialised(graph, first)
        for way in ways(graph, choose):
            begun, needed = int(BEFORE in begins), False
            for name in way:
                for at, instruction in enumerate([*graph.blocks[name].body, None]):
                    begun += begins.get(name) == at
                    if instruction is NEEDS:
                        assert begun == 1, (seed, way)
                        needed = True
            assert begun <= 1, (seed, way)
            late += begun == 0 and not needed
    assert late > 1000, "ways on which it never begins"


def test_what_may_come_after() -> None:
    for seed in range(400):
        choose = random.Random(seed)
        graph, first = any_graph(choose)
        found = after(graph, first)
        for way in ways(graph, choose):
            passed = False
            for name in way:
                for at, instruction in enumerate(graph.blocks[name].body):
                    assert not passed or at >= found[name], (seed, way)
                    passed |= instruction is NEEDS
    assert "b0" not in after(Graph("none", "b0", (), {"b0": Block("b0", [Return(ONE)])}), {})
