"""Rule: a register that is stored with the packet is set on every path before it is read."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.ir.dataflow import forward
from sluice.ir.expression import SIDE
from sluice.ir.graph import Block
from sluice.ir.verify.subject import Subject

RULE = "definitions"

PACKET_SPACES = ("header", "v", "temp", "local", "mark")


def check(subject: Subject) -> None:
    """Refuses reads of registers that some path leaves unset. Instance fields and slots have their own rules."""
    bits: dict[str, int] = {}
    """A bit for each register, so that an integer represents a set of registers."""

    def bit(name: str) -> int:
        return bits.setdefault(name, 1 << len(bits))

    start = 0
    for reg in subject.graph.parameters:
        start |= bit(reg.name)
    sets = {name: [bit(reg.name) for step in steps for reg in step.written] for name, steps in subject.steps.items()}

    def flow(block: Block, known: int) -> Iterator[tuple[str, int]]:
        for one in sets[block.name]:
            known |= one
        for target in block.terminator.targets():
            yield target, known

    for name, known in forward(subject.graph, start, flow, int.__and__).items():
        for block, instruction, written, read in subject.steps[name]:
            for reg in read:
                if not known & bit(reg.name) and reg.space in PACKET_SPACES:
                    subject.fail(RULE, f"{reg.name} may be read before it is set", block, instruction)
            for reg in read + written:
                if reg.space in ("own", "other") and not known & bit(SIDE.name):
                    subject.fail(RULE, f"{reg.name} needs the packet's side, which may not be set", block, instruction)
            for reg in written:
                known |= bit(reg.name)
