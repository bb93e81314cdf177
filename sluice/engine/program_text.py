"""Serialises a generated program to JSON and back.

The JSON contains class names, but only the classes in STORED are instantiated, so reading a file cannot run code from
it. A value of any other class cannot be stored.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast

from sluice.codegen.bpf.fanout import Fanout
from sluice.codegen.stack import Generated
from sluice.ir.expression import Reg
from sluice.ir.graph import (
    Block,
    EventShape,
    Graph,
    InstanceLayout,
    KeyPart,
    LayerProgram,
    NativeModule,
    NativeShape,
    Program,
    Rules,
    State,
)
from sluice.ir.instruction import End
from sluice.lang.where import Where

_CLASSES: tuple[type, ...] = (
    Block, End, EventShape, Fanout, Generated, Graph, InstanceLayout, KeyPart, LayerProgram, NativeModule, NativeShape,
    Program, Reg, Rules, State, Where,
)  # fmt: skip
STORED = {each.__name__: each for each in _CLASSES}


class NotStorableError(Exception):
    """A value that cannot be stored, or a text that is not a stored value."""


def to_json(value: object) -> str:
    """Serialise a value. Raises NotStorableError."""
    return json.dumps(_plain(value), separators=(",", ":"))


def from_json(text: str) -> Any:
    """Deserialise a value. Raises NotStorableError."""
    try:
        return _made(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotStorableError(str(error)) from error


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields that the constructor of a class takes; the class computes the others."""
    return tuple(item.name for item in fields(kind) if item.init)


def _plain(value: object) -> object:
    """A value as plain JSON: numbers and texts unchanged, everything else as a list that begins with its type name."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        kind = "list" if type(value) is list else "tuple"
        return [kind, *map(_plain, cast(list[object], value))]
    if type(value) is dict:
        items = cast(dict[object, object], value).items()
        return ["dict", *([_plain(key), _plain(item)] for key, item in items)]
    if is_dataclass(value) and STORED.get(type(value).__name__) is type(value):
        return [type(value).__name__, *(_plain(getattr(value, name)) for name in _names(type(value)))]
    raise NotStorableError(f"a {type(value).__name__} has no stored form")


def _made(plain: Any) -> Any:
    if not isinstance(plain, list):
        if isinstance(plain, dict):
            raise NotStorableError("an object of JSON")
        return plain
    kind, *items = cast(list[Any], plain)
    if kind == "list":
        return [_made(item) for item in items]
    if kind == "tuple":
        return tuple(_made(item) for item in items)
    if kind == "dict":
        return {_made(key): _made(item) for key, item in items}
    made = STORED[kind]
    names = _names(made)
    if len(names) != len(items):
        raise NotStorableError(f"{kind} has {len(names)} fields, not {len(items)}")
    return made(**{name: _made(item) for name, item in zip(names, items, strict=True)})
