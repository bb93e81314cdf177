"""Shared objects of functions in Python: state that a store outside the box may hold (docs/state.md).

    from sluice.functions import on
    from sluice.functions.shared import shared

    contacts = shared("set", "src", "read_write", "zero", "hosts that a host has contacted")

    @on("tcp", "created")
    def begin(event):
        if contacts.of(event).insert(int(event.dst)):
            print(event.src, "contacts", event.dst, "for the first time")

The meaning is that of SLUICE_SHARED in C; there are no structs. A method that returns a value waits for the store; with
`wait=False` it does not, and returns None. Numbers, and keys of maps, have magnitudes below 2^53.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

OBJECTS_MOST = 1 << 20
ITEMS_MOST = 1 << 20
"""Objects of a declaration, and items of a list, set or map; more are refused and counted."""
NUMBER_MOST = (1 << 53) - 1
_CALCULATES = ("add", "set", "minimum", "maximum", "compare", "map_add", "map_least")
TYPES = ("counter", "number", "list", "set", "map")

Remote = Callable[["SharedObject", str, int, int, bool, int], "int | None"]
"""In a run with a store: object, operation, its numbers, whether to wait, the packet's number."""


class RefusedError(RuntimeError):
    """A value that does not fit, or a store that did not reply."""


class SharedObject:
    """One object. `value` is local: an int, a deque, a set or a dict."""

    def __init__(self, of: Shared, key: str) -> None:
        self.of, self.key = of, key
        self.value: Any = {"list": deque, "set": set, "map": dict}.get(of.type, int)()
        self.present = False
        self.filled = False

    def _do(self, operation: str, number: int = 0, other: int = 0, wait: bool = True) -> int | None:
        if self.of.type not in _OF_TYPE[operation]:
            raise TypeError(f"{operation} is no operation of a {self.of.type}")
        if operation in _CALCULATES and max(abs(number), abs(other)) > NUMBER_MOST:
            self.of.refused += 1
            raise RefusedError(f"{self.of.name}: {operation}: an argument is beyond 2^53")
        if self.of.remote is not None:
            return self.of.remote(self, operation, number, other, wait, self.of.packet)
        found = getattr(self, f"_{operation}")(number, other)
        return found if wait else None

    def add(self, number: int, wait: bool = False) -> int | None:
        """Add to a counter or a number; the sum."""
        return self._do("add", number, wait=wait)

    def read(self) -> int:
        """The value of a counter or a number; 0 if it was never set."""
        return self._do("read") or 0

    def set(self, number: int) -> None:
        """Set a number."""
        self._do("set", number, wait=False)

    def minimum(self, number: int, wait: bool = False) -> int | None:
        """Set a number to a less one, or one that was never set; the value then."""
        return self._do("minimum", number, wait=wait)

    def maximum(self, number: int, wait: bool = False) -> int | None:
        """The same for a larger one."""
        return self._do("maximum", number, wait=wait)

    def compare(self, expected: int, number: int) -> int:
        """Set a number if it is `expected`; return its previous value."""
        return self._do("compare", expected, number) or 0

    def fill(self, first: int, last: int) -> None:
        """Append the numbers from `first` to `last`, once in the life of a list."""
        self._do("fill", first, last)

    def push(self, item: int) -> None:
        """Append to a list."""
        self._do("push", item, wait=False)

    def pop(self) -> int | None:
        """Remove and return the first item of a list; None if it is empty."""
        return self._do("pop")

    def insert(self, item: int, wait: bool = True) -> bool | None:
        """Into a set; whether it was not there."""
        found = self._do("insert", item, wait=wait)
        return bool(found) if wait else None

    def remove(self, item: int, wait: bool = True) -> bool | None:
        """From a set; whether it was there."""
        found = self._do("remove", item, wait=wait)
        return bool(found) if wait else None

    def contains(self, item: int) -> bool:
        """Whether a set has it."""
        return bool(self._do("contains", item))

    def map_add(self, key: int, number: int, wait: bool = False) -> int | None:
        """Add to the value of a key of a map; the sum."""
        return self._do("map_add", key, number, wait)

    def map_read(self, key: int) -> int | None:
        """The value of a key; None if the map does not have it."""
        return self._do("map_read", key)

    def map_least(self, number: int) -> int | None:
        """Add to the least value, of equal ones to that of the least key; its key. None: the map is empty."""
        return self._do("map_least", number)

    def drop(self) -> None:
        """Give the object up: it no longer exists."""
        if self.of.remote is not None:
            self.of.remote(self, "drop", 0, 0, False, self.of.packet)
        self.of.objects.pop(self.key, None)

    # --- local ---

    def _put(self, number: int) -> int:
        if abs(number) > NUMBER_MOST:
            self.of.refused += 1
            raise RefusedError(f"{self.of.name}: {number} is beyond 2^53")
        self.value, self.present = number, True
        return number

    def _room(self) -> None:
        if len(self.value) >= ITEMS_MOST:
            self.of.refused += 1
            raise RefusedError(f"{self.of.name}: it has {ITEMS_MOST} items already")

    def _add(self, number: int, _: int) -> int:
        return self._put(self.value + number)

    def _read(self, _number: int, _: int) -> int:
        return self.value

    def _set(self, number: int, _: int) -> int:
        return self._put(number)

    def _minimum(self, number: int, _: int) -> int:
        return self._put(min(number, self.value) if self.present else number)

    def _maximum(self, number: int, _: int) -> int:
        return self._put(max(number, self.value) if self.present else number)

    def _compare(self, expected: int, number: int) -> int:
        before: int = self.value
        if before == expected:
            self._put(number)
        return before

    def _fill(self, first: int, last: int) -> int:
        for item in range(first, last + 1) if not self.filled else ():
            self._push(item, 0)
        self.filled = True
        return 0

    def _push(self, item: int, _: int) -> int:
        self._room()
        self.value.append(item)
        return 0

    def _pop(self, _number: int, _: int) -> int | None:
        return self.value.popleft() if self.value else None

    def _insert(self, item: int, _: int) -> int:
        if item in self.value:
            return 0
        self._room()
        self.value.add(item)
        return 1

    def _remove(self, item: int, _: int) -> int:
        there = item in self.value
        self.value.discard(item)
        return int(there)

    def _contains(self, item: int, _: int) -> int:
        return int(item in self.value)

    def _map_add(self, key: int, number: int) -> int:
        if key not in self.value:
            self._room()
        total = self.value.get(key, 0) + number
        if abs(total) > NUMBER_MOST:
            self.of.refused += 1
            raise RefusedError(f"{self.of.name}: {total} is beyond 2^53")
        self.value[key] = total
        return total

    def _map_read(self, key: int, _: int) -> int | None:
        return self.value.get(key)

    def _map_least(self, number: int, _: int) -> int | None:
        if not self.value:
            return None
        key = min(self.value, key=lambda each: (self.value[each], each))
        self._map_add(key, number)
        return key

    def exists(self) -> bool:
        """Whether a store would have anything of it."""
        return self.present if self.of.type in ("counter", "number") else bool(self.value)


_NUMBERS, _SETS, _MAPS = ("counter", "number"), ("set",), ("map",)
_OF_TYPE: dict[str, tuple[str, ...]] = {
    "add": _NUMBERS, "read": _NUMBERS, "set": ("number",), "minimum": ("number",), "maximum": ("number",),
    "compare": ("number",), "fill": ("list",), "push": ("list",), "pop": ("list",), "insert": _SETS, "remove": _SETS,
    "contains": _SETS, "map_add": _MAPS, "map_read": _MAPS, "map_least": _MAPS,
}  # fmt: skip


class Shared:
    """A declaration. The name in its file is set when that is loaded; `remote` while a box runs with a store."""

    def __init__(self, type: str, scope: str, access: str, loss: str, help: str) -> None:
        self.__sluice_shared__ = (type, scope, access, loss, help)
        self.type, self.scope, self.help = type, scope.replace(" ", ""), help
        self.name = ""
        self.remote: Remote | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all objects."""
        self.objects: dict[str, SharedObject] = {}
        self.packet = 0
        self.refused = 0

    def of(self, event: Any, side: int = 0) -> SharedObject:
        """The object of an event: of its flow, of its header fields, or the one of scope `all`.

        `src` and `sport` are those of `side`: 0 is the active one.
        """
        self.packet = max(self.packet, event.packet)
        return self._object("".join(self._key(event, side)))

    def all(self) -> SharedObject:
        """The one object of scope `all`."""
        return self._object("")

    def at(self, *values: object) -> SharedObject:
        """The object whose header fields have these values."""
        return self._object(",".join(map(str, values)))

    def _object(self, key: str) -> SharedObject:
        found = self.objects.get(key)
        if found is None:
            if len(self.objects) >= OBJECTS_MOST:
                self.refused += 1
                raise RefusedError(f"{self.name}: it has {OBJECTS_MOST} objects already")
            found = self.objects[key] = SharedObject(self, key)
        return found

    def _key(self, event: Any, side: int) -> Iterator[str]:
        if self.scope == "all":
            return
        key: dict[str, Any] = event.key
        if not key:
            raise LookupError(f"{self.name}: the event {event.name} has no instance that could key an object")
        if event.side != (0 if self.scope == "flow" else side):
            swapped = {"src": "dst", "dst": "src", "sport": "dport", "dport": "sport"}
            key = {name: key[swapped.get(name, name)] for name in key if swapped.get(name, name) in key}
        if self.scope == "flow":
            yield f"{event.layer} " + ",".join(map(str, key.values()))
            return
        for number, field in enumerate(self.scope.split("+")):
            if field not in key:
                raise LookupError(f"{self.name}: the key of {event.layer} has no {field}: it has {', '.join(key)}")
            yield f"{',' if number else ''}{key[field]}"


def shared(type: str, scope: str, access: str, loss: str, help: str) -> Shared:
    """Declare shared objects outside functions: `x = shared("counter", "src", "write_mostly", "zero", "what")`."""
    if type not in TYPES:
        raise TypeError(f"'{type}' is no type of a shared object in Python: it is one of {', '.join(TYPES)}")
    return Shared(type, scope, access, loss, help)
