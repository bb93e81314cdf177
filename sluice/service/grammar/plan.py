"""A grammar that is checked: its items in order, with their dependences.

A unit is a sequence of integers, constants, byte strings with a length, and variables. Lengths and conditions may use
the items before them. Arithmetic is that of int64; a variable's value that does not fit its type, a length below 0,
and one above the limit make the message malformed. When a message is serialised, a field that is the length of another
(`&length = self.x`) takes the size of that one, and then the variables are evaluated in reverse order.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from sluice.service.grammar.pattern import Automaton, compile_pattern
from sluice.service.grammar.tree import Attribute, Grammar, Switch, Value, Variable, WireField, WireType
from sluice.service.lang.errors import ServiceError, suggest

LIMIT = 64 << 20
"""Bytes of a message, unless the grammar gives another %limit."""
LARGEST_LIMIT = 1 << 50
BODY = 64 << 30
"""Bytes of a body of HTTP whose length is not known before; service_body_most of runtime/text.h."""


LIST = 65536
"""Items of a list of units; SERVICE_LIST of runtime/text.h."""


TEXT_KINDS = ("bytes", "until", "headers", "tail", "text", "list", "pattern")
"""Items whose value is bytes."""


@dataclass(frozen=True)
class Framing:
    """How the end of a tail is found: the kind of its parts, and the fields on which it depends."""

    kind: str
    fields: tuple[str, ...] = ()


FRAMINGS = {
    "http_request": Framing("http", ("headers",)),
    "http_response": Framing("http", ("headers", "status")),
    "resp": Framing("SERVICE_RESP"),
    "resp_command": Framing("SERVICE_COMMAND"),
    "memcached_values": Framing("SERVICE_VALUES"),
    "eod": Framing("SERVICE_TO_THE_END"),
}


@dataclass(frozen=True)
class Item:
    """kind: integer, vint, constant, bytes, until (bytes up to a delimiter), headers, list (the bytes of units in a
    row), pattern (the longest match of a regular expression), tail (the last item, whose end is found part by part),
    variable, or text (a variable that is a string).
    """

    index: int
    name: str
    kind: str
    size: int = 0
    """Bytes of an integer or constant; of a variable, those of its type."""
    signed: bool = False
    order: str = "big"
    text: bool = False
    """Whether bytes are a string."""
    length: Value | None = None
    """Bytes; of a list, items."""
    constant: bytes = b""
    condition: Value | None = None
    parse: Value | None = None
    target: str = ""
    """Of a variable with &serialize: the field that it sets."""
    serialize: Value | None = None
    framing: str = ""
    """Of a tail: how its end is found."""
    element: Plan | None = None
    """Of a list, and of bytes that are units in a row."""
    integer: Item | None = None
    """Of bytes that are integers in a row: one of them."""
    automaton: Automaton | None = None
    """Of a pattern."""

    @property
    def is_text(self) -> bool:
        return self.kind in TEXT_KINDS

    @property
    def looks(self) -> bool:
        """Whether the value of a variable depends on the bytes that come next."""
        return self.parse is not None and _has(self.parse, "next")

    @property
    def smallest(self) -> int:
        return -(1 << (8 * self.size - 1)) if self.signed else 0

    @property
    def largest(self) -> int:
        return (1 << (8 * self.size - (1 if self.signed else 0))) - 1


@dataclass
class Plan:
    """A checked unit."""

    name: str
    items: list[Item] = field(default_factory=list[Item])
    limit: int = LIMIT
    expressions: dict[str, Value] = field(default_factory=dict[str, Value])
    """Properties whose value depends on the message: note, final, answered, last, end, hops, fill, mute, checksum."""
    finish: bytes | None = None
    """The bytes that end the stream; before a checksum, if messages have one."""

    @property
    def by_name(self) -> dict[str, Item]:
        return {item.name: item for item in self.items if item.name}

    def needed(self, names: set[str]) -> set[str]:
        """The items that a parser must read for these: themselves, and all that a length, a condition or a variable
        uses. (Each length gives the offset of the next item, or where the message ends; each variable and constant is
        checked.)
        """
        found = set(names)
        for item in self.items:
            for value in (item.length, item.condition, item.parse if item.kind != "text" else None):
                found.update(fields_of(value))
            if item.kind == "variable":
                found.add(item.name)
            if item.kind == "tail":
                found.update(FRAMINGS[item.framing].fields)
            if item.kind == "vint" and item.name:
                found.add(item.name)
        for value in self.expressions.values():
            found.update(fields_of(value))
        for item in reversed(self.items):
            if item.kind == "text" and item.name in found:
                found.update(fields_of(item.parse))
        return found

    @property
    def tail(self) -> Item | None:
        return next((item for item in self.items if item.kind == "tail"), None)

    @property
    def has_pattern(self) -> bool:
        """Whether it has a regular expression, whose match the bytes after a message may make longer."""
        return any(
            item.kind == "pattern" or (item.kind == "list" and item.element is not None and item.element.has_pattern)
            for item in self.items
        )

    def measured(self, fields: Container[str]) -> list[tuple[str, Item]]:
        """Fields and variables that are the length of a byte string, or the number of a list's items, with that one,
        from the last to the first: of several that are there the first one counts. Items are not counted if neither
        they nor their number are among `fields`, those that can differ from the message that was received.
        """
        return [
            (item.length.name, item)
            for item in reversed(self.items)
            if item.kind in ("bytes", "list") and item.name and item.length is not None and item.length.kind == "field"
            if item.kind == "bytes" or item.condition is not None or item.name in fields or item.length.name in fields
        ]


def _has(value: Value, kind: str) -> bool:
    """Whether an expression has such a part."""
    return value.kind == kind or any(_has(each, kind) for each in value.items)


def fields_of(value: Value | None) -> Iterator[str]:
    """Names of all fields in an expression."""
    if value is not None:
        if value.kind == "field":
            yield value.name
        for item in value.items:
            yield from fields_of(item)


def plan(grammar: Grammar) -> Plan:
    """Check a unit that expand() has made. Raises ServiceError."""
    found = Plan(grammar.name, limit=int(grammar.properties.get("limit", LIMIT)))
    if not 1 <= found.limit <= LARGEST_LIMIT:
        raise ServiceError(grammar.place, f"%limit = {found.limit}", f"a message has 1 to {LARGEST_LIMIT} bytes.")
    order = grammar.properties.get("byteorder", "big")
    names: dict[str, Item] = {}
    for source in grammar.items:
        assert not isinstance(source, Switch)
        item = (
            _variable(source, len(found.items))
            if isinstance(source, Variable)
            else _field(source, len(found.items), order)
        )
        if item.name in names and item.name:
            raise ServiceError(
                source.place, f"'{item.name}' stands twice in unit '{grammar.name}'", "rename one of them."
            )
        for value, text in ((item.length, False), (item.condition, False), (item.parse, item.kind == "text")):
            _check(value, names, item, text=text)
        if found.tail is not None:
            if item.kind not in ("variable", "text"):
                raise ServiceError(source.place, "an item follows one with &framing", "put that one last.")
        if item.kind == "tail":
            for each in FRAMINGS[item.framing].fields:
                if each not in names:
                    raise ServiceError(
                        source.place, f"&framing uses a field '{each}'", f"put '{each}' before this one."
                    )
        found.items.append(item)
        if item.name:
            names[item.name] = item
    for name, value in grammar.expressions.items():
        found.expressions[name] = value
        _check(value, names, found.items[-1], text=name in ("hops", "fill", "mute"))
    if "finish" in grammar.properties:
        found.finish = grammar.properties["finish"].encode("latin-1")
    if not any(item.kind != "variable" for item in found.items):
        raise ServiceError(grammar.place, f"the unit '{grammar.name}' has no field", "a message has one byte at least.")
    if not any(_has_bytes(item) and item.condition is None for item in found.items):
        raise ServiceError(
            grammar.place, f"a message of unit '{grammar.name}' can be empty", "give it a field of fixed size."
        )
    for item, source in zip(found.items, grammar.items, strict=True):
        if item.target and not isinstance(source, Switch):
            attribute = next(each for each in source.attributes if each.name == "serialize")
            target = names.get(item.target)  # a variable before this one is evaluated after it, and may set a field
            known = target is not None and target.kind == "variable" and target.index < item.index
            if target is None or not (known or target.kind in ("integer", "vint")):
                raise ServiceError(
                    attribute.place,
                    f"&serialize sets '{item.target}', which is no integer field of this unit",
                    suggest(item.target, [name for name, each in names.items() if each.kind in ("integer", "vint")]),
                )
            _check(item.serialize, names, item, own=True)
    return found


def _has_bytes(item: Item) -> bool:
    """Whether an item that is there has one byte at least."""
    if item.kind == "pattern":
        return item.automaton is not None and not item.automaton.accepts[0]
    if item.kind == "constant":
        return item.size > 0
    return item.kind in ("integer", "vint", "until", "headers", "tail")


def _list(source: WireField, index: int, what: str) -> Item:
    element = _element(source.type, what)
    return Item(index, source.name, "list", length=source.count, condition=source.condition, element=element)


def _row(type: WireType, what: str) -> Plan | None:
    """The unit of items in a row, whose bytes have a length; None if they are not known to be such units."""
    try:
        return None if type.unit is None else _element(type, what)
    except ServiceError:
        return None


def _element(type: WireType, what: str) -> Plan:
    """The unit of a list's items."""
    assert type.unit is not None
    element = plan(type.unit)
    values = [value for item in element.items for value in (item.length, item.condition, item.parse) if value]
    notes = any(_has(value, "note") for value in values)
    if element.tail is not None or element.expressions or element.finish is not None or notes:
        raise ServiceError(
            type.place,
            f"the items of {what} depend on their message or its end",
            "use a unit without such properties.",
        )
    return element


def _integer(type: WireType | None) -> Item | None:
    """One of the integers in a row."""
    if type is None:
        return None
    return Item(0, "", "integer", type.bits // 8, type.kind == "int", type.name)


def _variable(source: Variable, index: int) -> Item:
    attributes = _by_name(source.attributes, ("parse", "serialize"), "a variable")
    if source.type.kind not in ("uint", "int", "bytes", "string"):
        raise ServiceError(
            source.place,
            f"the variable '{source.name}' is no integer",
            "give it uint8 to uint64, int8 to int64, or string.",
        )
    parse = attributes.get("parse")
    if parse is None or parse.value is None:
        raise ServiceError(
            source.place, f"nothing says how the variable '{source.name}' is computed", "add &parse = VALUE."
        )
    serialize = attributes.get("serialize")
    if source.type.kind in ("bytes", "string"):
        if serialize is not None:
            raise ServiceError(serialize.place, "&serialize sets an integer", "change the field that has these bytes.")
        return Item(index, source.name, "text", text=source.type.kind == "string", parse=parse.value)
    return Item(
        index,
        source.name,
        "variable",
        source.type.bits // 8,
        source.type.kind == "int",
        parse=parse.value,
        target=serialize.target if serialize else "",
        serialize=serialize.value if serialize else None,
    )


def _field(source: WireField, index: int, order: str) -> Item:
    what = f"the field '{source.name}'" if source.name else "an anonymous field"
    match source.type.kind:
        case "list":
            return _list(source, index, what)
        case "pattern":
            _by_name(source.attributes, (), what)
            automaton = compile_pattern(source.type.name, source.type.place)
            return Item(index, source.name, "pattern", text=True, condition=source.condition, automaton=automaton)
        case "uint" | "int":
            attributes = _by_name(source.attributes, ("byteorder",), what)
            own = attributes.get("byteorder")
            if own is not None and own.value is not None and own.value.kind == "text":
                order = own.value.name
            return Item(
                index,
                source.name,
                "integer",
                source.type.bits // 8,
                source.type.kind == "int",
                order,
                condition=source.condition,
            )
        case "vint":
            _by_name(source.attributes, (), what)
            return Item(index, source.name, "vint", 8, True, condition=source.condition)
        case "headers":
            _by_name(source.attributes, (), what)
            return Item(index, source.name, "headers", text=True, condition=source.condition)
        case "bytes" | "string":
            attributes = _by_name(source.attributes, ("length", "until", "parseUntilIncluding", "framing", "eod"), what)
            text = source.type.kind == "string"
            if len(attributes) > 1:
                raise ServiceError(
                    source.place, f"{what} ends in two ways", "give it one of &length, &until, &framing, &eod."
                )
            until, framing = attributes.get("until", attributes.get("parseUntilIncluding")), attributes.get("framing")
            if "eod" in attributes:
                eod = attributes["eod"]
                framing = Attribute(eod.place, "framing", Value(eod.place, "text", "eod"))
            if until is not None:
                if until.value is None or until.value.kind != "text" or not until.value.name:
                    raise ServiceError(until.place, "&until is a string", 'write &until = "\\r\\n".')
                mark = until.value.name.encode("latin-1")
                return Item(index, source.name, "until", text=text, constant=mark, condition=source.condition)
            if framing is not None:
                name = framing.value.name if framing.value is not None else ""
                if name not in FRAMINGS:
                    raise ServiceError(framing.place, f"there is no framing '{name}'", suggest(name, FRAMINGS))
                if source.condition is not None:
                    raise ServiceError(
                        source.place, f"{what} has a condition", "an item with &framing is always there."
                    )
                return Item(index, source.name, "tail", text=text, framing=name)
            length = attributes.get("length")
            if length is None or length.value is None:
                raise ServiceError(source.place, f"{what} has no length", "add &length = VALUE.")
            return Item(
                index,
                source.name,
                "bytes",
                text=text,
                length=length.value,
                condition=source.condition,
                element=_row(source.type, what),
                integer=_integer(source.type.element),
            )
        case "constant" if source.type.name:
            try:
                data = source.type.name.encode("latin-1")
            except UnicodeEncodeError as error:
                raise ServiceError(
                    source.place, f"{what} has a character above 255", "write its bytes as \\xNN."
                ) from error
            return Item(index, source.name, "constant", len(data), constant=data, condition=source.condition)
        case "constant":
            raise ServiceError(
                source.place, f"{what} is a number, which has no size", 'write its bytes in quotes: "\\x80".'
            )
        case _:
            raise ServiceError(source.place, f"{what} has no form on the wire", "use integers, bytes, lists or units.")


def _by_name(attributes: list[Attribute], known: tuple[str, ...], what: str) -> dict[str, Attribute]:
    for each in attributes:
        if each.name not in known:
            raise ServiceError(
                each.place, f"&{each.name} does not belong to {what}", f"known here: &{', &'.join(known)}."
            )
    return {each.name: each for each in attributes}


def text_of(value: Value, names: Mapping[str, Item]) -> bool:
    """Whether a value is bytes, and not an integer."""
    match value.kind:
        case "text":
            return True
        case "field":
            return value.name in names and names[value.name].is_text
        case "call":
            return value.name in ("header", "word", "item", "line")
        case "choice":
            return text_of(value.items[1], names)
        case _:
            return False


_ARGUMENTS = {
    "header": (True, True), "has": (True, True, True), "word": (True, False), "item": (True, False),
    "line": (True,), "token": (True,), "number": (True,), "length": (True,),
}  # fmt: skip
"""Which arguments of a function are bytes."""


def _check(value: Value | None, names: dict[str, Item], item: Item, own: bool = False, text: bool = False) -> None:
    """Every field of an expression precedes it, and every part of it has the type required in its place."""
    if value is None:
        return
    if value.kind == "field" and value.name not in names:
        known = [name for name, each in names.items() if each.is_text == text]
        raise ServiceError(
            value.place,
            f"'self.{value.name}' is not known here",
            suggest(value.name, known, "a length can only use fields that stand before it."),
        )
    if value.kind == "self" and not own:
        raise ServiceError(value.place, "'$$' has no value here", "use it in &serialize only.")
    if text_of(value, names) != text:
        if value.kind == "field":
            what = "is no string" if text else "is no integer"
            raise ServiceError(
                value.place, f"'self.{value.name}' {what}", f"use {'a string' if text else 'an integer'} field."
            )
        if text:
            raise ServiceError(value.place, "a number stands where a string belongs", "write a string, or self.FIELD.")
        raise ServiceError(value.place, "a string stands where a number belongs", "write a number, or self.FIELD.")
    wanted = [False] * len(value.items)
    if value.kind == "call":
        wanted = list(_ARGUMENTS[value.name])
    elif value.kind in ("==", "!="):
        wanted = [text_of(value.items[0], names)] * 2
    elif value.kind == "choice":
        wanted = [False, text, text]
    for each, part in zip(value.items, wanted, strict=True):
        _check(each, names, item, own, part)
