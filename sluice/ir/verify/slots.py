"""A slot that a layer reads is one that some layer fills."""

from __future__ import annotations

from sluice.ir.graph import Program
from sluice.ir.instruction import NextLayer
from sluice.ir.verify.subject import Subject

RULE = "slots"


def check(subject: Subject) -> None:
    """Slots are declared by the program; one that is read is filled by some layer that packets reach."""
    reached = reached_layers(subject.program)
    declared = {reg.name: reg.bits for reg in subject.program.slots}
    filled = {
        reg.name
        for name in reached
        for graph in subject.program.layers[name].graphs()
        for instruction in graph.instructions()
        for reg in instruction.written()
        if reg.space == "slot"
    }
    for block in subject.graph.blocks.values():
        for instruction in block.instructions:
            for reg in (*instruction.read_registers(), *instruction.written()):
                if reg.space == "slot" and declared.get(reg.name) != reg.bits:
                    subject.fail(RULE, f"{reg.name} is no slot of the program", block, instruction)
            for reg in instruction.read_registers():
                if reg.space == "slot" and reg.name not in filled and subject.layer.name in reached:
                    subject.fail(RULE, f"no layer fills {reg.name}", block, instruction)


def reached_layers(program: Program) -> set[str]:
    """Layers that packets come to, from the first ones on."""
    reached: set[str] = set()
    waiting = [name for _, name in program.roots if name in program.layers]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for graph in program.layers[name].graphs():
            waiting += [
                i.layer
                for i in graph.instructions()
                if isinstance(i, NextLayer) and i.layer in program.layers
            ]
    return reached
