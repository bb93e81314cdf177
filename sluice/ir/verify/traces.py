"""Rule: graphs outside the main path have only the effects that they may have.

Ahead, dispatch and template graphs write only slots; ahead and template graphs also prefetch. A stateless graph may
also write counters, but only on paths that forward the packet. A deferred graph works only on the instance, because the
packet has already been forwarded to other layers.
"""

from __future__ import annotations

from sluice.ir.dataflow import leaves_trace
from sluice.ir.graph_kinds import DEFERRED, KINDS, STATELESS, TEMPLATE
from sluice.ir.instruction import (
    NextStateless,
    Return,
)
from sluice.ir.verify.subject import Subject

RULE = "traces"


def check(subject: Subject) -> None:
    """Instructions write only what stage 1 may write. After an effect there is no Return: the main graph, which then
    starts from the beginning, would repeat the effect.
    """
    if subject.kind == DEFERRED:
        _check_deferred(subject)
    allowed = KINDS[subject.kind].writes
    if allowed is None:
        return
    blocks = subject.graph.blocks
    for block in blocks.values():
        for instruction in block.instructions:
            if subject.kind == TEMPLATE and isinstance(instruction, NextStateless):
                continue  # counts the packet only when it waits at its next layer
            if not instruction.WRITES <= allowed:
                name = instruction.__class__.__name__
                subject.fail(RULE, f"{name} in the {subject.kind} graph, before stage 2", block, instruction)
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
            subject.fail(RULE, "returns after a trace", block, block.terminator)
        waiting += block.terminator.targets()


def _check_deferred(subject: Subject) -> None:
    for block in subject.graph.blocks.values():
        for instruction in block.instructions:
            of_packet = any(reg.space == "slot" for reg in (*instruction.read_registers(), *instruction.written()))
            if not isinstance(instruction, KINDS[DEFERRED].only) or of_packet:
                name = instruction.__class__.__name__
                subject.fail(RULE, f"{name} in the deferred graph, when others have the packet", block, instruction)
