"""Operands are of the kind that their instruction works on: numbers, bytes, positions, of possible widths."""

from __future__ import annotations

from sluice.ir.expression import (
    ARITHMETIC,
    COMPARISONS,
    MASK,
    Binary,
    Const,
    Expr,
    Flip,
    Length,
    Reg,
    Slice,
    Sum,
    is_bytes,
)
from sluice.ir.instruction import Assign, Call, Instruction, Load, LoadBytes
from sluice.ir.verify.subject import Subject

RULE = "kinds"

SPACES = ("header", "v", "temp", "local", "mark", "perm", "inst", "slot")

# Operands that are not numbers.
BYTES = {
    ("LoadBytes", "target"),
    ("Payload", "target"),
    ("OverlapSeq", "new"),
    ("OverlapSeq", "old"),
    ("OverlapSeq", "data"),
    ("RoomSeq", "data"),
    ("InsertSeq", "data"),
    ("Assemble", "target"),
    ("NextLayer", "sdu"),
}
EITHER = {
    ("Assign", "target"),
    ("Assign", "value"),
    ("Lookup", "key"),
    ("Lookup", "reverse"),
    ("CreateInst", "key"),
    ("CreateInst", "reverse"),
    ("Call", "values"),
}
MARKS = {
    ("Load", "mark"),
    ("LoadBytes", "mark"),
    ("Mark", "target"),
    ("Mark", "base"),
    ("Payload", "mark"),
    ("Check", "mark"),
    ("CheckWire", "mark"),
}


def check(subject: Subject) -> None:
    """Every operand is of its kind, and a register has one width wherever it occurs."""
    widths = {reg.name: reg.bits for reg in subject.graph.parameters}
    for block in subject.graph.blocks.values():
        for instruction in block.instructions:
            problem = _instruction(instruction) or _event(subject, instruction)
            if problem is not None:
                subject.fail(RULE, problem, block, instruction)
            for reg in (*instruction.written(), *instruction.read_registers()):
                if widths.setdefault(reg.name, reg.bits) != reg.bits:
                    subject.fail(
                        RULE,
                        f"{reg.name} is {_kind(reg.bits)} here and {_kind(widths[reg.name])} elsewhere",
                        block,
                        instruction,
                    )


def _kind(bits: int) -> str:
    return f"of {bits} bits" if bits else "bytes"


def _instruction(instruction: Instruction) -> str | None:
    """What is wrong with an instruction by itself."""
    title = instruction.__class__.__name__
    for name, role in instruction.operands():
        if role == "plain":
            continue
        items = operand_items(instruction, name)
        for item in items:
            problem = _expression(item)
            if problem is not None:
                return problem
            place = (title, name)
            if place in MARKS:
                if not isinstance(item, Reg) or item.space != "mark":
                    return f"operand {name} must be a mark"
            elif place not in EITHER and is_bytes(item) != (place in BYTES):
                return f"operand {name} must be {'bytes' if place in BYTES else 'a number'}"
    match instruction:
        case Assign(target, value) if is_bytes(value) != target.is_bytes:
            return (
                f"assigns {'bytes' if is_bytes(value) else 'a number'} to a register of {_kind(target.bits)}"
            )
        case Load(_, _, at, bits, order):
            if not 1 <= bits <= 64:
                return f"loads {bits} bits, it must be 1 to 64"
            if at < 0:
                return "loads from before its mark"
            if order not in ("big", "little"):
                return f"unknown byte order '{order}'"
            if order == "little" and (at % 8 or bits % 8):
                return "a little-endian number must begin and end at a byte"
        case LoadBytes(_, _, at, _) if at < 0:
            return "loads from before its mark"
        case _:
            pass
    return None


def operand_items(instruction: Instruction, name: str) -> tuple[Expr, ...]:
    """The expressions of an operand, one or several."""
    value: Expr | tuple[Expr, ...] = getattr(instruction, name)
    return value if isinstance(value, tuple) else (value,)


def _expression(expression: Expr) -> str | None:
    """What is wrong with an expression."""
    numbers: tuple[Expr, ...] = ()
    pieces: tuple[Expr, ...] = ()
    others: tuple[Expr, ...] = ()
    match expression:
        case Const(value):
            return None if 0 <= value <= MASK else f"constant {value} does not fit in 64 bits"
        case Reg(name, bits):
            if expression.space not in SPACES:
                return f"register '{name}' lives nowhere"
            return None if 0 <= bits <= 64 else f"register '{name}' has {bits} bits"
        case Binary(operator, left, right, serial):
            if operator not in ARITHMETIC and operator not in COMPARISONS:
                return f"unknown operator '{operator}'"
            if not 0 <= serial <= 64:
                return f"serial numbers of {serial} bits"
            numbers = (left, right)
        case Flip(operand, bits):
            if not 1 <= bits <= 64:
                return f"flips {bits} bits, it must be 1 to 64"
            numbers = (operand,)
        case Slice(base, low, high):
            pieces, numbers = (base,), (low, high)
        case Length(base, _):
            pieces = (base,)
        case Sum(data, pseudo):
            pieces, others = (data,), pseudo
    for item in (*numbers, *pieces, *others):
        problem = _expression(item)
        if problem is not None:
            return problem
    if any(is_bytes(item) for item in numbers):
        return "bytes where a number is needed"
    if not all(is_bytes(item) for item in pieces):
        return "a number where bytes are needed"
    return None


def _event(subject: Subject, instruction: Instruction) -> str | None:
    """A Call hands over what its event is declared to bring."""
    if not isinstance(instruction, Call):
        return None
    shape = subject.layer.events.get(instruction.event)
    if shape is None:
        return f"the layer has no event '{instruction.event}'"
    if len(shape.fields) != len(instruction.values):
        return (
            f"event '{instruction.event}' has {len(shape.fields)} fields, {len(instruction.values)} are given"
        )
    for (name, bits), value in zip(shape.fields, instruction.values, strict=True):
        if is_bytes(value) != (bits == 0):
            return f"field '{name}' of event '{instruction.event}' is {_kind(bits)}"
    return None
