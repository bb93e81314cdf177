"""Records: each event that a function in Python subscribes to is written to a batch as a record."""

from __future__ import annotations

from sluice.codegen.c.names import data_member, identifier
from sluice.codegen.events.dispatch import Dispatcher
from sluice.codegen.events.functions import event_struct
from sluice.codegen.events.manifest import head_assertions
from sluice.codegen.stack_names import StackNames
from sluice.ir.graph import EventShape, LayerProgram


def records(names: StackNames) -> list[str]:
    """For each such event, a function that writes its record."""
    out: list[str] = []
    for layer in (*names.program.layers.values(), names.published):
        dispatcher = Dispatcher(names.functions, layer)
        own = [event.name for event in names.functions.events.all if event.at(layer, event.name)]
        for name in dict.fromkeys([*layer.events, *own]):
            shape = layer.events.get(names.functions.events.root(layer, name))
            if shape is None or not dispatcher.in_python(name):
                continue
            if (layer.name, name) not in names.events:
                names.events.append((layer.name, name))
            number = names.events.index((layer.name, name))
            out += _record(names, layer, name, shape, number)
    return ["", "/* --- events for functions in Python --- */", *head_assertions(), *out] if out else []


def _record(names: StackNames, layer: LayerProgram, name: str, shape: EventShape, number: int) -> list[str]:
    members = [(field_member(shape, n), bits) for n, bits in shape.fields]
    size = " + ".join(f"sl_record_bytes(data->{n})" if bits == 0 else "8" for n, bits in members)
    out = [
        "",
        f"SL_UNUSED static void record_{identifier(layer.name)}_{identifier(name)}(const struct sl_event *event,",
        f"    SL_UNUSED const {event_struct(shape)} *data)",
        "{",
        f"    uint8_t *at = sl_record_begin(event, {number}, {size or 0});",
        "    if (!at)",
        "        return;",
    ]
    for n, bits in members:
        out.append(f"    at = sl_record_{'put' if bits == 0 else 'number'}(at, data->{n});")
    return [*out, "    (void)at;", "}"]


def field_member(shape: EventShape, name: str) -> str:
    """The C name of an event's field. The built-in field `new` has a longer name, because `new` is a keyword of C++."""
    return "new_bytes" if not shape.callback and name == "new" else data_member(name)
