"""The types of the columns of a log."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """One value: text, address, count (0 to 2^64 - 1), number (with a sign), port, bool, time (seconds since 1970, as
    text with nine decimals), or seconds (a duration, as such a text).
    """

    name: str


@dataclass(frozen=True)
class ListOf:
    """Any number of values of a type."""

    item: Scalar | Record


@dataclass(frozen=True)
class Record:
    """Members with names."""

    members: tuple[tuple[str, Scalar | ListOf], ...]


Type = Scalar | ListOf | Record
SCALARS = ("text", "address", "count", "number", "port", "bool", "time", "seconds")


@dataclass(frozen=True)
class Schema:
    """The columns of a log, in the order of its rows. A row may lack members: these are null."""

    log: str
    columns: dict[str, Type]


def columns(text: str) -> dict[str, Type]:
    """Columns from a text: `name type` by lines or commas. `[type]` is a list, `{name type, ...}` a record."""
    tokens = re.findall(r"[\w.]+|[\[\]{}]", text)
    found: dict[str, Type] = {}
    while tokens:
        name = tokens.pop(0)
        found[name] = _type(tokens)
    return found


def _type(tokens: list[str]) -> Type:
    token = tokens.pop(0)
    if token == "[":
        item = _type(tokens)
        assert not isinstance(item, ListOf) and tokens.pop(0) == "]", "a list is [type]"
        return ListOf(item)
    if token == "{":
        members: list[tuple[str, Scalar | ListOf]] = []
        while tokens[0] != "}":
            name = tokens.pop(0)
            kind = _type(tokens)
            assert not isinstance(kind, Record)
            members.append((name, kind))
        tokens.pop(0)
        return Record(tuple(members))
    assert token in SCALARS, f"{token} is no type of a column"
    return Scalar(token)
