"""The function that is compiled with the stack of an isolated chain: it sends events to the functions.

It subscribes to what they subscribe to. Which layers these words mean is known once the program is built, so the
numbers of events are given at run time (struct sl_iso_events).
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.codegen.isolated.events import END, IsolatedEvents
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.subscription import UserEvents, handler, means
from sluice.ir.graph import Program
from sluice.ir.hook import Hook

NAME = "isolated"
NONE = 0xFFFF
"""SL_ISO_NONE."""


def sender(processes: Sequence[Functions]) -> CFunction:
    """The function for the functions of some processes."""
    hooks = subscribed(processes)
    lines = ['#include "isolated/decide.h"']
    for number, hook in enumerate(hooks):
        word = "any" if hook.layer == "*" else hook.layer
        lines.append(f"SLUICE_ON({word}, {hook.event}) {{ sl_iso_handler(event, {number}, data, sizeof *data); }}")
    functions = [function for process in processes for function in process.c]
    needs = frozenset(need for function in functions for need in function.needs)
    return CFunction(
        name=NAME,
        text="\n".join(lines),
        path=f"{NAME}.c",
        hooks=hooks,
        state=False,
        worker=False,
        opens=False,
        closes=False,
        kept=tuple(kept for function in functions for kept in function.kept),
        inline=any(function.inline for function in functions),
        needs=needs | {"packet"},
    )


def subscribed(processes: Sequence[Functions]) -> tuple[Hook, ...]:
    """The events of the stack that processes need, in the words of their functions, and the ends of instances."""
    found: dict[Hook, None] = {}
    for process in processes:
        events = UserEvents([event for function in process.c for event in function.events])
        names = {(event.layer, event.name) for event in events.all}
        for hook in sorted(process.hooks(), key=lambda hook: (hook.layer, hook.event)):
            if (hook.layer, hook.event) not in names and hook.layer != "chain":
                found[hook] = None
    found.pop(Hook("*", END), None)
    found[Hook("*", END)] = None  # processes know instances by other events, too
    return tuple(hook for hook in found if hook.event != END or hook.layer == "*")


def types(program: Program, hooks: Sequence[Hook], events: IsolatedEvents) -> list[int]:
    """struct sl_iso_events.types: by handler and layer, the number of the event; NONE where another handler sends it."""
    numbers = {event: number for number, event in enumerate(events.stack)}
    found: list[int] = []
    seen = set[tuple[str, str]]()
    for hook in hooks:
        for layer in program.layers.values():
            event = layer.name, hook.event
            first = event in numbers and means(hook, layer, hook.event) and event not in seen
            seen |= {event} if first else set()
            found.append(numbers[event] if first else NONE)
    return found


def handler_names(hooks: Sequence[Hook]) -> list[str]:
    """The C functions of the sender."""
    return [handler(NAME, hook) for hook in hooks]
