"""The syntax tree of a grammar."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.service.lang.errors import Place, ServiceError


@dataclass(frozen=True)
class Value:
    """An expression of a grammar. kind: number, text, field (`self.x`), parameter (of the unit), self (`$$`), note,
    call, next (whether these bytes come next), not, negative, choice (`a ? b : c`), or a binary operator.
    """

    place: Place
    kind: str
    name: str = ""
    number: int = 0
    items: tuple[Value, ...] = ()


MOST_PARTS = 10_000
"""Of an expression, with the constants and parameters that it names."""
DEEPEST = 100
"""Expressions within expressions, and units within units."""


def check_size(value: Value) -> int:
    """The number of an expression's parts. Raises ServiceError for one that is too large or too deep to be compiled:
    with names for expressions of expressions, a short text can have any size.
    """
    parts, left = 0, [(value, 1)]
    while left:
        each, depth = left.pop()
        parts += 1
        if parts > MOST_PARTS or depth > DEEPEST:
            what = f"has more than {MOST_PARTS:,} parts" if depth <= DEEPEST else f"is more than {DEEPEST} deep"
            raise ServiceError(
                value.place, f"this expression {what}, with what its names stand for", "compute a variable by &parse."
            )
        left += [(item, depth + 1) for item in each.items]
    return parts


@dataclass(frozen=True)
class Attribute:
    """`&name`, `&name = e`; `target` of `&serialize = self.target = e`."""

    place: Place
    name: str
    value: Value | None = None
    target: str = ""


@dataclass(frozen=True)
class WireType:
    """kind: uint, int, vint, bytes, string, headers, pattern, constant, bitfield, list, labels (enum and bitset), or
    unit, which is any declared type until expand() has replaced it; bits of an integer or bitfield.
    """

    place: Place
    kind: str
    bits: int = 0
    name: str = ""
    """Of a unit; of a pattern, its text; of a constant, its bytes."""
    number: int = 0
    arguments: tuple[Value, ...] = ()
    """Of a unit."""
    ranges: tuple[tuple[str, int, int], ...] = ()
    """Of a bitfield: name, lowest and highest bit."""
    element: WireType | None = None
    """Of a list. After expand(): of bytes that are integers in a row, one of these; its name is the byte order."""
    unit: Grammar | None = None
    """Of a list's element, after expand(); also of bytes that are units in a row."""


@dataclass
class Variable:
    place: Place
    name: str
    type: WireType
    attributes: list[Attribute] = field(default_factory=list[Attribute])


@dataclass
class WireField:
    place: Place
    name: str
    """Empty for an anonymous one."""
    type: WireType
    attributes: list[Attribute] = field(default_factory=list[Attribute])
    condition: Value | None = None
    count: Value | None = None


@dataclass(frozen=True)
class Case:
    """Of a switch. `values` is None for the one of all other values (`*`), and empty if the switch has no subject."""

    values: tuple[Value, ...] | None
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Switch:
    """Alternatives: the items of one case. Without a subject, the case whose first field is a constant that comes
    next.
    """

    place: Place
    subject: Value | None
    cases: tuple[Case, ...]
    condition: Value | None = None


Item = Variable | WireField | Switch


@dataclass
class Grammar:
    """A unit. After expand() its items are variables and fields of simple types only."""

    place: Place
    name: str
    items: list[Item] = field(default_factory=list[Item])
    parameters: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict[str, str])
    expressions: dict[str, Value] = field(default_factory=dict[str, Value])
    """Properties whose value depends on the message."""
