"""The objects of functions in a store, as rows; and the same rows of local objects, as a box writes them.

A row has `function`, `object`, `key`, `type` and `value`: a number; a list of numbers (of a set sorted); an object of
numbers (a map); a struct's bytes in hexadecimal. Rows are sorted, so that two states can be compared byte by byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from sluice.hooks.shared import Shared
from sluice.state.cluster import Cluster
from sluice.state.errors import StoreError
from sluice.state.peer import Peer, Reply

OBJECTS = "sluice-objects"
"""The hash that lists the objects: FUNCTION.OBJECT, and its declaration."""
KEYS = "sluice:{*}*"
TOGETHER = 500
"""Objects that are read with one round trip."""
CLOCK_BYTES = 8
"""The beginning of a struct: the identifier of the update that set it. Without more it was dropped."""

_KEY = re.compile(r"sluice:\{([^{}]+)\}(\w+)(?:[#@]\w+)?:(.*)", re.DOTALL)
"""The key of an object (runtime/function/shared_text.h)."""

_READ: dict[str, tuple[str, ...]] = {
    "counter": ("GET",),
    "number": ("GET",),
    "struct": ("GET",),
    "list": ("LRANGE", "0", "-1"),
    "set": ("SMEMBERS",),
    "map": ("HGETALL",),
}


def declare_objects(peer: Peer | Cluster, functions: Sequence[tuple[str, Sequence[Shared]]]) -> None:
    """List in the store the objects of the functions, which are given by name.

    Raises StoreError where another function had an object of that name and another type.
    """
    for function, objects in functions:
        for item in objects:
            name = f"{function}.{item.name}"
            before = peer.call("HGET", OBJECTS, name)
            known = _declaration(before)
            if known and known.get("type") != item.type:
                raise StoreError(
                    f"{peer.name} has {name} as a {known['type']}, not a {item.type}, of another version of the "
                    "function: delete its keys, or use another store"
                )
            declared = {
                "type": item.type, "scope": item.scope_text, "access": item.access, "loss": item.loss,
                "help": item.help,
            }  # fmt: skip
            peer.call("HSET", OBJECTS, name, json.dumps(declared))


def _declaration(text: Reply) -> dict[str, str]:
    try:
        found: Any = json.loads(text) if isinstance(text, bytes) else {}
    except ValueError:
        return {}
    pairs = cast(dict[str, Any], found).items() if isinstance(found, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str)}


def declared_objects(peer: Peer | Cluster) -> dict[str, dict[str, str]]:
    """The declarations of all objects of a store, by FUNCTION.OBJECT."""
    pairs = peer.call("HGETALL", OBJECTS)
    found = pairs if isinstance(pairs, list) else []
    return {
        name.decode(errors="replace"): _declaration(text)
        for name, text in zip(found[::2], found[1::2], strict=False)
        if isinstance(name, bytes)
    }


def store_rows(peer: Peer | Cluster, functions: Sequence[str] | None = None) -> list[str]:
    """The rows of the objects of these functions, or of all, in a store. Keys of other programs are left out."""
    declared = declared_objects(peer)
    wanted: list[tuple[str, str, str, str, bytes]] = []
    for key in peer.keys(KEYS):
        function, item, name = _parts(key)
        kind = declared.get(f"{function}.{item}", {}).get("type", "")
        if kind in _READ and (functions is None or function in functions):
            wanted.append((function, item, name, kind, key))
    rows: list[str] = []
    for begin in range(0, len(wanted), TOGETHER):
        group = wanted[begin : begin + TOGETHER]
        replies = peer.calls([(_READ[kind][0], key, *_READ[kind][1:]) for *_, kind, key in group])
        for (function, item, name, kind, _), reply in zip(group, replies, strict=True):
            dropped = kind == "struct" and isinstance(reply, bytes) and len(reply) <= CLOCK_BYTES
            if reply is not None and not dropped:
                value = _value(kind, reply)
                rows.append(
                    json.dumps({"function": function, "object": item, "key": name, "type": kind, "value": value})
                )
    return sorted(rows)


def local_rows(text: str) -> list[str]:
    """The rows that a box wrote of its local objects."""
    return sorted(text.splitlines())


def _parts(key: bytes) -> tuple[str, str, str]:
    """Function, object and key of an object; its instance, or part of the traffic, is left out."""
    found = _KEY.fullmatch(key.decode(errors="replace"))
    return (found[1], found[2], found[3]) if found is not None else ("", "", "")


def _numbers(reply: Reply) -> list[int]:
    items: Iterable[Reply] = reply if isinstance(reply, list) else [reply]
    try:
        return [int(item) for item in items if isinstance(item, (bytes, int))]
    except ValueError as error:
        raise StoreError("the store has an item that is no number: another program wrote it") from error


def _value(kind: str, reply: Reply) -> object:
    if kind == "struct":
        return reply[CLOCK_BYTES:].hex() if isinstance(reply, bytes) else ""
    numbers = _numbers(reply)
    match kind:
        case "list":
            return numbers
        case "set":
            return sorted(numbers)
        case "map":
            return {str(key): value for key, value in sorted(zip(numbers[::2], numbers[1::2], strict=False))}
        case _:
            return numbers[0] if numbers else 0
