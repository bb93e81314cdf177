"""Relief of a nearly full pool: between two groups of packets, the longest holders give up.

Between, not within, because a holder's data is delivered when it gives up, and the events of another instance must not
come between those of a packet. The pool notes cheaply that it may be necessary (`pressed`, sluice/runtime/core/pool.h).
"""

from __future__ import annotations

from sluice.codegen.c.names import identifier
from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames
from sluice.ir.graph import CONTEXTS_GAVE_UP, GAVE_UP, LayerProgram


def has_holders(names: StackNames) -> bool:
    """Whether anything in the stack holds blocks of the pool from packet to packet."""
    return any(table.sides for table in names.tables.values()) or bool(names.program.natives)


def relief(names: StackNames) -> list[str]:
    """The functions by which holders give up."""
    if not has_holders(names):
        return []
    sides = [table for table in names.tables.values() if table.sides]
    return [
        *(line for table in sides for line in _side_of(table, names)),
        "",
        "/* The holder gives up what it holds, without the slots of a packet. */",
        "static void give_up(struct sl_stack_box *box, struct sl_holder *holder)",
        "{",
        "    struct sl_slots *own = box->slots, others;",
        "    const struct sl_frame *frame = box->base.frame;",
        "    const uint32_t depth = box->base.depth;",
        "    memset(&others, 0, sizeof others);",
        "    box->slots = &others;",
        "    box->base.frame = NULL;",
        "    box->base.depth = 0;",
        "    box->base.scratch.used = 0;",
        "    box->base.work = box->base.bundled = 0;",
        "    switch (holder->kind) {",
        *(_sides(sides) if sides else []),
        *_messages(names),
        *_contexts(names),
        "    default: break;",
        "    }",
        "    box->slots = own;",
        "    box->base.frame = frame;",
        "    box->base.depth = depth;",
        "}",
        "",
        "/* The longest holders give up until the pool is ready for the next packets: a bounded number, because packets are pending. */",
        "SL_COLD void relieve(struct sl_stack_box *box)",
        "{",
        "    struct sl_pool *pool = &box->base.pool;",
        "    bool ready = false;",
        "    for (unsigned n = 0; n < SL_RELIEF_MOST && pool->oldest && !(ready = sl_pool_ready(pool)); n++)",
        "        give_up(box, pool->oldest);",
        "    pool->pressed = !ready && pool->oldest;",
        *(["    sl_batch_flush(&box->base.batch);"] if names.functions.demanded else []),
        "}",
    ]


def _side_of(table: Table, names: StackNames) -> list[str]:
    """The function by which a side of a table's instances gives up."""
    word = identifier(table.name)

    def of(layer: LayerProgram) -> list[str]:
        count = names.counters.add(layer.name, GAVE_UP)
        if layer.rules is None:
            return []
        if layer.rules.whole:  # what is not whole is of no use
            return [count, f"end_other_{word}(&box->base, &inst->head, SL_END_EVICTED);"]
        return [
            count,
            f"drain_{identifier(layer.name)}(box, inst, none, (sl_bytes){{0}}, side, SL_GAP_MEMORY, 1);",
            "sl_sequence_gave_up(&inst->sequence[side], &box->base.pool);",
        ]

    if table.shared:
        body = ["    switch (inst->inst_home) {"]
        for layer in table.layers:
            body += [f"    case {layer.home}:", *("        " + line for line in [*of(layer), "break;"])]
        body.append("    }")
    else:
        body = ["    " + line for line in of(table.layers[0])]
    return [
        "",
        f"static void give_up_{word}(struct sl_stack_box *box, {table.struct} *inst, SL_UNUSED uint64_t side)",
        "{",
        "    SL_UNUSED struct sl_packet_data none[2] = {{{0}, 0, false}, {{0}, 0, false}};",
        *body,
        "}",
    ]


def _sides(tables: list[Table]) -> list[str]:
    """The case of a side: an instance is found by the address of its sequence, as instances never move."""
    out = [
        "    case SL_HOLDER_SIDE: {",
        "        const struct sl_sequence *seq = SL_HOLDER_OF(holder, struct sl_held)->owner;",
        "        struct sl_instance *instance;",
    ]
    for number, table in enumerate(tables):
        word = identifier(table.name)
        out += [
            f"        {'} else ' if number else ''}if ((instance = sl_table_containing(&box->{table.variable}, seq))) {{",
            f"            {table.struct} *inst = ({table.struct} *)instance;",
            f"            give_up_{word}(box, inst, (uint64_t)(seq - inst->sequence));",
        ]
    return [*out, "        }", "        break;", "    }"]


def _messages(names: StackNames) -> list[str]:
    """The case of an incomplete message: its loss is reported when the stream goes on or ends."""
    takers = [(n, layer) for n, layer in enumerate(names.program.layers.values()) if layer.of_streams]
    if not takers:
        return []
    return [
        "    case SL_HOLDER_MESSAGE: {",
        "        struct sl_messages *messages = SL_HOLDER_OF(holder, struct sl_messages);",
        "        switch (messages->taker) {",
        *(f"        case {n + 1}: {names.counters.add(layer.name, GAVE_UP)} break;" for n, layer in takers),
        "        }",
        "        sl_messages_lose(messages, &box->base.pool, SL_LOSS_MEMORY);",
        "        break;",
        "    }",
    ]


def _contexts(names: StackNames) -> list[str]:
    """The case of a context of a native module."""
    if not names.program.natives:
        return []
    return [
        "    case SL_HOLDER_CONTEXT:",
        "        " + names.counters.add("box", CONTEXTS_GAVE_UP),
        "        sl_native_give_up(&box->base, holder);",
        "        break;",
    ]
