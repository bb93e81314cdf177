"""Events that functions in Python publish: they reach the subscribers in Python that run in the same box, at once.

A function in C runs before those in Python, which get their events in batches: what C publishes reaches both, what
Python publishes only Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sluice.engine.events import PythonFunction
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.published import CHAIN, PublishedEvents
from sluice.hooks.subscription import HookError
from sluice.ir.graph import LayerProgram
from sluice.lang.errors import did_you_mean


class PublishedSeen:
    """An event that a function in Python published, as a subscriber sees it: its values, then what the event has for
    which it was published (instance, side, time, packet, key).
    """

    layer = CHAIN

    def __init__(self, name: str, values: dict[str, Any], cause: Any) -> None:
        self.name = name
        self.values = values
        self.cause = cause

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        return getattr(self.cause, name)


def connect(in_c: PublishedEvents, functions: Sequence[PythonFunction]) -> LayerProgram:
    """Lets the publishers of functions in Python reach their subscribers among these, in this order.

    The result has all published events, as those of a layer. Raises HookError where declarations contradict each other.
    """
    own = [publisher for function in functions for publisher in function.published.values()]
    known = PublishedEvents((*in_c.all, *(publisher.event for publisher in own)))
    layer = known.layer()
    for publisher in own:
        steps: list[tuple[str, list[str], list[Callable[[Any], object]]]] = []
        for name in known.lineage(publisher.event.name):
            calls = [call for function in functions for call in function.called(layer, name, 0)]
            if calls:
                steps.append((name, [field for field, _ in known.fields(name)], calls))
        publisher.mark.types = dict(known.fields(publisher.event.name))
        publisher.mark.deliver = _delivery(steps) if steps else None
    return layer


def _delivery(
    steps: list[tuple[str, list[str], list[Callable[[Any], object]]]],
) -> Callable[[Any, dict[str, Any]], None]:
    """Calls the subscribers of an event, after those of its bases."""

    def deliver(cause: Any, values: dict[str, Any]) -> None:
        for name, fields, calls in steps:
            seen = PublishedSeen(name, {field: values[field] for field in fields}, cause)
            for call in calls:
                call(seen)

    return deliver


def check_published(c: Sequence[CFunction], python: Sequence[PythonFunction]) -> None:
    """Raise HookError for a subscription to what no function publishes, or publishes too late for the subscriber.

    Events that functions define with a filter, by SLUICE_EVENT(chain, ...) and @event("chain", ...), count, too.
    """
    own = [publisher.event for function in python for publisher in function.published.values()]
    in_c = Functions(tuple(c)).published
    known = PublishedEvents((*in_c.all, *own))
    from_c = {name for event in in_c.all if not event.expected for name in known.lineage(event.name)}
    of_python = {name: event for event in own for name in known.lineage(event.name) if name not in from_c}
    by_c = {*from_c, *(event.name for function in c for event in function.events if event.layer == CHAIN)}
    by_any = {*by_c, *of_python, *(event.name for function in python for event in function.events)}
    for function in c:
        expected = {event.name for event in function.published if event.expected}
        wanted = [(hook.event, function.line_of(hook)) for hook in function.hooks if hook.layer == CHAIN]
        wanted += [(event.base, event.where) for event in function.events if event.layer == CHAIN]
        for name, where in wanted:
            if name in of_python:
                raise HookError(
                    f"{where}: '{name}' is published in Python, at {of_python[name].where}, after the functions in C "
                    "are done with the packet\n    write the publisher in C, or the subscriber in Python."
                )
            if name not in by_c and name not in expected:
                raise _no_publisher(where, name, by_c)
    for function in python:
        for layer, name, handler in [*function.handlers, *function.on_demand, *function.many]:
            if layer == CHAIN and name not in by_any:
                raise _no_publisher(line_of(handler, function.name), name, by_any)
        for layer, name, handler in function.on_demand:
            if layer == CHAIN and name in of_python:
                raise HookError(
                    f"{line_of(handler, function.name)}: '{name}' is published in Python, and cannot be on demand\n"
                    "    write @on, and test in the handler whether the event is wanted."
                )
        for layer, _, handler in function.many:
            if layer == CHAIN:
                raise HookError(
                    f"{line_of(handler, function.name)}: published events do not come many at once: write @on"
                )


def line_of(handler: Any, name: str) -> str:
    """FILE:LINE of a handler in Python."""
    code = getattr(getattr(handler, "__wrapped__", handler), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else f"{name}.py"


def _no_publisher(where: str, name: str, known: set[str]) -> HookError:
    advice = did_you_mean(name, known) if known else f"publish it by SLUICE_PUBLISH({name}, {{ ... }}) or @publishes."
    return HookError(f"{where}: no function publishes '{name}'\n    {advice}")
