"""Columns: events as rows, for functions in Python that take many at once (runtime/columns.h)."""

from __future__ import annotations

from sluice.codegen.c.names import identifier
from sluice.codegen.events.dispatch import Dispatcher
from sluice.codegen.events.functions import event_struct
from sluice.codegen.events.records import field_member
from sluice.codegen.stack_names import StackNames
from sluice.ir.graph import EventShape, LayerProgram


def columns(names: StackNames) -> list[str]:
    """For each such event, a function that writes its row."""
    out: list[str] = []
    for layer in names.program.layers.values():
        dispatcher = Dispatcher(names.functions, layer)
        own = [event.name for event in names.functions.events.all if event.at(layer, event.name)]
        for name in dict.fromkeys([*layer.events, *own]):
            shape = layer.events.get(names.functions.events.root(layer, name))
            if shape is not None and dispatcher.in_columns(name):
                if (layer.name, name) not in names.columns:
                    names.columns.append((layer.name, name))
                out += _row(names, layer, name, shape)
    return ["", "/* --- events for functions in Python, in columns --- */", *out] if out else []


def _row(names: StackNames, layer: LayerProgram, name: str, shape: EventShape) -> list[str]:
    number = names.columns.index((layer.name, name))
    fields = [(field_member(shape, field), bits) for field, bits in shape.fields]
    octets = " + ".join(f"data->{field}.captured" for field, bits in fields if bits == 0) or "0"
    words = [f"data->{field}" if bits else f"sl_columns_put(columns, data->{field})" for field, bits in fields]
    out: list[str] = []
    table = names.tables[layer.instance.table] if layer.instance is not None else None
    keyed: list[str] = []
    if table is not None:
        for half in ("from", "to") if table.oriented else ("from",):
            for placed in table.parts:
                if placed.part.bits > 64:
                    keyed += [f"{half}[{placed.word + k}]" for k in range((placed.part.bits + 63) // 64)]
                else:
                    keyed.append(f"{half}[{placed.word}] >> {placed.shift} & sl_mask({placed.part.bits})")
    count = 4 + len(keyed) + len(words)
    out += [
        "",
        f"static void columns_{identifier(layer.name)}_{identifier(name)}(const struct sl_event *event,",
        f"    SL_UNUSED const {event_struct(shape)} *data)",
        "{",
        f"    struct sl_columns *columns = &((struct sl_stack_box *)event->box)->columns[{number}];",
        f"    uint64_t *row = sl_columns_row(event->box, columns, {number}, {count}, (uint64_t){octets});",
        "    if (!row)",
        "        return;",
        "    row += sl_columns_begin(row, event);",
    ]
    if table is not None:
        to = ["        const uint64_t *to = sl_event_half(event, event->side ^ 1);"] if table.oriented else []
        out += [
            "    if (event->instance && event->owner == event->layer) {   /* otherwise the instance is that of a stream, with another key */",
            "        const uint64_t *from = sl_event_half(event, event->side);",
            *to,
            *(f"        row[{n}] = {word};" for n, word in enumerate(keyed)),
            "    } else {",
            f"        memset(row, 0, {8 * len(keyed)});",
            "    }",
            f"    row += {len(keyed)};",
        ]
    out += [f"    row[{n}] = {word};" for n, word in enumerate(words)]
    return [*out, "    (void)row;", "}"]


def flush_columns(names: StackNames) -> list[str]:
    """Statements that deliver all pending rows."""
    return [f"    sl_columns_flush(base, &box->columns[{number}], {number});" for number, _ in enumerate(names.columns)]


def close_columns(names: StackNames) -> list[str]:
    """Statements that free the memory of the columns."""
    return [f"    sl_columns_close(&box->columns[{number}]);" for number, _ in enumerate(names.columns)]
