"""The function that stores the beginning of streams for functions that subscribe to a flow while it runs.

It is compiled with the functions of a chain with `keep`: with all of them where they are fused, and with each of them
that needs it where they are isolated. Its handlers run before those of the others (codegen/events/dispatch.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.hooks.function import CFunction
from sluice.ir.hook import Hook

NAME = "sl_keep"
"""No user's function has a name of this form."""
LABEL = "keep"
DATA = "data"
MOST = 1 << 24
"""Bytes of a side that can be stored."""

COUNTERS = (
    ("missed", "streams of which a later subscriber did not get the beginning, as it was not stored any more"),
    ("without_memory", "sides that were given up, as --memory was in use"),
)


def keeper(functions: Iterable[CFunction], most: int) -> CFunction | None:
    """The function for these, or None if none of them subscribes to bytes of single flows. most: bytes of a side."""
    hooks = tuple(dict.fromkeys(hook for function in functions for hook in subscribed_later(function)))
    if not hooks:
        return None
    return CFunction(
        name=NAME,
        text=_text(hooks, most),
        path="keep.c",
        generated=True,
        hooks=hooks,
        state=True,
        worker=True,
        opens=False,
        closes=True,
        counters=COUNTERS,
        destroys=True,
        label=LABEL,
    )


def subscribed_later(function: CFunction) -> list[Hook]:
    """The bytes to which a function subscribes for single flows."""
    found = [hook for hook in function.on_demand if hook.event == DATA and hook.layer not in ("*", "chain")]
    if function.resubscribes and Hook("tcp", DATA) in function.hooks:
        found.append(Hook("tcp", DATA))
    return found


def is_kept(functions: Iterable[CFunction], hook: Hook) -> bool:
    """Whether one of these functions stores the bytes of a subscription."""
    return any(one.name == NAME and hook in one.hooks for one in functions)


def kept_streams(functions: Iterable[CFunction], function: CFunction) -> list[str]:
    """What the text of a function needs, to get what one of these functions stores."""
    known = next((one.hooks for one in functions if one.name == NAME), ())
    out: list[str] = []
    for hook in known if function.name != NAME else ():
        word, name = f"{hook.layer}_{hook.event}", f"{function.name}_{hook.layer}_{hook.event}"
        out += [
            f"#define sl_keeps_{word}",
            f"static void {NAME}_again(const struct sl_event *event, const uint64_t *upto, sl_kept_call call);",
        ]
        if hook in function.on_demand:
            out += [
                f"SL_ENTRY void {name}(const struct sl_event *event, const sl_data_{word} *data);",
                f"SL_UNUSED static void {name}_again(const struct sl_event *event, uint64_t offset, sl_bytes bytes, "
                "uint64_t to) {",
                "    (void)to;",
                f"    {name}(event, &(sl_data_{word}){{.offset = offset, .bytes = bytes}});",
                "}",
            ]
    return out


def _text(hooks: Iterable[Hook], most: int) -> str:
    lines = [
        '#include "sluice.h"',
        "SLUICE_STATE(struct sl_kept)",
        "SLUICE_WORKER(struct sl_keep)",
        "static void sl_keep_again(const struct sl_event *event, const uint64_t *upto, sl_kept_call call) {",
        "    if (event->instance && event->owner->function_state[SL_JOIN(SLUICE_FUNCTION, index)])",
        "        SLUICE_COUNTER_OF(event->box, missed) += sl_kept_again(SLUICE_STATE_OF(event), event, upto, call, 0);",
        "}",
        "SLUICE_DESTROY { sl_kept_free(state, SLUICE_WORKER_OF(box)); }",
        "SLUICE_CLOSE { SLUICE_COUNTER_OF(box, without_memory) = SLUICE_WORKER_OF(box)->no_memory; }",
    ]
    for hook in hooks:
        lines += [
            f"SLUICE_ON({hook.layer}, {hook.event}) {{",
            "    if (event->instance)",
            "        sl_kept_add(SLUICE_STATE_OF(event), SLUICE_WORKER_OF(event->box), event->side, data->offset, "
            f"data->bytes, {most}, event->box->pool.budget);",
            "}",
        ]
    return "\n".join(lines)
