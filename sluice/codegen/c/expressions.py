"""Expressions of the IR as C: 64-bit unsigned arithmetic, with parentheses where C's precedence needs them."""

from __future__ import annotations

from collections.abc import Callable

from sluice.codegen.c.names import member, pair_member, storage, variable
from sluice.ir.expression import (
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
    children,
    fields_of,
    is_bytes,
    operands,
    width,
)
from sluice.ir.instruction import Assign

# C precedence, higher binds tighter; an operand of lower precedence is put into parentheses. Compilers warn about
# mixes of & | ^ << with each other and with + without parentheses, so these never count as tighter than each other.
_PRECEDENCE = {
    "*": 10,
    "/": 10,
    "%": 10,
    "+": 9,
    "-": 9,
    "<<": 8,
    ">>": 8,
    "<": 7,
    "<=": 7,
    ">": 7,
    ">=": 7,
    "==": 6,
    "!=": 6,
}
_BITWISE = {"&": 5, "^": 4, "|": 3}
_LOGICAL = {"&&": 2, "||": 1}
_ATOM = 20


def place(register: Reg) -> str:
    """The C text of a register's storage."""
    if (pair := fields_of(register)) is not None:
        return f"inst->{pair_member(pair[0])}[side{' ^ 1' if register.space == 'other' else ''}]"
    if register.space in ("perm", "inst"):
        return f"inst->{member(register)}"
    if register.space == "slot":
        return f"slots->{member(register)}"
    return variable(register)


def number(value: int) -> str:
    """A constant."""
    if value <= 0x7FFFFFFF:
        return str(value)
    return f"UINT64_C({value:#x})"


def emit(expression: Expr) -> str:
    """The C text of an expression."""
    return _emit(expression)[0]


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def negated(expression: Expr) -> str:
    """The C text of the condition that an expression is 0."""
    match expression:
        case Flip(operand, 1) if width(operand) == 1:
            return emit(operand)
        case Binary(operator, left, right, 0) if operator in _OPPOSITE:
            return emit(Binary(_OPPOSITE[operator], left, right))
        case _:
            return f"!{inside(expression, 14)}"


def operand(expression: Expr) -> str:
    """The same, for use next to an operator or a cast."""
    text = emit(expression)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def as_arguments(expression: Expr, call: Callable[[str], str]) -> list[str]:
    """Statements that pass bytes to a call as three arguments. `call`: gives the call for their text."""
    text = emit(expression)
    if text.isidentifier():
        return [call(f"{text}.at, {text}.captured, {text}.length")]
    return ["{", f"    sl_bytes sdu = {text};", f"    {call('sdu.at, sdu.captured, sdu.length')}", "}"]


def _emit(expression: Expr) -> tuple[str, int]:
    match expression:
        case Const(value):
            return number(value), _ATOM
        case Reg():
            text = place(expression)
            if expression.space in STORED or (expression.space == "slot" and not expression.is_bytes):
                return f"(uint64_t){text}", 15
            return text, _ATOM
        case Flip(operand, bits):
            if bits == 1 and width(operand) == 1:
                return f"!{inside(operand, 14)}", 11  # below a cast: compilers warn about !a & b
            mask = (1 << bits) - 1
            if width(operand) == 1 and _narrow(operand):  # compilers warn about ~(a == b)
                return f"(UINT64_C({mask:#x}) ^ {inside(operand, 12)})", _ATOM
            return f"(~{inside(operand, 14)} & {number(mask)})", _ATOM
        case Slice(base, low, high):
            if high == Const(MASK):
                return f"sl_bytes_after({emit(base)}, {emit(low)})", _ATOM
            return f"sl_bytes_slice({emit(base)}, {emit(low)}, {emit(high)})", _ATOM
        case Length(base, captured):
            return f"(uint64_t){inside(base, _ATOM)}.{'captured' if captured else 'length'}", 15
        case Sum(data, pseudo):
            parts = [f"sl_checksum_part({emit(item)})" if is_bytes(item) else inside(item, 9) for item in pseudo]
            return f"sl_checksum({emit(data)}, {' + '.join(parts) if parts else '0'})", _ATOM
        case Crc(data, low, high):
            return f"sl_crc32c({emit(data)}, {low}, {high})", _ATOM
        case Octet(data, at):
            return f"sl_bytes_octet({emit(data)}, {emit(at)})", _ATOM
        case Binary():
            return _binary(expression)


def inside(expression: Expr, least: int) -> str:
    """The C text, in parentheses where it binds less tightly than `least`."""
    text, precedence = _emit(expression)
    return text if precedence >= least else f"({text})"


def _narrow(expression: Expr) -> bool:
    """Whether C computes it as an int, not modulo 2^64: small constants, truth values, bitwise operations on these."""
    match expression:
        case Const(value):
            return value <= 0x7FFFFFFF
        case Flip(operand, bits):
            return bits == 1 and width(operand) == 1
        case Binary(operator, left, right, _):
            both = operator in _BITWISE or operator in ("/", "%")
            return operator in COMPARISONS or operator in LOGICAL or (both and _narrow(left) and _narrow(right))
        case _:
            return False


def _wide(expression: Expr, least: int) -> str:
    """The C text as 64 bits, in parentheses where it binds less tightly than `least`."""
    if not _narrow(expression):
        return inside(expression, least)
    if isinstance(expression, Const):
        return f"UINT64_C({expression.value})"
    return f"(uint64_t){inside(expression, 12)}"


def _left(left: Expr, right: Expr, least: int) -> str:
    """The left operand of an operator whose result C computes in the wider type of its operands."""
    return _wide(left, least) if _narrow(right) else inside(left, least)


def _is_serial_comparison(expression: Expr) -> bool:
    return isinstance(expression, Binary) and expression.serial > 0 and expression.operator in COMPARISONS


def _is_boolean(expression: Expr) -> bool:
    """Whether C compilers regard the text as a truth value, not as a number of 0 or 1."""
    match expression:
        case Binary(operator, left, right):
            both = operator in _BITWISE and _is_boolean(left) and _is_boolean(right)
            return operator in COMPARISONS or operator in LOGICAL or both
        case Flip(operand, 1):
            return width(operand) == 1
        case _:
            return False


def _calls(expression: Expr) -> bool:
    """Whether the text calls a function of the runtime for a serial comparison."""
    return _is_serial_comparison(expression) or any(map(_calls, children(expression)))


def _binary(expression: Binary) -> tuple[str, int]:
    operator, left, right, serial = expression.operator, expression.left, expression.right, expression.serial
    if serial:
        return _serial(expression)
    if operator in ("<<", ">>"):
        if isinstance(right, Const) and right.value < 64:
            return f"{_wide(left, 11)} {operator} {right.value}", 8
        if isinstance(right, Reg) and right.bits <= 6:  # the processor's shift has this mask: no instruction is needed
            return f"{_wide(left, 11)} {operator} ({emit(right)} & 63)", 8
        name = "sl_shift_left" if operator == "<<" else "sl_shift_right"
        return f"{name}({emit(left)}, {emit(right)})", _ATOM
    if operator in ("/", "%"):
        if isinstance(right, Const) and right.value:
            return f"{inside(left, 10)} {operator} {inside(right, 11)}", 10
        return f"{'sl_divide' if operator == '/' else 'sl_modulo'}({emit(left)}, {emit(right)})", _ATOM
    if operator == "|" and isinstance(right, Const) and right.value == (1 << width(left)) - 1:
        return number(right.value), _ATOM  # compilers warn about it
    if operator in LOGICAL:
        return f" {operator} ".join(inside(part, 6) for part in operands(expression, operator)), _LOGICAL[operator]
    if operator in _BITWISE:
        own = _BITWISE[operator]
        sides = [
            inside(side, own if isinstance(side, Binary) and side.operator == operator else 12)
            for side in (left, right)
        ]
        if _is_boolean(left) and _calls(right):  # clang warns about bool & bool with a call
            sides[0] = _wide(left, 12)
        return f"{sides[0]} {operator} {sides[1]}", own
    own = _PRECEDENCE[operator]
    if own in (6, 7):  # a comparison of comparisons needs parentheses: a == b == c is misleading
        return f"{_compared(left)} {operator} {_compared(right)}", own
    return f"{_left(left, right, own)} {operator} {inside(right, own + 1)}", own


def _compared(side: Expr) -> str:
    """A side of a comparison. A flipped bit gets parentheses, because !a < b looks like !(a < b)."""
    return inside(side, 12 if isinstance(side, Flip) else 8)


def _serial(expression: Binary) -> tuple[str, int]:
    """RFC 1982 arithmetic in `serial` bits."""
    operator, serial = expression.operator, expression.serial
    left, right = emit(expression.left), emit(expression.right)
    if operator in ("+", "-"):
        inner = f"{_left(expression.left, expression.right, 9)} {operator} {inside(expression.right, 10)}"
        return f"({inner}) & {number((1 << serial) - 1)}", 5
    if operator in ("<=", ">=") and max(width(expression.left), width(expression.right)) <= serial:
        lesser, greater = (left, right) if operator == "<=" else (right, left)
        return f"sl_serial_at_most({lesser}, {greater}, {serial})", _ATOM
    same = f"{_compared(expression.left)} == {_compared(expression.right)}"
    match operator:
        case "<":
            return f"sl_serial_less({left}, {right}, {serial})", _ATOM
        case ">":
            return f"sl_serial_less({right}, {left}, {serial})", _ATOM
        case "<=":
            return f"({same} || sl_serial_less({left}, {right}, {serial}))", _ATOM
        case _:
            return f"({same} || sl_serial_less({right}, {left}, {serial}))", _ATOM


def assigned(i: Assign) -> str:
    """The C text of the value that is assigned to a register, cut to the register's storage."""
    if i.target.is_bytes:
        return emit(i.value)
    text = stored(i.value, i.target.bits)
    size = 8 * storage(i.target.bits)
    return f"(uint{size}_t)({text})" if size < 64 and i.target.space in (*STORED, "slot") else text


def stored(expression: Expr, bits: int) -> str:
    """The C text of an expression cut to the low `bits` bits."""
    if bits >= 64 or width(expression) <= bits:
        return emit(expression)
    if isinstance(expression, Const):
        return number(expression.value & ((1 << bits) - 1))
    return f"{inside(expression, 12)} & {number((1 << bits) - 1)}"
