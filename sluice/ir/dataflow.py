"""What verifier and passes share: facts that flow through a graph; what an instruction may change unseen."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeVar

from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Instruction, Resource

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
                known = facts[target]
                joined = meet(known, incoming)
                if joined is known or joined == known:
                    continue
                facts[target] = joined
            else:
                facts[target] = incoming
            if target not in queued:
                queued.add(target)
                heapq.heappush(waiting, (place[target], target))
    return facts


def backward(graph: Graph, nothing: F, flow: Callable[[str, F], F], join: Callable[[F, F], F]) -> dict[str, F]:
    """Facts at the beginning of every block that is reached, from those at the blocks that it leads to.

    `flow` takes a block's name and what holds at its end, which it must not change, and gives what holds at its
    beginning. `join` makes one of what holds on several ways; where none leads on that is `nothing`. Starts from
    nothing everywhere and only adds.
    """
    waiting = graph.order()
    leads = {name: graph.blocks[name].terminator.targets() for name in waiting}
    before = graph.predecessors()
    facts = dict.fromkeys(waiting, nothing)
    queued = set(waiting)
    while waiting:
        name = waiting.pop()
        queued.discard(name)
        behind = nothing
        for target in leads[name]:
            behind = join(behind, facts[target])
        now = flow(name, behind)
        if now != facts[name]:
            facts[name] = now
            for other in before[name]:
                if other in leads and other not in queued:
                    queued.add(other)
                    waiting.append(other)
    return facts


_SPACES = {Resource.INSTANCE: ("inst.", "perm."), Resource.CONTEXT: ("slot.",)}


@cache
def hidden_writes(kind: type[Instruction]) -> tuple[str, ...]:
    """What the names of the registers begin with that such an instruction may change without naming them."""
    return tuple(name for resource, names in _SPACES.items() if resource in kind.WRITES for name in names)


def leaves_trace(instruction: Instruction) -> bool:
    """Whether it leaves anything behind its graph: an effect, or a slot for the layers above."""
    return instruction.has_effect() or any(reg.space == "slot" for reg in instruction.written())


def immediate_dominators(graph: Graph, order: list[str]) -> dict[str, str]:
    """For every block but the entry, the closest one that every path to it passes (Cooper, Harvey, Kennedy 2001)."""
    number = {name: index for index, name in enumerate(order)}
    before = graph.predecessors()
    dominator: dict[str, str] = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for name in order[1:]:
            known = [p for p in before[name] if p in dominator]
            common = known[0]
            for other in known[1:]:
                while common != other:
                    while number[common] > number[other]:
                        common = dominator[common]
                    while number[other] > number[common]:
                        other = dominator[other]
            if dominator.get(name) != common:
                dominator[name] = common
                changed = True
    del dominator[order[0]]
    return dominator
