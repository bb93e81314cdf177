"""How instances of a table begin, and how they end without a packet of their own: sweep, eviction, end of input."""

from __future__ import annotations

from sluice.codegen.c.names import identifier
from sluice.codegen.layer.instance_layout import Table


def leave(table: Table) -> str:
    """The statement after an end graph that removes the instance from the table.

    It is not part of the graph. A new instance with the same key may take the place at once, and then the index need
    not be changed.
    """
    return f"sl_table_remove(&box->{table.variable}, &inst->head);"


def lifetime(table: Table) -> list[str]:
    """The functions of a table that create and end an instance, sweep, and evict."""
    word, struct = identifier(table.name), table.struct
    out = [
        "",
        f"SL_COLD {struct} *create_{word}(struct sl_stack_box *box, const uint64_t *key, uint32_t hash)",
        "{",
        f"    return ({struct} *)sl_table_begin(&box->{table.variable}, key, {table.words}, hash, sizeof({struct}));",
        "}",
        "",
        "/* What an instance's end comes to for the layer that used it last; the instance is still in the table. */",
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
    at = f"box->{table.variable}"
    busy = f"offsetof({struct}, inst_busy)" if table.busy else "0"
    out += [
        "}",
        "",
        "/* Ends an instance that is not the packet's: what lower layers left for the packet is not its concern. */",
        f"SL_COLD void end_other_{word}(struct sl_stack_box *box, struct sl_instance *instance, uint64_t reason)",
        "{",
        "    struct sl_packet_data none[2] = {{{0}, 0, false}, {{0}, 0, false}};",
        "    struct sl_slots *own = box->slots, others;",
        "    const struct sl_frame *frame = box->base.frame;",
        "    memset(&others, 0, sizeof others);",
        "    box->slots = &others;",
        "    box->base.frame = NULL;   /* so that nobody takes the current packet for one of its own */",
        f"    {struct} *inst = ({struct} *)instance;",
        f"    end_instance_{word}(box, inst, none, reason);",
        f"    {leave(table)}",
        "    box->slots = own;",
        "    box->base.frame = frame;",
        "}",
        "",
        f"SL_COLD void sweep_{word}(struct sl_stack_box *box)",
        "{",
        f"    uint32_t left = sl_sweep_step(&box->base, &{at}, &box->sweep_{word});",
        "    if (!left)",
        "        return;",
        "    struct sl_instance *instance;",
        f"    while ((instance = sl_sweep_next(&box->base, &{at}, &box->sweep_{word}, &left)))",
        *([f"        if (!(({struct} *)instance)->inst_busy)"] if table.busy else []),
        f"        {'    ' if table.busy else ''}end_other_{word}(box, instance, SL_END_TIMEOUT);",
        f"    sl_sweep_prefetch(&box->base, &{at}, box->sweep_{word}.slot);",
        "}",
        "",
        "/* Ends expired instances while no packet comes; when that is due again. */",
        f"SL_COLD uint64_t tick_{word}(struct sl_stack_box *box)",
        "{",
        f"    if ({at}.high_water == 0)",
        "        return SL_NEVER;",
        f"    uint32_t left = sl_sweep_rests(&box->base, &box->sweep_{word}) ? 0 : SL_SWEEP_TICK;",
        "    struct sl_instance *instance;",
        f"    while ((instance = sl_sweep_next(&box->base, &{at}, &box->sweep_{word}, &left))) {{",
        "        box->base.scratch.used = 0;",
        "        box->base.work = 0;",
        f"        end_other_{word}(box, instance, SL_END_TIMEOUT);",
        "    }",
        f"    return sl_sweep_due(&box->base, &box->sweep_{word});",
        "}",
        "",
        "/* Of the next live instances the one that would time out first makes room; the search goes on behind it. */",
        f"SL_COLD void evict_{word}(struct sl_stack_box *box)",
        "{",
        f"    struct sl_instance *victim = sl_evict_choose(&{at}, &box->evict_{word}, sizeof({struct}), {busy});",
        "    if (victim) {",
        f"        sl_evict_prefetch(&{at}, box->evict_{word});",
        f"        end_other_{word}(box, victim, SL_END_EVICTED);",
        "    }",
        "}",
    ]
    return out
