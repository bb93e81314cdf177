"""One description of a protocol for a router and a monitor: a unit as a layer of a stack, and a layer as a unit.

A unit of fields whose lengths earlier fields give is a layer: its header has all items but the last one, which is the
payload if it is a byte string, and the messages of a stream are found by its length. Units with delimiters, or with
parts whose number is not known before, are none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sluice.lang import Bit, Connectionless, Length, layout
from sluice.lang.expression import NUMBER, Binary, Expression, Number
from sluice.lang.layout import Field, HeaderFormat, LayoutType
from sluice.lang.message import LONGEST
from sluice.service.grammar.plan import Item, Plan, plan
from sluice.service.grammar.ready import find_grammars
from sluice.service.grammar.tree import Value
from sluice.service.lang.errors import Place, ServiceError, suggest

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}


def layer_of(grammar: str, unit: str = "") -> Any:
    """A parser for a stack, whose messages are those of a unit of a grammar: of a name of Sluice's, or of a file.
    `unit`: its name, if the grammar has several. The fields are those of the unit, under `header`; a constant without a
    name is `constant_N`, N its place from 0. Raises ServiceError for a unit that cannot be a layer.
    """
    found = find_grammars(grammar)
    names = [each.name for each in found]
    chosen = next((each for each in found if each.name == unit or (not unit and len(found) == 1)), None)
    if chosen is None:
        raise ServiceError(Place(grammar, 1), f"which unit: {', '.join(names)}?", suggest(unit, names))
    return _layer(plan(chosen), chosen.place)


def _layer(unit: Plan, place: Place) -> Any:
    items = [each for each in unit.items if each.kind not in ("variable", "text")]
    last = items[-1] if items[-1].kind == "bytes" else None
    fields: dict[str, Any] = {}
    for item in items[: len(items) - (last is not None)]:
        name = item.name or f"{'constant' if item.kind == 'constant' else 'unnamed'}_{item.index}"
        fields[name] = _field(item, unit, fields, place)
    parser: Any = Connectionless(unit.name)
    parser.header = LayoutType(f"{unit.name}_header", (layout,), fields)
    known = {name: getattr(parser.header, name) for name in fields}
    total = sum((_bytes(each, unit, known, place) for each in items), start=Number(0))
    parser.message = Length(total, limit=min(unit.limit, LONGEST))
    return parser


def _field(item: Item, unit: Plan, known: dict[str, Any], place: Place) -> Field:
    if item.condition is not None or item.kind not in ("integer", "constant", "bytes"):
        raise ServiceError(
            place, f"'{item.name or item.kind}' of unit '{unit.name}' has no place that a header could give",
            "a layer has integers, constants, and byte strings with a &length of earlier fields.",
        )  # fmt: skip
    if item.kind == "bytes":
        made: Field = Bit(_bytes(item, unit, known, place) << 3)
    elif item.kind == "constant":
        made = Bit(8 * len(item.constant), const=int.from_bytes(item.constant, "big"))
    else:
        made = Bit(8 * item.size, order=item.order)
    return made


def _bytes(item: Item, unit: Plan, known: dict[str, Any], place: Place) -> Any:
    """The size of an item."""
    if item.kind == "bytes" and item.length is not None:
        return _expression(item.length, unit, known, place)
    return Number(len(item.constant) if item.kind == "constant" else item.size)


def _expression(value: Value, unit: Plan, known: dict[str, Any], place: Place) -> Any:
    if value.kind == "number":
        return Number(value.number)
    if value.kind == "field":
        item = unit.by_name[value.name]
        if item.kind == "variable" and item.parse is not None:
            return _expression(item.parse, unit, known, place)
        if value.name in known and known[value.name].kind == NUMBER:
            return known[value.name]
    if value.kind in OPERATORS:
        return OPERATORS[value.kind](*(_expression(each, unit, known, place) for each in value.items))
    raise ServiceError(
        place, f"a length of unit '{unit.name}' is computed in a form that layers have not",
        f"use numbers, integers before it, and {' '.join(OPERATORS)}.",
    )  # fmt: skip


def unit_of(parser: Any, name: str = "") -> str:
    """The text of a grammar with one unit: the header and the payload of a layer whose messages have a length. It can
    be given to `sluice serve --grammar` as a file. Raises ServiceError for a layer that cannot be a unit.
    """
    title, place = name or parser.name, Place("layer", 1)
    if parser.message is None:
        raise ServiceError(place, f"layer '{title}' has no messages", "give it message = Length(...).")
    lines = [f"module {title};", "", f"export type {title} = unit {{", "  %byteorder = big;"]
    lines += [f"  %limit = {parser.message.limit};", ""]
    length: Expression = parser.message.length
    size = 0
    for each in _header(parser):
        if each is None or not isinstance(each.bits, int) or each.bits not in (8, 16, 32, 64):
            raise ServiceError(
                place, f"a field of layer '{title}' has not 8, 16, 32 or 64 bits", "a unit has no other integers."
            )
        order = " &byteorder = little" if each.order == "little" else ""
        lines.append(f"  {each.name} : uint{each.bits}{order};")
        if each.const is not None:  # another value is malformed
            lines.append(f"  var {each.name}_is_known : uint8 &parse = self.{each.name} == {each.const} ? 1 : -1;")
        size += each.bits // 8
    lines += [f"  payload : bytes &length = ({_text(length, title, place)}) - {size};", "};", ""]
    return "\n".join(lines)


def _header(parser: Any) -> list[Field | None]:
    """The fields of a header in their order; None for a part that is no layout."""
    format: HeaderFormat | None = parser.prototype.format
    parts: list[object] = [] if format is None else format.parts
    return [field for part in parts for field in (part.fields.values() if isinstance(part, LayoutType) else (None,))]


def _text(node: Any, title: str, place: Place) -> str:
    """An expression of a layer as one of a grammar."""
    if isinstance(node, Number):
        return str(node.value)
    if isinstance(node, Binary) and node.operator in OPERATORS:
        return f"({_text(node.left, title, place)} {node.operator} {_text(node.right, title, place)})"
    field = getattr(node, "field", node)
    if isinstance(field, Field) and field.name:
        return f"self.{field.name}"
    raise ServiceError(
        place, f"the length of layer '{title}' has a part that units have not", f"use fields and {' '.join(OPERATORS)}."
    )
