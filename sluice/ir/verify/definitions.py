"""A register that lives with the packet is set on every path before it is read."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.ir.dataflow import forward
from sluice.ir.expression import Reg
from sluice.ir.graph import Block
from sluice.ir.verify.subject import Subject

RULE = "definitions"

PACKET_SPACES = ("header", "v", "temp", "local", "mark")


def check(subject: Subject) -> None:
    """No register is read that some path leaves unset. Instances and slots have rules of their own."""
    start = frozenset(reg.name for reg in subject.graph.parameters)
    facts = forward(subject.graph, start, _flow, frozenset[str].intersection)
    for name, known in facts.items():
        block = subject.graph.blocks[name]
        defined = set(known)
        for instruction in block.instructions:
            for reg in instruction.read_registers():
                if _lives_with_packet(reg) and reg.name not in defined:
                    subject.fail(RULE, f"{reg.name} may be read before it is set", block, instruction)
            defined.update(reg.name for reg in instruction.written())


def _lives_with_packet(reg: Reg) -> bool:
    return reg.space in PACKET_SPACES


def _flow(block: Block, known: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    after = known.union(reg.name for instruction in block.instructions for reg in instruction.written())
    for target in block.terminator.targets():
        yield target, after
