"""What a grammar means: messages out of bytes, and bytes out of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.service.grammar.plan import Item, Plan
from sluice.service.grammar.tree import Value

WORD = 1 << 64


class MalformedError(Exception):
    """Bytes that are no message; the reason."""


@dataclass
class Parsed:
    """A message: where it ends, and the value and the place of each item. A field whose condition
    is false is 0 or empty."""

    end: int
    values: dict[str, int | bytes]
    spans: list[tuple[int, int]]


def wrap(number: int) -> int:
    """An integer as int64 holds it."""
    number %= WORD
    return number - WORD if number >= WORD // 2 else number


def parse(unit: Plan, data: bytes) -> Parsed | None:
    """The message that the bytes begin with, or None if there are too few. Raises MalformedError."""
    try:
        return _parse(unit, data)
    except _EndError:
        return None


def _parse(unit: Plan, data: bytes) -> Parsed | None:
    at, values, spans = 0, dict[str, int | bytes](), list[tuple[int, int]]()
    for item in unit.items:
        start = at
        if item.condition is None or evaluate(item.condition, values):
            at = _item(item, data, at, values, unit.limit)
        elif item.name:
            values[item.name] = b"" if item.kind == "bytes" else 0
        spans.append((start, at))
        if at > unit.limit:
            raise MalformedError("too long")
    return None if at > len(data) else Parsed(at, values, spans)


def _item(item: Item, data: bytes, at: int, values: dict[str, int | bytes], limit: int) -> int:
    """One item; where the next one begins. Bytes beyond the data are left out: the caller sees that by the end."""
    match item.kind:
        case "integer":
            if at + item.size > len(data):
                raise _EndError
            values[item.name] = wrap(
                int.from_bytes(
                    data[at : at + item.size], "big" if item.order == "big" else "little", signed=item.signed
                )
            )
            return at + item.size
        case "constant":
            got = data[at : at + item.size]
            if not item.constant.startswith(got):
                raise MalformedError(item.name or "constant")
            if len(got) < item.size:
                raise _EndError
            return at + item.size
        case "variable":
            assert item.parse is not None
            value = evaluate(item.parse, values)
            if not (item.size == 8 or item.smallest <= value <= item.largest):
                raise MalformedError(item.name)
            values[item.name] = value
            return at
        case _:
            assert item.length is not None
            length = evaluate(item.length, values)
            if not 0 <= length <= limit:
                raise MalformedError(item.name or "length")
            values[item.name] = data[at : at + length]
            return at + length


class _EndError(Exception):
    """There are too few bytes."""


def serialise(unit: Plan, fields: Mapping[str, int | bytes], base: bytes | None = None) -> bytes:
    """The bytes of a message with these fields; the others are those of `base`, a whole message, or 0 and empty.

    Raises MalformedError where a value does not fit its field.
    """
    before = parse(unit, base) if base is not None else None
    values: dict[str, int | bytes] = dict(before.values) if before is not None else {}
    for item in unit.items:
        if item.name and item.name not in values:
            values[item.name] = b"" if item.kind == "bytes" else 0
    values.update(fields)
    for name, of in unit.lengths().items():
        values[name] = len(_bytes(values[of]))
    for item in reversed(unit.items):
        if item.target and item.serialize is not None:
            values[item.target] = evaluate(item.serialize, values, values[item.name])
    out = b""
    for item in unit.items:
        if item.condition is not None and not evaluate(item.condition, values):
            continue
        if item.kind == "integer":
            value = values.get(item.name, 0)
            if not item.name and before is not None and base is not None:
                start, end = before.spans[item.index]
                out += base[start:end].ljust(item.size, b"\0")
                continue
            assert isinstance(value, int)
            if item.size < 8 and not item.smallest <= value <= item.largest:
                raise MalformedError(item.name)
            out += (value % (1 << (8 * item.size))).to_bytes(item.size, "big" if item.order == "big" else "little")
        elif item.kind == "constant":
            out += item.constant
        elif item.kind == "bytes":
            if item.name:
                out += _bytes(values[item.name])
            elif before is not None and base is not None:
                start, end = before.spans[item.index]
                out += base[start:end]
    again = parse(unit, out)
    if again is None or again.end != len(out):
        raise MalformedError("length")
    return out


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def evaluate(value: Value, values: Mapping[str, int | bytes], own: int | bytes = 0) -> int:
    """An expression. Division by 0 makes the message malformed."""
    match value.kind:
        case "number":
            return wrap(value.number)
        case "field":
            found = values[value.name]
            assert isinstance(found, int)
            return found
        case "self":
            assert isinstance(own, int)
            return own
        case "not":
            return int(not evaluate(value.items[0], values, own))
        case "negative":
            return wrap(-evaluate(value.items[0], values, own))
        case "choice":
            return evaluate(value.items[1 if evaluate(value.items[0], values, own) else 2], values, own)
        case "&&":
            return int(bool(evaluate(value.items[0], values, own)) and bool(evaluate(value.items[1], values, own)))
        case "||":
            return int(bool(evaluate(value.items[0], values, own)) or bool(evaluate(value.items[1], values, own)))
        case _:
            return binary(value.kind, evaluate(value.items[0], values, own), evaluate(value.items[1], values, own))


def binary(operator: str, left: int, right: int) -> int:
    """An operation of int64, as C has it; a shift takes the low 6 bits of its right operand."""
    if operator in ("/", "mod"):
        if right == 0:
            raise MalformedError("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return wrap(quotient) if operator == "/" else wrap(left - quotient * right)
    results = {
        "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
        "|": lambda: left | right, "^": lambda: left ^ right, "&": lambda: left & right,
        "<<": lambda: left << (right & 63), ">>": lambda: left >> (right & 63),
        "==": lambda: int(left == right), "!=": lambda: int(left != right), "<": lambda: int(left < right),
        ">": lambda: int(left > right), "<=": lambda: int(left <= right), ">=": lambda: int(left >= right),
    }  # fmt: skip
    return wrap(results[operator]())
