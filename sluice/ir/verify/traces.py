"""Ahead, dispatch and template graphs leave only slots (and what they asked the memory for); a stateless one counters,
too, and that where it leads on. A turn graph is about instances alone, as others have the packet.
"""

from __future__ import annotations

from sluice.ir.dataflow import leaves_trace
from sluice.ir.instruction import (
    Assign,
    Branch,
    CreateInst,
    EndInst,
    Goto,
    Lookup,
    Mark,
    NextStateless,
    Resource,
    Return,
    SwapSides,
    Touch,
)
from sluice.ir.verify.subject import AHEAD, DISPATCH, STATELESS, TEMPLATE, TURN, Subject

RULE = "traces"

MAY_WRITE = {
    AHEAD: {Resource.CACHE, Resource.CONTEXT},
    DISPATCH: {Resource.CONTEXT},
    TEMPLATE: {Resource.CACHE, Resource.CONTEXT},
    STATELESS: {Resource.CACHE, Resource.CONTEXT, Resource.COUNTERS},
}
IN_TURN = (Assign, Mark, Lookup, CreateInst, EndInst, Touch, SwapSides, Branch, Goto, Return)
"""Instructions of turn graphs."""


def check(subject: Subject) -> None:
    """Instructions write only what may be written before the packet's turn. Behind a trace comes no Return: the main
    graph, which begins anew then, would leave it again.
    """
    if subject.kind == TURN:
        _check_turn(subject)
    allowed = MAY_WRITE.get(subject.kind)
    if allowed is None:
        return
    blocks = subject.graph.blocks
    for block in blocks.values():
        for instruction in block.instructions:
            if subject.kind == TEMPLATE and isinstance(instruction, NextStateless):
                continue  # which counts the packet when it has come to where it waits
            if not instruction.WRITES <= allowed:
                name = instruction.__class__.__name__
                subject.fail(RULE, f"{name} in the {subject.kind} graph, before the packet's turn", block, instruction)
    if subject.kind != STATELESS:
        return
    waiting = [block.name for block in blocks.values() if any(map(leaves_trace, block.instructions))]
    traced: set[str] = set()
    while waiting:
        block = blocks[waiting.pop()]
        if block.name in traced:
            continue
        traced.add(block.name)
        if isinstance(block.terminator, Return):
            subject.fail(RULE, "returns behind a trace", block, block.terminator)
        waiting += block.terminator.targets()


def _check_turn(subject: Subject) -> None:
    for block in subject.graph.blocks.values():
        for instruction in block.instructions:
            of_packet = any(reg.space == "slot" for reg in (*instruction.read_registers(), *instruction.written()))
            if not isinstance(instruction, IN_TURN) or of_packet:
                name = instruction.__class__.__name__
                subject.fail(RULE, f"{name} in the turn graph, when others have the packet", block, instruction)
