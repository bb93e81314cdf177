"""What the program of the kernel knows of dispatch graphs (sluice/codegen/bpf/graphs.py)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.codegen.bpf.graphs import above, cyclic, is_longer
from sluice.ir import instruction as ir
from sluice.ir.expression import Reg
from sluice.ir.graph import Block, Graph

Edges = list[set[int]]


def graphs_of(edges: Edges) -> dict[str, Graph]:
    """A layer for each number, which forwards packets to those of its set."""
    made: dict[str, Graph] = {}
    for number, others in enumerate(edges):
        blocks = {str(o): Block(str(o), [ir.NextDispatch(str(o), Reg("local.unit", 0))]) for o in others}
        made[str(number)] = Graph(str(number), "", (), blocks)
    return made


def longest(graphs: dict[str, Graph], name: str, path: tuple[str, ...] = ()) -> int:
    """By all paths."""
    if name in path:
        return 0
    return 1 + max((longest(graphs, other, (*path, name)) for other in above(graphs[name])), default=0)


@st.composite
def edges_of(draw: st.DrawFn) -> Edges:
    count = draw(st.integers(1, 7))
    return [draw(st.sets(st.integers(0, count - 1))) for _ in range(count)]


@settings(max_examples=200, deadline=None)
@given(edges_of())
def test_a_path_is_longer_as_all_paths_say(edges: Edges) -> None:
    graphs = graphs_of(edges)
    expected = longest(graphs, "0")
    assert [is_longer(graphs, "0", most) for most in range(9)] == [expected > most for most in range(9)]


def test_paths_of_a_dense_graph_are_not_enumerated() -> None:
    """All of 40 layers follow each other, and one more follows them: 40! paths."""
    graphs = graphs_of([set(range(41))] * 40 + [set()])
    assert is_longer(graphs, "0", 40) and not is_longer(graphs, "0", 41)
    assert cyclic(graphs) == {str(number) for number in range(40)}
