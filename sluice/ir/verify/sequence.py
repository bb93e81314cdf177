"""Sequences are used only in layers that have one, with the records that the layer keeps."""

from __future__ import annotations

from sluice.ir.instruction import (
    CreateInst,
    DestroyInst,
    EndInst,
    FreshInst,
    Instruction,
    InWindow,
    RecordSeq,
    ReleaseSeq,
    Resource,
)
from sluice.ir.verify.subject import Subject

RULE = "sequence"


def check(subject: Subject) -> None:
    """Instructions on sequences stand where there is one."""
    rules = subject.layer.rules
    for block in subject.graph.blocks.values():
        for instruction in block.instructions:
            if rules is None:
                if is_of_sequence(instruction):
                    subject.fail(RULE, "the layer has no sequence", block, instruction)
            elif isinstance(instruction, (RecordSeq, ReleaseSeq)) and len(instruction.values) != len(
                rules.record
            ):
                subject.fail(
                    RULE, f"a record of the layer has {len(rules.record)} fields", block, instruction
                )


def is_of_sequence(instruction: Instruction) -> bool:
    """Whether it works on a sequence; those that begin and end instances only carry theirs along."""
    if isinstance(instruction, (CreateInst, FreshInst, DestroyInst, EndInst)):
        return False
    return isinstance(instruction, InWindow) or Resource.SEQUENCE in instruction.READS | instruction.WRITES
