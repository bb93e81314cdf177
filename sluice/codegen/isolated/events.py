"""The events of an isolated chain: their numbers, the functions that receive each, and the layout of their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.codegen.c.names import storage
from sluice.codegen.events.dispatch import Dispatcher
from sluice.codegen.layer.instance_layout import Table, tables
from sluice.hooks.function import Functions
from sluice.hooks.published import PublishedEvent, PublishedEvents
from sluice.hooks.subscription import is_named
from sluice.hooks.withheld import is_withheld, stream_layers
from sluice.ir.graph import EventShape, Program
from sluice.ir.hook import Hook

END = "end"


@dataclass(frozen=True)
class ReceivedFunctions(Functions):
    """The functions of one process of an isolated chain. outside: what all functions of the chain publish."""

    outside: tuple[PublishedEvent, ...] = ()
    publishing: tuple[Hook, ...] = field(default=())
    """The subscriptions and timers of the functions that publish what these subscribe to: instances reach them."""

    @property
    def published(self) -> PublishedEvents:
        """The events that functions in C publish, here or in another process."""
        return PublishedEvents(self.outside)

    @property
    def shares(self) -> bool:
        """Whether a store has state of some function: shared objects, or that of connections."""
        return any(function.shared or function.stored for function in self.c)


@dataclass(frozen=True)
class IsolatedEvents:
    """The events of the stack that functions receive, by number: layer and event. published: those of functions.

    paths: 1 if functions read the layers of a packet, 2 if they read their units as well.
    """

    stack: tuple[tuple[str, str], ...]
    published: tuple[PublishedEvent, ...]
    paths: int

    def number(self, event: PublishedEvent) -> int:
        """The number of a published event."""
        names = [(one.function, one.name) for one in self.published]
        return names.index((event.function, event.name))


def received(program: Program, functions: ReceivedFunctions) -> set[tuple[str, str]]:
    """The events of the stack that a process needs: its subscriptions, and the ends of instances that it knows."""
    found = {
        (layer.name, event)
        for layer in program.layers.values()
        for event in layer.events
        if Dispatcher(functions, layer).subscribers(event)
    }
    for table in tables(program).values():
        if is_known(table, functions):
            found |= {(layer.name, END) for layer in table.layers if END in layer.events}
    return found


def is_known(table: Table, functions: ReceivedFunctions) -> bool:
    """Whether events that carry instances of a table reach these functions."""
    timers = [Hook(timer.layer, timer.name) for timer in functions.timers]
    events = [Hook(event.layer, event.name) for event in functions.events.all]
    python = functions.python.union(*functions.demanded)
    hooks = [*functions.publishing, *timers, *events, *python, *(hook for one in functions.c for hook in one.hooks)]
    layers = [*table.layers, *table.takers]
    return any(is_named(hook.layer, layer) for hook in hooks for layer in layers)


def number_events(program: Program, processes: Sequence[ReceivedFunctions]) -> IsolatedEvents:
    """Numbers the events of all processes."""
    needed = set[tuple[str, str]]().union(*(received(program, functions) for functions in processes))
    stack = [
        (layer.name, event)
        for layer in program.layers.values()
        for event in layer.events
        if (layer.name, event) in needed
    ]
    needs_units = any(functions.needs_units for functions in processes)
    paths = 2 if needs_units else int(any(functions.needs_path for functions in processes))
    return IsolatedEvents(tuple(stack), processes[0].outside if processes else (), paths)


def withheld(program: Program, events: IsolatedEvents) -> list[bool]:
    """By number, whether a drop withholds an event of the stack."""
    streams = stream_layers(program)
    return [is_withheld(program.layers[layer], event, streams) for layer, event in events.stack]


def places_of_bytes(shape: EventShape) -> list[int]:
    """The offsets of the fields of bytes in the C struct of an event's data."""
    at, found = 0, list[int]()
    for _, bits in shape.fields:
        size, aligned = (16, 8) if bits == 0 else (storage(bits),) * 2
        at = (at + aligned - 1) // aligned * aligned
        if bits == 0:
            found.append(at)
        at += size
    return found
