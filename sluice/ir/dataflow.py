"""Dataflow analyses that the verifier and the passes share, and the registers that instructions change implicitly."""

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
    """Facts at the beginning of every reachable block.

    `flow` takes a block and the facts at its beginning, and yields the facts on each of its outgoing edges. An edge
    that it leaves out is never taken. It must not change its arguments. `meet` returns the facts that hold on both of
    two paths. The analysis starts from all facts and only removes some, so that it finds facts that hold around a loop.
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
    """Facts at the beginning of every reachable block, computed from those at its successors.

    `flow` takes a block's name and the facts at its end, which it must not change, and returns the facts at its
    beginning. `join` combines the facts of several successors; a block without successors has `nothing`. The analysis
    starts from `nothing` everywhere and only adds facts.
    """
    waiting = graph.order()
    leads = {name: graph.blocks[name].terminator.targets() for name in waiting}
    before = graph.predecessors()
    facts = dict.fromkeys(waiting, nothing)
    queued = set(waiting)
    while waiting:
        name = waiting.pop()
        queued.discard(name)
        following = nothing
        for target in leads[name]:
            following = join(following, facts[target])
        now = flow(name, following)
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
    """Prefixes of the names of registers that an instruction of this kind may change without naming them."""
    return tuple(name for resource, names in _SPACES.items() if resource in kind.WRITES for name in names)


def leaves_trace(instruction: Instruction) -> bool:
    """Whether the instruction has a result that outlives its graph: an effect, or a slot for the layers above."""
    return instruction.has_effect() or any(reg.space == "slot" for reg in instruction.written())


def immediate_dominators(graph: Graph, order: list[str]) -> dict[str, str]:
    """The immediate dominator of every block except the entry (Cooper, Harvey, Kennedy 2001)."""
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
