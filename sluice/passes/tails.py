"""Merging of identical tails: paths that do the same from some point on share their blocks from there.

Paths that were separated or duplicated, for the sake of the branches that this decides, often have the same end. (A
machine with fourteen states has fourteen paths on which it is restarted.) Two blocks are the same if they do the same
and continue at the same blocks. At first, all blocks are taken to be the same. They are divided into groups by what
they do, and then repeatedly by the groups of their targets, until no group is divided any more (minimisation of
automata: Moore 1956). Loops are merged in this manner, too. A branch whose targets have become one is removed.
"""

from __future__ import annotations

from collections.abc import Hashable

from sluice.ir.copy import with_targets
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Branch, Goto
from sluice.passes import constants, dead_code
from sluice.passes.analysis.blocks import each_graph, is_copy, remove_unreachable, what_it_does


def run(program: Program) -> Program:
    """The program with one block in place of several identical ones."""
    return each_graph(program, change)


def change(layer: LayerProgram, graph: Graph) -> bool:
    """Merge identical blocks until none are left; returns whether there were any."""
    changed = False
    while merge(graph):
        changed = True
        constants.change(layer, graph)
        dead_code.change(layer, graph)
    return changed


def merge(graph: Graph) -> bool:
    """Merge identical blocks into one; returns whether there were any."""
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


def _numbered(contents: dict[str, Hashable]) -> dict[str, int]:
    """A number for each block: the same number for blocks with the same value."""
    numbers: dict[Hashable, int] = {}
    return {name: numbers.setdefault(what, len(numbers)) for name, what in contents.items()}


def _done(block: Block) -> Hashable:
    """What a block does, without source lines and targets."""
    return tuple([what_it_does(instruction) for instruction in block.instructions])
