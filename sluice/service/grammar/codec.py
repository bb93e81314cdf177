"""The semantics of a grammar: messages from bytes, and bytes from messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.service.grammar import scan
from sluice.service.grammar.plan import BODY, FRAMINGS, LIST, Item, Plan
from sluice.service.grammar.scan import EndError, MalformedError
from sluice.service.grammar.tree import Value

__all__ = [
    "MalformedError", "Parsed", "evaluate", "integer_bytes", "integers", "parse", "parts", "property_of", "serialise",
    "wrap",
]  # fmt: skip

WORD = 1 << 64
NEXT = "\0next"
"""The name by which an expression finds the bytes that come next."""
Values = Mapping[str, int | bytes]


@dataclass
class Parsed:
    """A message: where it ends, and the value and the place of each item. A field whose condition is false is 0 or
    empty.
    """

    end: int
    values: dict[str, int | bytes]
    spans: list[tuple[int, int]]
    note: int = 0
    open: bool = False
    """Whether it continues until the end of the connection."""


def wrap(number: int) -> int:
    """An integer as int64 holds it."""
    number %= WORD
    return number - WORD if number >= WORD // 2 else number


def parse(unit: Plan, data: bytes, note: int = 0, ended: bool = False) -> Parsed | None:
    """The message that the bytes begin with, or None if there are too few. `note` is that of the request, if it is an
    answer; `ended` marks the end of the stream. Raises MalformedError.
    """
    try:
        return _parse(unit, data, note, ended)
    except EndError:
        return None


def property_of(unit: Plan, found: Parsed, name: str, default: int = 0) -> int:
    """The value of a property of a message."""
    value = unit.expressions.get(name)
    return default if value is None else _integer(value, found.values, 0, found.note)


def _parse(unit: Plan, data: bytes, note: int, ended: bool) -> Parsed | None:
    at, values, spans = 0, dict[str, int | bytes](), list[tuple[int, int]]()
    found = Parsed(0, values, spans, note)
    for item in unit.items:
        start = at
        if item.condition is None or _integer(item.condition, values, 0, note):
            at = _item(item, data, at, found, unit.limit, ended)
        elif item.name:
            values[item.name] = b"" if item.is_text else 0
        spans.append((start, at))
        if at > unit.limit:
            raise MalformedError("too long")
    found.end = at
    return None if at > len(data) else found


def _item(item: Item, data: bytes, at: int, found: Parsed, limit: int, ended: bool) -> int:
    """One item, and the offset of the next. Bytes beyond the data are left out; the offset shows this."""
    values, note = found.values, found.note
    match item.kind:
        case "integer":
            if at + item.size > len(data):
                raise EndError
            values[item.name] = _number(item, data, at)
            return at + item.size
        case "vint":
            values[item.name], end = scan.vint(data, at)
            return end
        case "constant":
            got = data[at : at + item.size]
            if not item.constant.startswith(got):
                raise MalformedError(item.name or "constant")
            if len(got) < item.size:
                raise EndError
            return at + item.size
        case "variable":
            assert item.parse is not None
            value = _integer(item.parse, {**values, NEXT: data[at:]} if item.looks else values, 0, note)
            if not (item.size == 8 or item.smallest <= value <= item.largest):
                raise MalformedError(item.name)
            values[item.name] = value
            return at
        case "text":
            assert item.parse is not None
            values[item.name] = _bytes(evaluate(item.parse, values, 0, note))
            return at
        case "until":
            end = data.find(item.constant, at)
            if end < 0:
                raise EndError
            if item.text and not scan.plain(data[at:end]):
                raise MalformedError(item.name or "control character")
            values[item.name] = data[at:end]
            return end + len(item.constant)
        case "headers":
            block = scan.headers(data[at:])
            if block is None:
                raise EndError
            values[item.name] = block
            return at + len(block) + 2
        case "pattern":
            assert item.automaton is not None
            size = item.automaton.match(data[at : at + limit + 1], ended)
            values[item.name] = data[at : at + size]
            return at + size
        case "list":
            return _list(item, data, at, found, ended)
        case "tail":
            return _tail(item, data, at, found, limit, ended)
        case _:
            assert item.length is not None
            length = _integer(item.length, values, 0, note)
            if not 0 <= length <= limit:
                raise MalformedError(item.name or "length")
            values[item.name] = data[at : at + length]
            return at + length


def _list(item: Item, data: bytes, at: int, found: Parsed, ended: bool) -> int:
    assert item.length is not None and item.element is not None
    count, begin = _integer(item.length, found.values, 0, found.note), at
    if not 0 <= count <= LIST:
        raise MalformedError(item.name or "items")
    for _ in range(count):
        one = _parse(item.element, data[at:], 0, ended)
        if one is None:
            raise EndError
        at += one.end
    found.values[item.name] = data[begin:at]
    return at


def parts(item: Item, data: bytes) -> Iterator[Parsed]:
    """The units in a row that are the bytes of an item. Raises MalformedError if these are others."""
    assert item.element is not None
    while data:
        one = parse(item.element, data, ended=True)
        if one is None:
            raise MalformedError(item.name or "items")
        yield one
        data = data[one.end :]


def integers(item: Item, data: bytes) -> list[int]:
    """The integers in a row that are the bytes of an item. Raises MalformedError if bytes are left over."""
    one = item.integer
    assert one is not None
    if len(data) % one.size:
        raise MalformedError(item.name or "items")
    return [_number(one, data, at) for at in range(0, len(data), one.size)]


def _number(one: Item, data: bytes, at: int) -> int:
    """An integer of fixed size."""
    order = "big" if one.order == "big" else "little"
    return wrap(int.from_bytes(data[at : at + one.size], order, signed=one.signed))


def integer_bytes(one: Item, value: int) -> bytes:
    """An integer of fixed size. Raises MalformedError if it does not fit."""
    if one.size < 8 and not one.smallest <= value <= one.largest:
        raise MalformedError(one.name)
    return (value % (1 << (8 * one.size))).to_bytes(one.size, "big" if one.order == "big" else "little")


def _tail(item: Item, data: bytes, at: int, found: Parsed, limit: int, ended: bool) -> int:
    framing, end = FRAMINGS[item.framing], at
    if framing.kind == "http":
        answer = item.framing == "http_response"
        empty = answer and bodiless(_bytes(found.values["status"]), found.note)
        kind, size = scan.framing(_bytes(found.values["headers"]), answer, empty)
        end += size
    else:
        kinds = {"resp": scan.RESP, "resp_command": scan.COMMAND, "eod": scan.TO_THE_END}
        kind = kinds.get(item.framing, scan.VALUES)
    if kind == scan.TO_THE_END:
        if not ended:
            raise EndError
        found.open = True
        end = len(data)
    elif kind:
        end = scan.parts(scan.Tail(kind, BODY if FRAMINGS[item.framing].kind == "http" else limit), data, end)
    if end > len(data):
        raise EndError
    found.values[item.name] = data[at:end]
    return end


def bodiless(status: bytes, note: int) -> bool:
    """Whether a response of HTTP has no body whatever its header fields are (RFC 9112, section 6.3)."""
    return note & 1 == 1 or status in (b"204", b"304") or status[:1] == b"1"


def serialise(unit: Plan, fields: Values, base: bytes | None = None, note: int = 0, ended: bool = False) -> bytes:
    """The bytes of a message with these fields; the others are those of `base`, a whole message, or 0 and empty.
    `ended`: its bytes are known to end with it, as those of an item in a list.

    Raises MalformedError where a value does not fit its field.
    """
    before = parse(unit, base, note, True) if base is not None else None
    values: dict[str, int | bytes] = dict(before.values) if before is not None else {}
    for item in unit.items:
        if item.name and item.name not in values:
            values[item.name] = b"" if item.is_text else 0
    values.update(fields)
    for name, of in unit.measured(fields):
        if of.condition is None or _integer(of.condition, values, 0, note):
            whole = _bytes(values[of.name])
            values[name] = len(whole) if of.kind == "bytes" else len(list(parts(of, whole)))
    for item in reversed(unit.items):
        if item.target and item.serialize is not None:
            values[item.target] = _integer(item.serialize, values, values[item.name], note)
    out = b""
    for item in unit.items:
        if item.condition is not None and not _integer(item.condition, values, 0, note):
            continue
        if item.kind == "constant":
            out += item.constant
        elif not item.name:
            out += _unnamed(item, before, base)
        elif item.is_text and item.kind != "text":
            out += _bytes(values[item.name]) + (item.constant if item.kind == "until" else b"")
            out += b"\r\n" if item.kind == "headers" else b""
        elif item.kind in ("integer", "vint"):
            value = values[item.name]
            assert isinstance(value, int)
            out += scan.vint_bytes(value) if item.kind == "vint" else integer_bytes(item, value)
    again = parse(unit, out, note, ended)
    if again is None or again.end != len(out):
        raise MalformedError("length")
    return out


def _unnamed(item: Item, before: Parsed | None, base: bytes | None) -> bytes:
    """The bytes of an anonymous item: as they were, or 0."""
    if before is not None and base is not None:
        start, end = before.spans[item.index]
        return base[start:end].ljust(item.size if item.kind == "integer" else 0, b"\0")
    if item.kind == "vint":
        return b"\0"
    return bytes(item.size) + (item.constant if item.kind == "until" else b"") + b"\r\n" * (item.kind == "headers")


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _integer(value: Value, values: Values, own: int | bytes = 0, note: int = 0) -> int:
    found = evaluate(value, values, own, note)
    assert isinstance(found, int)
    return found


def evaluate(value: Value, values: Values, own: int | bytes = 0, note: int = 0) -> int | bytes:
    """An expression. Division by 0 makes the message malformed."""

    def integer(index: int) -> int:
        return _integer(value.items[index], values, own, note)

    match value.kind:
        case "number":
            return wrap(value.number)
        case "text":
            return value.name.encode("latin-1")
        case "field":
            return values[value.name]
        case "self":
            return own
        case "note":
            return note
        case "next":
            rest, wanted = _bytes(values[NEXT]), value.name.encode("latin-1")
            if rest[: len(wanted)] != wanted and wanted.startswith(rest):
                raise EndError
            return int(rest.startswith(wanted))
        case "call":
            return _called(value.name, [evaluate(item, values, own, note) for item in value.items])
        case "not":
            return int(not integer(0))
        case "negative":
            return wrap(-integer(0))
        case "choice":
            return evaluate(value.items[1 if integer(0) else 2], values, own, note)
        case "&&":
            return int(bool(integer(0)) and bool(integer(1)))
        case "||":
            return int(bool(integer(0)) or bool(integer(1)))
        case "==" | "!=":
            left, right = (evaluate(item, values, own, note) for item in value.items)
            return int((left == right) == (value.kind == "=="))
        case _:
            return binary(value.kind, integer(0), integer(1))


def _called(name: str, given: list[int | bytes]) -> int | bytes:
    texts = [each for each in given if isinstance(each, bytes)]
    numbers = [each for each in given if isinstance(each, int)]
    match name:
        case "header":
            return scan.header(texts[0], texts[1])
        case "has":
            return scan.has(texts[0], texts[1], texts[2])
        case "word":
            return scan.word(texts[0], numbers[0])
        case "item":
            return scan.item(texts[0], numbers[0])
        case "token":
            return int(bool(texts[0]) and scan.TOKEN.issuperset(texts[0]))
        case "line":
            return scan.line(texts[0])
        case "number":
            return scan.decimal(texts[0])
        case _:
            return len(texts[0])


def binary(operator: str, left: int, right: int) -> int:
    """An operation of int64, as C has it; a shift uses the low 6 bits of its right operand."""
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
