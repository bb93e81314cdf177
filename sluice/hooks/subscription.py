"""Subscriptions of functions: to events of the stack, and to events that functions define by a base and a filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluice.hooks.marks import Mark
from sluice.ir.graph import LayerProgram
from sluice.ir.hook import Hook, needs_name
from sluice.lang.events import BUILT_IN


class HookError(ValueError):
    """A declaration of a function that is wrong or contradicts another one. The message has its line and what to do."""


@dataclass(frozen=True)
class UserEvent:
    """An event that a function defines: it happens when `base` happens at its layer and its filter returns true.

    `layer` is "*" for any layer; `where` is the line of the declaration.
    """

    function: str
    layer: str
    name: str
    base: str
    where: str

    @property
    def filter(self) -> str:
        """The name of its filter, a C function."""
        return f"{self.function}_{_word(self.layer)}_{self.name}_filter"

    def at(self, layer: LayerProgram, event: str) -> bool:
        """Whether it is event `event` of a layer."""
        return means(Hook(self.layer, self.name), layer, event)


def is_named(name: str, layer: LayerProgram) -> bool:
    """Whether a name in a hook or a declaration refers to a layer of a program; "*" refers to all."""
    return name in ("*", layer.name, layer.layer, layer.prototype)


def means(hook: Hook, layer: LayerProgram, event: str) -> bool:
    """Whether a hook subscribes to event `event` of a layer."""
    if needs_name(event) and hook.layer == "*" and layer.instance is None:
        return False
    return hook.event == event and is_named(hook.layer, layer)


def handler(function: str, hook: Hook) -> str:
    """The name of the C function that handles the events of a hook."""
    return f"{function}_{_word(hook.layer)}_{hook.event}"


def _word(layer: str) -> str:
    return "any" if layer == "*" else layer


def read_hooks(marks: Sequence[Mark]) -> tuple[tuple[Hook, ...], tuple[Hook, ...]]:
    """The subscriptions of SLUICE_ON and SLUICE_ON_DEMAND, and which of them are on demand only."""
    hooks: list[Hook] = []
    on_demand: list[Hook] = []
    for mark in marks:
        if mark.kind not in ("on", "on_demand"):
            continue
        layer, event = mark.arguments
        hook = Hook("*" if layer == "any" else layer, event)
        if hook in hooks:
            raise HookError(f"{mark.where}: '{event}' of '{layer}' is hooked already: join the two")
        hooks.append(hook)
        if mark.kind == "on_demand":
            on_demand.append(hook)
    return tuple(hooks), tuple(on_demand)


def read_events(function: str, marks: Sequence[Mark]) -> tuple[UserEvent, ...]:
    """The events that SLUICE_EVENT defines."""
    found: list[UserEvent] = []
    for mark in marks:
        if mark.kind != "event":
            continue
        layer, name, base = mark.arguments
        if name in BUILT_IN:
            raise HookError(f"{mark.where}: '{name}' is a built-in event: give yours another name")
        found.append(UserEvent(function, "*" if layer == "any" else layer, name, base, mark.where))
    return tuple(found)


@dataclass(frozen=True)
class UserEvents:
    """All events that functions define. Raises HookError for one that is defined twice or happens with itself."""

    all: Sequence[UserEvent]

    def __post_init__(self) -> None:
        first: dict[tuple[str, str], UserEvent] = {}
        for event in self.all:
            other = first.setdefault((event.layer, event.name), event)
            if other is not event:
                raise HookError(
                    f"{event.where}: event '{event.name}' of '{event.layer}' is defined at {other.where} already\n"
                    "    subscribe to that one, or give this one another name."
                )
        for event in self.all:
            if event.name in self._below(event, frozenset()):
                raise HookError(
                    f"{event.where}: event '{event.name}' happens with itself\n"
                    "    let the first in its chain of events happen with one of the stack."
                )

    def _below(self, event: UserEvent, seen: frozenset[str]) -> frozenset[str]:
        """The names of all events that an event is based on, directly or not, besides those in `seen`."""
        if event.base in seen:
            return seen
        seen |= {event.base}
        for other in self.all:
            if other.name == event.base:
                seen = self._below(other, seen)
        return seen

    def with_base(self, layer: LayerProgram, base: str) -> Iterator[UserEvent]:
        """The events that are based on event `base` of a layer, in the order of their definitions."""
        return (event for event in self.all if event.base == base and event.at(layer, event.name))

    def root(self, layer: LayerProgram, name: str) -> str:
        """The event of the stack that event `name` of a layer is based on; itself if no function defines it."""
        for event in self.all:
            if event.at(layer, name):
                return self.root(layer, event.base)
        return name

    def needed(self, hook: Hook) -> frozenset[Hook]:
        """A hook and, if a function defines its event, the hooks of the events that it is based on."""
        found = frozenset([hook])
        for event in self.all:
            if event.name == hook.event:
                found |= self.needed(Hook(event.layer, event.base))
        return found
