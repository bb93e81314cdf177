"""How packets enter a stack: the two loops over a group, and what they keep of a packet in between.

The first loop takes every packet through its stateless layers (pass `fission`), as far as there are such; there it
waits. The second goes on with each of them in order, first with what it owes a layer that it has passed (pass
`deferral`), and without leaving the layer where most wait (`series_of`). Between them lies the memory's time:
`lookahead` asks for what the second will want.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.codegen.most import asked_first, counted_at_once, lead, templates, wait_of_most
from sluice.codegen.names import identifier, member, storage, variable
from sluice.codegen.reach import begins_at, header_bytes, knows_bytes
from sluice.codegen.writer import (
    PASSED_MOST,
    UNIT,
    WAITING,
    StackNames,
    ends_templates,
    enter_of,
    go_on_as_most,
    is_entered_noted,
    is_quiet,
    main_head,
    otherwise_head,
    series_of,
    table_of_each,
)
from sluice.ir.graph import GATHERED, Graph, LayerProgram, Program
from sluice.ir.instruction import LookAhead, NextStateless

FRAME = "frame->at, frame->captured, frame->length"


def context(names: StackNames) -> list[str]:
    """The types of what is kept of a packet: what its layers left, and where it waits."""
    out = ["", "/* What layers leave for those above. */", "struct sl_slots {"]
    # Numbers first: most packets fill few of them and no bytes, and are in one line with what is kept beside them.
    for slot in sorted(names.program.slots, key=lambda reg: (reg.is_bytes, -reg.bits, reg.name)):
        kind = "sl_bytes" if slot.is_bytes else f"uint{8 * storage(slot.bits)}_t"
        out.append(f"    {kind} {member(slot)};")
    if not names.program.slots:
        out.append("    char none;")
    return [
        *out,
        "};",
        "",
        "struct sl_stack_box;",
        f"typedef void sl_layer(struct sl_stack_box *box, {UNIT});",
        "",
        "/* A packet of a group: the layer that it waits for, and that one's unit; the layers that it has passed. */",
        "struct sl_waiting {",
        "    sl_layer *layer;",
        "    const uint8_t *at;",
        "    uint32_t captured, length;",
        "    uint32_t depth;",
        f"    uint8_t path[{PASSED_MOST + 1}];   /* the last is of one that is only looked at ahead */",
        "    struct sl_slots slots;",
        *_owed(names),
        "};",
        f'_Static_assert(SL_AHEAD_DEPTH <= {PASSED_MOST}, "layers that are looked at ahead have a place in path");',
    ]


def _owed(names: StackNames) -> list[str]:
    """What a packet keeps that owes a layer its turn: where it goes on then, and what the layer wants of it."""
    turns = [(layer, layer.turn.parameters) for layer in names.program.layers.values() if layer.turn is not None]
    if not turns:
        return []
    out = ["    sl_layer *then;   /* behind the turn of a layer that it has passed */", "    union {"]
    for layer, parameters in turns:
        out.append("        struct {")
        for reg in sorted(parameters, key=lambda reg: -storage(reg.bits)):
            out.append(f"            uint{8 * storage(reg.bits)}_t {variable(reg)};")
        out.append(f"        }} of_{identifier(layer.name)};")
    out.append("    } carried;")
    return [*out, "    uint32_t turn_depth;"] if names.functions.asks_way else out


def waiting(names: StackNames) -> list[str]:
    """The functions by which an arriving packet waits for a layer."""
    layers = names.program.layers
    roots = [name for _, name in names.program.roots]
    led = [
        i.layer
        for item in layers.values()
        if item.stateless
        for i in item.stateless.instructions()
        if isinstance(i, NextStateless)
    ]
    out = [
        "",
        "/* An arriving packet waits for a layer, and nobody asks behind how many others. */",
        f"static inline void wait_quietly(struct sl_waiting *waiting, sl_layer *layer, {UNIT})",
        "{",
        "    waiting->layer = layer;",
        "    waiting->at = at;",
        "    waiting->captured = captured;",
        "    waiting->length = length;",
        "}",
        "",
        "/* An arriving packet waits for a layer. */",
        f"static inline void wait_for(struct sl_waiting *waiting, sl_layer *layer, {UNIT}, unsigned depth)",
        "{",
        "    wait_quietly(waiting, layer, at, captured, length);",
        "    waiting->depth = depth;",
        "}",
        "",
        "/* By which way a packet came, before it enters a layer in its turn where somebody may ask. */",
        "static inline void note_way(struct sl_stack_box *box, const struct sl_waiting *waiting)",
        "{",
        "    box->base.depth = waiting->depth;",
        "    memcpy(box->base.path, waiting->path, sizeof waiting->path);",
        "}",
    ]
    for name in dict.fromkeys(roots + led):
        out += _wait(names, layers[name])
    return out


def _wait(names: StackNames, layer: LayerProgram) -> list[str]:
    word = identifier(layer.name)
    out: list[str] = []
    enter = enter_of(layer, names)
    if is_entered_noted(layer, names):
        of_messages = f"layer_{word}(box, (sl_bytes){{at, captured, length}}, (struct sl_stream){{0}});"
        out += [
            "",
            f"static void {enter}(struct sl_stack_box *box, {UNIT})",
            "{",
            "    note_way(box, &box->waiting[box->base.ahead.packet]);",
            f"    {of_messages if layer.frame is not None else f'layer_{word}(box, at, captured, length);'}",
            "}",
        ]
    # Where templates end nearly every packet waits. (Behind a turn the loop is long enough: inlined it takes 5% more.)
    turns = any(item.turn is not None for item in names.program.layers.values())
    kind = "SL_INLINED" if ends_templates(layer, names.program) and not turns else "static"
    out += [
        "",
        f"{kind} void wait_{word}({'SL_UNUSED ' if layer.ahead is None else ''}{WAITING}, {UNIT}, SL_UNUSED unsigned depth)",
        "{",
    ]
    wait = f"wait_for(waiting, {enter}, at, captured, length, depth);"
    out.append(f"    {f'wait_quietly(waiting, {enter}, at, captured, length);' if is_quiet(layer, names) else wait}")
    if layer.ahead is not None:
        slots = "&waiting->slots"
        if _fills_slots(names.program, layer):  # what is foreseen of layers above is not yet so for those below them
            out.append("    struct sl_slots foreseen = waiting->slots;")
            slots = "&foreseen"
        out.append(f"    ahead_{word}(box, {slots}, at, captured, length, depth);")
    return [*out, "}"]


def _fills_slots(program: Program, layer: LayerProgram) -> bool:
    """Whether the ahead graph of a layer, or one that it leads to, fills slots."""
    graphs = _foreseen(program, [layer.name])
    return any(reg.space == "slot" for graph in graphs for i in graph.instructions() for reg in i.written())


def process(names: StackNames) -> list[str]:
    """The function that processes a burst of packets, and those that it is made of."""
    return [
        *_arrive(names),
        *_turn(names),
        *_series(names),
        "",
        f"void {names.prefix}_process(struct sl_box *base, const struct sl_frame *frames, size_t count)",
        "{",
        "    struct sl_stack_box *box = (struct sl_stack_box *)base;",
        *_looking(names, f"    sl_ahead_burst(&base->ahead, frames, count, {header_bytes(names.program)});"),
        *_timers_begin(names),
        "    for (size_t first = 0; first < count; first += SL_GROUP) {",
        "        size_t group = sl_min(SL_GROUP, count - first);",
        "        const struct sl_frame *frame = &frames[first];",
        "        uint64_t bytes = 0;",
        *_looking(names, "        sl_ahead_group(&base->ahead, group, count - first - group);"),
        *_begin_counting(names),
        "        for (size_t i = 0; i < group; i++) {",
        "            bytes += frame[i].length;",
        "            arrive(box, &frame[i], (uint32_t)i);",
        "        }",
        "        " + names.counters.add("box", "packets", "group"),
        "        " + names.counters.add("box", "bytes", "bytes"),
        *_count_at_once(names),
        *_turns(names),
        "        for (size_t i = 0; i < group; i++) {",
        "            begin_turn(box, frame, i, group);",
        "            struct sl_waiting *waiting = &box->waiting[i];",
        *_go_on(names),
        "            end_turn(box, &frame[i]);",
        "        }",
        "    }",
        "}",
    ]


def _begin_counting(names: StackNames) -> list[str]:
    """Before a group arrives: no packet went otherwise than the templates."""
    return ["        memset(box->otherwise, 0, sizeof box->otherwise);"] if counted_at_once(names.program) else []


def _count_at_once(names: StackNames) -> list[str]:
    """Statements that count the packets of a group which templates led on."""
    out: list[str] = []
    offset: int | None = None
    for at, layer in enumerate(counted_at_once(names.program)):
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


def _looking(names: StackNames, line: str) -> list[str]:
    """A line of a stack that looks ahead."""
    ahead = any(layer.ahead is not None or layer.turn is not None for layer in names.program.layers.values())
    return [line] if ahead else []


def _go_on(names: StackNames) -> list[str]:
    """Statements by which a packet in its turn, and perhaps some behind it, go on."""
    unit = "waiting->at, waiting->captured, waiting->length"
    alone = f"waiting->layer(box, {unit});"
    layer = series_of(names)
    if layer is None:
        return ["            " + alone]
    word, enter = identifier(layer.name), enter_of(layer, names)
    noted = ["                note_way(box, waiting);"] if is_entered_noted(layer, names) else []
    return [
        f"            if (SL_LIKELY(waiting->layer == {enter})) {{",
        *noted,
        f"                i = series_{word}(box, {unit}, frame, i, group);",
        "            } else {",
        "                " + alone,
        "            }",
    ]


def _series(names: StackNames) -> list[str]:
    """The functions of the layer where most packets wait."""
    layer = series_of(names)
    if layer is None:
        return []
    word, enter = identifier(layer.name), enter_of(layer, names)
    return [
        "",
        "/* Packet `i` of a group in its turn, and all behind it that wait for the same layer, up to the first one that does",
        " * not; the last one's place. What a call costs is paid once for all of them. */",
        f"static size_t series_{word}(struct sl_stack_box *box, {UNIT}, const struct sl_frame *frames, size_t i, size_t group)",
        "{",
        "    const size_t first = i;",
        "    for (;;) {",
        f"        main_{word}(box, at, captured, length);",
        f"        if (SL_UNLIKELY(box->waiting[i + 1].layer != {enter})) {{   /* of none, behind the last of the group */",
        "            " + names.counters.add(layer.name, "packets", "i + 1 - first"),
        "            return i;",
        "        }",
        "        end_turn(box, &frames[i++]);",
        "        begin_turn(box, frames, i, group);",
        "        const struct sl_waiting *waiting = &box->waiting[i];",
        *(["        note_way(box, waiting);"] if is_entered_noted(layer, names) else []),
        "        at = waiting->at;",
        "        captured = waiting->captured;",
        "        length = waiting->length;",
        "    }",
        "}",
        "",
        f"{main_head(layer)}",
        "{",
        f"    (void)series_{word}(box, at, captured, length, NULL, SL_GROUP - 1, 0);   /* the packet in hand alone */",
        "}",
    ]


def _arrive(names: StackNames) -> list[str]:
    """The first loop's body."""
    late = _begins_late(names.program)
    unknown = f"wait_for(waiting, unknown_link_type, {FRAME}, 0);"
    others = (["begin_waiting(box, waiting);"] if late else []) + _count_otherwise(
        names.program, asked_first(names.program), "frame->length"
    )

    def enter(layer: LayerProgram) -> str:
        return go_on_as_most(layer, FRAME, "0")

    return [
        "",
        f"static void ended(SL_UNUSED struct sl_stack_box *box, {_unused(UNIT)})",
        "{",
        "}",
        "",
        f"SL_COLD void unknown_link_type(struct sl_stack_box *box, {_unused(UNIT)})",
        "{",
        "    " + names.counters.add("box", "unknown link type"),
        "}",
        "",
        "/* A packet whose layers have said nothing yet. */",
        "static inline void begin_waiting(SL_UNUSED struct sl_stack_box *box, struct sl_waiting *waiting)",
        "{",
        "    waiting->layer = ended;",
        *(["    sl_ahead_want_none(&box->base.ahead);"] if table_of_each(names) is not None else []),
        *(f"    {text}" for text in _empty(names.program)),
        "}",
        *_otherwise(names, late),
        "",
        "/* The first half of a packet's way, before the packets of its group before it are processed. */",
        "static inline void arrive(struct sl_stack_box *box, const struct sl_frame *frame, uint32_t packet)",
        "{",
        "    struct sl_waiting *waiting = &box->waiting[packet];",
        "    box->base.ahead.packet = packet;",
        *([] if late else ["    begin_waiting(box, waiting);"]),
        *("    " + line for line in _by_link_type(names, enter, unknown, others)),
        "}",
    ]


def _otherwise(names: StackNames, late: bool) -> list[str]:
    """Packets that are otherwise than templates: they begin, if they have not yet."""
    out: list[str] = []
    program = names.program
    for layer in program.layers.values():
        if layer.template is not None:
            word = identifier(layer.name)
            out += ["", otherwise_head(word), "{"]
            out += ["    " + line for line in _count_otherwise(program, layer.name, "length")]
            out += ["    begin_waiting(box, waiting);"] if late else []
            out += [f"    stateless_{word}(box, waiting, at, captured, length, depth);", "}"]
    return out


def _count_otherwise(program: Program, layer: str | None, length: str) -> list[str]:
    """Statements that count a packet of so many bytes which did not go by a layer's template."""
    at_once = [item.name for item in counted_at_once(program)]
    if layer not in at_once:
        return []
    at = f"box->otherwise[{at_once.index(layer)}]"
    return [f"{at}.packets++;", f"{at}.bytes += {length};"]


def _begins_late(program: Program) -> bool:
    """Whether a packet that templates bring to where it waits need not begin: what it waits for is said there, and no
    slot that would be empty is looked at on its way, or filled.
    """
    first, behind = asked_first(program), wait_of_most(program)
    if first is None or program.layers[first].template is None or behind is None or behind.stateless is not None:
        return False
    if any(slot.name.startswith(GATHERED) for slot in program.slots):
        return False
    graphs = [layer.template for layer in templates(program) if layer.template is not None]
    used = {reg for graph in graphs for i in graph.instructions() for reg in (*i.written(), *i.read_registers())}
    for graph in _foreseen(program, [behind.name]):
        used |= {reg for i in graph.instructions() for reg in i.read_registers()}
    return not any(reg.space == "slot" and reg.is_bytes for reg in used)


def _foreseen(program: Program, names: list[str]) -> list[Graph]:
    """The ahead graphs of layers, and of those that they lead to."""
    seen: dict[str, Graph] = {}
    to_see = list(names)
    while to_see:
        name = to_see.pop()
        graph = program.layers[name].ahead
        if name in seen or graph is None:
            continue
        seen[name] = graph
        to_see += [i.layer for i in graph.instructions() if isinstance(i, LookAhead)]
    return list(seen.values())


def _empty(program: Program) -> list[str]:
    """Slots that are not as the last group left them: what is added to; bytes that may be gone, for ahead graphs read
    slots even where a layer below that should have filled them was not followed.
    """
    out: list[str] = []
    for slot in sorted(program.slots, key=lambda reg: reg.name):
        if slot.is_bytes:
            out.append(f"waiting->slots.{member(slot)} = (sl_bytes){{0}};")
        elif slot.name.startswith(GATHERED):
            out.append(f"waiting->slots.{member(slot)} = 0;")
    return out


def _unused(parameters: str) -> str:
    return ", ".join(f"SL_UNUSED {parameter}" for parameter in parameters.split(", "))


def _turn(names: StackNames) -> list[str]:
    """What surrounds the second half of a packet's way."""
    timers: list[str] = []
    if names.functions.timers:
        timers = ["    if (SL_UNLIKELY(sl_timers_due(&box->base)))", "        fire_timers(box);"]
    asks = names.functions.asks_packet or bool(names.program.natives)
    return [
        "",
        "/* The second half of the way of packet `i` of a group, in order, begins. */",
        "SL_INLINED void begin_turn(struct sl_stack_box *box, const struct sl_frame *frames, size_t i, SL_UNUSED size_t group)",
        "{",
        "    const struct sl_frame *frame = &frames[i];",
        *_ask_ahead(names),
        "    box->base.now = sl_max(box->base.now, frame->time);",
        *(["    box->base.time = frame->time;", "    box->base.number = frame->number;"] if asks else []),
        *timers,
        *(["    box->base.frame = frame;"] if asks else []),
        "    box->base.scratch.used = 0;",
        "    box->base.ahead.packet = (uint32_t)i;",
        "    box->slots = &box->waiting[i].slots;",
        "}",
        "",
        "/* And ends. */",
        "static inline void end_turn(SL_UNUSED struct sl_stack_box *box, SL_UNUSED const struct sl_frame *frame)",
        "{",
        *(["    sl_batch_flush(&box->base.batch);"] if names.functions.demanded else []),
        *(["    sl_output_packet(&box->base, frame);"] if names.functions.inline else []),
        "}",
    ]


def _ask_ahead(names: StackNames) -> list[str]:
    """Statements that ask for what packets behind this one will want."""
    ask = f"sl_ahead_packet(&box->base.ahead, &frames[group], i, {header_bytes(names.program)});"
    table = table_of_each(names)
    if table is None:
        return _looking(names, "    " + ask)
    held = (
        f"if (SL_UNLIKELY(box->base.ahead.held_much)) sl_ahead_held_each(&box->base.ahead, &box->{table.variable}, i);"
    )
    size = f"sizeof({table.struct})"
    return [
        f"    sl_ahead_each(&box->base.ahead, &box->{table.variable}, i + SL_INSTANCE_LEAD, {size});",
        "    if (i < box->base.ahead.others) {",
        f"        {ask}",
        *([f"        {held}"] if table.sides else []),
        "    }",
    ]


def _turns(names: StackNames) -> list[str]:
    """Statements between the two loops over a group."""
    holds = any(table.foreseen and table.sides for table in names.tables.values())
    much = "box->base.pool.used >= SL_HELD_MUCH" if holds else "false"
    out = _looking(names, f"        sl_ahead_turns(&base->ahead, {much});")
    if (table := table_of_each(names)) is not None:
        given = f"&base->ahead, &box->{table.variable}, group, sizeof({table.struct})"
        out.append(f"        sl_ahead_each_begin({given});")
    return out + (["        box->waiting[group].layer = NULL;"] if series_of(names) is not None else [])


def _timers_begin(names: StackNames) -> list[str]:
    """Before the first packet: from its time on the timers of the box count."""
    if not names.functions.timers:
        return []
    return [
        f"    if (SL_UNLIKELY(count && !base->counters[{names.counters.index('box', 'packets')}]))   /* the first one */",
        f"        sl_timers_begin(base, frames->time, {len(names.functions.timers)});",
    ]


def worker(names: StackNames) -> list[str]:
    """The function that says for which worker a packet is."""
    layers = names.program.layers
    graphs = [layer.dispatch for layer in layers.values() if layer.dispatch is not None]
    read = {reg for graph in graphs for i in graph.instructions() for reg in i.read_registers()}
    slots = sorted((reg for reg in read if reg.space == "slot"), key=lambda reg: reg.name)

    def enter(layer: LayerProgram) -> str:
        if layer.dispatch is None:
            return "hash = 0;"
        return f"hash = dispatch_{identifier(layer.name)}(&slots, secret, {FRAME}, 0);"

    body = [
        "    struct sl_slots slots;",
        *(f"    slots.{member(slot)} = {'(sl_bytes){0}' if slot.is_bytes else '0'};" for slot in slots),
        *("    " + line for line in _by_link_type(names, enter, "hash = 0;")),
    ]
    return [
        "",
        f"unsigned {names.prefix}_worker(SL_UNUSED const struct sl_frame *frame, unsigned workers, uint64_t seed)",
        "{",
        "    uint64_t secret = sl_dispatch_secret(seed), hash = 0;",
        *(body if graphs else []),
        "    return sl_dispatch_worker(hash, secret, workers);",
        "}",
    ]


def _by_link_type(
    names: StackNames, enter: Callable[[LayerProgram], str], default: str, others_first: Sequence[str] = ()
) -> list[str]:
    """Statements that `enter` the stack: the first link type, which is what most captures have, is asked for first.

    `default`: for link types that the stack does not know; `others_first`: what is done before for all but the first.
    """
    ways = [(link_type, enter(names.program.layers[name])) for link_type, name in names.program.roots]
    cases = [(link_type, way) for link_type, way in ways if link_type is not None]
    default = next((way for link_type, way in ways if link_type is None), default)
    if not cases:
        return [default]
    (first, way), *others = cases
    out = [f"if (SL_LIKELY(frame->link_type == {first})) {{", f"    {way}"]
    if others:
        out += ["} else {", *("    " + line for line in others_first), "    switch (frame->link_type) {"]
        out += [f"    case {link_type}: {way} break;" for link_type, way in others]
        return [*out, f"    default: {default}", "    }", "}"]
    return [*out, "} else {", *("    " + line for line in others_first), f"    {default}", "}"]
