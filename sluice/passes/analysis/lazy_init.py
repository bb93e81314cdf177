"""Lazy initialisation: sinks a variable's initialisation to its first use, if few paths through a graph use it. The
other paths then do not initialise it.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ir.dataflow import backward
from sluice.ir.graph import Graph

BEFORE = ""
"""Stands for a block: the initialisation is before the graph."""


def lazily_initialised(graph: Graph, first: Mapping[str, int]) -> dict[str, int]:
    """By block, the number of the instruction before which a variable is initialised.

    `first`: by block, the number of the first instruction that uses the variable. On every path, the variable is
    initialised once, before its first use. On a path without a use, it is not initialised (as pass `sinking` moves
    loads down). A number that equals the number of instructions, without the terminator, means the end of the block.
    If paths lead back to the entry of the graph, the initialisation is BEFORE the graph.
    """
    order = graph.order()
    wanted = backward(graph, False, lambda name, later: later or name in first, lambda one, other: one or other)
    before = graph.predecessors()
    if before[graph.entry] and wanted[graph.entry]:
        return {BEFORE: 0}
    # Whether the variable is not initialised yet at the start of a block, and at its end. Both start as true
    # everywhere, because a loop depends on itself.
    entering = dict.fromkeys(order, True)
    leaving = dict.fromkeys(order, True)
    changed = True
    while changed:
        changed = False
        for name in order:
            into = all(leaving[other] for other in before[name] if other in leaving)
            targets = [target for target in graph.blocks[name].terminator.targets() if wanted[target]]
            out = into and name not in first and all(entering[target] for target in targets)
            if (into, out) != (entering[name], leaving[name]):
                entering[name], leaving[name] = into, out
                changed = True
    waiting = [name for name in order if entering[name] and wanted[name] and not leaving[name]]
    return {name: first.get(name, len(graph.blocks[name].body)) for name in waiting}


def after(graph: Graph, first: Mapping[str, int]) -> dict[str, int]:
    """By block, the number of the first instruction that may run after an instruction of `first`.

    `first` is in the same form. Blocks where no instruction may run after one of `first` are omitted.
    """
    found = {name: at + 1 for name, at in first.items()}
    to_follow = list(first)
    while to_follow:
        for target in graph.blocks[to_follow.pop()].terminator.targets():
            if found.get(target) != 0:
                to_follow += [] if target in first else [target]
                found[target] = 0
    return found
