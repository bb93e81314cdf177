"""Functions in Python: what they subscribe to, and the events that they are called with.

    from sluice.functions import on

    @on("tcp", "data")
    def saw(event):
        print(event.offset, event.bytes)

Events come in batches: such a function is called for all of them, in order, some time after they were emitted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

from sluice.codegen.layer.instance_layout import KeyWord, key_words
from sluice.engine.addresses import PACKED, Address, ipv4, ipv6, is_address
from sluice.engine.columns import COLUMNS, Events, types_of
from sluice.engine.published import Publisher
from sluice.engine.values import value_names
from sluice.hooks.published import CHAIN
from sluice.hooks.subscription import means
from sluice.ir.graph import EventShape, LayerProgram, Program
from sluice.ir.hook import Hook

_HEAD = struct.Struct("<IHBBIIQQQQQQ")
"""struct sl_record_head."""
_NUMBER = struct.Struct("<Q")
_LENGTHS = struct.Struct("<II")


_SIZE, _EVENT, _SIDE, _SWAPPED, _OWNER, _WORDS, _INSTANCE, _TIME, _PACKET, WATCHED, SLOT = range(11)
DROPPED_BY, _RECORD = 11, 12
"""What stands where in an event: the fields of struct sl_record_head, then the record itself."""


class Seen(tuple[Any, ...]):
    """An event as a function in Python sees it.

    layer: name in the program. name: the event's. instance: number of the connection or datagram, 0 for none. side: 0
    sent by the active side, 1 by the passive. time: of the packet, nanoseconds since 1970. packet: its number in the
    capture. values: what the event brings along. key: the instance's selector by name, sender first. Both are also
    readable as attributes, but for names that stand here (OWN_NAMES).

    Of a layer that takes messages and has no instances of its own, instance, side and key are the stream's.

    It is the head of its record and the record; there is a class for each event of each layer, and a value is decoded
    when it is read: to decode all of each event takes several times as long as to emit it.
    """

    __slots__ = ()
    layer = ""
    name = ""
    _kind: Kind

    instance = cast(int, property(itemgetter(_INSTANCE)))
    side = cast(int, property(itemgetter(_SIDE)))
    time = cast(int, property(itemgetter(_TIME)))
    packet = cast(int, property(itemgetter(_PACKET)))

    @property
    def values(self) -> dict[str, Any]:
        """What the event brings along."""
        return _values(self._kind.shape, self._kind.names, self[_RECORD], _HEAD.size + 8 * self[_WORDS])

    @property
    def key(self) -> dict[str, Any]:
        """The key of its instance; empty where there is none."""
        words = struct.unpack_from(f"<{self[_WORDS]}Q", self[_RECORD], _HEAD.size)
        return self._kind.decoder.key(words, self[_OWNER], self[_SIDE], self[_SWAPPED])

    # a tuple's methods are no names of ours
    count = property(lambda self: self.__getattr__("count"))  # type: ignore[assignment]
    index = property(lambda self: self.__getattr__("index"))  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        values, key = self.values, self.key
        for found in (values, key):
            if name in found:
                return found[name]
        if isinstance(address := key.get(name.removesuffix(PACKED)), Address) and name.endswith(PACKED):
            return address.packed
        packed = {f"{part}{PACKED}": None for part, value in key.items() if isinstance(value, Address)}
        known = ", ".join({**values, **key, **packed})
        raise AttributeError(f"event '{self.name}' of layer '{self.layer}' has no '{name}'; it has {known}")


OWN_NAMES = frozenset({"layer", "name", "instance", "side", "time", "packet", "values", "key"})
"""What `event.NAME` always means, whatever the user's own values are called."""


def place_of(seen: Seen) -> tuple[int, int, int]:
    """What finds an event's instance again, if it is still there: its layer's number, its slot and its own number."""
    return seen[_OWNER], seen[SLOT], seen[_INSTANCE]


@dataclass(frozen=True)
class Kind:
    """An event of a layer: what it brings along, and for each of that the names that its numbers stand for."""

    decoder: Decoder
    shape: EventShape
    names: list[tuple[str, ...] | None]


class Decoder:
    """Reads batches that compiled code wrote.

    events: of every number its layer and its name. roots: and which event of the stack it happens with. columns,
    column_roots: the same of those of which there are rows. published: what functions publish, as a layer's.
    """

    def __init__(
        self,
        program: Program,
        events: list[tuple[str, str]],
        roots: list[str],
        columns: list[tuple[str, str]],
        column_roots: list[str],
        published: LayerProgram | None = None,
    ) -> None:
        self.many = types_of(program, columns, column_roots)
        self.keys: list[tuple[list[KeyWord], int, bool]] = []
        for layer in program.layers.values():
            parts, half = key_words(layer.instance.key) if layer.instance is not None else ([], 0)
            self.keys.append((parts, half, layer.instance is not None and layer.instance.oriented))
        numbers = {name: number for number, name in enumerate(program.layers)}
        self.types: list[type[Seen]] = []
        for (name, event), root in zip(events, roots, strict=True):
            layer = program.layers[name] if published is None or name != published.name else published
            shape = layer.events[root]
            kind = Kind(self, shape, [value_names(layer, shape, value) for value, _ in shape.fields])
            attributes: dict[str, Any] = {"__slots__": (), "layer": name, "name": event, "_kind": kind}
            key = self._of_key(numbers[name]) if name in numbers else {}  # a published event has that of any layer
            attributes |= key | _of_values(kind)
            attributes |= {own: getattr(Seen, own) for own in OWN_NAMES - {"layer", "name"} if own in attributes}
            self.types.append(type("Seen", (Seen,), attributes | {"layer": name, "name": event}))

    def decode(self, batch: bytes) -> Iterator[Seen | Events]:
        """The events of a batch, and what has many of them."""
        at, size, types = 0, len(batch), self.types
        unpack = _HEAD.unpack_from
        while at < size:
            head = unpack(batch, at)
            end = at + head[_SIZE]
            if head[_EVENT] & COLUMNS:
                yield self.many[head[_EVENT] - COLUMNS](head[_WORDS], batch[at + _HEAD.size : end])
                at = end
                continue
            yield types[head[_EVENT]]((*head, batch[at:end]))
            at = end

    def key(self, words: tuple[int, ...], owner: int, side: int, swapped: int) -> dict[str, Any]:
        """The key of an instance of layer number `owner`; no words where there is no instance."""
        if not words:
            return {}
        parts, half, oriented = self.keys[owner]
        if not oriented:
            return _key(parts, words, reverse=False)
        sender = (side ^ swapped) & 1
        key = _key(parts, words[sender * half :][:half], reverse=False)
        return key | _key(parts, words[(1 - sender) * half :][:half], reverse=True)

    def _of_key(self, owner: int) -> dict[str, property]:
        """Properties for the numbers of the key of a layer's own instances."""
        parts, half, oriented = self.keys[owner]
        found: dict[str, property] = {}
        for placed in parts:
            if placed.part.bits <= 64:
                found[placed.part.name] = _of_part(placed, owner, half if oriented else 0, False)
                if oriented:
                    found[placed.part.other or placed.part.name] = _of_part(placed, owner, half, True)
        return found


def _of_part(placed: KeyWord, owner: int, half: int, reverse: bool) -> property:
    name = (placed.part.other if reverse else None) or placed.part.name
    mask, shift, first = (1 << placed.part.bits) - 1, placed.shift, _HEAD.size + 8 * placed.word
    read = _NUMBER.unpack_from

    address = is_address(name, placed.part.bits)

    def get(seen: Seen) -> int | Address:
        if seen[_OWNER] != owner or not seen[_WORDS]:
            return seen.__getattr__(name)  # of the stream that messages are cut from, or none
        sender = (seen[_SIDE] ^ seen[_SWAPPED] ^ reverse) & 1
        number: int = read(seen[_RECORD], first + 8 * half * sender)[0] >> shift & mask
        return ipv4(number) if address else number

    return property(get)


def _of_values(kind: Kind) -> dict[str, property]:
    """Properties for the values of an event, up to the first bytes: what follows these has no fixed place."""
    found: dict[str, property] = {}
    at = _HEAD.size
    for (name, bits), names in zip(kind.shape.fields, kind.names, strict=True):
        found[name] = _of_bytes(at) if bits == 0 else _of_number(at, names)
        if bits == 0:
            break
        at += 8
    return found


def _of_number(at: int, names: tuple[str, ...] | None) -> property:
    read = _NUMBER.unpack_from
    if names is not None:
        named = names

        def get(seen: Seen) -> str:
            return named[cast(int, read(seen[_RECORD], at + 8 * seen[_WORDS])[0])]

        return property(get)

    def number(seen: Seen) -> int:
        return cast(int, read(seen[_RECORD], at + 8 * seen[_WORDS])[0])

    return property(number)


def _of_bytes(at: int) -> property:
    def get(seen: Seen) -> bytes:
        record = cast(bytes, seen[_RECORD])
        begin = at + 8 * seen[_WORDS]
        captured = _LENGTHS.unpack_from(record, begin)[0]
        return record[begin + 8 : begin + 8 + captured]

    return property(get)


def _values(shape: EventShape, named: list[tuple[str, ...] | None], batch: bytes, at: int) -> dict[str, Any]:
    """What an event brings along, from position `at`."""
    values: dict[str, Any] = {}
    for (name, bits), names in zip(shape.fields, named, strict=True):
        if bits == 0:
            captured, _ = _LENGTHS.unpack_from(batch, at)
            values[name] = batch[at + 8 : at + 8 + captured]
            at += 8 + (captured + 7) // 8 * 8
        else:
            values[name] = _NUMBER.unpack_from(batch, at)[0]
            at += 8
        if names is not None:
            values[name] = names[values[name]]
    return values


def _key(parts: list[KeyWord], words: tuple[int, ...], reverse: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for placed in parts:
        name = placed.part.other if reverse and placed.part.other else placed.part.name
        bits = placed.part.bits
        if bits > 64:
            pieces = [words[placed.word + k] for k in range((bits + 63) // 64)]
            octets = b"".join(piece.to_bytes(8, "big") for piece in pieces)[: bits // 8]
            found[name] = ipv6(octets) if is_address(name, bits) else octets
        else:
            number = words[placed.word] >> placed.shift & ((1 << bits) - 1)
            found[name] = ipv4(number) if is_address(name, bits) else number
    return found


Handler = Callable[[Seen], object]
"""What is called with an event."""

ManyHandler = Callable[[Events], object]
"""What is called with many."""


@dataclass(frozen=True)
class PythonEvent:
    """An event that a Python file defines: it happens when `base` of `layer` does and `holds` says so."""

    layer: str
    name: str
    base: str
    holds: Handler


@dataclass
class PythonFunction:
    """Handlers of one Python file: (layer, event, function), what to call at the end, and what it counted, by name.

    events: those that it defines. on_demand: handlers that are called while registered, as `handlers`. many: those that
    take many events at once. published: the events that it publishes, by name, with what sends one to its subscribers.
    drops_before: bits of the functions in C that withhold an event from it, when they drop the packet. label: as of
    CFunction.
    """

    name: str
    handlers: Sequence[tuple[str, str, Handler]]
    endings: list[Callable[[], None]]
    counted: Callable[[], dict[str, int]] = dict
    events: list[PythonEvent] = field(default_factory=lambda: [])
    on_demand: list[tuple[str, str, Handler]] = field(default_factory=lambda: [])
    many: list[tuple[str, str, ManyHandler]] = field(default_factory=lambda: [])
    published: dict[str, Publisher] = field(default_factory=lambda: {})
    drops_before: int = 0
    label: str = ""

    def taken(self) -> frozenset[Hook]:
        """The events that it takes many at once of."""
        return frozenset(Hook(layer, event) for layer, event, _ in self.many)

    def hooks(self) -> frozenset[Hook]:
        """The events of the stack, and of functions in C, that it is always notified of."""
        return self._below([Hook(layer, event) for layer, event, _ in self.handlers])

    def demanded(self) -> list[frozenset[Hook]]:
        """And those for each of its handlers on demand."""
        return [self._below([Hook(layer, event)]) for layer, event, _ in self.on_demand]

    def _below(self, to_see: list[Hook]) -> frozenset[Hook]:
        """The events with which some happen that this file does not define."""
        found: set[Hook] = set()
        while to_see:
            hook = to_see.pop()
            below = [Hook(event.layer, event.base) for event in self.events if event.name == hook.event]
            to_see += [other for other in below if other not in found]
            if not below:
                found.add(hook)
        return frozenset(found)

    def called_with_many(self, layer: LayerProgram, event: str) -> list[ManyHandler]:
        """What to call with many events of a layer."""
        return [call for wanted, name, call in self.many if means(Hook(wanted, name), layer, event)]

    def called(self, layer: LayerProgram, event: str, first: int) -> list[Handler]:
        """What to call when an event of a layer happens: its handlers, then those of events that happen with it.

        first: the bit of the first of its handlers on demand.
        """
        found = [call for call, _ in self._called(layer, event, first)]
        if self.drops_before and layer.name != CHAIN and event != "end":
            return [_unless_dropped(self.drops_before, call) for call in found]
        return found

    def _called(self, layer: LayerProgram, event: str, first: int) -> list[tuple[Handler, int]]:
        """The same, and the bits of which one must be registered for each; 0 for one that is always called."""
        found = [(call, 0) for wanted, name, call in self.handlers if means(Hook(wanted, name), layer, event)]
        for number, (wanted, name, call) in enumerate(self.on_demand, first):
            if means(Hook(wanted, name), layer, event):
                found.append((_watched(1 << number, call), 1 << number))
        below: list[_Below] = []
        for own in self.events:
            if own.base == event and means(Hook(own.layer, own.name), layer, own.name):
                inner = self._called(layer, own.name, first)
                if inner:
                    below.append((own.holds, _any_of([bits for _, bits in inner]), [call for call, _ in inner]))
        if below:
            found.append((_asked(below), _any_of([bits for _, bits, _ in below])))
        return found


_Below = tuple[Handler, int, list[Handler]]
"""Of an event that happens with another: its filter, bits of which one must be registered (0: none), what to call."""


def _any_of(bits: list[int]) -> int:
    """Bits of which one must be registered for any of several to be called; 0 where one always is."""
    together = 0
    for one in bits:
        together |= one
    return together if all(bits) else 0


def _asked(below: list[_Below]) -> Handler:
    """Evaluates the filters of events that share a base, then calls the subscribers of those that happen."""

    def call(seen: Seen) -> None:
        happening = [inner for holds, bits, inner in below if (not bits or seen[WATCHED] & bits) and holds(seen)]
        for inner in happening:
            for handler in inner:
                handler(seen)

    return call


def _unless_dropped(functions: int, handler: Handler) -> Handler:
    """Calls a handler unless one of these functions had dropped the packet."""

    def call(seen: Seen) -> None:
        if not seen[DROPPED_BY] & functions:
            handler(seen)

    return call


def _watched(bits: int, handler: Handler) -> Handler:
    """Calls a handler where one of some on demand is registered."""

    def call(seen: Seen) -> None:
        if seen[WATCHED] & bits:
            handler(seen)

    return call
