"""Parsers: `Connectionless()` and `ConnectionOriented()`, the prototypes of layers."""

from __future__ import annotations

from typing import Any

from sluice.lang.action import Block, block
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.events import Events, Relations
from sluice.lang.expression import BYTES, NUMBER, Below, Contains, Expression, FieldValue, Property, to_expression
from sluice.lang.layout import Field, HeaderFormat, LayoutType, header_format
from sluice.lang.psm import PSM
from sluice.lang.sequence import Sequence, sequence_choice
from sluice.lang.where import here, user_function

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
    "captured": NUMBER,
}
"""What every parser knows: `cursor` (bytes of header parsed so far), `payload` (what follows the header),
`payload_len` (its length on the wire), `unit` (header and payload), `to_active`/`to_passive` (1 when the packet is
sent to that side), `cur_state`, `created` (1 when this packet created the instance)."""

SETTINGS = (
    "header", "selector", "temp", "perm", "prep", "seq", "psm", "sdu", "timeout", "event", "event_relation",
    "buffer_data", "name", "link_types",
)  # fmt: skip


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
            raise DescriptionError(f"the {what} of {owner.title} has no field '{name}'", did_you_mean(name, fields))
        if len(fields[name]) > 1:
            layouts = ", ".join(str(field.layout.__name__) for field in fields[name] if field.layout)
            raise DescriptionError(
                f"field '{name}' stands in several layouts of one header ({layouts})", "give each field a name of its own."
            )
        return FieldValue(self.__dict__["_owner"], group, fields[name][0])

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError(
            f"'{name}' cannot be set by '='", "use Assign(register, expression) in p.prep or in an event."
        )


class HeaderFields(Fields):
    """Fields of a header; `+=` adds parts to it."""

    def __init__(self, owner: Parser, group: str, fields: dict[str, list[Field]], format: HeaderFormat | None) -> None:
        super().__init__(owner, group, fields)
        self.__dict__["_format"] = format

    def __add__(self, other: object) -> HeaderFormat:
        format: HeaderFormat | None = self.__dict__["_format"]
        if format is None:
            raise DescriptionError("'+=' on a header that has no first part", "start with p.header = some_layout.")
        return format + other


class VirtualPackets:
    """`p.v`: this side's packets as if they had arrived in order (paper, 4.3)."""

    def __init__(self, owner: Parser, fields: dict[str, list[Field]]) -> None:
        self.header = Fields(owner, "v", fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DescriptionError(f"virtual packets have no '{name}'", "only their header fields are kept: p.v.header.x.")


class BelowNames:
    """`p.below`: values that the nearest layer below offers, by name."""

    def __init__(self, owner: Parser) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Below(self._owner, name)


class PsmOf:
    """`layer.psm`: transitions of the machine as that layer's packets take them."""

    def __init__(self, owner: Parser, psm: PSM) -> None:
        self.__dict__["_owner"] = owner
        self.__dict__["_psm"] = psm

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_psm"].taken(name, self.__dict__["_owner"])


class Parser:
    """What an expression may be asked of: a prototype, or a layer of a stack that is made from one."""

    @property
    def prototype(self) -> Prototype:
        raise NotImplementedError

    @property
    def title(self) -> str:
        """How messages call it."""
        raise NotImplementedError

    @property
    def header(self) -> Any:
        p = self.prototype
        return HeaderFields(self, "header", p.header_fields(), p.format)

    @property
    def temp(self) -> Any:
        return Fields(self, "temp", _group(self.prototype.temp_layout))

    @property
    def perm(self) -> Any:
        return Fields(self, "perm", _group(self.prototype.perm_layout))

    @property
    def v(self) -> Any:
        return VirtualPackets(self, self.prototype.header_fields())

    @property
    def below(self) -> Any:
        return BelowNames(self)

    @property
    def event(self) -> Events:
        return self.prototype.events

    def header_contain(self, part: object) -> Contains:
        """1 when the packet's header contained layout `part`."""
        if not isinstance(part, LayoutType):
            raise DescriptionError("header_contain needs a layout", "give a class derived from layout.")
        format = self.prototype.format
        if format is None or part not in list(format.layouts()):
            raise DescriptionError(
                f"layout '{part.__name__}' is not part of the header of {self.title}", "add it to p.header first."
            )
        return Contains(self, part)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in PROPERTIES:
            return Property(self, "cur_state" if name == "current_state" else name, PROPERTIES[name])
        raise DescriptionError(f"{self.title} has no '{name}'", did_you_mean(name, [*PROPERTIES, *SETTINGS]))


def _group(layout: LayoutType | None) -> dict[str, list[Field]]:
    return {} if layout is None else {name: [field] for name, field in layout.fields.items()}


class Requirement:
    """What a packet must fulfil to be well formed."""

    def __init__(self, condition: Expression, reason: str, option: str | None) -> None:
        self.where = here()
        self.condition = condition
        self.reason = reason
        self.option = option


class Prototype(Parser):
    """A protocol: its header, instances, sequence, machine and events. Made by Connectionless/ConnectionOriented."""

    oriented = False

    def __init__(self, name: str = "", link_types: tuple[int, ...] = ()) -> None:
        self.where = here()
        function = user_function()
        inferred = function.removesuffix("_parser") if not function.startswith("<") else ""
        self.name = name or inferred
        self.link_types = link_types
        self.format: HeaderFormat | None = None
        self.temp_layout: LayoutType | None = None
        self.perm_layout: LayoutType | None = None
        self.keys: tuple[list[Expression], ...] | None = None
        self.key_condition: Expression | None = None
        self.prep_block: Block | None = None
        self.sequence: Sequence | None = None
        self.sequence_condition: Expression | None = None
        self.machine: PSM | None = None
        self.sdu_choice: Any = None
        self.offers: dict[str, Expression] = {}
        self.requirements: list[Requirement] = []
        self.events = Events(self)
        self.relations = Relations()
        self._timeout: float | None = None
        self._buffer_data = True

    @property
    def prototype(self) -> Prototype:
        return self

    @property
    def title(self) -> str:
        return f"parser '{self.name}'" if self.name else "this parser"

    def header_fields(self) -> dict[str, list[Field]]:
        """Fields of all layouts of the header, by name; a name may stand in several."""
        found: dict[str, list[Field]] = {}
        if self.format is not None:
            seen: set[int] = set()
            for part in self.format.layouts():
                if id(part) in seen:
                    continue
                seen.add(id(part))
                for name, field in part.fields.items():
                    found.setdefault(name, []).append(field)
        return found

    def offer(self, **values: object) -> None:
        """Values for the layers above, which read them as `p.below.name`."""
        for name, value in values.items():
            self.offers[name] = to_expression(value)

    def require(self, condition: object, reason: str, option: str | None = None) -> None:
        """A packet for which `condition` does not hold is malformed, counted under `reason`, and goes no further.

        With `option` it is checked only when the user asks for that option (as `checksums`).
        """
        self.requirements.append(Requirement(to_expression(condition), reason, option))

    def __setattr__(self, name: str, value: Any) -> None:
        setter = getattr(type(self), f"_set_{name}", None)
        if setter is not None:
            setter(self, value)
        elif name.startswith("_") or name in _ATTRIBUTES:
            object.__setattr__(self, name, value)
        else:
            raise DescriptionError(f"{self.title} has no setting '{name}'", did_you_mean(name, SETTINGS))

    def _set_header(self, value: object) -> None:
        self.format = header_format(value)

    def _set_temp(self, value: object) -> None:
        self.temp_layout = _checked_layout("temp", value)

    def _set_perm(self, value: object) -> None:
        self.perm_layout = _checked_layout("perm", value)

    @property
    def selector(self) -> Any:
        return self.keys

    def _set_selector(self, value: object) -> None:
        if isinstance(value, Choice):
            value.check_closed()
            if value.otherwise is not None:
                raise DescriptionError("a selector with an Else()", "a packet outside the condition uses a fresh instance by itself.")
            self.key_condition = value.condition
            value = value.body
        keys: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]
        if not all(isinstance(key, list) and key for key in keys):
            raise DescriptionError("a selector is a list, or a pair of lists", "write [a, b], or ([a, b], [c, d]).")
        if self.oriented and len(keys) != 2:
            raise DescriptionError(
                "a connection-oriented selector has two lists", "write ([source ...], [destination ...]), or use Connectionless()."
            )
        if not self.oriented and len(keys) != 1:
            raise DescriptionError("a connectionless selector has one list", "write [a, b], or use ConnectionOriented().")
        if len(keys) == 2 and len(keys[0]) != len(keys[1]):
            raise DescriptionError("the two lists of a selector have different lengths", "give both sides the same fields.")
        self.keys = tuple([to_expression(item) for item in key] for key in keys)

    @property
    def prep(self) -> Any:
        return self.prep_block if self.prep_block is not None else Block([])

    def _set_prep(self, value: object) -> None:
        self.prep_block = block(value)

    @property
    def seq(self) -> Any:
        return self.sequence

    def _set_seq(self, value: object) -> None:
        self.sequence_condition, self.sequence = sequence_choice(value)

    @property
    def psm(self) -> Any:
        if self.machine is None:
            raise DescriptionError(f"{self.title} has no state machine yet", "write p.psm = PSM(...) first.")
        return self.machine

    def _set_psm(self, value: object) -> None:
        if not isinstance(value, PSM):
            raise DescriptionError("p.psm is not a PSM", "write p.psm = PSM(state, ...).")
        if value.owner is not None and value.owner is not self:
            raise DescriptionError("one PSM for two parsers", "build a PSM for each parser.")
        value.__dict__["owner"] = self
        self.machine = value

    @property
    def sdu(self) -> Any:
        return Property(self, "sdu", BYTES)

    def _set_sdu(self, value: object) -> None:
        if isinstance(value, Choice):
            value.check_closed()
            if value.otherwise is None:
                raise DescriptionError("p.sdu with an If and no Else", "say what goes up in the other case.")
        elif to_expression(value).kind != BYTES:
            raise DescriptionError("p.sdu is not bytes", "write p.sdu = p.payload[:n].")
        self.sdu_choice = value

    @property
    def timeout(self) -> Any:
        return self._timeout

    def _set_timeout(self, value: object) -> None:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
            raise DescriptionError(f"timeout {value!r}", "a timeout is a positive number of seconds.")
        self._timeout = float(value)

    @property
    def buffer_data(self) -> Any:
        return self._buffer_data

    def _set_buffer_data(self, value: object) -> None:
        if not isinstance(value, bool):
            raise DescriptionError(f"buffer_data = {value!r}", "buffer_data is True or False.")
        self._buffer_data = value

    @property
    def event_relation(self) -> Any:
        return self.relations

    def _set_event_relation(self, value: object) -> None:
        if value is not self.relations:
            raise DescriptionError("event_relation is extended, not replaced", "write p.event_relation += ....")

    def _set_event(self, value: object) -> None:
        raise DescriptionError("p.event is not set", "write p.event.name = action.")


_ATTRIBUTES = {
    "where", "name", "link_types", "format", "temp_layout", "perm_layout", "keys", "key_condition", "prep_block",
    "sequence", "sequence_condition", "machine", "sdu_choice", "offers", "requirements", "events", "relations",
}  # fmt: skip


def _checked_layout(what: str, value: object) -> LayoutType:
    if not isinstance(value, LayoutType):
        raise DescriptionError(f"p.{what} is not a layout", f"write p.{what} = some_layout (the class, not an object of it).")
    for field in value.fields.values():
        if field.const is not None:
            raise DescriptionError(f"const= in a layout for {what}", "const= is for headers; use init=.", field.where)
        if not isinstance(field.bits, int):
            raise DescriptionError(f"a field of variable length in {what}", "give it a number of bits.", field.where)
        if what == "perm" and field.kind == BYTES:
            raise DescriptionError("a field of more than 64 bits in perm", "a perm field has at most 64 bits.", field.where)
    return value


class Connectionless(Prototype):
    """A protocol whose instances, if it has any, are found by one key."""


class ConnectionOriented(Prototype):
    """A protocol between two sides, found by one key for each."""

    oriented = True
