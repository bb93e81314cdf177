"""Rule: operands have the kind that their instruction needs (number, bytes, position), and a valid width."""

from __future__ import annotations

from functools import cache
from typing import Any

from sluice.ir.expression import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    MASK,
    STORED,
    Binary,
    Const,
    Crc,
    Expr,
    Flip,
    Length,
    Octet,
    Reg,
    Slice,
    Sum,
    is_bit,
    is_bytes,
)
from sluice.ir.instruction import Assign, Call, Instruction, Load, LoadBytes, LoadVarint, RecallKey
from sluice.ir.verify.subject import Subject

RULE = "kinds"

SPACES = ("header", "v", "temp", "local", "mark", *STORED, "slot")
OPERATORS = frozenset(ARITHMETIC + COMPARISONS + LOGICAL)

# Operands that are bytes, not numbers.
BYTES = {
    ("LoadBytes", "target"),
    ("Payload", "target"),
    ("OverlapSeq", "new"),
    ("OverlapSeq", "old"),
    ("OverlapSeq", "data"),
    ("RoomSeq", "data"),
    ("InsertSeq", "data"),
    ("InsertNext", "data"),
    ("ForwardSeq", "data"),
    ("ForwardSeq", "forwarded"),
    ("Assemble", "target"),
    ("Again", "unit"),
    ("Pad", "target"),
    ("Pad", "data"),
    ("NextLayer", "sdu"),
    ("NextMessages", "sdu"),
    ("NextOfSide", "sdu"),
    ("CallNative", "sdu"),
    ("CutMessages", "sdu"),
    ("LookAhead", "sdu"),
    ("NextStateless", "sdu"),
    ("NextDeferring", "sdu"),
    ("NextDispatch", "sdu"),
    ("NextPath", "sdu"),
}
EITHER = {
    ("Assign", "target"),
    ("Assign", "value"),
    ("Lookup", "key"),
    ("Lookup", "reverse"),
    ("Prefetch", "key"),
    ("Prefetch", "reverse"),
    ("Dispatch", "key"),
    ("Dispatch", "reverse"),
    ("PathKey", "key"),
    ("PathKey", "reverse"),
    ("FindAlias", "key"),
    ("AddAlias", "key"),
    ("CreateInst", "key"),
    ("CreateInst", "reverse"),
    ("Call", "values"),
    ("CallNative", "inputs"),
    ("RecallKey", "target"),
}
MARKS = {
    ("Load", "mark"),
    ("LoadBytes", "mark"),
    ("LoadVarint", "mark"),
    ("Mark", "target"),
    ("Mark", "base"),
    ("Payload", "mark"),
    ("Check", "mark"),
    ("CheckWire", "mark"),
}


@cache
def _kinds(kind: type[Instruction]) -> tuple[tuple[str, bool, str], ...]:
    """For every operand with expressions: its name, whether it is a tuple, and its required kind."""
    found: list[tuple[str, bool, str]] = []
    for item in kind.SHAPE.operands:
        if item.role in ("write", "read"):
            place = (kind.__name__, item.name)
            wanted = "a mark" if place in MARKS else "bytes" if place in BYTES else "a number"
            found.append((item.name, item.many, "" if place in EITHER else wanted))
    return tuple(found)


def check(subject: Subject) -> None:
    """Every operand has its kind, and a register has the same width wherever it occurs."""
    widths = {reg.name: reg.bits for reg in subject.graph.parameters}
    for steps in subject.steps.values():
        for block, instruction, written, read in steps:
            problem = _instruction(instruction) or _event(subject, instruction) or _recall(subject, instruction)
            if problem is not None:
                subject.fail(RULE, problem, block, instruction)
            for reg in written + read:
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
    """The error of an instruction considered alone, None if there is none."""
    for name, many, wanted in _kinds(type(instruction)):
        value: Any = getattr(instruction, name)
        items: tuple[Expr, ...] = value if many else (value,)
        for item in items:
            problem = _expression(item)
            if problem is not None:
                return problem
            if wanted == "a mark":
                if not isinstance(item, Reg) or item.space != "mark":
                    return f"operand {name} must be a mark"
            elif wanted and is_bytes(item) != (wanted == "bytes"):
                return f"operand {name} must be {wanted}"
    match instruction:
        case Assign(target, value) if is_bytes(value) != target.is_bytes:
            return f"assigns {'bytes' if is_bytes(value) else 'a number'} to a register of {_kind(target.bits)}"
        case Load():
            return _load(instruction)
        case LoadBytes(_, _, at, _) if at < 0:
            return "loads from before its mark"
        case LoadVarint(_, _, Const(size)) if size not in (1, 2, 4, 8):
            return f"a variable-length integer of {size} bytes, it has 1, 2, 4 or 8"
        case _:
            return None


def _load(load: Load) -> str | None:
    if not 1 <= load.bits <= 64:
        return f"loads {load.bits} bits, it must be 1 to 64"
    if load.at < 0:
        return "loads from before its mark"
    if load.order not in ("big", "little"):
        return f"unknown byte order '{load.order}'"
    if load.order == "little" and (load.at % 8 or load.bits % 8):
        return "a little-endian number must begin and end at a byte"
    return None


def _expression(expression: Expr) -> str | None:
    """The error of an expression, None if there is none."""
    match expression:
        case Const(value):
            return None if 0 <= value <= MASK else f"constant {value} does not fit in 64 bits"
        case Reg(name, bits):
            if expression.space not in SPACES:
                return f"register '{name}' lives nowhere"
            return None if 0 <= bits <= 64 else f"register '{name}' has {bits} bits"
        case Binary(operator, left, right, serial):
            if operator not in OPERATORS:
                return f"unknown operator '{operator}'"
            if not 0 <= serial <= 64:
                return f"serial numbers of {serial} bits"
            if operator in LOGICAL and not (is_bit(left) and is_bit(right)):
                return f"the operands of '{operator}' must be bits"
            return _operands((left, right))
        case Flip(operand, bits):
            if not 1 <= bits <= 64:
                return f"flips {bits} bits, it must be 1 to 64"
            return _operands((operand,))
        case Slice(base, low, high):
            return _operands((low, high), (base,))
        case Length(base, _):
            return _operands((), (base,))
        case Crc(data, _, _):
            return _operands((), (data,))
        case Octet(data, at):
            return _operands((at,), (data,))
        case Sum(data, pseudo):
            return _operands((), (data,)) or next(filter(None, map(_expression, pseudo)), None)


def _operands(numbers: tuple[Expr, ...], pieces: tuple[Expr, ...] = ()) -> str | None:
    """The error of operands of which some must be numbers and others bytes."""
    for item in numbers + pieces:
        problem = _expression(item)
        if problem is not None:
            return problem
    for item in numbers:
        if is_bytes(item):
            return "bytes where a number is needed"
    for item in pieces:
        if not is_bytes(item):
            return "a number where bytes are needed"
    return None


def _recall(subject: Subject, instruction: Instruction) -> str | None:
    """A RecallKey names a part of the key, and a register of the same kind."""
    if not isinstance(instruction, RecallKey) or subject.layer.instance is None:
        return None
    key = subject.layer.instance.key
    if not 0 <= instruction.part < len(key):
        return f"the key has {len(key)} parts, and none has number {instruction.part}"
    if instruction.target.is_bytes != (key[instruction.part].bits > 64):
        return f"part {instruction.part} of the key is {_kind(key[instruction.part].bits % 65)}"
    return None


def _event(subject: Subject, instruction: Instruction) -> str | None:
    """The values of a Call match the declared fields of its event."""
    if not isinstance(instruction, Call):
        return None
    shape = subject.layer.events.get(instruction.event)
    if shape is None:
        return f"the layer has no event '{instruction.event}'"
    if len(shape.fields) != len(instruction.values):
        return f"event '{instruction.event}' has {len(shape.fields)} fields, {len(instruction.values)} are given"
    for (name, bits), value in zip(shape.fields, instruction.values, strict=True):
        if is_bytes(value) != (bits == 0):
            return f"field '{name}' of event '{instruction.event}' is {_kind(bits)}"
    return None
