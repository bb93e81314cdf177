"""Access to instances by slot and number, outside packet processing: for timers and for functions in Python."""

from __future__ import annotations

from sluice.codegen.stack_names import StackNames


def find_instance(names: StackNames) -> list[str]:
    """The function that finds an instance by layer, slot and number, if timers or functions in Python need it."""
    if not (names.functions.timers or names.functions.demanded):
        return []
    out = [
        "",
        "/* The instance in a slot of a table, if it still has this number; otherwise NULL. */",
        "static struct sl_instance *find_instance(struct sl_box *base, uint32_t layer, SL_UNUSED uint32_t slot,",
        "                                         uint64_t number)",
        "{",
        "    SL_UNUSED struct sl_stack_box *box = (struct sl_stack_box *)base;",
        "    struct sl_event event = {.box = base, .owner = &layers[layer]};",
        "    switch (layer) {",
    ]
    for index, layer in enumerate(names.program.layers.values()):
        if layer.instance is not None:
            at = f"sl_table_at(&box->{names.tables[layer.instance.table].variable}, slot)"
            out.append(f"    case {index}: event.instance = {at}; break;")
    return [*out, "    }", "    return number && sl_event_number(&event) == number ? event.instance : NULL;", "}"]


def watch(names: StackNames) -> list[str]:
    """The function by which functions in Python register and unregister their on-demand handlers."""
    if not names.functions.demanded:
        return []
    head = (
        f"void {names.prefix}_watch(struct sl_box *base, uint32_t layer, uint32_t slot, uint64_t number, "
        "uint32_t handler, bool registered)"
    )
    return [
        "",
        "/* Registers or unregisters a handler for an instance, or for all instances if number is 0. */",
        head + ";",
        head,
        "{",
        "    if (!number) {",
        "        sl_register(base, handler, registered);",
        "        return;",
        "    }",
        "    struct sl_event event = {.box = base, .owner = &layers[layer]};",
        "    event.instance = find_instance(base, layer, slot, number);",
        "    sl_watch(&event, handler, registered);",
        "}",
    ]
