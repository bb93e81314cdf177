"""Expressions of the IR: pure functions of registers and constants.

Numbers are unsigned, arithmetic is modulo 2^64, and a comparison is 0 or 1. A register with `bits == 0` holds bytes: a
part of the packet or of assembled data, which may have been captured only in part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import is_

MASK = (1 << 64) - 1


@cache
def _space(name: str) -> str:
    """Cached, as passes need it of each register many times."""
    return name.split(".", 1)[0]


ARITHMETIC = ("*", "/", "%", "+", "-", "<<", ">>", "&", "^", "|")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
LOGICAL = ("&&", "||")
"""Operators on bits that evaluate the right operand only if the left one does not decide the value."""


@dataclass(frozen=True, slots=True)
class Const:
    """A number."""

    value: int


@dataclass(frozen=True, slots=True)
class Reg:
    """A register. The word before the first dot of its name is its space, which says where the register is stored:

    header, v, temp, local, mark: with the packet, in this layer. Marks are positions in the unit, in bytes.
    perm, inst: in the instance (the user's fields; the compiler's).
    own, other: one of two fields of the instance, by the packet's side; see `of_side`.
    slot: in the context, where a layer stores values for the layers above.
    """

    name: str
    bits: int

    @property
    def space(self) -> str:
        return _space(self.name)

    @property
    def is_bytes(self) -> bool:
        return self.bits == 0


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`.

    With `serial` bits, + and - wrap at that width, and < <= > >= are those of RFC 1982.
    """

    operator: str
    left: Expr
    right: Expr
    serial: int = 0


@dataclass(frozen=True, slots=True)
class Flip:
    """The complement of `operand` in `bits` bits."""

    operand: Expr
    bits: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes [low, high) of `base`, clipped at its end."""

    base: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Length:
    """The length of bytes on the wire or, with `captured`, the length of the captured part."""

    base: Expr
    captured: bool = False


@dataclass(frozen=True, slots=True)
class Sum:
    """RFC 1071 checksum of `data`, started with the numbers and bytes of `pseudo`. It is also 0 when `data` was cut."""

    data: Expr
    pseudo: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Crc:
    """CRC-32C of `data`, with the bytes from `low` to `high` taken as 0. It is 0 when `data` was cut."""

    data: Expr
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Octet:
    """The byte of `data` at position `at`, counted from 0. It is 0 where no byte was captured."""

    data: Expr
    at: Expr


Expr = Const | Reg | Binary | Flip | Slice | Length | Sum | Crc | Octet

SIDE = Reg("local.side", 1)
"""The side of the packet."""

STORED = ("perm", "inst", "own", "other")
"""Spaces of registers in the instance."""


def of_side(first: Reg, second: Reg, other: bool = False) -> Reg:
    """The field `first` for a packet of side 0 and `second` for one of side 1; with `other`, the other one of them."""
    one, its = (field.name.removeprefix("perm.") for field in (first, second))
    return Reg(f"{'other' if other else 'own'}.{one}#{its}", first.bits)


def fields_of(register: Reg) -> tuple[Reg, Reg] | None:
    """The pair of fields that a register of space own or other is one of; None for other registers."""
    if register.space not in ("own", "other"):
        return None
    first, _, second = register.name.partition(".")[2].partition("#")
    return Reg(f"perm.{first}", register.bits), Reg(f"perm.{second}", register.bits)


NAME = re.compile(r"[^\W\d][\w.*#@]*")
"""The names of registers that the text form writes without quotes."""

ZERO = Const(0)
ONE = Const(1)


def is_bytes(expression: Expr) -> bool:
    """Whether the value is bytes; otherwise it is a number."""
    return isinstance(expression, Slice) or (isinstance(expression, Reg) and expression.is_bytes)


def width(expression: Expr) -> int:
    """An upper bound for the bits of a number expression. `~` flips this many bits."""
    match expression:
        case Const(value):
            return max(1, value.bit_length())
        case Reg(_, bits):
            return bits
        case Flip(_, bits):
            return bits
        case Length():
            return 32
        case Sum():
            return 16
        case Crc():
            return 32
        case Octet():
            return 8
        case Binary(operator, left, right, serial):
            if operator in COMPARISONS or operator in LOGICAL:
                return 1
            if serial and operator in "+-":
                return serial
            if operator in "&|^":
                return max(width(left), width(right))
            if operator in (">>", "%", "/"):
                return width(left)
            if operator == "*" and min(width(left), width(right)) == 1 < max(width(left), width(right)):
                return max(width(left), width(right))
            return 64
        case _:
            return 64


def is_bit(expression: Expr) -> bool:
    """Whether the value is 0 or 1."""
    return not is_bytes(expression) and width(expression) == 1


def children(expression: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    match expression:
        case Binary(_, left, right, _):
            return (left, right)
        case Flip(operand, _):
            return (operand,)
        case Slice(base, low, high):
            return (base, low, high)
        case Length(base, _):
            return (base,)
        case Sum(data, pseudo):
            return (data, *pseudo)
        case Crc(data, _, _):
            return (data,)
        case Octet(data, at):
            return (data, at)
        case _:
            return ()


def operands(expression: Expr, operator: str) -> list[Expr]:
    """The operands of a chain of one non-serial operator, in order. An expression that is no such chain is its only
    operand.
    """
    match expression:
        case Binary(found, left, right, 0) if found == operator:
            return [*operands(left, operator), *operands(right, operator)]
        case _:
            return [expression]


def chain(operator: str, parts: list[Expr]) -> Expr:
    """The chain of an operator over one or more operands."""
    made = parts[0]
    for part in parts[1:]:
        made = Binary(operator, made, part)
    return made


def registers(expression: Expr) -> tuple[Reg, ...]:
    """All registers that the expression reads, with repetitions."""
    if isinstance(expression, Const):
        return ()
    if isinstance(expression, Reg):
        return (expression,)
    if isinstance(expression, Binary):
        return registers(expression.left) + registers(expression.right)
    found: tuple[Reg, ...] = ()
    for child in children(expression):
        found += registers(child)
    return found


def rewrite(expression: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to every node, operands first.

    An expression without a change stays the same object, so that callers can test for a change by identity.
    """
    if isinstance(expression, (Const, Reg)):
        return change(expression)
    return change(with_children(expression, lambda child: rewrite(child, change)))


def with_children(expression: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to its operands. Returns the same object when none changes."""
    match expression:
        case Const() | Reg():
            pass
        case Binary(operator, left, right, serial):
            new_left, new_right = change(left), change(right)
            if new_left is not left or new_right is not right:
                return Binary(operator, new_left, new_right, serial)
        case Flip(operand, bits):
            new = change(operand)
            if new is not operand:
                return Flip(new, bits)
        case Slice(base, low, high):
            new, new_low, new_high = change(base), change(low), change(high)
            if new is not base or new_low is not low or new_high is not high:
                return Slice(new, new_low, new_high)
        case Length(base, captured):
            new = change(base)
            if new is not base:
                return Length(new, captured)
        case Sum(data, pseudo):
            new, items = change(data), tuple(map(change, pseudo))
            if new is not data or not all(map(is_, items, pseudo)):
                return Sum(new, items)
        case Crc(data, low, high):
            new = change(data)
            if new is not data:
                return Crc(new, low, high)
        case Octet(data, at):
            new, new_at = change(data), change(at)
            if new is not data or new_at is not at:
                return Octet(new, new_at)
    return expression


def calculate(operator: str, left: int, right: int, serial: int = 0) -> int:
    """The value of a binary operator on numbers: the one definition for the interpreter and for constant folding."""
    if serial and operator in ("<", "<=", ">", ">="):
        if left == right:
            return int(operator in ("<=", ">="))
        if operator in (">", ">="):
            left, right = right, left
        distance = (right - left) & ((1 << serial) - 1)
        return int(0 < distance < 1 << (serial - 1))
    match operator:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case "/":
            result = left // right if right else 0
        case "%":
            result = left % right if right else 0
        case "<<":
            result = left << right if right < 64 else 0
        case ">>":
            result = left >> right if right < 64 else 0
        case "&":
            result = left & right
        case "|":
            result = left | right
        case "^":
            result = left ^ right
        case "==":
            result = int(left == right)
        case "!=":
            result = int(left != right)
        case "<":
            result = int(left < right)
        case "<=":
            result = int(left <= right)
        case ">":
            result = int(left > right)
        case ">=":
            result = int(left >= right)
        case "&&":
            result = int(left != 0 and right != 0)
        case "||":
            result = int(left != 0 or right != 0)
        case _:
            raise ValueError(f"unknown operator {operator}")
    return result & ((1 << serial) - 1 if serial else MASK)


def quote(text: str) -> str:
    """A string of the text form: in quotes, and always on one line."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in escaped) + "'"


def show(expression: Expr) -> str:
    """The text form, which `sluice.ir.text` parses back."""
    match expression:
        case Const(value):
            return str(value)
        case Reg(name, _):
            return name if NAME.fullmatch(name) else quote(name)
        case Binary(operator, left, right, serial):
            suffix = f".{serial}" if serial else ""
            return f"({show(left)} {operator}{suffix} {show(right)})"
        case Flip(operand, bits):
            return f"flip.{bits}({show(operand)})"
        case Slice(base, low, high):
            end = "" if high == Const(MASK) else show(high)
            return f"{show(base)}[{show(low)}:{end}]"
        case Length(base, captured):
            return f"{'captured' if captured else 'length'}({show(base)})"
        case Sum(data, pseudo):
            return f"sum({', '.join(show(item) for item in (data, *pseudo))})"
        case Crc(data, low, high):
            return f"crc32c({show(data)}, {low}, {high})"
        case Octet(data, at):
            return f"octet({show(data)}, {show(at)})"
