"""Simplifies expressions: folds constants and removes operations without effect.

Every rule preserves the value exactly, modulo 2^64 and for every value of the registers. A rule that holds only for
operands of limited width tests `width`. For serial operators (RFC 1982), only the rules that handle `serial` apply.
"""

from __future__ import annotations

from sluice.ir.expression import (
    COMPARISONS,
    LOGICAL,
    MASK,
    ONE,
    ZERO,
    Binary,
    Const,
    Expr,
    Flip,
    Length,
    Slice,
    calculate,
    is_bit,
    rewrite,
    width,
)

INVERSE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
COMMUTATIVE = ("+", "*", "&", "|", "^")
ORDERED = ("<", "<=", ">", ">=")


def simplify(expression: Expr) -> Expr:
    """The expression in a simpler form, operands first."""
    return rewrite(expression, simplify_node)


def simplify_node(expression: Expr) -> Expr:
    """The expression in a simpler form, given that its operands are simplified."""
    while True:
        simpler = _once(expression)
        if simpler is None:
            return expression
        expression = simpler


def _once(expression: Expr) -> Expr | None:
    match expression:
        case Binary():
            return _binary(expression)
        case Flip():
            return _flip(expression)
        case Slice():
            return _slice(expression)
        case Length(Slice(_, Const(low), Const(high)), _) if low >= high:
            return ZERO
        case _:
            return None


def inverse(expression: Expr) -> Expr | None:
    """The expression that is 1 where a comparison is 0. Serial < and >= can both be 0, so they have no inverse."""
    match expression:
        case Binary(operator, left, right, serial) if operator in COMPARISONS:
            if serial and operator in ORDERED:
                return None
            return Binary(INVERSE[operator], left, right, serial)
        case _:
            return None


def _binary(expression: Binary) -> Expr | None:
    operator, left, right, serial = expression.operator, expression.left, expression.right, expression.serial
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(calculate(operator, left.value, right.value, serial))
    if isinstance(left, Const):
        if operator in COMMUTATIVE:
            return Binary(operator, right, left, serial)
        if operator in COMPARISONS:
            return Binary(MIRROR[operator], right, left, serial)
    if operator in COMPARISONS:
        return _comparison(operator, left, right, serial)
    found = _same_operands(operator, left, right)
    if found is None and isinstance(right, Const):
        found = _by_constant(operator, left, right.value)
    if found is None and isinstance(left, Const) and left.value == 0 and operator in ("/", "%", "<<", ">>"):
        found = ZERO
    if found is not None:
        # a serial operator also cuts its result to the width
        return found if not serial or width(found) <= serial else None
    return _chain(operator, left, right, serial)


def _same_operands(operator: str, left: Expr, right: Expr) -> Expr | None:
    if left != right:
        return None
    if operator in ("-", "^"):
        return ZERO
    return left if operator in ("&", "|") or (operator in LOGICAL and is_bit(left)) else None


def _by_constant(operator: str, left: Expr, value: int) -> Expr | None:
    """Simplifies `left operator value` for the constants that allow it."""
    if operator in LOGICAL:
        if (value != 0) == (operator == "||"):
            return Const(int(operator == "||"))
        return left if is_bit(left) else None
    if value == 0:
        if operator in ("+", "-", "|", "^", "<<", ">>"):
            return left
        return ZERO  # * and &; / and % by 0 are 0 by definition
    if value == 1 and operator in ("*", "/"):
        return left
    if value == 1 and operator == "%":
        return ZERO
    if operator in ("&", "|") and _covers(value, width(left)):
        return left if operator == "&" else Const(value)
    if operator == ">>" and value >= width(left):
        return ZERO
    if operator == "<<" and value >= 64:
        return ZERO
    return None


def _covers(mask: int, bits: int) -> bool:
    """Whether the low `bits` bits of the mask are all set."""
    low = (1 << bits) - 1
    return mask & low == low


def _chain(operator: str, left: Expr, right: Expr, serial: int) -> Expr | None:
    """(x op a) op b with constants becomes x op (a op b)."""
    match left, right:
        case Binary(inner, base, Const(first), known), Const(second) if inner == operator and known == serial:
            if operator in ("+", "&", "|", "^", "*"):
                return Binary(operator, base, Const(calculate(operator, first, second, serial)), serial)
            if operator in ("<<", ">>") and not serial:
                return Binary(operator, base, Const(first + second)) if first + second < 64 else ZERO
        case _:
            pass
    return None


def _comparison(operator: str, left: Expr, right: Expr, serial: int) -> Expr | None:
    if left == right:
        return ONE if operator in ("==", "<=", ">=") else ZERO
    if not isinstance(right, Const) or (serial and operator in ORDERED):
        return None
    value = right.value
    if value > (1 << width(left)) - 1:
        return ONE if operator in ("!=", "<", "<=") else ZERO
    if value == (1 << width(left)) - 1 and operator in ("<=", ">"):
        return ONE if operator == "<=" else ZERO
    if value == 0 and operator in ("<", ">="):
        return ZERO if operator == "<" else ONE
    if value == 0 and operator in (">", "<="):
        return Binary("!=" if operator == ">" else "==", left, right)
    if is_bit(left) and operator in ("==", "!="):
        return left if (operator == "==") == (value == 1) else Flip(left, 1)
    return None


def _flip(expression: Flip) -> Expr | None:
    operand, bits = expression.operand, expression.bits
    match operand:
        case Const(value):
            return Const(~value & ((1 << bits) - 1))
        case Flip(inner, known) if known == bits and width(inner) <= bits:
            return inner
        case _:
            return inverse(operand) if bits == 1 else None


def _slice(expression: Slice) -> Expr | None:
    match expression:
        case Slice(base, Const(0), Const(high)) if high == MASK:
            return base
        case Slice(Slice(base, Const(first), Const(last)), Const(low), Const(high)) if first <= last:
            # The inner slice may end before `last`, but only at the end of its base, where the outer slice is clipped
            # too.
            return Slice(base, Const(min(first + low, last)), Const(min(first + high, last)))
        case _:
            return None
