"""Functions in Python: their subscriptions, and the events that they are called with.

    from sluice.functions import on

    @on("tcp", "data")
    def saw(event):
        print(event.offset, event.bytes)

Events are delivered in batches: a function is called for each event, in order, some time after the event was emitted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

from sluice.codegen.events.manifest import HEAD, Manifest, Part, Value
from sluice.engine.addresses import PACKED, Address, ipv4, ipv6, is_address
from sluice.engine.columns import COLUMNS, Events, types_of
from sluice.hooks.published import CHAIN, PublishedEvent
from sluice.hooks.subscription import means
from sluice.hooks.withheld import is_withheld
from sluice.ir.graph import LayerProgram
from sluice.ir.hook import Hook

_HEAD = struct.Struct("<" + "".join({1: "B", 2: "H", 4: "I", 8: "Q"}[size] for _, size in HEAD))
"""struct sl_record_head: the manifest's HEAD."""
_NUMBER = struct.Struct("<Q")
_LENGTHS = struct.Struct("<II")


_SIZE, _EVENT, _SIDE, _SWAPPED, _OWNER, _WORDS, _INSTANCE, _TIME, _PACKET, WATCHED, SLOT = range(11)
DROPPED_BY, _RECORD = 11, 12
"""The positions in an event's tuple: the fields of struct sl_record_head, then the record itself."""


class Seen(tuple[Any, ...]):
    """An event as a function in Python receives it.

    layer: the layer's name in the program. name: the event's name. instance: the number of the connection or datagram,
    0 if there is none. side: 0 if the active side sent the packet, 1 if the passive side did. time: the packet's time
    in nanoseconds since 1970. packet: its number in the capture. values: the event's values by name. key: the parts of
    the instance's key by name, sender first. Values and key parts are also attributes, except for the names listed
    here (OWN_NAMES).

    For a layer that parses messages and has no instances of its own, instance, side and key are those of the stream.

    The tuple holds the head of the event's record, then the record. There is a subclass for each event of each layer,
    and a value is decoded when it is read, because decoding a whole event is far more expensive than emitting it.
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
        """The event's values by name."""
        return _values(self._kind.values, self[_RECORD], _HEAD.size + 8 * self[_WORDS])

    @property
    def key(self) -> dict[str, Any]:
        """The key of the event's instance by name; empty if there is none."""
        words = struct.unpack_from(f"<{self[_WORDS]}Q", self[_RECORD], _HEAD.size)
        return self._kind.decoder.key(words, self[_OWNER], self[_SIDE], self[_SWAPPED])

    # `count` and `index` of tuple must not hide values or key parts with these names
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
"""The attributes of every event; a user's value of the same name does not replace them."""


def place_of(seen: Seen) -> tuple[int, int, int]:
    """The layer number, slot and instance number of an event, by which its instance is found if it still exists."""
    return seen[_OWNER], seen[SLOT], seen[_INSTANCE]


@dataclass(frozen=True)
class Kind:
    """An event of a layer, and its values."""

    decoder: Decoder
    values: tuple[Value, ...]


class Decoder:
    """Reads batches that compiled code wrote, by the manifest of its events."""

    def __init__(self, manifest: Manifest) -> None:
        self.many = types_of(manifest)
        self.layers = manifest.layers
        self._further = struct.Struct(f"<{max(0, manifest.watched - 1)}Q")
        keys = {layer.name: self._of_key(number) for number, layer in enumerate(manifest.layers)}
        self.types: list[type[Seen]] = []
        for recorded in manifest.records:
            kind = Kind(self, manifest.layer(recorded.layer).events[recorded.base])
            name = {"layer": recorded.layer, "name": recorded.event}
            attributes: dict[str, Any] = {"__slots__": (), "_kind": kind} | name
            attributes |= keys.get(recorded.layer, {}) | _of_values(kind)  # a published event has the key of any layer
            attributes |= {own: getattr(Seen, own) for own in OWN_NAMES - name.keys() if own in attributes}
            self.types.append(type("Seen", (Seen,), attributes | name))

    def decode(self, batch: bytes) -> Iterator[Seen | Events]:
        """The single events and the column batches of a batch, in order."""
        at, size, types = 0, len(batch), self.types
        unpack, further = _HEAD.unpack_from, self._further.size
        while at < size:
            head = unpack(batch, at)
            end = at + head[_SIZE]
            if head[_EVENT] & COLUMNS:
                yield self.many[head[_EVENT] - COLUMNS](head[_WORDS], batch[at + _HEAD.size : end])
                at = end
                continue
            if further:
                head = self._with_further(head, batch, end)
            yield types[head[_EVENT]]((*head, batch[at:end]))
            at = end

    def _with_further(self, head: tuple[Any, ...], batch: bytes, end: int) -> tuple[Any, ...]:
        """The head of the record that ends at `end`, with all on-demand handlers that receive the event."""
        watched = head[WATCHED]
        for word, bits in enumerate(self._further.unpack_from(batch, end - self._further.size), 1):
            watched |= bits << 64 * word
        return (*head[:WATCHED], watched, *head[WATCHED + 1 :])

    def key(self, words: tuple[int, ...], owner: int, side: int, swapped: int) -> dict[str, Any]:
        """The key of an instance of layer number `owner`. `words` is empty if there is no instance."""
        if not words:
            return {}
        layer = self.layers[owner]
        if not layer.oriented:
            return _key(layer.parts, words, reverse=False)
        sender, half = (side ^ swapped) & 1, layer.half
        key = _key(layer.parts, words[sender * half :][:half], reverse=False)
        return key | _key(layer.parts, words[(1 - sender) * half :][:half], reverse=True)

    def _of_key(self, owner: int) -> dict[str, property]:
        """Properties for those key parts of a layer's own instances that are numbers."""
        layer = self.layers[owner]
        found: dict[str, property] = {}
        for part in layer.parts:
            if part.bits <= 64:
                found[part.name] = _of_part(part, owner, layer.half if layer.oriented else 0, False)
                if layer.oriented:
                    found[part.other or part.name] = _of_part(part, owner, layer.half, True)
        return found


def _of_part(part: Part, owner: int, half: int, reverse: bool) -> property:
    name = (part.other if reverse else "") or part.name
    mask, shift, first = (1 << part.bits) - 1, part.shift, _HEAD.size + 8 * part.word
    read = _NUMBER.unpack_from

    address = is_address(name, part.bits)

    def get(seen: Seen) -> int | Address:
        if seen[_OWNER] != owner or not seen[_WORDS]:
            return seen.__getattr__(name)  # the key of the stream that carries the messages, or no key
        sender = (seen[_SIDE] ^ seen[_SWAPPED] ^ reverse) & 1
        number: int = read(seen[_RECORD], first + 8 * half * sender)[0] >> shift & mask
        return ipv4(number) if address else number

    return property(get)


def _of_values(kind: Kind) -> dict[str, property]:
    """Properties for an event's values up to the first bytes value; values after it have no fixed offset."""
    found: dict[str, property] = {}
    at = _HEAD.size
    for value in kind.values:
        found[value.name] = _of_bytes(at) if value.bits == 0 else _of_number(at, value.names)
        if value.bits == 0:
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


def _values(values: Sequence[Value], batch: bytes, at: int) -> dict[str, Any]:
    """The values of an event, decoded from position `at` on."""
    found: dict[str, Any] = {}
    for value in values:
        if value.bits == 0:
            captured, _ = _LENGTHS.unpack_from(batch, at)
            found[value.name] = batch[at + 8 : at + 8 + captured]
            at += 8 + (captured + 7) // 8 * 8
        else:
            number = _NUMBER.unpack_from(batch, at)[0]
            found[value.name] = number if value.names is None else value.names[number]
            at += 8
    return found


def _key(parts: Sequence[Part], words: tuple[int, ...], reverse: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        name = part.other if reverse and part.other else part.name
        bits = part.bits
        if bits > 64:
            pieces = [words[part.word + k] for k in range((bits + 63) // 64)]
            octets = b"".join(piece.to_bytes(8, "big") for piece in pieces)[: bits // 8]
            found[name] = ipv6(octets) if is_address(name, bits) else octets
        else:
            number = words[part.word] >> part.shift & ((1 << bits) - 1)
            found[name] = ipv4(number) if is_address(name, bits) else number
    return found


Handler = Callable[[Seen], object]
"""A callback for a single event."""

ManyHandler = Callable[[Events], object]
"""A callback for a batch of events."""


@dataclass(frozen=True)
class PythonEvent:
    """An event that a Python file defines. It happens if `base` of `layer` happens and the filter `holds` is true."""

    layer: str
    name: str
    base: str
    holds: Handler


@dataclass(frozen=True)
class Publisher:
    """An event as a Python file declares it, and the object that the file calls to publish one."""

    event: PublishedEvent
    mark: Any


@dataclass
class PythonFunction:
    """The handlers of one Python file.

    handlers: (layer, event, function). endings: what to call at the end. counted: returns its counters by name.
    events: events that the file defines. on_demand: handlers that are called only while registered, in the form of
    `handlers`. many: batch handlers. published: functions that publish an event, by its name. drops_before: bits of
    the functions in C that withhold an event from it if they drop the packet. label: as of CFunction.
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
    shared: dict[str, Any] = field(default_factory=lambda: {})
    """The shared objects that it declares (sluice.functions.shared), by name."""
    verdicts: list[Any] = field(default_factory=lambda: [])
    """What it decides on packets with (sluice.functions.Verdicts); empty if it does not."""

    def taken(self) -> frozenset[Hook]:
        """The events to which its batch handlers subscribe."""
        return frozenset(Hook(layer, event) for layer, event, _ in self.many)

    def hooks(self) -> frozenset[Hook]:
        """The events of the stack, and of functions in C, to which `handlers` subscribe."""
        return self._below([Hook(layer, event) for layer, event, _ in self.handlers])

    def demanded(self) -> list[frozenset[Hook]]:
        """The same for each on-demand handler."""
        return [self._below([Hook(layer, event)]) for layer, event, _ in self.on_demand]

    def _below(self, to_see: list[Hook]) -> frozenset[Hook]:
        """The base events of `to_see`, resolved until none of them is an event of this file."""
        found: set[Hook] = set()
        while to_see:
            hook = to_see.pop()
            below = [Hook(event.layer, event.base) for event in self.events if event.name == hook.event]
            to_see += [other for other in below if other not in found]
            if not below:
                found.add(hook)
        return frozenset(found)

    def called_with_many(self, layer: LayerProgram, event: str) -> list[ManyHandler]:
        """The batch handlers of an event of a layer."""
        return [call for wanted, name, call in self.many if means(Hook(wanted, name), layer, event)]

    def called(
        self, layer: LayerProgram, event: str, first: int, root: str = "", streams: frozenset[str] = frozenset()
    ) -> list[Handler]:
        """The handlers of an event of a layer, followed by those of events that derive from it.

        first: the bit of the first on-demand handler of this file. root: the event of the stack from which it derives.
        streams: the layers of streams (sluice.hooks.withheld).
        """
        found = [call for call, _ in self._called(layer, event, first)]
        if self.drops_before and layer.name != CHAIN and is_withheld(layer, root or event, streams):
            return [_unless_dropped(self.drops_before, call) for call in found]
        return found

    def _called(self, layer: LayerProgram, event: str, first: int) -> list[tuple[Handler, int]]:
        """The same with a mask for each handler: one of its bits must be registered; 0 if it is always called."""
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
"""A derived event: its filter, a mask of which one bit must be registered (0: always called), and its handlers."""


def _any_of(bits: list[int]) -> int:
    """The union of masks of which one bit must be registered; 0 if one of them is 0 (always called)."""
    together = 0
    for one in bits:
        together |= one
    return together if all(bits) else 0


def _asked(below: list[_Below]) -> Handler:
    """A handler that evaluates the filters of events with one base, then calls the subscribers of those that hold."""

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
    """A handler that calls `handler` if one of `bits` is registered for the event's instance."""

    def call(seen: Seen) -> None:
        if seen[WATCHED] & bits:
            handler(seen)

    return call
