"""Timers of functions as C: their storage, and the functions that fire them (runtime/timers.h)."""

from __future__ import annotations

from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames
from sluice.hooks.function import Functions, Timer


def timers_of(table: Table, functions: Functions) -> list[Timer]:
    """The timers that each instance of a table has."""
    layers = [*table.layers, *table.takers]
    return [timer for timer in functions.timers if any(timer.is_of(layer) for layer in layers)]


def timer_offsets(table: Table, functions: Functions) -> list[str]:
    """By number, the offset of each timer in an instance of a table; 0 if instances do not have it."""
    own = timers_of(table, functions)
    return [f"offsetof({table.struct}, {timer.handler})" if timer in own else "0" for timer in functions.timers]


def timers(names: StackNames) -> list[str]:
    """The functions that find a timer, and that fire the timers that are due."""
    if not names.functions.timers:
        return []
    out = [
        "",
        "/* --- timers --- */",
        "",
        "static struct sl_timer *find_timer(struct sl_box *base, const struct sl_timer_entry *entry)",
        "{",
        "    if (!entry->number)",
        "        return &base->timers.own[entry->timer];",
        "    struct sl_event event = {.box = base, .owner = &layers[entry->layer]};",
        "    event.instance = find_instance(base, entry->layer, entry->slot, entry->number);",
        "    return sl_event_timer(&event, entry->timer);",
        "}",
        "",
        "SL_COLD void fire_timers(struct sl_stack_box *box)",
        "{",
        "    box->base.frame = NULL;",
        "    while (sl_timers_due(&box->base)) {",
        "        struct sl_timer_entry entry = sl_timers_take(&box->base);",
        "        struct sl_timer *timer = find_timer(&box->base, &entry);",
        "        if (!timer)",
        "            continue;",
        "        struct sl_event event = {.box = &box->base, .layer = &layers[entry.layer], .owner = &layers[entry.layer]};",
        "        if (entry.number)",
        "            event.instance = sl_timer_instance(timer, event.owner, entry.timer);",
        "        bool gone = event.instance && sl_timer_outlives(timer, event.instance);",
        "        if (!sl_timer_fires(&box->base, timer, entry) || gone)",
        "            continue;",
        "        box->base.scratch.used = 0;",
        "        switch (entry.timer) {",
    ]
    out += [
        f"        case {number}: {_unless_off(names.functions, timer)}{_call(names.functions, timer)}; break;"
        for number, timer in enumerate(names.functions.timers)
    ]
    return [*out, "        }", "    }", "}"]


def _unless_off(functions: Functions, timer: Timer) -> str:
    """The C condition before the handler of a timer whose function may be left out."""
    for number, function in enumerate(functions.c):
        if function.name == timer.function and function.inline:
            return f"if (SL_LIKELY(!(box->base.output.off & {1 << number % 64:#x}ull))) "
    return ""


def _call(functions: Functions, timer: Timer) -> str:
    """The call of a timer's handler."""
    call = f"{timer.handler}(&event)"
    names = [function.name for function in functions.c]
    return f"SL_CALL(event, {names.index(timer.function) + 1}, {call})" if functions.traced else call


def timer_numbers(functions: Functions, function: str) -> list[str]:
    """The numbers of a function's timers."""
    values = [
        f"{timer.handler}_number = {number}"
        for number, timer in enumerate(functions.timers)
        if timer.function == function
    ]
    return [f"enum {{ {', '.join(values)} }};"] if values else []


def box_timers(names: StackNames) -> list[str]:
    """Statements that initialise the timers when a box is opened."""
    count = len(names.functions.timers)
    if not count:
        return []
    return [
        f"    for (unsigned i = 0; i < {count}; i++)",
        "        box->timers[i] = (struct sl_timer){SL_NEVER, SL_NEVER};",
        "    box->base.timers.own = box->timers;",
        "    box->base.timers.find = find_timer;",
    ]


def timer_fields(table: Table, functions: Functions) -> list[str]:
    """The fields for timers in a table's struct."""
    return [f"    struct sl_timer {timer.handler};" for timer in timers_of(table, functions)]
