"""Expressions that probably do not mean what they say: an error if they cannot be intended, otherwise a warning.

There are two kinds. In Python `&`, `|` and `^` bind more tightly than comparisons, so `x == 6 & (y == 3)` compares x
with `6 & (y == 3)`. And a condition may compare a field with a value that it cannot have, such as 256 in eight bits.
"""

from __future__ import annotations

from sluice.lang.errors import DescriptionError
from sluice.lang.expression import (
    BYTES,
    Below,
    Binary,
    Checksum,
    Crc,
    Expression,
    Invert,
    Number,
    Octet,
    Property,
)
from sluice.lang.field_value import Contains, FieldValue
from sluice.lang.layout import Field
from sluice.lang.prototype import Prototype
from sluice.lang.psm import Taken

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
BITWISE = ("&", "|", "^")
ANY = (1 << 64) - 1
"""The upper bound of a number without further information."""

OF_PACKET = ("cursor", "payload", "payload_len", "unit", "sdu", "created")
"""Properties of the current packet."""

_YES_OR_NO = ("to_active", "to_passive", "created")
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""For each comparison, the one with exchanged sides."""


def doubt(expression: Expression) -> str | None:
    """The probable mistake in an expression itself (not in its operands), None if there is none.

    Raises DescriptionError, at the line of the expression, for an expression that cannot be intended.
    """
    if not isinstance(expression, Binary):
        return None
    sign, left, right = expression.operator, expression.left, expression.right
    if sign in BITWISE:
        for one, other in ((left, right), (right, left)):
            _refuse_constant(expression, one, other)
            if sign == "&" and _truth(one) and _is_name(other) and greatest(other) > 1:
                return "'&' of a comparison and a number keeps the number's lowest bit; compare the number too."
    elif sign in COMPARISONS:
        return _compared(sign, left, right) or _bound_tightly(sign, left) or _bound_tightly(sign, right)
    elif sign in ("<<", ">>") and isinstance(right, Number) and right.value >= 64:
        return f"a shift by {right.written} gives 0; shift by 0 to 63."
    elif sign in ("/", "%") and isinstance(right, Number) and right.value == 0:
        return f"'{'//' if sign == '/' else sign}' by 0 gives 0; divide by another number."
    return None


def without_packet(item: Expression, p: Prototype, causes: set[str]) -> str | None:
    """The probable mistake of an event that reads a value of a packet and happens with event `end` or `lost`.

    causes: the built-in events with which it happens.
    """
    cause = next((name for name in ("end", "lost") if name in causes), None)
    if cause is None:
        return None
    match item:
        case FieldValue() if item.owner.prototype is p and item.group in ("header", "temp"):
            name = f"{item.group}.{item.field.name}"
        case Field() if item.layout is p.temp_layout is not None:
            name = f"temp.{item.name}"
        case Field() if p.format is not None and item.layout in list(p.format.layouts()):
            name = f"header.{item.name}"
        case Property() if item.owner.prototype is p and item.name in OF_PACKET:
            name = item.name
        case Below():
            name = f"below.{item.name}"
        case _:
            return None
    empty = "empty" if item.kind == BYTES else "0"
    return f"'{name}' is {empty} in event '{cause}', which has no packet; keep the value in a field of p.perm."


def greatest(expression: Expression) -> int:
    """An upper bound of a number, as far as the form of the expression shows it."""
    if _truth(expression):
        return 1
    match expression:
        case Number():
            return expression.value
        case Field():
            return (1 << expression.width) - 1 if isinstance(expression.bits, int) and expression.bits <= 64 else ANY
        case FieldValue():
            return greatest(expression.field)
        case Checksum():
            return 0xFFFF
        case Crc():
            return 0xFFFFFFFF
        case Octet():
            return 0xFF
        case Invert():
            return ANY if not _is_name(expression.operand) else greatest(expression.operand)
        case Binary():
            return _greatest_result(expression.operator, greatest(expression.left), greatest(expression.right))
        case _:
            return ANY


def _greatest_result(sign: str, left: int, right: int) -> int:
    match sign:
        case "&":
            return min(left, right)
        case "|" | "^":
            return (1 << max(left.bit_length(), right.bit_length())) - 1
        case "+":
            most = left + right
        case "*":
            most = left * right
        case "/" | ">>":
            most = left
        case "%":
            most = min(left, max(right - 1, 0))
        case _:
            most = ANY
    return min(most, ANY)


def _truth(expression: Expression) -> bool:
    """Whether the expression is a truth value, rather than a number that can also be 1."""
    match expression:
        case Contains() | Taken():
            return True
        case Property():
            return expression.name in _YES_OR_NO
        case Invert():
            return _truth(expression.operand)
        case Binary():
            if expression.operator in COMPARISONS:
                return True
            return expression.operator in BITWISE and _truth(expression.left) and _truth(expression.right)
        case _:
            return False


def _is_name(expression: Expression) -> bool:
    return isinstance(expression, (Field, FieldValue, Property))


def _is_bit(expression: Expression) -> bool:
    return _truth(expression) or (isinstance(expression, (Field, FieldValue)) and greatest(expression) == 1)


def _refuse_constant(expression: Binary, one: Expression, other: Expression) -> None:
    """A constant next to a bit: `x == 6 & (y == 3)`, or `x == 80 & p.header.syn`, which would never hold."""
    if not isinstance(one, Number) or one.value <= 1:
        return
    sign = expression.operator
    if _truth(other) or (sign == "&" and _is_bit(other)):
        what = "a comparison, or another single bit" if _truth(other) else "a field of one bit"
        raise DescriptionError(
            f"'{sign}' of {one.written} and {what}",
            f"'{sign}' binds more tightly than comparisons: write (x == {one.written}) {sign} ..., with each "
            "comparison in parentheses.",
            expression.where,
        )


def _bound_tightly(sign: str, side: Expression) -> str | None:
    """`x == y | (z == 1)`, which compares x with `y | (z == 1)`."""
    if not isinstance(side, Binary) or side.operator not in BITWISE:
        return None
    for one, other in ((side.left, side.right), (side.right, side.left)):
        constant = isinstance(one, Number) and one.value > 1 and _is_bit(other)
        if constant or (_is_name(one) and not _is_bit(one) and _truth(other)):
            return (
                f"'{sign}' compares with all of what '{side.operator}' joins, as that binds more tightly; "
                "put each comparison in parentheses."
            )
    return None


def _compared(sign: str, left: Expression, right: Expression) -> str | None:
    """A comparison with a constant that the other side cannot reach."""
    if isinstance(left, Number) == isinstance(right, Number):
        return None
    if isinstance(left, Number):
        left, right, sign = right, left, _TURNED[sign]
    assert isinstance(right, Number)
    if sign not in ("==", "!=") and _serial(left):
        return None
    most = greatest(left)
    if right.written < 0 and (sign not in ("==", "!=") or most < right.value):
        return f"a comparison with {right.written}: numbers are not negative, they count modulo 2^64."
    fits = f"the greatest number on the other side is {most}."
    if _never(sign, right.value, most):
        reason = "no number is less than 0." if sign == "<" else fits
        return f"a comparison with {right.written} ('{sign}') never holds; {reason}"
    if right.value > most:
        return f"a comparison with {right.written} ('{sign}') always holds; {fits}"
    return None


def _never(sign: str, constant: int, most: int) -> bool:
    """Whether the comparison with the constant holds for no number from 0 to `most`."""
    match sign:
        case "==" | ">=":
            return constant > most
        case ">":
            return constant >= most
        case "<":
            return constant == 0
        case _:
            return False


def _serial(expression: Expression) -> bool:
    """Whether the expression is compared by RFC 1982, where a negative number is an earlier one."""
    match expression:
        case Field():
            return expression.serial
        case FieldValue():
            return expression.field.serial
        case Binary():
            return expression.operator in ("+", "-") and (_serial(expression.left) or _serial(expression.right))
        case _:
            return False
