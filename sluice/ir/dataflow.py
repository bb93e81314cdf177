"""What verifier and passes share: facts that flow through a graph; what an instruction may change unseen."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Call, Instruction, Resource

F = TypeVar("F")


def forward(
    graph: Graph,
    start: F,
    flow: Callable[[Block, F], Iterable[tuple[str, F]]],
    meet: Callable[[F, F], F],
) -> dict[str, F]:
    """Facts at the beginning of every block that is reached.

    `flow` takes a block and the facts at its beginning, and gives the facts on each of its ways out (an exit
    that it leaves out is never taken); it must not change what it is given. `meet` keeps what holds on both
    of two ways. Starts from everything and only takes away, so that what holds around a loop is found.
    """
    place = {name: number for number, name in enumerate(graph.order())}
    facts = {graph.entry: start}
    waiting = [(0, graph.entry)]
    queued = {graph.entry}
    while waiting:
        _, name = heapq.heappop(waiting)
        queued.discard(name)
        for target, incoming in flow(graph.blocks[name], facts[name]):
            if target in facts:
                joined = meet(facts[target], incoming)
                if joined == facts[target]:
                    continue
                facts[target] = joined
            else:
                facts[target] = incoming
            if target not in queued:
                queued.add(target)
                heapq.heappush(waiting, (place[target], target))
    return facts


def runs_graphs(instruction: Instruction) -> bool:
    """Whether graphs of this or other layers run inside it: a layer above, a drain, an end."""
    return Resource.OUTSIDE in instruction.WRITES and not isinstance(instruction, Call)


def hidden_writes(instruction: Instruction) -> frozenset[str]:
    """Spaces of registers that it may change without naming them."""
    found: set[str] = set()
    if runs_graphs(instruction):
        found |= {"inst", "perm", "slot"}
    if Resource.INSTANCE in instruction.WRITES:
        found |= {"inst", "perm"}
    if Resource.CONTEXT in instruction.WRITES:
        found.add("slot")
    return frozenset(found)
