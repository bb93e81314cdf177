"""What several passes do with blocks."""

from __future__ import annotations

from collections.abc import Callable

from sluice.ir.copy import copy_graph, map_graphs
from sluice.ir.graph import Graph, LayerProgram, Program


def each_graph(program: Program, change: Callable[[LayerProgram, Graph], bool]) -> Program:
    """The program with `change` applied to a copy of every graph; it says whether it changed anything.

    Graphs that it leaves as they are stay the same objects, so that nobody has to look at them again.
    """

    def changed_copy(layer: LayerProgram, graph: Graph) -> Graph:
        copy = copy_graph(graph)
        return copy if change(layer, copy) else graph

    return map_graphs(program, changed_copy)


def remove_unreachable(graph: Graph) -> bool:
    """Remove blocks to which no path leads; says whether there were any."""
    reachable = set(graph.order())
    gone = [name for name in graph.blocks if name not in reachable]
    for name in gone:
        del graph.blocks[name]
    return bool(gone)
