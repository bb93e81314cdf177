"""Merging of identical tails: ways that come to do the same from some place on share it from there.

Ways that were kept apart, or written twice, for what it decides, often end alike; a machine with fourteen states has
fourteen ways to be begun anew. Blocks are the same when they do the same and lead to the same: all are taken to be so
at first, and told apart by what they do and, again and again, by where they lead, until there is nothing more to tell
(the minimizing of automata: Moore 1956). So loops are merged, too. A branch whose ways have become one goes.
"""

from __future__ import annotations

from collections.abc import Hashable

from sluice.ir.copy import with_targets
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Branch, Goto
from sluice.passes import constants, dead_code
from sluice.passes.analysis.blocks import each_graph, is_copy, remove_unreachable, what_it_does


def run(program: Program) -> Program:
    """The program with one block where several were the same."""
    return each_graph(program, change)


def change(layer: LayerProgram, graph: Graph) -> bool:
    """Merge what is the same, until there is nothing left to do; says whether there was anything."""
    changed = False
    while merge(graph):
        changed = True
        constants.change(layer, graph)
        dead_code.change(layer, graph)
    return changed


def merge(graph: Graph) -> bool:
    """Make one block of all that are the same; says whether there were any."""
    order = graph.order()
    group = _numbered({name: _done(graph.blocks[name]) for name in order})
    leads = {name: graph.blocks[name].terminator.targets() for name in order}
    groups = 0
    while len(set(group.values())) > groups:
        groups = len(set(group.values()))
        group = _numbered({name: (group[name], *(group[target] for target in leads[name])) for name in order})
    if groups == len(graph.blocks):
        return False
    first: dict[int, str] = {}
    for name in sorted(order, key=is_copy):
        first.setdefault(group[name], name)
    for block in graph.blocks.values():
        last = with_targets(block.terminator, lambda target: first[group[target]])
        if isinstance(last, Branch) and last.yes == last.no:
            last = Goto(last.yes, where=last.where)
        block.instructions[-1] = last
    graph.entry = first[group[graph.entry]]
    return remove_unreachable(graph)


def _numbered(told: dict[str, Hashable]) -> dict[str, int]:
    """For every block the number of what is told of it."""
    numbers: dict[Hashable, int] = {}
    return {name: numbers.setdefault(what, len(numbers)) for name, what in told.items()}


def _done(block: Block) -> Hashable:
    """What a block does, whatever line of the description it came from and wherever it leads."""
    return tuple([what_it_does(instruction) for instruction in block.instructions])
