"""Expressions of the IR as Python closures over a frame, with the meaning that `calculate` gives them."""

from __future__ import annotations

import operator as python
from collections.abc import Callable

from sluice.ir.expression import (
    MASK,
    SIDE,
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
    calculate,
    fields_of,
    is_bytes,
)
from sluice.ir.interpreter.frame import Frame, Number, Operation, String
from sluice.ir.interpreter.value import Bytes, InterpreterError, checksum, clip, folded_sum

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": python.eq,
    "!=": python.ne,
    "<": python.lt,
    "<=": python.le,
    ">": python.gt,
    ">=": python.ge,
}


def number(expression: Expr) -> Number:
    """How to compute an expression that is a number."""
    match expression:
        case Const(value):
            return lambda frame: value
        case Reg():
            return _number_register(expression)
        case Binary():
            return _binary(expression)
        case Flip(operand, bits):
            inner, mask = number(operand), (1 << bits) - 1
            return lambda frame: ~inner(frame) & mask
        case Length(base, captured):
            whole = string(base)
            if captured:
                return lambda frame: len(whole(frame)[0])
            return lambda frame: whole(frame)[1]
        case Sum(data, pseudo):
            return _sum(data, pseudo)
        case Crc(data, low, high):
            return _crc(data, low, high)
        case Octet(data, at):
            return _octet(data, at)
        case Slice():
            raise InterpreterError("bytes where a number is needed")


def string(expression: Expr) -> String:
    """How to compute an expression that is bytes."""
    match expression:
        case Reg(name, 0):
            if expression.space == "slot":
                return lambda frame: frame.context.strings[name]
            return lambda frame: frame.strings[name]
        case Slice(base, low, high):
            whole, first, last = string(base), number(low), number(high)
            return lambda frame: clip(whole(frame), first(frame), last(frame))
        case _:
            raise InterpreterError("a number where bytes are needed")


def value(expression: Expr) -> Callable[[Frame], int | Bytes]:
    """How to compute an expression of either kind."""
    return string(expression) if is_bytes(expression) else number(expression)


def _number_register(register: Reg) -> Number:
    name = register.name
    match register.space:
        case "perm" | "inst":
            return lambda frame: frame.fields[name]
        case "own" | "other":
            names = _by_side(register)
            return lambda frame: frame.fields[names[frame.numbers[SIDE.name]]]
        case "slot":
            return lambda frame: frame.context.numbers[name]
        case _:
            return lambda frame: frame.numbers[name]


def _by_side(register: Reg) -> tuple[str, str]:
    """The names of the fields that a register of space own or other is, by the side of the packet."""
    pair = fields_of(register)
    assert pair is not None
    first, second = pair if register.space == "own" else pair[::-1]
    return first.name, second.name


def _binary(expression: Binary) -> Number:
    operator, serial = expression.operator, expression.serial
    left, right = number(expression.left), number(expression.right)
    if operator in ("+", "-", "*", "&", "|", "^"):
        mask = (1 << serial) - 1 if serial else MASK
        if operator == "+":
            return lambda frame: (left(frame) + right(frame)) & mask
        if operator == "-":
            return lambda frame: (left(frame) - right(frame)) & mask
        if operator == "*":
            return lambda frame: (left(frame) * right(frame)) & mask
        if operator == "&":
            return lambda frame: left(frame) & right(frame) & mask
        if operator == "|":
            return lambda frame: (left(frame) | right(frame)) & mask
        return lambda frame: (left(frame) ^ right(frame)) & mask
    if operator == "&&":
        return lambda frame: 1 if left(frame) and right(frame) else 0
    if operator == "||":
        return lambda frame: 1 if left(frame) or right(frame) else 0
    if operator in _COMPARE and not serial:
        apply = _COMPARE[operator]
        if isinstance(expression.right, Const):
            constant = expression.right.value
            return lambda frame: 1 if apply(left(frame), constant) else 0
        return lambda frame: 1 if apply(left(frame), right(frame)) else 0
    return lambda frame: calculate(operator, left(frame), right(frame), serial)


def _sum(data: Expr, pseudo: tuple[Expr, ...]) -> Number:
    whole = string(data)
    numbers = [number(item) for item in pseudo if not is_bytes(item)]
    strings = [string(item) for item in pseudo if is_bytes(item)]

    def compute(frame: Frame) -> int:
        begun = sum(item(frame) for item in numbers) + sum(folded_sum(item(frame)[0]) for item in strings)
        return checksum(whole(frame), begun)

    return compute


def _octet(data: Expr, at: Expr) -> Number:
    whole, position = string(data), number(at)

    def compute(frame: Frame) -> int:
        captured, place = whole(frame)[0], position(frame)
        return captured[place] if place < len(captured) else 0

    return compute


# --- setting registers ------------------------------------------------------------------------------------


def set_number(register: Reg) -> Callable[[Frame, int], None]:
    """How to set a register that holds a number; it keeps the low bits."""
    name, mask = register.name, (1 << register.bits) - 1

    def field(frame: Frame, value: int) -> None:
        frame.fields[name] = value & mask

    def slot(frame: Frame, value: int) -> None:
        frame.context.numbers[name] = value & mask

    def plain(frame: Frame, value: int) -> None:
        frame.numbers[name] = value & mask

    match register.space:
        case "perm" | "inst":
            return field
        case "own" | "other":
            names = _by_side(register)

            def of_side(frame: Frame, value: int) -> None:
                frame.fields[names[frame.numbers[SIDE.name]]] = value & mask

            return of_side
        case "slot":
            return slot
        case _:
            return plain


def set_string(register: Reg) -> Callable[[Frame, Bytes], None]:
    """How to set a register that holds bytes."""
    name = register.name

    def slot(frame: Frame, value: Bytes) -> None:
        frame.context.strings[name] = value

    def plain(frame: Frame, value: Bytes) -> None:
        frame.strings[name] = value

    return slot if register.space == "slot" else plain


def unset(register: Reg) -> Operation:
    """How to make a register of the frame undefined again."""
    name = register.name
    if register.is_bytes:
        return lambda frame: _drop(frame.strings, name)
    return lambda frame: _drop(frame.numbers, name)


def _drop(registers: dict[str, int] | dict[str, Bytes], name: str) -> None:
    registers.pop(name, None)


def assign(register: Reg, expression: Expr) -> Operation:
    """How to assign an expression to a register."""
    name = register.name
    if register.is_bytes:
        text, put = string(expression), set_string(register)
        return lambda frame: put(frame, text(frame))
    compute, mask = number(expression), (1 << register.bits) - 1
    if register.space not in (*STORED, "slot"):

        def plain(frame: Frame) -> None:
            frame.numbers[name] = compute(frame) & mask

        return plain
    store = set_number(register)
    return lambda frame: store(frame, compute(frame))


def _crc_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


_CRC = [_crc_byte(byte) for byte in range(256)]


def _crc(data: Expr, low: int, high: int) -> Number:
    whole = string(data)

    def compute(frame: Frame) -> int:
        given, length = whole(frame)
        if len(given) < length:
            return 0
        crc = 0xFFFFFFFF
        for at, byte in enumerate(given):
            crc = crc >> 8 ^ _CRC[(crc ^ (0 if low <= at < high else byte)) & 0xFF]
        return crc ^ 0xFFFFFFFF

    return compute
