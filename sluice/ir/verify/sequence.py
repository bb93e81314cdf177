"""Rule: instructions on sequences occur only in layers with a sequence, with the fields of that layer's records."""

from __future__ import annotations

from sluice.ir.instruction import RecordSeq, ReleaseSeq
from sluice.ir.verify.subject import Subject

RULE = "sequence"


def check(subject: Subject) -> None:
    """Every instruction on sequences is in a layer that has one."""
    rules = subject.layer.rules
    for block in subject.graph.blocks.values():
        for instruction in block.instructions:
            if rules is None:
                if instruction.NEEDS_SEQUENCE:
                    subject.fail(RULE, "the layer has no sequence", block, instruction)
            elif isinstance(instruction, (RecordSeq, ReleaseSeq)) and len(instruction.values) != len(rules.record):
                subject.fail(RULE, f"a record of the layer has {len(rules.record)} fields", block, instruction)
