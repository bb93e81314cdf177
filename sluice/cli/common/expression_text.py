"""Formats expressions and actions of a description as text, as close as possible to what the user wrote."""

from __future__ import annotations

import functools
import io
import linecache
import tokenize
from typing import Any

from sluice.lang import expression as lang
from sluice.lang.action import Assemble, Assign, Block, Callback, SwapSides
from sluice.lang.alias import AddAlias
from sluice.lang.choice import Choice
from sluice.lang.events import EventValue
from sluice.lang.expression import Expression, Invert
from sluice.lang.field_value import Contains, FieldValue
from sluice.lang.layout import AnyUntil, BytesField, Field, HeaderFormat, LayoutType, VarintField
from sluice.lang.native import NativeCall
from sluice.lang.owner import Owner
from sluice.lang.psm import StateNumber, Taken
from sluice.lang.where import Where

# Python's precedences. An operand with a lower precedence than its operator gets parentheses.
_PRECEDENCE = {
    "*": 9, "/": 9, "%": 9, "+": 8, "-": 8, "<<": 7, ">>": 7, "&": 6, "^": 5, "|": 4,
    "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3,
}  # fmt: skip
_ATOM = 20


def words(expression: Expression, own: Owner | None = None) -> str:
    """The text of an expression. Names of the parser `own` are not qualified."""
    return _words(expression, own)[0]


def _words(expression: Expression, own: Owner | None) -> tuple[str, int]:
    match expression:
        case lang.Number():
            return _number(expression), _ATOM
        case StateNumber():
            return expression.state.name, _ATOM
        case lang.Binary():
            level = _PRECEDENCE[expression.operator]
            # nested comparisons would be a chain in Python, so both operands need a higher precedence
            left = _inside(expression.left, own, level + (level == 3))
            right = _inside(expression.right, own, level + 1)
            operator = "//" if expression.operator == "/" else expression.operator
            return f"{left} {operator} {right}", level
        case lang.Invert():
            return f"~{_inside(expression.operand, own, 11)}", 11
        case lang.Slice():
            low = "" if expression.low is None else words(expression.low, own)
            high = "" if expression.high is None else words(expression.high, own)
            return f"{_inside(expression.base, own, _ATOM)}[{low}:{high}]", _ATOM
        case lang.LengthOf():
            return f"{_inside(expression.base, own, _ATOM)}.length", _ATOM
        case lang.Octet():
            return f"{_inside(expression.base, own, _ATOM)}[{words(expression.at, own)}]", _ATOM
        case lang.Checksum():
            inside = ", ".join(words(item, own) for item in (expression.data, *expression.pseudo))
            return f"internet_checksum({inside})", _ATOM
        case lang.Crc():
            inside = words(expression.data, own)
            return f"crc32c({inside}, blank=({expression.low}, {expression.high}))", _ATOM
        case FieldValue():
            group = {"v": "v.header"}.get(expression.group, expression.group)
            return f"{_whose(expression.owner, own)}{group}.{expression.field.name}", _ATOM
        case Contains():
            return f"{_whose(expression.owner, own)}header_contain({expression.part.__name__})", _ATOM
        case lang.Property():
            return f"{_whose(expression.owner, own)}{expression.name}", _ATOM
        case lang.Below():
            return f"{_whose(expression.owner, own)}below.{expression.name}", _ATOM
        case lang.Gathered():
            return f"every {expression.name} below", _ATOM
        case Taken():
            return f"{_whose(expression.owner, own)}psm.{expression.transition.name}", _ATOM
        case EventValue():
            return f"event.{expression.event.name}.{expression.name}", _ATOM
        case Field():
            return expression.name, _ATOM
        case _:
            return type(expression).__name__, _ATOM


def _inside(expression: Expression, own: Owner | None, least: int) -> str:
    text, level = _words(expression, own)
    return text if level >= least else f"({text})"


def _whose(owner: Owner, own: Owner | None) -> str:
    if own is not None and (owner is own or owner.prototype is own.prototype):
        return ""
    return f"{getattr(owner, 'name', '') or owner.prototype.name}."


def _number(number: lang.Number) -> str:
    """A number in the user's notation if its line contains it in hexadecimal, binary or octal, else in decimal."""
    for value, spelling in _spellings(number.where):
        if value == number.value:
            return spelling
    return f"-{(1 << 64) - number.value}" if number.value >= 1 << 63 else str(number.value)


@functools.cache
def _spellings(where: Where) -> tuple[tuple[int, str], ...]:
    """The hexadecimal, binary and octal numbers in a source line, each with its text."""
    found: list[tuple[int, str]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(linecache.getline(where.file, where.line).strip()).readline):
            if token.type == tokenize.NUMBER and token.string.lower().startswith(("0x", "0b", "0o")):
                found.append((int(token.string, 0), token.string))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # a single line of a longer statement need not be valid Python
    return tuple(found)


def action_words(action: Any, own: Owner | None = None) -> str:
    """The text of an action: Assign, Assemble, Callback, or one of them inside If."""
    match action:
        case Block():
            return " + ".join(action_words(part, own) for part in action.actions)
        case Choice():
            text = f"If({words(action.condition, own)}) >> {_body(action.body, own)}"
            if action.otherwise is not None:
                text += f" >> Else() >> {_body(action.otherwise, own)}"
            return text
        case Assign():
            register = action.register
            if isinstance(register, Field) and register.layout is not None:
                name = f"{register.layout.__name__}.{register.name}"
            else:
                name = words(register, own)
            return f"Assign({name}, {words(action.expression, own)})"
        case Assemble():
            return "Assemble()"
        case Callback():
            return f"Callback({action.data.__name__})"
        case AddAlias(by_selector=True):
            return f"AddAlias({action.parser.prototype.name}, selector)"
        case AddAlias():
            values = ", ".join(words(value, own) for value in action.values)
            to_sender = ", to_sender=True" if isinstance(action.side, Invert) else ""
            return f"AddAlias({action.parser.prototype.name}, [{values}]{to_sender})"
        case SwapSides():
            return "swap_sides()"
        case NativeCall():
            inside = [words(item, own) for item in action.inputs]
            if action.into:
                inside.append(f"into=[{', '.join(words(item, own) for item in action.into)}]")
            if action.context is not None:
                inside.append(f"context={words(action.context, own)}")
            return f"{action.function.name}({', '.join(inside)})"
        case Expression():
            return words(action, own)
        case _:
            return str(action)


def _body(action: Any, own: Owner | None) -> str:
    text = action_words(action, own)
    several = isinstance(action, Choice) or (isinstance(action, Block) and len(action.actions) > 1)
    return f"({text})" if several else text


def header_words(part: Any, own: Owner | None = None) -> list[str]:
    """The parts of a header, one line each."""
    match part:
        case HeaderFormat():
            return [line for item in part.parts for line in header_words(item, own)]
        case LayoutType():
            return [f"{part.__name__}: {', '.join(field_words(field, own) for field in part.fields.values())}"]
        case AnyUntil():
            end = f", up to {words(part.end, own)}" if part.end is not None else ""
            count = f", {words(part.count, own)} at most" if part.count is not None else ""
            count += f", {part.limit} at most, counted" if part.limit is not None else ""
            out = [f"any of the following while {words(part.condition, own)}{count}{end}"]
            return out + [f"  {line}" for item in part.alternatives for line in header_words(item, own)]
        case Choice():
            out = [f"if {words(part.condition, own)}"] + [f"  {line}" for line in header_words(part.body, own)]
            if part.otherwise is not None:
                out += ["else"] + [f"  {line}" for line in header_words(part.otherwise, own)]
            return out
        case _:
            return [str(part)]


def field_words(field: Field, own: Owner | None = None) -> str:
    """A field as text: its name, bits and properties."""
    size = str(field.bits) if isinstance(field.bits, int) else f"({words(field.bits, own)})"
    kinds: dict[type[Field], str] = {VarintField: "varint", BytesField: "bytes"}
    text = f"{field.name} {kinds.get(type(field), size)}"
    if field.const is not None:
        text += f" ={field.const}"
    if field.order == "little":
        text += " little"
    if field.serial:
        text += " serial"
    if field.init is not None:
        text += f" from {words(field.init, own)}"
    return text
