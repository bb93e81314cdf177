"""Expressions of a description: numbers and byte slices whose values depend on the packet.

A number has up to 64 bits; arithmetic is modulo 2^64; a comparison gives one bit; `~x` flips x in its own width
(DESIGN.md section 3, Numbers). Expressions are plain trees: `sluice.lower.scope` maps each name to its register in the
layer that uses it.
"""

from __future__ import annotations

from typing import NoReturn, cast

from sluice.lang.errors import DescriptionError, described
from sluice.lang.owner import Owner
from sluice.lang.where import Where, here

NUMBER = "number"
BYTES = "bytes"


class Expression:
    """A value that depends on the packet. `kind` is NUMBER or BYTES."""

    kind = NUMBER

    def __init__(self, where: Where | None = None) -> None:
        self.where = where if where is not None else here()

    def __repr__(self) -> str:
        return described(self)

    def __bool__(self) -> NoReturn:
        raise DescriptionError(
            "an expression has no truth value while the stack is being described",
            "put it into If(...) or Pred(...); for and, or, not write &, |, ~ with each comparison in "
            "parentheses, for x in (a, b) write one_of(x, a, b).",
        )

    def __iter__(self) -> NoReturn:
        raise DescriptionError("an expression cannot be iterated over", "slice bytes, as in p.payload[:n].")

    __hash__ = object.__hash__

    def _binary(self, operator: str, other: object, swapped: bool = False) -> Binary:
        right = to_expression(other)
        right.joined_to(self)
        return Binary(operator, right, self) if swapped else Binary(operator, self, right)

    def joined_to(self, left: Expression) -> None:
        """Called on the right operand of an operator, before the operator's expression is made of it and `left`."""

    def __add__(self, other: object) -> Binary:
        return self._binary("+", other)

    def __radd__(self, other: object) -> Binary:
        return self._binary("+", other, swapped=True)

    def __sub__(self, other: object) -> Binary:
        return self._binary("-", other)

    def __rsub__(self, other: object) -> Binary:
        return self._binary("-", other, swapped=True)

    def __mul__(self, other: object) -> Binary:
        return self._binary("*", other)

    def __rmul__(self, other: object) -> Binary:
        return self._binary("*", other, swapped=True)

    def __floordiv__(self, other: object) -> Binary:
        return self._binary("/", other)

    def __truediv__(self, other: object) -> Binary:
        return self._binary("/", other)

    def __mod__(self, other: object) -> Binary:
        return self._binary("%", other)

    def __lshift__(self, other: object) -> Binary:
        return self._binary("<<", other)

    def __rlshift__(self, other: object) -> Binary:
        return self._binary("<<", other, swapped=True)

    def __rshift__(self, other: object) -> Binary:
        return self._binary(">>", other)

    def __rrshift__(self, other: object) -> Binary:
        return self._binary(">>", other, swapped=True)

    def __and__(self, other: object) -> Binary:
        return self._binary("&", other)

    def __rand__(self, other: object) -> Binary:
        return self._binary("&", other, swapped=True)

    def __or__(self, other: object) -> Binary:
        return self._binary("|", other)

    def __ror__(self, other: object) -> Binary:
        return self._binary("|", other, swapped=True)

    def __xor__(self, other: object) -> Binary:
        return self._binary("^", other)

    def __rxor__(self, other: object) -> Binary:
        return self._binary("^", other, swapped=True)

    def __eq__(self, other: object) -> Binary:  # type: ignore[override]
        return self._binary("==", other)

    def __ne__(self, other: object) -> Binary:  # type: ignore[override]
        return self._binary("!=", other)

    def __lt__(self, other: object) -> Binary:
        return self._binary("<", other)

    def __le__(self, other: object) -> Binary:
        return self._binary("<=", other)

    def __gt__(self, other: object) -> Binary:
        return self._binary(">", other)

    def __ge__(self, other: object) -> Binary:
        return self._binary(">=", other)

    def __invert__(self) -> Invert:
        return Invert(self)

    def __getitem__(self, item: object) -> Slice | Octet:
        if self.kind == NUMBER:
            raise DescriptionError(
                "a number cannot be sliced",
                "slice bytes (payload, sdu, a field of more than 64 bits); shift and mask a number.",
            )
        if not isinstance(item, slice):
            if isinstance(item, int) and not isinstance(item, bool) and item < 0:
                return Octet(self, LengthOf(self) - -item)  # before the first byte, that is beyond the last one
            return Octet(self, to_number(item, "a position in bytes"))
        bounds = cast("slice[object, object, object]", item)
        if bounds.step is not None:
            raise DescriptionError("a slice of bytes has no step", "write [low:high].")
        low = None if bounds.start is None else _limit(bounds.start, self)
        high = None if bounds.stop is None else _limit(bounds.stop, self)
        return Slice(self, low, high)

    @property
    def length(self) -> LengthOf:
        """The length on the wire of a byte slice, in bytes."""
        if self.kind == NUMBER:
            raise DescriptionError("a number has no length in bytes", "use .length of payload, sdu or a slice.")
        return LengthOf(self)


class HasValue:
    """Something of the user that is no expression, and stands for one where an expression is wanted."""

    def value(self) -> Expression:
        """The expression that it stands for."""
        raise NotImplementedError


class Number(Expression):
    """A constant modulo 2^64: 0 <= value < 2^64. `written` is the constant as the user wrote it."""

    def __init__(self, value: int, where: Where | None = None) -> None:
        super().__init__(where)
        self.written = value
        self.value = value & ((1 << 64) - 1)


class Binary(Expression):
    """`left operator right`; both sides are numbers."""

    def __init__(self, operator: str, left: Expression, right: Expression) -> None:
        super().__init__()
        for side in (left, right):
            if side.kind == BYTES:
                raise DescriptionError(
                    f"'{operator}' needs numbers, and one side is a byte slice",
                    "take its .length, or declare a field of at most 64 bits for what you compare.",
                    self.where,
                )
        self.operator = operator
        self.left = left
        self.right = right


class Invert(Expression):
    """`~operand`, in the operand's own width."""

    def __init__(self, operand: Expression) -> None:
        super().__init__()
        if operand.kind == BYTES:
            raise DescriptionError(
                "'~' needs a number, and this is a byte slice",
                "complement a number, as in ~(x == 1).",
                self.where,
            )
        self.operand = operand


class Slice(Expression):
    """`base[low:high]` of bytes, clipped at the end of `base`."""

    kind = BYTES

    def __init__(self, base: Expression, low: Expression | None, high: Expression | None) -> None:
        super().__init__()
        self.base = base
        self.low = low
        self.high = high


class Octet(Expression):
    """`base[at]`: one byte of bytes, as a number. 0 where there is none, or where the snap length cut it off."""

    def __init__(self, base: Expression, at: Expression) -> None:
        super().__init__()
        self.base = base
        self.at = at


class LengthOf(Expression):
    """The length on the wire of a byte slice, in bytes."""

    def __init__(self, base: Expression) -> None:
        super().__init__()
        self.base = base


class Checksum(Expression):
    """The Internet checksum (RFC 1071) over `data`, started with the sum of `pseudo`; 0 if it verifies."""

    def __init__(self, data: Expression, pseudo: list[Expression]) -> None:
        super().__init__()
        self.data = data
        self.pseudo = pseudo


def internet_checksum(data: Expression, *pseudo: object) -> Checksum:
    """The Internet checksum (RFC 1071), a number of 16 bits, over an optional pseudo header and a byte slice.

    data: a byte slice that begins with a whole 16-bit word, as the unit of a layer does. It includes its checksum.
    pseudo: the items of the pseudo header. A number is added as it is; a byte slice is summed as 16-bit words in
        network order.

    The result is 0 if the checksum inside `data` is correct, and also if `data` was cut by the snap length, because the
    checksum is then unknown. Raises DescriptionError if `data` is a number.
    """
    expression = to_expression(data)
    if expression.kind == NUMBER:
        raise DescriptionError(
            "internet_checksum() needs bytes, and this is a number", "give it a slice, as in ip.unit[:n]."
        )
    return Checksum(expression, [to_expression(item) for item in pseudo])


class Crc(Expression):
    """The CRC-32C of `data`, with the bytes from `low` to `high` taken as 0."""

    def __init__(self, data: Expression, low: int, high: int) -> None:
        super().__init__()
        self.data = data
        self.low = low
        self.high = high


def crc32c(data: object, blank: tuple[int, int]) -> Crc:
    """The CRC-32C (Castagnoli; RFC 9260, appendix A), a number of 32 bits, over a byte slice.

    blank: the place of the checksum itself in `data`, (first byte, byte after the last). These bytes count as 0.

    The result is 0 if `data` was cut by the snap length, because the checksum is then unknown. Raises DescriptionError
    if `data` is a number, and if blank is not a pair of ascending numbers.
    """
    expression = to_expression(data)
    if expression.kind == NUMBER:
        raise DescriptionError("crc32c() needs bytes, and this is a number", "give it a slice, as in sctp.unit.")
    if not 0 <= blank[0] <= blank[1]:
        raise DescriptionError(f"blank={described(blank)}", "give its first byte and the one after it, ascending.")
    return Crc(expression, *blank)


def one_of(value: object, *alternatives: object) -> Binary:
    """1 if the number `value` equals one of `alternatives`: (value == a) | (value == b) | ...

    Raises DescriptionError for no alternatives, for bytes, and for values that are not expressions.
    """
    if not alternatives:
        raise DescriptionError("one_of() without anything to compare with", "write one_of(x, a, b, ...).")
    for alternative in alternatives:
        if isinstance(alternative, (list, tuple, set, frozenset, range)):
            raise DescriptionError(
                "one_of() with a collection",
                "list what to compare with one by one, or write one_of(x, *values).",
            )
    expression = to_expression(value)
    result = expression == alternatives[0]
    for alternative in alternatives[1:]:
        result = result | (expression == alternative)
    return result


class Property(Expression):
    """A property of every parser: cursor, payload_len, to_active, cur_state, created, ..."""

    def __init__(self, owner: Owner, name: str, kind: str = NUMBER) -> None:
        super().__init__()
        self.owner = owner
        self.name = name
        self._kind = kind

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self._kind


class Below(Expression):
    """Value `name` of the nearest layer below that offers it. Its kind is known once the stack is complete."""

    kind = "any"

    def __init__(self, owner: Owner, name: str) -> None:
        super().__init__()
        self.owner = owner
        self.name = name


class Gathered(Expression):
    """All values that layers below offer under `name`, outermost first, combined into one number; see Stack.join."""

    def __init__(self, name: str, where: Where) -> None:
        super().__init__(where)
        self.name = name


def children(expression: Expression) -> tuple[Expression, ...]:
    """The operands of an expression."""
    match expression:
        case Binary():
            return (expression.left, expression.right)
        case Invert():
            return (expression.operand,)
        case Slice():
            limits = (expression.low, expression.high)
            return (expression.base, *(item for item in limits if item is not None))
        case LengthOf():
            return (expression.base,)
        case Octet():
            return (expression.base, expression.at)
        case Checksum():
            return (expression.data, *expression.pseudo)
        case Crc():
            return (expression.data,)
        case _:
            return ()


def to_expression(value: object) -> Expression:
    """Convert a user's value to an expression.

    Raises DescriptionError for a value that cannot be one (a float, a layout, a string, ...).
    """
    if isinstance(value, Expression):
        return value
    if isinstance(value, bool):
        return Number(int(value))
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise DescriptionError(
                f"{value} does not fit in 64 bits",
                "numbers are at most 64 bits wide; compare longer fields in parts.",
            )
        return Number(value)
    if isinstance(value, HasValue):
        return value.value()
    raise DescriptionError(
        f"{described(value)} is not an expression",
        "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
    )


def to_number(value: object, what: str, advice: str = "use a field of at most 64 bits, or .length.") -> Expression:
    """Convert a user's value to a number expression. Raises DescriptionError ("`what` is bytes ...") if it is bytes."""
    expression = to_expression(value)
    if expression.kind == BYTES:
        raise DescriptionError(f"{what} is bytes where a number is needed", advice)
    return expression


def _limit(value: object, base: Expression) -> Expression:
    """The limit of a slice of `base`. A negative constant counts from the end; before the first byte, it is position 0,
    as in Python.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value < 0:
        length = LengthOf(base)
        return (length + value) * (length >= -value)
    return to_number(value, "the limit of a slice")
