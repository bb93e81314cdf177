"""Rule: an instance exists wherever it is used, and it has the fields that are used.

The dataflow fact is whether there is an instance. A lookup may have found one, which a branch on its `found` decides.
After a creation there is one; after EndInst or DestroyInst there is none. Drain and end graphs start with their
instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sluice.ir.dataflow import forward
from sluice.ir.expression import STORED, Binary, Const, Expr, Flip, Reg, fields_of
from sluice.ir.graph import OF_EVERY_INSTANCE, Block, Graph
from sluice.ir.graph_kinds import KINDS
from sluice.ir.instruction import (
    AddAlias,
    Branch,
    CreateInst,
    DestroyInst,
    EndInst,
    FindAlias,
    FreshInst,
    Instruction,
    Lookup,
    Prefetch,
)
from sluice.ir.verify.subject import Subject

RULE = "instance"

BEGIN = (Lookup, FindAlias, CreateInst, FreshInst)
"""Instructions after which there may be an instance."""


@dataclass(frozen=True)
class Presence:
    """Whether there is an instance. With `found`, there is one if and only if that register is not 0."""

    state: str
    found: str = ""


ABSENT = Presence("there is none")
PRESENT = Presence("present")
MAYBE = Presence("on some paths there is none")


def check(subject: Subject) -> None:
    """Refuses the use of an instance that may not exist, and of fields that it does not have."""
    _layout(subject)
    start = PRESENT if KINDS[subject.kind].has_instance else ABSENT
    facts = forward(subject.graph, start, _flow, _meet)
    for name, known in facts.items():
        for block, instruction, written, read in subject.steps[name]:
            if known is not PRESENT:
                what = _uses(instruction, read + written)
                if what is not None:
                    state = "the look-up may not have found one" if known.found else known.state
                    subject.fail(RULE, f"{what} needs an instance, and {state}", block, instruction)
            known = _step(instruction, known)


def is_present(graph: Graph, name: str, at: int) -> bool:
    """Whether there is an instance on every path to instruction number `at` of block `name` of a main graph."""
    known = forward(graph, ABSENT, _flow, _meet).get(name, ABSENT)
    for instruction in graph.blocks[name].instructions[:at]:
        known = _step(instruction, known)
    return known is PRESENT


def _uses(instruction: Instruction, registers: tuple[Reg, ...]) -> str | None:
    """The part of an instruction that needs an instance: the instruction, or a register."""
    if instruction.NEEDS_INSTANCE:
        return instruction.__class__.__name__
    for reg in registers:
        if reg.space in STORED:
            return reg.name
    return None


def _step(instruction: Instruction, known: Presence) -> Presence:
    if isinstance(instruction, (Lookup, FindAlias)):
        return Presence("as found", instruction.found.name)
    if isinstance(instruction, BEGIN):
        return PRESENT
    if isinstance(instruction, (EndInst, DestroyInst)):
        return ABSENT
    if known.found and any(reg.name == known.found for reg in instruction.written()):
        return MAYBE
    return known


def _flow(block: Block, known: Presence) -> Iterator[tuple[str, Presence]]:
    for instruction in block.instructions:
        known = _step(instruction, known)
    last = block.terminator
    if isinstance(last, Branch) and known.found:
        tested = asks(last.condition, known.found)
        if tested is not None:
            yield last.yes, PRESENT if tested else ABSENT
            yield last.no, ABSENT if tested else PRESENT
            return
    for target in last.targets():
        yield target, known


def asks(condition: Expr, register: str) -> bool | None:
    """True if the condition holds exactly when the one-bit register is 1, False if exactly when it is 0, None
    otherwise.
    """
    match condition:
        case Reg(name, 1) if name == register:
            return True
        case Flip(operand, 1):
            inner = asks(operand, register)
            return None if inner is None else not inner
        case Binary("==" | "!=" as operator, Reg(name, 1), Const(0 | 1 as value)) if name == register:
            return (operator == "==") == (value == 1)
        case _:
            return None


def _meet(left: Presence, right: Presence) -> Presence:
    return left if left == right else MAYBE


def _layout(subject: Subject) -> None:
    """The layer has instances, and keys and fields are used as its layout declares them."""
    layout = subject.layer.instance
    fields: dict[str, int] = {}
    if layout is not None:
        fields = {reg.name: reg.bits for reg in (*OF_EVERY_INSTANCE, *(reg for reg, _ in layout.fields))}
    for steps in subject.steps.values():
        for block, instruction, written, read in steps:
            if layout is None and (instruction.NEEDS_INSTANCE or isinstance(instruction, (*BEGIN, Prefetch))):
                subject.fail(RULE, "the layer keeps no instances", block, instruction)
            for reg in written:
                if reg in OF_EVERY_INSTANCE:
                    subject.fail(RULE, f"{reg.name} is not for instructions to write", block, instruction)
            for reg in read + written:
                stored = (fields_of(reg) or (reg,)) if reg.space in STORED else ()
                if any(fields.get(each.name) != each.bits for each in stored):
                    subject.fail(RULE, f"{reg.name} is no field of the layer's instance", block, instruction)
            if layout is not None and isinstance(instruction, (Lookup, CreateInst, Prefetch)):
                parts = len(layout.key)
                if len(instruction.key) != parts or len(instruction.reverse) != (parts if layout.oriented else 0):
                    subject.fail(RULE, f"the key must have {parts} parts as in the layer's table", block, instruction)
            if isinstance(instruction, FindAlias) and layout is not None:
                if instruction.aliases not in (layout.aliases, layout.more_keys):
                    subject.fail(
                        RULE, f"{instruction.aliases} has no keys of the layer's instances", block, instruction
                    )
            if isinstance(instruction, (AddAlias, FindAlias)):
                parts = len(subject.whole.aliases.get(instruction.aliases, ()))
                if len(instruction.key) != parts:
                    subject.fail(RULE, f"{instruction.aliases} has keys of {parts} parts", block, instruction)
