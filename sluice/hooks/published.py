"""Events that functions publish for other functions (Microboxes, section 6): declared structs, found by their names.

`SLUICE_PUBLISH(name, { uint32_t kind; sl_bytes host; })` declares one; `SLUICE_PUBLISH_AS(base, name, { ... })` one
whose struct begins with that of `base`, so that a subscriber to `base` receives it, too. They have no layer of a stack:
a subscription names `chain` in its place. `SLUICE_EXPECT(name, { ... })` declares one that another function may
publish: a subscriber with it also runs where none does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sluice.hooks.c_words import C_WORDS
from sluice.hooks.marks import Mark
from sluice.hooks.subscription import HookError
from sluice.ir.graph import EventShape, Graph, LayerProgram
from sluice.ir.hook import Hook
from sluice.lang.errors import did_you_mean
from sluice.lang.events import BUILT_IN

CHAIN = "chain"
"""In place of a layer: what functions publish."""

TYPES = {"bool": 1, "uint8_t": 8, "uint16_t": 16, "uint32_t": 32, "uint64_t": 64, "sl_bytes": 0}
"""Types of fields, and their bits; 0 for bytes. Pointers are none: they mean nothing in another process."""

_FIELD = re.compile(r"(\w+)\s+(\w+(?:\s*,\s*\w+)*)")

Field = tuple[str, str]
"""Of a struct: the name and the type, out of TYPES."""


@dataclass(frozen=True)
class PublishedEvent:
    """An event as a function declares it. fields: its own, without those of `base`, which is "" where there is none.

    expected: the function does not publish it, but subscribes to it where another one does.
    """

    function: str
    name: str
    base: str
    fields: tuple[Field, ...]
    where: str
    expected: bool = False


def read_published(function: str, marks: Sequence[Mark]) -> tuple[PublishedEvent, ...]:
    """The events that SLUICE_PUBLISH, SLUICE_PUBLISH_AS and SLUICE_EXPECT declare. Raises HookError, with the line."""
    found: dict[str, PublishedEvent] = {}
    for mark in marks:
        if mark.kind in ("publish", "expect"):
            base, name, *text = mark.arguments
            if name in found:
                raise HookError(f"{mark.where}: '{name}' is declared already, at {found[name].where}: remove one")
            fields = read_fields(mark.where, name, ", ".join(text))
            expected = mark.kind == "expect"
            found[name] = checked(PublishedEvent(function, name, base, fields, mark.where, expected))
    own = {name for name, event in found.items() if not event.expected}
    for mark in marks:
        if mark.kind == "emit" and mark.arguments[0] not in own:
            name = mark.arguments[0]
            advice = did_you_mean(name, own) if own else f"declare SLUICE_PUBLISH({name}, {{ uint32_t kind; }})"
            raise HookError(f"{mark.where}: this function emits '{name}', but does not publish it\n    {advice}")
    return tuple(found.values())


def read_fields(where: str, name: str, text: str) -> tuple[Field, ...]:
    """The fields of `{ type name; type name, name; }`. Raises HookError."""
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise HookError(f"{where}: '{name}' needs a struct: SLUICE_PUBLISH({name}, {{ uint32_t kind; }})")
    found: list[Field] = []
    for part in filter(None, (part.strip() for part in body[1:-1].split(";"))):
        match = _FIELD.fullmatch(re.sub(r"^_Bool\b", "bool", part))  # <stdbool.h> makes that of bool
        if match is None or match[1] not in TYPES:
            raise HookError(
                f"{where}: '{part}' of '{name}' is no field that can be published\n"
                f"    a field is a type and a name; types are {', '.join(TYPES)}."
            )
        found += [(field.strip(), match[1]) for field in match[2].split(",")]
    return tuple(found)


def checked(event: PublishedEvent) -> PublishedEvent:
    """The event. Raises HookError for a name, or a name of a field, that cannot be."""
    if event.name in BUILT_IN:
        raise HookError(f"{event.where}: '{event.name}' is a built-in event: give yours another name")
    names = [event.name, *(name for name, _ in event.fields)]
    for name in names:
        if not name.isidentifier() or name in C_WORDS or name.startswith("sl_"):
            raise HookError(f"{event.where}: '{name}' cannot be a name here: write a word of letters, digits and _")
    for name in names[1:]:
        if names[1:].count(name) > 1:
            raise HookError(f"{event.where}: '{event.name}' has two fields '{name}': rename one")
    return event


@dataclass(frozen=True)
class PublishedEvents:
    """All events that functions publish. Raises HookError for declarations that contradict each other, a base that
    nothing declares, and one that is its own base.
    """

    all: tuple[PublishedEvent, ...]

    def __post_init__(self) -> None:
        for event in self.all:
            first = self._named[event.name]
            if (first.base, first.fields) != (event.base, event.fields):
                raise HookError(
                    f"{event.where}: '{event.name}' is {described(event)}, but {described(first)} at {first.where}\n"
                    "    declare it once, in a header that both include, or rename one."
                )
        for event in self._named.values():
            self.lineage(event.name)
            for name, _ in event.fields:
                bases = self.lineage(event.name)[:-1]
                if any(name == other for base in bases for other, _ in self._named[base].fields):
                    raise HookError(f"{event.where}: '{event.name}' and its base have a field '{name}': rename one")

    @cached_property
    def _named(self) -> dict[str, PublishedEvent]:
        found: dict[str, PublishedEvent] = {}
        for event in self.all:
            found.setdefault(event.name, event)
        return found

    @property
    def names(self) -> list[str]:
        """The names of all events."""
        return list(self._named)

    def lineage(self, name: str) -> list[str]:
        """The bases of an event, the outermost first, and the event. Raises HookError."""
        found = [name]
        while base := self._named[found[0]].base:
            event = self._named[found[0]]
            if base in found:
                raise HookError(
                    f"{event.where}: '{event.name}' is its own base ({' of '.join([base, *found])})\n"
                    "    let the first of them have no base."
                )
            if base not in self._named:
                raise HookError(
                    f"{event.where}: no function publishes '{base}', the base of '{event.name}'\n"
                    f"    {did_you_mean(base, set(self._named) - {event.name})}"
                )
            found.insert(0, base)
        return found

    def fields(self, name: str) -> tuple[Field, ...]:
        """All fields of an event, those of its bases first."""
        return tuple(field for event in self.lineage(name) for field in self._named[event].fields)

    def publishers(self, name: str) -> Iterator[str]:
        """The functions that publish an event, or one that has it as a base."""
        return (event.function for event in self.all if not event.expected and name in self.lineage(event.name))

    def layer(self) -> LayerProgram:
        """The events as those of a layer, for code that writes and reads events of layers."""
        layer = LayerProgram(CHAIN, CHAIN, CHAIN, Graph(CHAIN, "", ()))
        for name in self._named:
            shape = tuple((field, TYPES[kind]) for field, kind in self.fields(name))
            layer.events[name] = EventShape(name, shape, f"published_{name}", (), self._named[name].where)
        return layer


def described(event: PublishedEvent) -> str:
    """An event's struct in a message."""
    fields = "; ".join(f"{kind} {name}" for name, kind in event.fields)
    return f"{{ {fields} }}" + (f" after {event.base}" if event.base else "")


def published_names(hooks: Iterable[Hook]) -> list[str]:
    """The published events that hooks name."""
    return [hook.event for hook in hooks if hook.layer == CHAIN]
