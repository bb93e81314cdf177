"""Where something begins that few ways through a graph need: as late as may be, so that on the others it never does."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ir.dataflow import backward
from sluice.ir.graph import Graph

BEFORE = ""
"""In place of a block: before the graph."""


def lazily_initialised(graph: Graph, first: Mapping[str, int]) -> dict[str, int]:
    """By block the number of the instruction before which something has to begin. `first`: by block that of the first one
    that needs it.

    On every way it begins once before the first one that needs it, and not where none comes (as pass `sinking` moves loads
    down). The number of instructions, without the terminator, is the end of a block. Where ways lead back to the entry of
    the graph it begins BEFORE.
    """
    order = graph.order()
    wanted = backward(graph, False, lambda name, later: later or name in first, lambda one, other: one or other)
    before = graph.predecessors()
    if before[graph.entry] and wanted[graph.entry]:
        return {BEFORE: 0}
    # Not begun yet at the start of a block, or at its end. Starts from everything, as a loop leads back to itself.
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


def behind(graph: Graph, first: Mapping[str, int]) -> dict[str, int]:
    """By block the number of the first instruction that may come behind one of `first`, as there; blocks where none may are
    left out.
    """
    found = {name: at + 1 for name, at in first.items()}
    to_follow = list(first)
    while to_follow:
        for target in graph.blocks[to_follow.pop()].terminator.targets():
            if found.get(target) != 0:
                to_follow += [] if target in first else [target]
                found[target] = 0
    return found
