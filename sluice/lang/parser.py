"""Parsers as descriptions read them: the properties, header fields, state and events of `p`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.events import Events, Relations
from sluice.lang.expression import (
    BYTES,
    NUMBER,
    Below,
    Expression,
    Property,
)
from sluice.lang.field_value import Contains, FieldValue
from sluice.lang.layout import Field, HeaderFormat, LayoutType
from sluice.lang.owner import Owner
from sluice.lang.psm import PSM

PROPERTIES: dict[str, str] = {
    "cursor": NUMBER,
    "payload": BYTES,
    "payload_len": NUMBER,
    "unit": BYTES,
    "to_active": NUMBER,
    "to_passive": NUMBER,
    "cur_state": NUMBER,
    "current_state": NUMBER,
    "created": NUMBER,
    "instance": NUMBER,
    "refused": NUMBER,
    "way": NUMBER,
    "time": NUMBER,
}
"""Properties of every parser:

cursor: bytes of header parsed so far.
payload: the bytes after the header. payload_len: their number on the wire.
unit: header and payload.
to_active, to_passive: 1 if the packet is sent to that side.
cur_state, current_state: the state of the machine, to be compared with a PSMState.
created: 1 if this packet created the instance.
instance: the number of the instance, unique in the box for all time; 0 for an instance that is not stored.
refused: the number of the reason why the function that p.sdu calls refused this packet; 0 if it did not.
time: packet time, in nanoseconds since 1970: the largest timestamp of a packet so far, so that it never goes back.
way: identifies the path of layers of the packet, including this layer. Only in selectors.
"""

OF_INSTANCE = ("to_active", "to_passive", "cur_state", "created", "instance", "place")
"""Properties that need an instance."""

SETTINGS = (
    "header", "selector", "alias", "creates", "temp", "perm", "prep", "seq", "psm", "sdu", "timeout", "event",
    "lifetime", "needs_captured", "max_instances", "event_relation", "buffer_data", "name", "link_types", "message",
    "record", "costly",
)  # fmt: skip
"""Attributes of a parser that can be set."""

NAMES = ("header", "temp", "perm", "v", "below", "psm", "sdu", "event", "event_relation")
"""Attributes of a parser or a layer that can be read, besides PROPERTIES."""


class Fields:
    """The fields of one group (header, temp, perm, v.header), read as attributes."""

    def __init__(self, owner: Parser, group: str, fields: dict[str, list[Field]]) -> None:
        self.__dict__["_owner"] = owner
        self.__dict__["_group"] = group
        self.__dict__["_fields"] = fields

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        fields: dict[str, list[Field]] = self.__dict__["_fields"]
        group: str = self.__dict__["_group"]
        if name not in fields:
            what = {"v": "header"}.get(group, group)
            owner: Parser = self.__dict__["_owner"]
            raise DescriptionError(
                f"the {what} of {owner.title} has no field '{name}'",
                did_you_mean(name, fields) if fields else f"set p.{what} to a layout first.",
            )
        if len(fields[name]) > 1:
            layouts = ", ".join(str(field.layout.__name__) for field in fields[name] if field.layout)
            raise DescriptionError(
                f"field '{name}' stands in several layouts of one header ({layouts})",
                f"give each field a name of its own, or say which: {layouts.split(',')[0]}.{name}.",
            )
        return FieldValue(self.__dict__["_owner"], group, fields[name][0])

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError(
            f"field '{name}' cannot be set by '='",
            "use Assign(register, expression) in p.prep or in an event.",
        )


class HeaderFields(Fields):
    """Fields of a header. `+=` adds parts to it."""

    def __init__(self, owner: Parser, group: str, fields: dict[str, list[Field]], format: HeaderFormat | None) -> None:
        super().__init__(owner, group, fields)
        self.__dict__["_format"] = format

    def __add__(self, other: object) -> HeaderFormat:
        format: HeaderFormat | None = self.__dict__["_format"]
        if format is None:
            raise DescriptionError("'+=' on a header that has no first part", "start with p.header = some_layout.")
        return format + other


class VirtualPackets:
    """`p.v`: this side's packets as if they had arrived in order (paper, 4.3). Only `p.v.header.x` can be read."""

    def __init__(self, owner: Parser, fields: dict[str, list[Field]]) -> None:
        self.__dict__["header"] = Fields(owner, "v", fields)

    header: Fields

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DescriptionError(f"virtual packets have no '{name}'", "only their header fields are kept: p.v.header.x.")

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError("virtual packets cannot be set", "keep what you need in a field of perm.")


class BelowNames:
    """`p.below`: values that the nearest layer below offers, by name."""

    def __init__(self, owner: Parser) -> None:
        self.__dict__["_owner"] = owner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Below(self.__dict__["_owner"], name)

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError(f"'{name}' belongs to a layer below", f"that one says p.offer({name}=...).")


class PsmOf:
    """`layer.psm`: transitions of the machine that this layer's packets take."""

    def __init__(self, owner: Parser, psm: PSM) -> None:
        self.__dict__["_owner"] = owner
        self.__dict__["_psm"] = psm

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_psm"].taken(name, self.__dict__["_owner"])

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError(
            f"transition '{name}' is defined on a layer",
            "define it in the parser: p.psm.t = (A >> B) + Pred(...).",
        )


class Parser(Owner):
    """The owner of names in expressions: a prototype, or a layer of a stack made from one.

    Besides the attributes defined here, it has PROPERTIES. Any other attribute raises DescriptionError.
    """

    @property
    def prototype(self) -> PrototypeParts:
        """The prototype that a layer is made from; a prototype itself."""
        raise NotImplementedError

    @property
    def header(self) -> HeaderFields:
        """The fields of the header: `p.header.x`. Set it to a layout or a sum of parts; `+=` extends it."""
        p = self.prototype
        return HeaderFields(self, "header", p.header_fields(), p.format)

    @property
    def temp(self) -> Fields:
        """Fields of the current packet; set it to a layout. They start from init= for every packet."""
        return Fields(self, "temp", _group(self.prototype.temp_layout))

    @property
    def perm(self) -> Fields:
        """Fields of the instance; set it to a layout. They start from init= when the instance is created."""
        return Fields(self, "perm", _group(self.prototype.perm_layout))

    @property
    def v(self) -> VirtualPackets:
        """This side's packets as if they had arrived in order, for conditions only: `p.v.header.x`."""
        return VirtualPackets(self, self.prototype.header_fields())

    @property
    def below(self) -> BelowNames:
        """Values that the nearest layer below offers: `p.below.name`."""
        return BelowNames(self)

    @property
    def event(self) -> Events:
        """Events: `p.event.name = action` defines one."""
        return self.prototype.events

    @event.setter
    def event(self, value: object) -> None:
        raise DescriptionError("p.event is not set", "write p.event.name = action.")

    @property
    def event_relation(self) -> Relations:
        """The order of events: `+= a, b` (a before b) and `+= a >> b` (b is checked each time a happens)."""
        return self.prototype.relations

    @event_relation.setter
    def event_relation(self, value: object) -> None:
        if value is not self.prototype.relations:
            raise DescriptionError(
                "p.event_relation is extended, not replaced",
                "write p.event_relation += p.event.a, p.event.b.",
            )

    def header_contain(self, part: object) -> Contains:
        """1 if the packet's header contained layout `part`, else 0.

        It may be used before `part` is added to p.header, in the condition of the AnyUntil that lists it. Raises
        DescriptionError if `part` is not a layout. `check` tests that it belongs to the header.
        """
        if not isinstance(part, LayoutType):
            raise DescriptionError("header_contain needs a layout", "give a class derived from layout.")
        return Contains(self, part)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in PROPERTIES:
            raise DescriptionError(f"{self.title} has no '{name}'", did_you_mean(name, [*PROPERTIES, *NAMES]))
        if name in ("to_active", "to_passive") and not self.prototype.oriented:
            raise DescriptionError(
                f"'{name}' of a parser without connections",
                "make it by ConnectionOriented(), or leave this out.",
            )
        return Property(self, "cur_state" if name == "current_state" else name, PROPERTIES[name])


class PrototypeParts(Parser):
    """The parts of a prototype that the names of Parser come from. Prototype sets them, and documents its settings."""

    oriented = False
    """Whether its instances are connections between two sides."""

    format: HeaderFormat | None
    temp_layout: LayoutType | None
    perm_layout: LayoutType | None
    keys: tuple[list[Expression], ...] | None
    alias_keys: list[list[Expression]] | None
    alias_by_selector: bool
    machine: PSM | None
    events: Events
    relations: Relations

    def header_fields(self) -> dict[str, list[Field]]:
        """Fields of all layouts of the header, by name. Several layouts may have a field of one name."""
        return _fields_by_name(self.format)


@lru_cache(maxsize=512)
def _fields_by_name(format: HeaderFormat | None) -> dict[str, list[Field]]:
    """Cached, as each expression with a header field looks for it. A format does not change."""
    found: dict[str, list[Field]] = {}
    for part in dict.fromkeys(format.layouts()) if format is not None else ():
        for name, field in part.fields.items():
            found.setdefault(name, []).append(field)
    return found


def _group(layout: LayoutType | None) -> dict[str, list[Field]]:
    return {} if layout is None else {name: [field] for name, field in layout.fields.items()}


def instance_of(parser: Parser) -> tuple[Expression, Expression, Expression | None]:
    """For the instance of the packet in a parser: its number, its place in the table, and the packet's side, if any."""
    side = Property(parser, "to_active", NUMBER) if parser.prototype.oriented else None
    return Property(parser, "instance", NUMBER), Property(parser, "place", NUMBER), side
