"""Cycles of published events: subscribers run inside the publication, so a cycle would be an endless recursion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.engine.events import PythonFunction
from sluice.engine.published import line_of
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.published import CHAIN, PublishedEvents
from sluice.hooks.subscription import HookError


def check_cycles(c: Sequence[CFunction], python: Sequence[PythonFunction]) -> None:
    """Raise HookError where what functions publish comes back to them. The names of all events are known to be valid.

    A function is taken as a whole, because C is not searched for the handler that publishes. A file in Python may
    subscribe to its own events, except in a handler that names the event that it subscribes to.
    """
    functions = [*c, *python]
    own = [publisher.event for function in python for publisher in function.published.values()]
    known = PublishedEvents((*Functions(tuple(c)).published.all, *own))
    bases = {e.name: e.base for f in c for e in f.events if e.layer == CHAIN}
    bases |= {e.name: e.base for f in python for e in f.events if e.layer == CHAIN}
    reached: dict[int, list[tuple[int, str, str]]] = {}
    for number, publisher in enumerate(functions):
        events = {name for one in _published(publisher) for name in known.lineage(one)}
        for other, subscriber in enumerate(functions):
            for event, where, called in _subscriptions(subscriber):
                named = number != other or called is None or _comes_back(known, event, called, publisher)
                if named and _root(event, bases) in events:
                    reached.setdefault(number, []).append((other, event, where))
    for number in range(len(functions)):
        if path := _path(reached, number):
            steps = ", ".join(f"'{functions[to].name}' subscribes to '{event}' ({where})" for to, event, where in path)
            raise HookError(
                f"{path[-1][2]}: '{functions[number].name}' publishes an event that leads back to it: {steps}\n"
                "    let events go in one direction: move the handler to a function that publishes none of them, or "
                "call a function of your own."
            )


def _published(function: CFunction | PythonFunction) -> list[str]:
    if isinstance(function, CFunction):
        return [event.name for event in function.publishes]
    return [publisher.event.name for publisher in function.published.values()]


def _subscriptions(function: CFunction | PythonFunction) -> Iterator[tuple[str, str, frozenset[str] | None]]:
    """Published events that it subscribes to: name, FILE:LINE, and the names that the handler uses, if known."""
    if isinstance(function, CFunction):
        yield from ((hook.event, function.line_of(hook), None) for hook in function.hooks if hook.layer == CHAIN)
        return
    for layer, event, handler in [*function.handlers, *function.on_demand]:
        if layer == CHAIN:
            code = getattr(getattr(handler, "__wrapped__", handler), "__code__", None)
            yield event, line_of(handler, function.name), frozenset(code.co_names) if code is not None else None


def _root(event: str, bases: dict[str, str]) -> str:
    """The published event that an event with a filter is based on."""
    seen = set[str]()
    while event in bases and event not in seen:
        seen.add(event)
        event = bases[event]
    return event


def _comes_back(
    known: PublishedEvents, event: str, called: frozenset[str], function: CFunction | PythonFunction
) -> bool:
    """Whether a handler names an event of its own file that is, or is based on, the one it subscribes to."""
    return any(name in called and event in known.lineage(name) for name in _published(function))


def _path(reached: dict[int, list[tuple[int, str, str]]], start: int) -> list[tuple[int, str, str]]:
    """Subscriptions by which a publication of a function leads back to it; empty if there are none."""
    waiting: list[list[tuple[int, str, str]]] = [[step] for step in reached.get(start, [])]
    seen = set[int]()
    while waiting:
        path = waiting.pop(0)
        at = path[-1][0]
        if at == start:
            return path
        if at not in seen:
            seen.add(at)
            waiting += [[*path, step] for step in reached.get(at, [])]
    return []
