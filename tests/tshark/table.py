"""Tables that say what tshark calls the fields of our headers.

A file of `tests/tshark/tables` bears the name of the file in `sluice/protocols` that it is about, and has a list TABLES
with a table for each parser there. Every field of the parser's header stands in its table:

    Table("udp", "udp", {
        "sport": "udp.srcport",                                  the field of tshark
        "length": ("udp.length", "udp.len"),                     the first of these that there is
        "size": Computed(lambda node: ...),                      what follows from several
        "number": Where("udp.number", condition, "why"),         compared only where tshark shows it
        "spare": NotShown("tshark does not show reserved bits"), tshark has none, for this reason
    })

What tshark shows and we do not have, or the other way round, is a disagreement, too. One that is not our fault is
explained, for a field or, under COUNT, for how often the header stands in a packet:

    explained={"spare": [Explained("CAPTURE*", "why tshark has another value")]}
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Literal

from tests.support.headers import Header
from tests.tshark import tables
from tests.tshark.dissection import Node

Value = int | bytes | None
QUOTING = frozenset(("icmp", "icmpv6"))
"""Nodes of tshark's within which other packets are quoted."""

COUNT = "how often the header stands in the packet"


@dataclass(frozen=True)
class Computed:
    """A value that follows from what tshark shows; None where there is nothing."""

    value: Callable[[Node], Value]


@dataclass(frozen=True)
class NotShown:
    """tshark has no such field."""

    reason: str


@dataclass(frozen=True)
class Where:
    """A field that is compared in headers for which `condition` holds; in others it cannot be, for `reason`."""

    how: str | tuple[str, ...] | Computed
    condition: Callable[[Node], bool]
    reason: str


@dataclass(frozen=True)
class Explained:
    """In captures whose names fit `capture`, tshark has other values, for `reason`."""

    capture: str
    reason: str


Shown = str | tuple[str, ...] | Computed | Where | NotShown


@dataclass(frozen=True)
class Table:
    """parser: our parser's name. node: what tshark calls the header, by any of several names; none where it does not
    show such a header. fields: see above. headers: the headers in a node of that name, where that is not always one.
    ours: those of our headers that count, where the parser also reads what turns out to be none.
    """

    parser: str
    node: str | tuple[str, ...]
    fields: dict[str, Shown]
    headers: Callable[[Node], list[Node]] = lambda node: [node]
    explained: dict[str, list[Explained]] = field(default_factory=lambda: {})
    ours: Callable[[Header], bool] = lambda header: True

    @property
    def nodes(self) -> tuple[str, ...]:
        """All names of the header."""
        return (self.node,) if isinstance(self.node, str) else self.node

    def found(self, packet: Node) -> list[Node]:
        """Such headers in a packet, from the lowest layer up; not what an error message quotes."""
        return [header for node in packet.walk(QUOTING) if node.name in self.nodes for header in self.headers(node)]

    def explanation(self, what: str, capture: str) -> str | None:
        """Why tshark has another value for a field, or COUNT, in a capture; None if it must not."""
        return next((e.reason for e in self.explained.get(what, []) if fnmatch(capture, e.capture)), None)


def shown(how: str | tuple[str, ...] | Computed, node: Node, ours: Value) -> Value:
    """tshark's value of a field, as a number unless ours are bytes."""
    if isinstance(how, Computed):
        return how.value(node)
    names = (how,) if isinstance(how, str) else how
    for name in names:
        if name in node.fields:
            return node.bytes(name)[0] if isinstance(ours, bytes) else node.numbers(name)[0]
    return None


def bits(name: str, shift: int, width: int) -> Computed:
    """`width` bits of a field of which tshark gives the bytes that it is a part of; `shift` bits are after them."""
    return Computed(lambda node: node.numbers(name)[0] >> shift & (1 << width) - 1 if name in node.fields else None)


def last(name: str) -> Computed:
    """The last of several such fields, as a number."""
    return Computed(lambda node: node.numbers(name)[-1] if name in node.fields else None)


def piece(name: str, at: int, size: int, order: Literal["big", "little"] = "big") -> Computed:
    """A number of `size` bytes from byte `at` of a field on; of the last such field, if there are several."""

    def value(node: Node) -> Value:
        return int.from_bytes(node.bytes(name)[-1][at : at + size], order) if name in node.fields else None

    return Computed(value)


def varint(*names: str) -> Computed:
    """The number in the last field of the first name that there is, in QUIC's form: two bits say how long it is."""

    def value(node: Node) -> Value:
        found = next((node.bytes(name)[-1] for name in names if name in node.fields), None)
        return None if found is None else int.from_bytes(found, "big") & (1 << 8 * len(found) - 2) - 1

    return Computed(value)


def tail(name: str, at: int) -> Computed:
    """What follows from byte `at` of a field on; of the last such field, if there are several."""
    return Computed(lambda node: node.bytes(name)[-1][at:] if name in node.fields else None)


def all_tables() -> dict[str, list[Table]]:
    """Tables by the file of `sluice/protocols` that they are about."""
    found: dict[str, list[Table]] = {}
    for module in pkgutil.iter_modules(tables.__path__):
        found[module.name] = importlib.import_module(f"{tables.__name__}.{module.name}").TABLES
    return found
