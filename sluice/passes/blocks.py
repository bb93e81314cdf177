"""What several passes do with blocks."""

from __future__ import annotations

from collections.abc import Callable

from sluice.ir.copy import copy_program
from sluice.ir.graph import Graph, LayerProgram, Program


def each_graph(program: Program, change: Callable[[LayerProgram, Graph], bool]) -> Program:
    """A copy of the program in which `change` was applied to every graph until it had nothing left to do."""
    program = copy_program(program)
    for layer in program.layers.values():
        for graph in layer.graphs():
            while change(layer, graph):
                pass
    return program


def remove_unreachable(graph: Graph) -> bool:
    """Remove blocks to which no path leads; says whether there were any."""
    reachable = set(graph.order())
    gone = [name for name in graph.blocks if name not in reachable]
    for name in gone:
        del graph.blocks[name]
    return bool(gone)
