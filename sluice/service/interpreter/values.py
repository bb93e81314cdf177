"""Values: int, bool, bytes (strings), tuple, list, dict (dictionaries), Record and Variant; an address is an int."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from sluice.service.grammar.codec import Parsed, wrap
from sluice.service.lang.types import BOOLEAN, STRING, DictionaryOf, ListOf, Named, RefTo, TupleOf, Type

Value = Any


class FaultError(Exception):
    """The fault that ends an instance: the name of the platform's counter."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class EndError(Exception):
    """The channel that a rule waits for has ended."""


_CLASSES = {
    "broken_connection": {"TRUNCATED", "CONNECT_FAILED", "BACKEND_CLOSED", "RESET", "CLOSED_CHANNEL"},
    "malformed_message": {"BAD_MESSAGE", "CHECKSUM"},
    "timeout": {"TIMEOUT", "SLOW"},
    "limit": {"TOO_LARGE", "LIMIT"},
}


def exception_of(reason: str) -> str:
    """What `except` calls a fault."""
    return next((name for name, reasons in _CLASSES.items() if reason in reasons), "failure")


@dataclass
class Record:
    """A record; of a message, `raw` is how it came, until it is changed."""

    name: str
    fields: dict[str, Value]
    raw: bytes | None = None
    changed: bool = True
    parsed: Parsed | None = None
    """Of a message that was received."""
    note: int = 0
    """Of a response: that of its request."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.fields == other.fields


@dataclass(frozen=True)
class Variant:
    label: str
    value: Value


def zero(type: Type, units: Container[str]) -> Value:
    """The value 0 or empty of a type; `units`: names of the records that are messages, whose lists are bytes."""
    match type:
        case ListOf():
            return []
        case DictionaryOf():
            return {}
        case TupleOf():
            return tuple(zero(item, units) for item in type.items)
        case RefTo():
            return zero(type.item, units)
        case Named() if type.variant:
            label, item = next(iter(type.fields.items()))
            return Variant(label, zero(item, units))
        case Named():
            fields = {
                name: b"" if type.name in units and isinstance(item, ListOf) else zero(item, units)
                for name, item in type.fields.items()
            }
            return Record(type.name, fields)
        case _:
            return b"" if type == STRING else False if type == BOOLEAN else 0


def texts(value: Value) -> int:
    """Bytes of all strings and messages of a value, as state holds them."""
    match value:
        case bytes():
            return len(value)
        case Record():
            raw = 0 if value.raw is None else len(value.raw)
            return raw if raw and not value.changed else raw + sum(map(texts, value.fields.values()))
        case Variant():
            return texts(value.value)
        case list() | tuple():
            return sum(texts(item) for item in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case _:
            return 0


def key_size(value: Value) -> int:
    """Bytes of a dictionary's key."""
    match value:
        case bytes():
            return 8 + len(value)
        case Record():
            return sum(map(key_size, value.fields.values()))
        case Variant():
            return 8 + key_size(value.value)
        case tuple():
            return sum(key_size(item) for item in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case _:
            return 8


def arithmetic(operator: str, left: int, right: int) -> int:
    """+ - * / mod of int64: wrapping, and rounding to 0."""
    if operator in ("/", "mod"):
        if right == 0:
            raise FaultError("DIVISION")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return wrap(quotient) if operator == "/" else wrap(left - quotient * right)
    return wrap({"+": left + right, "-": left - right, "*": left * right}[operator])


_START, _STEP, _END = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def _mixed(number: int, word: int) -> int:
    number = ((number ^ word) * _STEP) & _MASK
    return number ^ (number >> 32)


def hashed(value: int | bool | bytes) -> int:
    """hash(): as value.h defines it."""
    if isinstance(value, bytes):
        number = _START ^ len(value)
        for at in range(0, len(value), 8):
            number = _mixed(number, int.from_bytes(value[at : at + 8], "little"))
    else:
        number = _mixed(_START ^ 8, int(value) & _MASK)
    number = (number * _END) & _MASK
    return (number ^ (number >> 29)) & ((1 << 63) - 1)


def to_integer(text: bytes) -> int:
    """string_to_int()."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits or any(not 48 <= byte <= 57 for byte in digits):
        raise FaultError("BAD_NUMBER")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise FaultError("BAD_NUMBER")
    return value
