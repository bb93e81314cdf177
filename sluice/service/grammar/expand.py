"""Units within units, switches, bitfields and arrays as sequences of simple fields.

A unit within a unit becomes its fields, whose names begin with that of the field: `self.head.size` is `head_size`,
also in programs. The fields of a case have its condition; a value that no case has makes the message malformed. The
bits of a bitfield are variables. A list of integers is a byte string; one of units has these as its element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sluice.service.grammar.tree import (
    DEEPEST,
    Attribute,
    Case,
    Grammar,
    Item,
    Switch,
    Value,
    Variable,
    WireField,
    WireType,
    check_size,
)
from sluice.service.lang.errors import Place, ServiceError, suggest

Declared = Mapping[str, Grammar | WireType]
"""The types of a grammar by their names."""

SIMPLE = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bytes", "string")
MOST_ITEMS = 4096
"""Fields of a unit with those of the units and lists in it."""
MOST_CONSTANTS = 200
"""Cases of a switch that the bytes which come next decide, one comparison after the other."""
MOST_PARTS = 200_000
"""Parts of all expressions of a unit: each parameter is replaced by the expression that is its value."""


@dataclass
class _Size:
    """Of a unit so far, with its lists. Without a bound it is exponential in the depth of units within units."""

    items: int = 0
    parts: int = 0


def expand(unit: Grammar, declared: Declared) -> Grammar:
    """The unit with simple fields only. Raises ServiceError."""
    if unit.parameters:
        raise ServiceError(
            unit.place, f"the unit '{unit.name}' has parameters", "use it within a unit that gives their values."
        )
    return _expanded(unit, declared, (), _Size())


def _expanded(unit: Grammar, declared: Declared, trail: tuple[str, ...], size: _Size) -> Grammar:
    found = replace(unit, items=[])
    _Expansion(unit, declared, found, size).unit(unit, "", {}, None, (*trail, unit.name))
    return found


@dataclass(frozen=True)
class _Scope:
    """How the items of a unit stand in the unit around it."""

    prefix: str
    given: Mapping[str, Value]
    """The values of its parameters."""
    condition: Value | None
    order: str
    """The byte order of its integers, if it is not that of the unit around it."""
    trail: tuple[str, ...]
    size: _Size

    def value(self, value: Value | None) -> Value | None:
        """An expression of the unit as one of the unit around it."""
        if value is None:
            return None
        found = self._value(value)
        if self.given:
            check_size(found)
        return found

    def _value(self, value: Value) -> Value:
        self.size.parts += 1
        if value.kind == "parameter":
            self.size.parts += check_size(self.given[value.name])
            if self.size.parts > MOST_PARTS:
                raise ServiceError(
                    value.place, f"the expressions of this unit have more than {MOST_PARTS:,} parts",
                    "a parameter stands for the expression that it is given: compute a variable with &parse first.",
                )  # fmt: skip
            return self.given[value.name]
        name = self.prefix + value.name if value.kind == "field" else value.name
        return replace(value, name=name, items=tuple(map(self._value, value.items)))


def _number(place: Place, number: int) -> Value:
    return Value(place, "number", number=number % (1 << 64))


def _binary(operator: str, left: Value, right: Value) -> Value:
    return Value(left.place, operator, items=(left, right))


def _both(left: Value | None, right: Value | None) -> Value | None:
    if left is None or right is None:
        return right if left is None else left
    return _binary("&&", left, right)


def _any(place: Place, values: Iterable[Value]) -> Value | None:
    """Whether one of them holds. The tree is balanced: a switch may have thousands of values."""
    found = list(values)
    while len(found) > 1:
        pairs = [Value(place, "||", items=pair) for pair in zip(found[::2], found[1::2], strict=False)]
        found = pairs + found[len(found) // 2 * 2 :]
    return found[0] if found else None


def _ordered(item: WireField, scope: _Scope) -> WireField:
    """An integer of a unit whose byte order is not that of the unit around it."""
    if (
        not scope.order
        or item.type.kind not in ("uint", "int")
        or any(each.name == "byteorder" for each in item.attributes)
    ):
        return item
    order = Attribute(item.place, "byteorder", Value(item.place, "text", scope.order))
    return replace(item, attributes=[*item.attributes, order])


def parts_of(unit: Grammar) -> set[str]:
    """Names of the types that a unit has as parts."""
    return {name for item in unit.items for name in _types_of(item)}


def _types_of(item: Item) -> Iterator[str]:
    if isinstance(item, Switch):
        for case in item.cases:
            for each in case.items:
                yield from _types_of(each)
    else:
        type: WireType | None = item.type
        while type is not None:
            if type.kind == "unit":
                yield type.name
            type = type.element


class _Expansion:
    def __init__(self, top: Grammar, declared: Declared, found: Grammar, size: _Size) -> None:
        self.top, self.declared, self.found, self.size = top, declared, found, size

    def put(self, item: Item) -> None:
        self.found.items.append(item)
        self.size.items += 1
        if self.size.items > MOST_ITEMS:
            raise ServiceError(
                self.top.place,
                f"the unit '{self.top.name}' has more than {MOST_ITEMS} fields",
                "those of the units in it count: use a list, or fewer units within units.",
            )

    def unit(
        self, unit: Grammar, prefix: str, given: Mapping[str, Value], condition: Value | None, trail: tuple[str, ...]
    ) -> None:
        """The items of a unit, which are there if the condition holds. `trail`: the units around it."""
        order = unit.properties.get("byteorder", "big")
        own = self.found.properties.get("byteorder", "big")
        scope = _Scope(prefix, given, condition, order if order != own else "", trail, self.size)
        for item in unit.items:
            self.item(item, scope)

    def item(self, item: Item, scope: _Scope) -> None:
        match item:
            case Variable():
                self.variable(item, scope)
            case Switch():
                self.switch(item, scope)
            case WireField():
                self.field(item, scope)

    def variable(self, item: Variable, scope: _Scope) -> None:
        empty = Value(item.place, "text" if item.type.kind in ("bytes", "string") else "number")
        attributes: list[Attribute] = []
        for each in item.attributes:
            value = scope.value(each.value)
            target = scope.prefix + each.target if each.target else ""
            if scope.condition is not None and value is not None:
                other = Value(each.place, "field", target) if target else empty
                value = Value(each.place, "choice", items=(scope.condition, value, other))
            attributes.append(replace(each, value=value, target=target))
        self.put(replace(item, name=scope.prefix + item.name, attributes=attributes))

    def switch(self, item: Switch, scope: _Scope) -> None:
        subject, place = scope.value(item.subject), item.place
        within = _both(scope.condition, scope.value(item.condition))
        if subject is None:
            subject, item = self.next_bytes(item, scope, within)
        tests = [
            _any(
                place,
                (Value(place, "==", items=(subject, value)) for value in map(scope.value, case.values or ()) if value),
            )
            for case in item.cases
        ]
        known = _any(place, (each for each in tests if each is not None))
        default = any(case.values is None for case in item.cases)
        for case, test in zip(item.cases, tests, strict=True):
            if case.values is None:
                test = Value(place, "not", items=(known,)) if known is not None else None
            inner = replace(scope, condition=_both(within, test))
            for each in case.items:
                self.item(each, inner)
        if not default and known is not None:
            good = known if within is None else Value(place, "||", items=(Value(place, "not", items=(within,)), known))
            self.check(place, good)

    def next_bytes(self, item: Switch, scope: _Scope, within: Value | None) -> tuple[Value, Switch]:
        """A switch without a subject as one by a variable, which is the number of the case whose constant comes
        next.
        """
        place, chosen = item.place, _number(item.place, 0)
        cases: list[Case] = []
        for number, case in reversed(list(enumerate(item.cases, 1))):
            if case.values is None:
                cases.append(case)
                continue
            first = Value(place, "next", self.first_constant(case.items[0], scope.trail))
            chosen = Value(place, "choice", items=(first, _number(place, number), chosen))
            cases.append(replace(case, values=(_number(place, number),)))
        if len(cases) > MOST_CONSTANTS:
            raise ServiceError(
                place, f"this switch without a value has more than {MOST_CONSTANTS} cases", "switch ( VALUE ) instead."
            )
        if within is not None:
            chosen = Value(place, "choice", items=(within, chosen, _number(place, 0)))
        name = f"case_{len(self.found.items)}"
        self.put(Variable(place, name, WireType(place, "uint", 16), [Attribute(place, "parse", chosen)]))
        return Value(place, "field", name), replace(item, cases=tuple(reversed(cases)))

    def first_constant(self, item: Item, trail: tuple[str, ...]) -> str:
        """The constant with which an alternative begins, itself or in a unit."""
        if isinstance(item, WireField) and item.condition is None:
            type = self.type(item.type, item)
            if type.kind == "constant" and type.name:
                return type.name
            if type.kind == "unit" and item.count is None and type.name not in trail:
                unit = self.grammar(type)
                if unit.items:
                    return self.first_constant(unit.items[0], (*trail, unit.name))
        raise ServiceError(
            item.place, "this alternative of a switch without a value does not begin with a constant",
            'begin it with bytes in quotes, or write switch ( VALUE ) { ... }.',
        )  # fmt: skip

    def check(self, place: Place, good: Value) -> None:
        """A condition without which a message is malformed."""
        value = Value(place, "choice", items=(good, _number(place, 1), _number(place, -1)))
        name = f"known_{len(self.found.items)}"
        self.put(Variable(place, name, WireType(place, "uint", 8), [Attribute(place, "parse", value)]))

    def field(self, item: WireField, scope: _Scope) -> None:
        condition = _both(scope.condition, scope.value(item.condition))
        attributes = [replace(each, value=scope.value(each.value)) for each in item.attributes]
        type = self.type(item.type, item)
        name = scope.prefix + item.name if item.name else ""
        made = replace(
            item, name=name, type=type, attributes=attributes, condition=condition, count=scope.value(item.count)
        )
        if type.kind == "list" and type.unit is not None:  # of a unit that was expanded before, as those of other files
            self.put(made)
        elif type.kind == "list" or item.count is not None:
            self.list(made, scope)
        elif type.kind == "unit":
            self.nested(made, scope)
        elif type.kind == "bitfield":
            self.bits(made, item.name, scope)
        else:
            self.put(_ordered(made, scope))

    def type(self, type: WireType, item: WireField) -> WireType:
        """A type without the names of other types, but for units."""
        for _ in range(len(self.declared) + 1):
            found = self.declared.get(type.name) if type.kind == "unit" else None
            if not isinstance(found, WireType):
                break
            type = replace(found, place=type.place)
        what = f"'{item.name}'" if item.name else "an anonymous field"
        if type.kind == "labels":
            raise ServiceError(
                item.place,
                f"nothing says how many bytes {what} has",
                f"write an integer, and &transform = {type.name}.",
            )
        return type

    def grammar(self, type: WireType) -> Grammar:
        found = self.declared.get(type.name)
        if not isinstance(found, Grammar):
            raise ServiceError(
                type.place, f"there is no type '{type.name}'",
                suggest(type.name, {*self.declared, *SIMPLE}),
            )  # fmt: skip
        return found

    def part(self, type: WireType, place: Place, scope: _Scope) -> Grammar:
        """The unit of a field, which is none of those around it."""
        unit = self.grammar(type)
        if len(scope.trail) > DEEPEST:
            raise ServiceError(place, f"units within units are more than {DEEPEST} deep here", "make it flatter.")
        if unit.name in scope.trail:
            raise ServiceError(
                place, f"the unit '{unit.name}' contains itself", "its messages would have no bound: end it."
            )
        return unit

    def nested(self, item: WireField, scope: _Scope) -> None:
        unit = self.part(item.type, item.place, scope)
        if item.attributes:
            raise ServiceError(
                item.attributes[0].place, f"&{item.attributes[0].name} does not belong to a unit within a unit",
                "its own fields say where it ends.",
            )  # fmt: skip
        given = [scope.value(each) for each in item.type.arguments]
        if len(given) != len(unit.parameters):
            raise ServiceError(
                item.place, f"'{unit.name}' takes {len(unit.parameters)} arguments, not {len(given)}",
                f"it is declared in {unit.place}: give it all of them.",
            )  # fmt: skip
        values = {name: value for name, value in zip(unit.parameters, given, strict=True) if value is not None}
        prefix = f"{item.name or f'{scope.prefix}unnamed_{len(self.found.items)}'}_"
        self.unit(unit, prefix, values, item.condition, (*scope.trail, unit.name))

    def bits(self, item: WireField, label: str, scope: _Scope) -> None:
        place, type = item.place, item.type
        whole = item.name or f"{scope.prefix}bits_{len(self.found.items)}"
        self.put(_ordered(replace(item, name=whole, type=replace(type, kind="uint")), scope))
        field = Value(place, "field", whole)
        for name, low, high in type.ranges:
            most = (1 << (high - low + 1)) - 1
            parse = _binary("&", _binary(">>", field, _number(place, low)), _number(place, most))
            others = _binary("&", field, _number(place, (1 << 64) - 1 - (most << low)))
            own = Value(place, "self")
            set_ = _binary("|", others, _binary("<<", own, _number(place, low)))
            wrong = _binary("||", _binary("<", own, _number(place, 0)), _binary(">", own, _number(place, most)))
            if high - low < 63:  # all bits of 64 hold any value
                refused = _binary("/", own, _number(place, 0))  # no number is out of range for 64 bits
                set_ = Value(place, "choice", items=(wrong, refused, set_))
            serialize = set_
            if item.condition is not None:
                serialize = Value(place, "choice", items=(item.condition, serialize, field))
            attributes = [Attribute(place, "parse", parse), Attribute(place, "serialize", serialize, whole)]
            full = f"{whole}_{name}" if label else scope.prefix + name
            self.put(Variable(place, full, WireType(place, "uint", 64), attributes))

    def list(self, item: WireField, scope: _Scope) -> None:
        place, what = item.place, f"the list '{item.name}'" if item.name else "an anonymous list"
        type = item.type
        if type.kind == "list":
            assert type.element is not None
            type = self.type(type.element, item)
        size = next((each for each in item.attributes if each.name == "length"), None)
        if size is not None and item.count is None:
            self.put(replace(item, type=self.row(WireType(place, "bytes"), type, scope)))
            return
        if item.count is None:
            raise ServiceError(place, f"nothing says how many items {what} has", "write [NUMBER], or &length = BYTES.")
        if item.attributes:
            raise ServiceError(
                item.attributes[0].place, f"&{item.attributes[0].name} does not belong to {what}",
                "its items end where their own fields say.",
            )  # fmt: skip
        if type.kind in ("uint", "int", "bitfield"):
            self.integers(item, type, scope)
        elif type.kind == "unit":
            unit = self.part(type, place, scope)
            if unit.parameters or type.arguments:
                raise ServiceError(place, f"the items of {what} have parameters", "use a unit without parameters.")
            found = _expanded(unit, self.declared, scope.trail, self.size)
            self.put(replace(item, type=WireType(place, "list", name=unit.name, unit=found)))
        else:
            raise ServiceError(
                place, f"the items of {what} are neither integers nor units", "declare a unit with one such field."
            )

    def row(self, whole: WireType, one: WireType, scope: _Scope) -> WireType:
        """The bytes of items in a row, for programs that take them as a list: integers, or units without parameters."""
        if one.kind in ("uint", "int", "bitfield"):
            order = scope.order or self.found.properties.get("byteorder", "big")
            kind = "uint" if one.kind == "bitfield" else one.kind
            return replace(whole, element=replace(one, kind=kind, name=order))
        unit = self.declared.get(one.name) if one.kind == "unit" else None
        if not isinstance(unit, Grammar) or unit.parameters or unit.name in scope.trail:
            return whole
        return replace(whole, name=unit.name, unit=_expanded(unit, self.declared, scope.trail, self.size))

    def integers(self, item: WireField, type: WireType, scope: _Scope) -> None:
        """An array of integers: a byte string, of whose size the field that is the number of items is a fraction."""
        place, count, size = item.place, item.count, type.bits // 8
        assert count is not None
        length = _binary("*", count, _number(place, size))
        whole = self.row(WireType(place, "bytes"), type, scope)
        self.put(replace(item, type=whole, count=None, attributes=[Attribute(place, "length", length)]))
        if not item.name or count.kind != "field":
            return
        items = _binary(
            "/", Value(place, "call", "length", items=(Value(place, "field", item.name),)), _number(place, size)
        )
        if item.condition is not None:
            items = Value(place, "choice", items=(item.condition, items, count))
        attributes = [Attribute(place, "parse", count), Attribute(place, "serialize", items, count.name)]
        self.put(Variable(place, f"{item.name}_items", WireType(place, "int", 64), attributes))
