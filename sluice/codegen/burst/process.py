"""How packets enter a stack: the two loops over a group of packets.

The first loop is stage 1 (`arrive.py`). The second loop is stage 2, which processes the packets in order. For each
packet, it first does the work that a layer deferred (pass `deferral`). Consecutive packets that are pending for the
layer at the end of the fast path share one call (`series_of`). Between the loops, `lookahead` prefetches what stage 2
reads.
"""

from __future__ import annotations

from sluice.codegen.burst.arrive import FRAME, arrive, by_link_type
from sluice.codegen.burst.stages import (
    UNIT,
    deferred_in_series,
    drops,
    fast_enter_of,
    has_one_path,
    is_in_series,
    main_head,
    needs_packet,
    series_of,
    stores_path_on_entry,
    table_of_each,
)
from sluice.codegen.c.names import identifier, member
from sluice.codegen.events.shared import flush_shared
from sluice.codegen.layer.relief import has_holders
from sluice.codegen.stack_names import StackNames
from sluice.ir.graph import Graph, LayerProgram
from sluice.passes.analysis.fast_path import counted_per_burst, lead
from sluice.passes.analysis.header_size import begins_at, knows_bytes


def process(names: StackNames) -> list[str]:
    """The function that processes a burst of packets, and the functions that it calls."""
    header = names.program.prefetch
    # how a packet is translated when it arrives depends on what functions did with those before it
    most = "1" if names.functions.arriving else "SL_GROUP"
    return [
        *arrive(names),
        *_translate(names),
        *_packet(names),
        *_series(names),
        "",
        f"void {names.prefix}_process(struct sl_box *base, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts)",
        "{",
        "    struct sl_stack_box *box = (struct sl_stack_box *)base;",
        *(["    frames = sl_arrival_begin(base, frames, count);"] if names.functions.arriving else []),
        *(["    sl_output_begin(base, frames, verdicts);"] if names.functions.inline else []),
        *_if_lookahead(names, f"    sl_lookahead_burst(&base->lookahead, frames, count, {header});"),
        *_timers_begin(names),
        f"    for (size_t first = 0; first < count; first += {most}) {{",
        f"        size_t group = sl_min({most}, count - first);",
        "        const struct sl_frame *frame = &frames[first];",
        "        uint64_t bytes = 0;",
        *(["        translate_arriving(box, first);"] if names.functions.arriving else []),
        *_if_lookahead(
            names, f"        sl_lookahead_group(&base->lookahead, frame, group, count - first - group, {header});"
        ),
        *_begin_counting(names),
        "        for (size_t i = 0; i < group; i++) {",
        "            bytes += frame[i].length;",
        "            arrive(box, &frame[i], (uint32_t)i);",
        "        }",
        "        " + names.counters.add("box", "packets", "group"),
        "        " + names.counters.add("box", "bytes", "bytes"),
        *_count_at_once(names),
        *_between_stages(names),
        "        for (size_t i = 0; i < group; i++) {",
        "            begin_packet(box, frame, i, group, true);",
        "            struct sl_pending *waiting = &box->waiting[i];",
        *_stage2(names),
        "            end_packet(box, &frame[i]);",
        "        }",
        *_relief(names),
        "    }",
        *flush_shared(names.functions),
        *_verdicts(names),
        "}",
    ]


def _translate(names: StackNames) -> list[str]:
    """The function that lets functions translate an arriving packet, each once. Packets of one may be those that another
    one translates: their order does not matter.
    """
    arriving = names.functions.arriving
    if not arriving:
        return []
    steps: list[str] = []
    for number, name in arriving:
        bit = f"UINT64_C({1 << number})"
        call = f"{name}_arrival(&box->base)"
        if names.functions.traced:
            call = f"SL_CALL_ARRIVAL(&box->base, {number + 1}, {call})"
        steps.append(f"if (sl_arrival_asks(&box->base, {bit}) && {call})")
        steps.append(f"    sl_arrival_take(&box->base, i, {bit});")
    if len(arriving) > 1:
        begin, end = (
            ["uint64_t before;", "do {", "    before = box->base.arrival->by;"],
            "} while (box->base.arrival->by != before);",
        )
        steps = [*begin, *("    " + line for line in steps), end]
    return [
        "",
        "/* Functions translate packet `i` of a burst when it arrives. */",
        "static inline void translate_arriving(struct sl_stack_box *box, size_t i)",
        "{",
        "    if (!sl_arrival_packet(&box->base, i))",
        "        return;",
        *("    " + line for line in steps),
        "}",
    ]


def _relief(names: StackNames) -> list[str]:
    """Statements after a group that let the longest holders of memory give up if the pool is nearly full."""
    if not has_holders(names):
        return []
    return ["        if (SL_UNLIKELY(base->pool.pressed))", "            relieve(box);"]


def _verdicts(names: StackNames) -> list[str]:
    """Statements that complete the verdicts of a burst. If no function decides on packets, all packets pass."""
    if names.functions.inline:
        return ["    sl_output_end(base, count);"]
    return ["    if (SL_UNLIKELY(verdicts != NULL))", "        memset(verdicts, 0, count * sizeof *verdicts);"]


def _begin_counting(names: StackNames) -> list[str]:
    """The statement before stage 1 of a group that clears the counts of packets that left the fast path."""
    return ["        memset(box->otherwise, 0, sizeof box->otherwise);"] if counted_per_burst(names.program) else []


def _count_at_once(names: StackNames) -> list[str]:
    """Statements that count the packets of a group that stayed on the fast path, layer by layer."""
    out: list[str] = []
    offset: int | None = None
    for at, layer in enumerate(counted_per_burst(names.program)):
        known = knows_bytes(names.program, at)
        if known:
            began = f" + {offset} * passed" if at else ""
            out.append(f"bytes -= box->otherwise[{at}].bytes{began};")
        out.append(f"{'passed -=' if at else 'size_t passed = group -'} box->otherwise[{at}].packets;")
        out.append(names.counters.add(layer.name, "packets", "passed"))
        out += [names.counters.add(layer.name, "bytes", "bytes")] if known else []
        out.append(names.counters.add(layer.name, lead(layer).outcome, "passed"))
        offset = begins_at(layer)
    return ["        " + line for line in out]


def _if_lookahead(names: StackNames, line: str) -> list[str]:
    """The line, if the stack looks ahead; otherwise nothing."""
    lookahead = any(
        layer.lookahead is not None or layer.deferred is not None for layer in names.program.layers.values()
    )
    return [line] if lookahead else []


def _stage2(names: StackNames) -> list[str]:
    """Statements that process a packet in stage 2, possibly together with pending packets after it."""
    unit = "waiting->at, waiting->captured, waiting->length"
    alone = f"waiting->layer(box, {unit});"
    layer = series_of(names)
    if layer is None:
        return ["            " + alone]
    before = ["store_fast_path(box);"] if has_one_path(layer, names) else _before_each(layer, names)
    return [
        f"            if (SL_LIKELY({is_in_series(names, 'waiting')})) {{",
        *("                " + line for line in before),
        f"                i = series_{identifier(layer.name)}(box, {unit}, frame, i, group);",
        "            } else {",
        "                " + alone,
        "            }",
    ]


def _before_each(layer: LayerProgram, names: StackNames) -> list[str]:
    """Statements before each packet of a series enters the main graph."""
    deferring = deferred_in_series(names)
    if deferring is not None:
        return [f"deferred_work_{identifier(deferring.name)}(box);"]
    stores_path = stores_path_on_entry(layer, names) and not has_one_path(layer, names)
    return ["store_path(box, waiting);"] if stores_path else []


def _series(names: StackNames) -> list[str]:
    """The functions that process series of packets in the layer at the end of the fast path."""
    layer = series_of(names)
    if layer is None:
        return []
    word, one_path = identifier(layer.name), has_one_path(layer, names)
    deferring = deferred_in_series(names)
    observed = any(needs_packet(item, names) for item in (layer, deferring) if item is not None)
    alone = f"(void)series_{word}(box, at, captured, length, NULL, SL_GROUP - 1, 0);   /* the current packet alone */"
    index = list(names.program.layers).index(layer.name)
    out = [
        "",
        "/* Processes packet `i` of a group and the packets after it that are pending for the same layer, up to the first one",
        " * that is not. Returns the index of the last. One call for all of them costs less than one call each. */",
        f"static size_t series_{word}(struct sl_stack_box *box, {UNIT}, const struct sl_frame *frames, size_t i, size_t group)",
        "{",
        "    const size_t first = i;",
        "    for (;;) {",
        f"        main_{word}(box, at, captured, length);",
        "        const struct sl_pending *waiting = &box->waiting[i + 1];   /* after the last of the group: pending for no layer */",
        f"        if (SL_UNLIKELY(!({is_in_series(names, 'waiting')}))) {{",
        "            " + names.counters.add(layer.name, "packets", "i + 1 - first"),
        "            return i;",
        "        }",
        "        end_packet(box, &frames[i++]);",
        f"        begin_packet(box, frames, i, group, {str(observed).lower()});",
        *("        " + line for line in _before_each(layer, names)),
        "        at = waiting->at;",
        "        captured = waiting->captured;",
        "        length = waiting->length;",
        "    }",
        "}",
        "",
        main_head(layer),
        "{",
        *([f"    box->base.path[box->base.depth++] = {index};"] if one_path else []),
        "    " + alone,
        *(["    box->base.depth--;"] if one_path else []),
        "}",
    ]
    if one_path:
        out += [
            "",
            f"static void {fast_enter_of(layer)}(struct sl_stack_box *box, {UNIT})",
            "{",
            "    store_fast_path(box);",
            "    " + alone,
            "}",
        ]
    return out


def _packet(names: StackNames) -> list[str]:
    """The functions that begin and end the processing of a packet in stage 2."""
    timers: list[str] = []
    if names.functions.timers:
        timers = ["    if (SL_UNLIKELY(sl_timers_due(&box->base)))", "        fire_timers(box);"]
    observes = names.functions.needs_packet or bool(names.program.natives)
    time = "box->base.time = frame->time; box->base.number = frame->number;"
    layers = names.program.layers.values()
    flushes = names.functions.demanded or names.functions.decides
    return [
        "",
        "/* Begins stage 2 of packet `i` of a group. */",
        "SL_INLINED void begin_packet(struct sl_stack_box *box, const struct sl_frame *frames, size_t i, SL_UNUSED size_t group,",
        "                           SL_UNUSED bool observed)   /* whether anything reads its time or number */",
        "{",
        "    const struct sl_frame *frame = &frames[i];",
        *_prefetch_later(names),
        "    box->base.now = sl_max(box->base.now, frame->time);",
        *([f"    if (observed) {{ {time} }}"] if observes else []),
        *timers,
        *(["    if (observed)", "        box->base.frame = frame;"] if observes else []),
        *(["    box->base.output.dropped = false;"] if drops(names) else []),
        "    box->base.scratch.used = 0;",
        *(["    box->base.work = 0;"] if any(_counts_work(layer) for layer in layers) else []),
        *(["    box->base.bundled = 0;"] if any(layer.in_bundle() for layer in layers) else []),
        "    box->base.lookahead.packet = (uint32_t)i;",
        "    box->slots = &box->waiting[i].slots;",
        "}",
        "",
        "/* Ends stage 2 of a packet. */",
        "static inline void end_packet(SL_UNUSED struct sl_stack_box *box, SL_UNUSED const struct sl_frame *frame)",
        "{",
        *(["    sl_batch_flush(&box->base.batch);"] if flushes else []),
        *(["    sl_arrival_sent(&box->base, frame);"] if names.functions.arriving else []),
        *(["    sl_output_packet(&box->base, frame);"] if names.functions.inline else []),
        "}",
    ]


def _counts_work(layer: LayerProgram) -> bool:
    """Whether a layer's messages or records are counted by packet."""
    return layer.of_packets or layer.in_bundle(of_stream=True) or layer.record


def _prefetch_later(names: StackNames) -> list[str]:
    """Statements that prefetch memory for later packets."""
    header = names.program.prefetch
    statement = f"sl_lookahead_packet(&box->base.lookahead, &frames[group], i, {header});"
    table = table_of_each(names)
    if table is None:
        return _if_lookahead(names, "    " + statement)
    held = f"if (SL_UNLIKELY(box->base.lookahead.held_much)) sl_lookahead_held_each(&box->base.lookahead, &box->{table.variable}, i);"
    size = f"sizeof({table.struct})"
    return [
        f"    sl_lookahead_each(&box->base.lookahead, &box->{table.variable}, i + SL_INSTANCE_LEAD, {size});",
        "    if (SL_LIKELY(i < box->base.lookahead.plain)) {",
        f"        sl_lookahead_header(&frames[group + i], {header}, true);",
        "    } else if (i < box->base.lookahead.others) {",
        f"        {statement}",
        *([f"        {held}"] if table.sides else []),
        "    }",
    ]


def _between_stages(names: StackNames) -> list[str]:
    """Statements between the two loops over a group."""
    holds = any(table.predicted and table.sides for table in names.tables.values())
    much = "box->base.pool.used >= SL_HELD_MUCH" if holds else "false"
    out = _if_lookahead(names, f"        sl_lookahead_stage2(&base->lookahead, {much});")
    if (table := table_of_each(names)) is not None:
        given = f"&base->lookahead, &box->{table.variable}, group, sizeof({table.struct})"
        out.append(f"        sl_lookahead_each_begin({given});")
    return out + (["        box->waiting[group].layer = NULL;"] if series_of(names) is not None else [])


def _timers_begin(names: StackNames) -> list[str]:
    """Statements before the first packet of a box: its timers start at the time of this packet."""
    if not names.functions.timers:
        return []
    return [
        f"    if (SL_UNLIKELY(count && !base->counters[{names.counters.index('box', 'packets')}]))   /* the first one */",
        f"        sl_timers_begin(base, frames->time, {len(names.functions.timers)});",
    ]


def worker(names: StackNames) -> list[str]:
    """The functions that choose the worker of a packet: by a hash and, in stacks with path graphs, by its keys."""
    secret = "    uint64_t secret = sl_dispatch_secret(seed), hash = 0;"
    graphs = {name: layer.dispatch for name, layer in names.program.layers.items() if layer.dispatch is not None}
    chosen = _with_slots(names, graphs, "hash = dispatch_{}(&slots, secret, {}, 0);", "hash = 0;")
    out = [
        "",
        f"unsigned {names.prefix}_worker(SL_UNUSED const struct sl_frame *frame, unsigned workers, uint64_t seed)",
        "{",
        secret,
        *(chosen if graphs else []),
        "    return sl_dispatch_worker(hash, secret, workers);",
        "}",
    ]
    graphs = {name: layer.path for name, layer in names.program.layers.items() if layer.path is not None}
    if not graphs:
        return out
    return [
        *out,
        "",
        f"void {names.prefix}_path(const struct sl_frame *frame, uint64_t seed, struct sl_path_keys *keys)",
        "{",
        "    uint64_t secret = sl_dispatch_secret(seed);",
        "    keys->count = keys->left_out = 0;",
        *_with_slots(names, graphs, "path_{}(&slots, secret, keys, {}, 0);", ";"),
        "}",
    ]


def _with_slots(names: StackNames, graphs: dict[str, Graph], call: str, otherwise: str) -> list[str]:
    """Statements that call the graph of the layer that a packet enters first, with slots of its own."""
    read = {reg for graph in graphs.values() for i in graph.instructions() for reg in i.read_registers()}
    slots = sorted((reg for reg in read if reg.space == "slot"), key=lambda reg: reg.name)

    def enter(layer: LayerProgram) -> str:
        return call.format(identifier(layer.name), FRAME) if layer.name in graphs else otherwise

    return [
        "    struct sl_slots slots;",
        *(f"    slots.{member(slot)} = {'(sl_bytes){0}' if slot.is_bytes else '0'};" for slot in slots),
        *("    " + line for line in by_link_type(names, enter, otherwise)),
    ]
