"""How instances of a table begin, and how they end without a packet of their own: sweep, eviction, end of input.

The runtime does that (sluice/runtime/core/tables.h), by constants that describe the tables.
"""

from __future__ import annotations

from sluice.codegen.c.names import c_string, comment, identifier
from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames


def leave(table: Table) -> str:
    """The statement after an end graph that removes the instance from the table.

    It is not part of the graph. A new instance with the same key may take the place at once, and then the index need
    not be changed.
    """
    return f"sl_table_remove(&box->{table.variable}, &inst->head);"


def lifetime(table: Table) -> list[str]:
    """The functions of a table that create and end an instance."""
    word, struct = identifier(table.name), table.struct
    out = [
        "",
        f"SL_COLD {struct} *create_{word}(struct sl_stack_box *box, const uint64_t *key, uint32_t hash)",
        "{",
        f"    return ({struct} *)sl_table_begin(&box->{table.variable}, key, {table.words}, hash, sizeof({struct}));",
        "}",
        "",
        "/* Ends an instance by the end graph of the layer that used it last. The instance is still in the table. */",
    ]
    out.append(
        f"static void end_instance_{word}(struct sl_stack_box *box, {struct} *inst, struct sl_packet_data *direct, uint64_t reason)"
    )
    out.append("{")
    if table.shared:
        out.append("    switch (inst->inst_home) {")
        for layer in table.layers:
            out.append(
                f"    case {layer.home}: end_{identifier(layer.name)}(box, inst, direct, (sl_bytes){{0}}, reason); break;"
            )
        out.append("    }")
    else:
        out.append(f"    end_{identifier(table.layers[0].name)}(box, inst, direct, (sl_bytes){{0}}, reason);")
    out += [
        "}",
        "",
        "/* Ends an instance other than that of the current packet, so without the slots of this packet. */",
        f"SL_COLD void end_other_{word}(struct sl_box *base, struct sl_instance *instance, uint64_t reason)",
        "{",
        "    struct sl_stack_box *box = (struct sl_stack_box *)base;",
        "    struct sl_packet_data none[2] = {{{0}, 0, false}, {{0}, 0, false}};",
        "    struct sl_slots *own = box->slots, others;",
        "    const struct sl_frame *frame = base->frame;",
        "    memset(&others, 0, sizeof others);",
        "    box->slots = &others;",
        "    base->frame = NULL;   /* the current packet is not one of this instance */",
        f"    {struct} *inst = ({struct} *)instance;",
        f"    end_instance_{word}(box, inst, none, reason);",
        f"    {leave(table)}",
        "    box->slots = own;",
        "    base->frame = frame;",
        "}",
    ]
    return out


def lifetimes(names: StackNames) -> list[str]:
    """The functions of all tables, and the descriptions of the tables and timeouts (sluice/runtime/core/tables.h)."""
    if not names.tables:
        return []
    out = [line for table in names.tables.values() for line in lifetime(table)]
    out += ["", "static const struct sl_table_info stack_tables[] = {"]
    out += [line for table in names.tables.values() for line in _description(table)]
    out.append("};")
    for number, table in enumerate(names.tables.values()):
        word = identifier(table.name)
        for what, call in (("sweep", "sl_table_sweep"), ("evict", "sl_table_evict")):
            out += [
                "",
                f"SL_COLD void {what}_{word}(struct sl_stack_box *box)",
                "{",
                f"    {call}(&box->base, &stack_tables[{number}]);",
                "}",
            ]
    return out


def _description(table: Table) -> list[str]:
    """The element of the array of tables. Members that are 0 are left out."""
    word, box = identifier(table.name), "offsetof(struct sl_stack_box, "
    why = f"there is no address space for the instances of layer {table.layers[0].layer} (max_instances)"
    members = [
        f"no_space = {c_string(why)}",
        f"table = {box}{table.variable}), .sweep = {box}sweep_{word}), .hand = {box}evict_{word})",
        *([f"messages = {box}{table.kept_messages})"] if table.messages else []),
        f"instance_bytes = sizeof({table.struct}), .key_words = {table.words}"
        + (f", .most = {table.most}" if table.most else ""),
        *([f"sides = {table.sides}"] if table.sides else []),
        *([f"sequences_at = offsetof({table.struct}, sequence)"] if table.predicted and table.sides else []),
        *([f"busy = offsetof({table.struct}, inst_busy)"] if table.busy else []),
        f"end = end_other_{word}",
    ]
    return ["    {", *(f"        .{member}," for member in members), "    },"]


def timeouts(names: StackNames) -> list[str]:
    """The array of timeouts, in the order of those of the box."""
    if not names.seconds:
        return []
    number = {name: place for place, name in enumerate(names.tables)}
    out = ["", "static const struct sl_timeout_info stack_timeouts[] = {"]
    for layer in names.program.layers.values():
        for index, seconds in enumerate(layer.timeouts):
            kind = "SL_TIMEOUT_LIFETIME" if layer.lifetime else "SL_TIMEOUT_GENERAL"
            of = f", .table = &stack_tables[{number[layer.instance.table]}]" if layer.instance is not None else ""
            members = f".seconds = {seconds!r}" + (f", .kind = {kind}" if not index else "") + of
            out.append(f"    {{{members}}},   /* {comment(layer.name)} */")
    return [*out, "};"]
