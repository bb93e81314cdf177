"""The syntax tree of a grammar."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.service.lang.errors import Place


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
    """Of a list."""
    unit: Grammar | None = None
    """Of a list's element, after expand()."""


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
