"""Rule: a slot that a layer reads is filled by some layer."""

from __future__ import annotations

from sluice.ir.graph import GATHERED
from sluice.ir.verify.subject import Subject

RULE = "slots"


def check(subject: Subject) -> None:
    """The program declares every slot, and a slot that is read is filled by some layer that packets reach."""
    whole = subject.whole
    for steps in subject.steps.values():
        for block, instruction, written, read in steps:
            for reg in written + read:
                if reg.space == "slot" and whole.slots.get(reg.name) != reg.bits:
                    subject.fail(RULE, f"{reg.name} is no slot of the program", block, instruction)
            for reg in read:
                begun = reg.name in whole.filled or reg.name.startswith(GATHERED)
                if reg.space == "slot" and not begun and subject.layer.name in whole.reached:
                    subject.fail(RULE, f"no layer fills {reg.name}", block, instruction)
