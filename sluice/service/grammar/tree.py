"""The syntax tree of a grammar."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.service.lang.errors import Place


@dataclass(frozen=True)
class Value:
    """An expression of a grammar. kind: number, text, field (`self.x`), self (`$$`), note, call, not, negative, choice
    (`a ? b : c`), or a binary operator.
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
    """kind: uint, int, bytes, string, regex, constant, list, unit or switch; bits of an integer."""

    place: Place
    kind: str
    bits: int = 0
    name: str = ""
    number: int = 0


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


@dataclass
class Grammar:
    """A unit."""

    place: Place
    name: str
    items: list[Variable | WireField] = field(default_factory=list[Variable | WireField])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    expressions: dict[str, Value] = field(default_factory=dict[str, Value])
    """Properties whose value depends on the message."""
