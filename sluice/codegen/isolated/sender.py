"""The function that is compiled with the stack of an isolated chain: it sends events to the functions.

It subscribes to what they subscribe to. Which layers these words mean is known once the program is built, so the
numbers of events are given at run time (struct sl_iso_events).
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.codegen.isolated.events import END, IsolatedEvents
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.keep import COUNTERS, DATA, LABEL
from sluice.hooks.subscription import UserEvents, handler, means
from sluice.ir.graph import Program
from sluice.ir.hook import Hook

NAME = "isolated"
NONE = 0xFFFF
"""SL_ISO_NONE."""


def sender(processes: Sequence[Functions], keep: int = 0) -> CFunction:
    """The function for the functions of some processes. keep: bytes of each side of a stream that are stored for
    functions that subscribe later.
    """
    hooks = subscribed(processes)
    lines = ['#include "isolated/stack.h"', *(_keep(hooks, keep) if keep else [])]
    for number, hook in enumerate(hooks):
        word = "any" if hook.layer == "*" else hook.layer
        body = [f"sl_iso_handler(event, {number}, data, sizeof *data);"]
        if keep and _is_bytes(hook):
            body = [
                f"{NAME}_keep(event, {number}, {NAME}_again_{number});",
                *body,
                f"{NAME}_store(event, data->offset, data->bytes);",
            ]
        elif keep and hook.event == END:
            body = [f"{NAME}_keep_end(event);", *body]
        lines.append(f"SLUICE_ON({word}, {hook.event}) {{ {' '.join(body)} }}")
    functions = [function for process in processes for function in process.c]
    needs = frozenset(need for function in functions for need in function.needs)
    return CFunction(
        name=NAME,
        text="\n".join(lines),
        path=f"{NAME}.c",
        generated=True,
        hooks=hooks,
        state=bool(keep),
        worker=bool(keep),
        opens=False,
        closes=bool(keep),
        destroys=bool(keep),
        counters=COUNTERS if keep else (),
        label=LABEL if keep else "",
        kept=tuple(kept for function in functions for kept in function.kept),
        inline=any(function.inline for function in functions),
        needs=needs | {"packet"},
    )


def _is_bytes(hook: Hook) -> bool:
    return hook.event == DATA and hook.layer != "*"


def _keep(hooks: Sequence[Hook], most: int) -> list[str]:
    """What stores the beginning of streams, and sends it."""
    streams = [(number, hook) for number, hook in enumerate(hooks) if _is_bytes(hook)]
    return [
        "SLUICE_STATE(struct sl_kept)",
        "SLUICE_WORKER(struct sl_keep)",
        "SLUICE_DESTROY { sl_kept_free(state, SLUICE_WORKER_OF(box)); }",
        "SLUICE_CLOSE { SLUICE_COUNTER_OF(box, without_memory) = SLUICE_WORKER_OF(box)->no_memory; }",
        f"static inline void {NAME}_keep(const struct sl_event *event, uint32_t handler, sl_kept_call call) {{",
        "    if (event->instance)",
        "        SLUICE_COUNTER_OF(event->box, missed) += sl_iso_keep(event, handler, SLUICE_STATE_OF(event), call);",
        "}",
        f"static inline void {NAME}_store(const struct sl_event *event, uint64_t offset, sl_bytes bytes) {{",
        "    if (event->instance)",
        "        sl_kept_add(SLUICE_STATE_OF(event), SLUICE_WORKER_OF(event->box), event->side, offset, bytes, "
        f"{most}, event->box->pool.budget);",
        "}",
        *(
            line
            for number, hook in streams
            for line in (
                f"static void {NAME}_again_{number}(const struct sl_event *event, uint64_t offset, sl_bytes bytes,"
                " uint64_t to) {",
                f"    sl_data_{hook.layer}_{hook.event} data = {{.offset = offset, .bytes = bytes}};",
                f"    sl_iso_handler_to(event, {number}, &data, sizeof data, to);",
                "}",
            )
        ),
        f"static inline void {NAME}_keep_end(const struct sl_event *event) {{",
        "    (void)event;",
        *(
            f"    if (sl_iso_type(event, {number}) != SL_ISO_NONE) {NAME}_keep(event, {number}, {NAME}_again_{number});"
            for number, _ in streams
        ),
        "}",
    ]


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
