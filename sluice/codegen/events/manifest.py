"""The manifest: the events of a stack, their values, and the layout of the records in which compiled code writes them, as
data. The decoder of functions in Python is built from it (engine/events.py), `sluice build` writes it as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sluice.codegen.layer.instance_layout import key_words
from sluice.ir.graph import EventShape, LayerProgram, Program
from sluice.lang.events import NAMED_VALUES

VERSION = 1
"""Of the manifest and the records. It rises when a reader of an earlier one would read something wrong."""
WORDS_MOST = 64
"""Of 64 bits, in a half of a key."""
WATCHED_MOST = 1 << 16
"""Words of handlers on demand."""
HEAD = (
    ("size", 4), ("event", 2), ("side", 1), ("swapped", 1), ("owner", 4), ("key_words", 4), ("instance", 8), ("time", 8),
    ("number", 8), ("watched", 8), ("slot", 8), ("dropped_by", 8),
)  # fmt: skip
"""Fields of struct sl_record_head with their bytes, unsigned and little endian."""


@dataclass(frozen=True)
class Value:
    """A value of an event. bits: 0 for bytes. names: what its numbers mean, None for a plain number.

    In a record a number has 8 bytes; bytes have their captured and their whole length, 4 bytes each, and are padded to a
    multiple of 8.
    """

    name: str
    bits: int
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Part:
    """A part of a key. other: its name for the receiver's half, empty if it is the same. word, shift: its place in a half;
    one of more than 64 bits takes several words, the highest first.
    """

    name: str
    other: str
    bits: int
    word: int
    shift: int


@dataclass(frozen=True)
class Layer:
    """A layer. layer: its name in the description, where it may lie over several others. parts, half: of the key of its instances, and the 64-bit words of a half. oriented: whether a key has two
    halves. events: by name, their values.
    """

    name: str
    layer: str
    parts: tuple[Part, ...]
    half: int
    oriented: bool
    events: Mapping[str, tuple[Value, ...]]

    def columns(self, event: str) -> list[tuple[str, int]]:
        """The columns of an event after the common ones, with their bits: the key, sender first, then the values."""
        halves = [(part.name, part.bits) for part in self.parts]
        if self.oriented:
            halves += [(part.other or part.name, part.bits) for part in self.parts]
        return halves + [(value.name, value.bits) for value in self.events[event]]


@dataclass(frozen=True)
class Recorded:
    """An event that is written. base: the event of the stack from which it derives, whose values it has."""

    layer: str
    event: str
    base: str


@dataclass(frozen=True)
class Manifest:
    """layers: by their number in the program, the `owner` of a record. records, columns: by the number of the event in
    a record, single ones and rows of columns. published: the events that functions publish, as those of a layer.
    watched: 64-bit words of the handlers on demand that receive an event; those after the first one, which is in the
    head, are the last ones of a record.
    """

    stack: str
    layers: tuple[Layer, ...]
    records: tuple[Recorded, ...] = ()
    columns: tuple[Recorded, ...] = ()
    published: Layer | None = None
    watched: int = 1

    def layer(self, name: str) -> Layer:
        """The layer of that name, or the published events. Raises KeyError."""
        if self.published is not None and name == self.published.name:
            return self.published
        return {layer.name: layer for layer in self.layers}[name]

    def text(self) -> str:
        """It as JSON."""
        whole = {"version": VERSION, "stack": self.stack, "head": [{"name": n, "bytes": size} for n, size in HEAD]}
        return json.dumps(whole | asdict(self), indent=1) + "\n"


def read(text: str) -> Manifest:
    """A manifest from its JSON. Raises ValueError for another version, or for what is no manifest."""
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise ValueError(f"this manifest has version {found['version']}; version {VERSION} can be read")
        return Manifest(
            _text(found["stack"]),
            tuple(_layer(one) for one in found["layers"]),
            tuple(_recorded(one) for one in found["records"]),
            tuple(_recorded(one) for one in found["columns"]),
            _layer(found["published"]) if found["published"] is not None else None,
            _number(found.get("watched", 1), WATCHED_MOST),
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"this is no manifest of events: {error!r}") from error


def _layer(found: dict[str, Any]) -> Layer:
    half = _number(found["half"], WORDS_MOST)
    events = {
        name: tuple(
            Value(
                _text(one["name"]),
                _number(one["bits"], 64),
                None if one["names"] is None else tuple(_text(text) for text in one["names"]),
            )
            for one in values
        )
        for name, values in found["events"].items()
    }
    return Layer(
        _text(found["name"]),
        _text(found["layer"]),
        tuple(_part(one, half) for one in found["parts"]),
        half,
        bool(found["oriented"]),
        events,
    )


def _part(found: dict[str, Any], half: int) -> Part:
    bits, word, shift = _number(found["bits"], 64 * half), _number(found["word"], half), _number(found["shift"], 63)
    if not bits or word + (bits + 63) // 64 > half:
        raise TypeError(f"part '{found['name']}' is not within {half} words")
    return Part(_text(found["name"]), _text(found["other"]), bits, word, shift)


def _recorded(found: dict[str, Any]) -> Recorded:
    return Recorded(_text(found["layer"]), _text(found["event"]), _text(found["base"]))


def _number(found: object, most: int) -> int:
    if not isinstance(found, int) or not 0 <= found <= most:
        raise TypeError(f"{found!r} is no number from 0 to {most}")
    return found


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(f"{found!r} is no text")
    return found


def manifest(
    program: Program,
    records: Sequence[tuple[tuple[str, str], str]] = (),
    columns: Sequence[tuple[tuple[str, str], str]] = (),
    published: LayerProgram | None = None,
    watched: int = 1,
) -> Manifest:
    """The manifest of a program. records, columns: layer, event and base of each number. watched: as of Manifest."""
    return Manifest(
        program.name,
        tuple(_described(layer) for layer in program.layers.values()),
        tuple(Recorded(layer, event, base) for (layer, event), base in records),
        tuple(Recorded(layer, event, base) for (layer, event), base in columns),
        _described(published) if published is not None else None,
        watched,
    )


def _described(layer: LayerProgram) -> Layer:
    placed, half = key_words(layer.instance.key) if layer.instance is not None else ([], 0)
    parts = tuple(Part(one.part.name, one.part.other or "", one.part.bits, one.word, one.shift) for one in placed)
    events = {
        name: tuple(Value(value, bits, value_names(layer, shape, value)) for value, bits in shape.fields)
        for name, shape in layer.events.items()
    }
    return Layer(layer.name, layer.layer, parts, half, layer.instance is not None and layer.instance.oriented, events)


def value_names(layer: LayerProgram, shape: EventShape, value: str) -> tuple[str, ...] | None:
    """The names that a value of an event indexes (states, reasons); None if it is a plain number or bytes."""
    if shape.callback:
        return None
    if shape.name == "state":
        return tuple(state.name for state in layer.states)
    if value == "reason" and shape.reasons:
        return shape.reasons
    return NAMED_VALUES.get((shape.name, value))


def head_assertions() -> list[str]:
    """C that fails to compile where struct sl_record_head has another layout than HEAD."""
    at = 0
    checked: list[str] = []
    for name, size in HEAD:
        checked.append(f"offsetof(struct sl_record_head, {name}) == {at}")
        at += size
    checked.append(f"sizeof(struct sl_record_head) == {at}")
    return [f'_Static_assert({one}, "the manifest has this layout");' for one in checked]
