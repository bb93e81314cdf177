"""Functions in Python: how they say what they want, and how they get it.

    from sluice.functions import on

    @on("tcp", "data")
    def saw(event):
        print(event.offset, event.bytes)

Events come in batches: such a function sees everything, in order, a little later than it happened.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sluice.codegen.hooks import means
from sluice.codegen.layout import KeyWord, key_words
from sluice.ir.build import Hook
from sluice.ir.graph import EventShape, LayerProgram, Program
from sluice.lang.events import NAMED_VALUES

_HEAD = struct.Struct("<IHBBIIQQQ")
_NUMBER = struct.Struct("<Q")
_LENGTHS = struct.Struct("<II")


@dataclass(slots=True)
class Seen:
    """An event as a function in Python sees it.

    layer: name in the program. name: the event's. instance: number of the connection or datagram, 0 for none. side: 0
    sent by the active side, 1 by the passive. time: of the packet, nanoseconds since 1970. packet: its number in the
    capture. values: what the event brings along. key: the instance's selector by name, sender first. Both are also
    readable as attributes, but for names that stand here (OWN_NAMES).

    Of a layer that takes messages and has no instances of its own, instance, side and key are the stream's.
    """

    layer: str
    name: str
    instance: int
    side: int
    time: int
    packet: int
    values: dict[str, Any]
    key: dict[str, Any] = field(default_factory=lambda: {})

    def __getattr__(self, name: str) -> Any:
        for found in (self.values, self.key):
            if name in found:
                return found[name]
        known = ", ".join({**self.values, **self.key})
        raise AttributeError(f"event '{self.name}' of layer '{self.layer}' has no '{name}'; it has {known}")


OWN_NAMES = frozenset(field.name for field in fields(Seen))
"""What `event.NAME` always means, whatever the user's own values are called."""


class Decoder:
    """Reads batches that compiled code wrote."""

    def __init__(self, program: Program, events: list[tuple[str, str]]) -> None:
        self.shapes: list[tuple[str, EventShape, list[tuple[str, ...] | None]]] = []
        """Of every event its layer, what it brings along, and for each of that the names that its numbers stand for."""
        for layer, event in events:
            shape = program.layers[layer].events[event]
            self.shapes.append((layer, shape, [value_names(program.layers[layer], shape, v) for v, _ in shape.fields]))
        self.keys: list[tuple[list[KeyWord], int, bool]] = []
        for layer in program.layers.values():
            parts, half = key_words(layer.instance.key) if layer.instance is not None else ([], 0)
            self.keys.append((parts, half, layer.instance is not None and layer.instance.oriented))

    def decode(self, batch: bytes) -> Iterator[Seen]:
        """The events of a batch."""
        at = 0
        while at < len(batch):
            size, *head = _HEAD.unpack_from(batch, at)
            yield self._seen(batch, at + _HEAD.size, *head)
            at += size

    def _seen(
        self,
        batch: bytes,
        at: int,
        number: int,
        side: int,
        swapped: int,
        owner: int,
        words: int,
        instance: int,
        time: int,
        packet: int,
    ) -> Seen:
        """The event whose key and values begin at position `at`, from what stands in its head."""
        layer, shape, names = self.shapes[number]
        key = self._key(struct.unpack_from(f"<{words}Q", batch, at), owner, side, swapped)
        return Seen(layer, shape.name, instance, side, time, packet, _values(shape, names, batch, at + 8 * words), key)

    def _key(self, words: tuple[int, ...], owner: int, side: int, swapped: int) -> dict[str, Any]:
        """The key of an instance of layer number `owner`; no words where there is no instance."""
        if not words:
            return {}
        parts, half, oriented = self.keys[owner]
        if not oriented:
            return _key(parts, words, reverse=False)
        sender = (side ^ swapped) & 1
        key = _key(parts, words[sender * half :][:half], reverse=False)
        return key | _key(parts, words[(1 - sender) * half :][:half], reverse=True)


def value_names(layer: LayerProgram, shape: EventShape, value: str) -> tuple[str, ...] | None:
    """The names that a value of an event is a number of; None where it is a number as such, or bytes."""
    if shape.callback:
        return None
    if shape.name == "state":
        return tuple(state.name for state in layer.states)
    if value == "reason" and shape.reasons:
        return shape.reasons
    return NAMED_VALUES.get((shape.name, value))


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
            found[name] = b"".join(piece.to_bytes(8, "big") for piece in pieces)[: bits // 8]
        else:
            found[name] = words[placed.word] >> placed.shift & ((1 << bits) - 1)
    return found


Handler = Callable[[Seen], object]
"""What is called with an event."""


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

    events: those that it defines.
    """

    name: str
    handlers: Sequence[tuple[str, str, Handler]]
    endings: list[Callable[[], None]]
    counted: Callable[[], dict[str, int]] = dict
    events: list[PythonEvent] = field(default_factory=lambda: [])

    def hooks(self) -> frozenset[Hook]:
        """The events of the stack that it must be told of."""
        found: set[Hook] = set()
        to_see = [Hook(layer, event) for layer, event, _ in self.handlers]
        while to_see:
            hook = to_see.pop()
            below = [Hook(event.layer, event.base) for event in self.events if event.name == hook.event]
            to_see += [other for other in below if other not in found]
            if not below:
                found.add(hook)
        return frozenset(found)

    def called(self, layer: LayerProgram, event: str) -> list[Handler]:
        """What to call when an event of a layer happens: its handlers, then those of events that happen with it."""
        found = [call for wanted, name, call in self.handlers if means(Hook(wanted, name), layer, event)]
        for own in self.events:
            if own.base == event and means(Hook(own.layer, own.name), layer, own.name):
                inner = self.called(layer, own.name)
                if inner:
                    found.append(_where(own.holds, inner))
        return found


def _where(holds: Handler, inner: list[Handler]) -> Handler:
    """Calls the others where the first says so."""

    def call(seen: Seen) -> None:
        if holds(seen):
            for handler in inner:
                handler(seen)

    return call
