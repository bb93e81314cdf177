"""Stage 1 of a burst: the state stored for each pending packet, and the loop that takes the packets of a group through
their stateless layers (pass `split_stateless`).

After its last stateless layer a packet is pending for stage 2 (`process.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.codegen.burst.stages import (
    PASSED_MAX,
    UNIT,
    WAITING,
    copied_units,
    ends_templates,
    enter_of,
    fast_enter_of,
    fast_path,
    has_one_path,
    otherwise_head,
    stay_on_fast_path,
    stores_path_on_entry,
    table_of_each,
    waits_without_path,
)
from sluice.codegen.c.names import identifier, member, storage, variable
from sluice.codegen.stack_names import StackNames
from sluice.ir.graph import GATHERED, LayerProgram, Program
from sluice.ir.instruction import NextStateless
from sluice.passes.analysis.fast_path import counted_per_burst, first_root
from sluice.passes.analysis.pending_state import fills_slots

FRAME = "frame->at, frame->captured, frame->length"


def context(names: StackNames) -> list[str]:
    """The C types of the state of a pending packet: the slots that layers filled, and the layer to enter in stage 2."""
    out = ["", "/* Values that layers store for the layers above them. */", "struct sl_slots {"]
    # Numbers first: most packets fill a few number slots and no byte slots, so the slots that they fill share a cache
    # line with the other state of a pending packet.
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
        "/* A pending packet of a group: the layer to enter in stage 2, the unit of this layer, and the layers that it passed. */",
        "struct sl_pending {",
        "    sl_layer *layer;",
        "    const uint8_t *at;",
        "    uint32_t captured, length;",
        "    uint32_t depth;",
        f"    uint8_t path[{PASSED_MAX + 1}];   /* the last one: of a layer that only lookahead enters */",
        *([f"    sl_bytes units[{PASSED_MAX + 1}];   /* of these layers */"] if names.functions.needs_units else []),
        "    struct sl_slots slots;",
        *_deferred_members(names),
        "};",
        f'_Static_assert(SL_PREFETCH_DEPTH <= {PASSED_MAX}, "path has room for the layers that lookahead enters");',
    ]


def _deferred_members(names: StackNames) -> list[str]:
    """Members for a packet whose layer defers to stage 2: the function to call afterwards, and the layer's operands."""
    deferring = [
        (layer, layer.deferred.parameters) for layer in names.program.layers.values() if layer.deferred is not None
    ]
    if not deferring:
        return []
    out = ["    sl_layer *then;   /* called after the deferred work of a layer that it passed */", "    union {"]
    for layer, parameters in deferring:
        out.append("        struct {")
        for reg in sorted(parameters, key=lambda reg: -storage(reg.bits)):
            out.append(f"            uint{8 * storage(reg.bits)}_t {variable(reg)};")
        out.append(f"        }} of_{identifier(layer.name)};")
    out.append("    } carried;")
    return [*out, "    uint32_t deferred_depth;"] if names.functions.needs_path else out


def waiting(names: StackNames) -> list[str]:
    """The functions that make an arriving packet pending for a layer."""
    layers = names.program.layers
    roots = [name for _, name in names.program.roots]
    entered = [
        i.layer
        for item in layers.values()
        if item.stateless
        for i in item.stateless.instructions()
        if isinstance(i, NextStateless)
    ]
    out = [
        "",
        "/* An arriving packet becomes pending for a layer that reads no path. */",
        f"static inline void wait_without_path(struct sl_pending *waiting, sl_layer *layer, {UNIT})",
        "{",
        "    waiting->layer = layer;",
        "    waiting->at = at;",
        "    waiting->captured = captured;",
        "    waiting->length = length;",
        "}",
        "",
        "/* An arriving packet becomes pending for a layer. */",
        f"SL_UNUSED static inline void wait_for(struct sl_pending *waiting, sl_layer *layer, {UNIT}, unsigned depth)",
        "{",
        "    wait_without_path(waiting, layer, at, captured, length);",
        "    waiting->depth = depth;",
        "}",
        "",
        "/* Stores the path of a pending packet in the box, before the packet enters a layer in stage 2 that may read it. */",
        "SL_UNUSED static inline void store_path(struct sl_stack_box *box, const struct sl_pending *waiting)",
        "{",
        "    box->base.depth = waiting->depth;",
        "    memcpy(box->base.path, waiting->path, sizeof waiting->path);",
        *copied_units(names),
        "}",
    ]
    for name in dict.fromkeys(roots + entered):
        out += _wait(names, layers[name])
    return out


def _wait(names: StackNames, layer: LayerProgram) -> list[str]:
    word = identifier(layer.name)
    out: list[str] = []
    enter = enter_of(layer, names)
    if stores_path_on_entry(layer, names):
        index = list(names.program.layers).index(layer.name)
        stream = f"(struct sl_stream){{&layers[{index}], NULL, 0}}"
        of_messages = f"layer_{word}(box, (sl_bytes){{at, captured, length}}, {stream});"
        out += [
            "",
            f"static void {enter}(struct sl_stack_box *box, {UNIT})",
            "{",
            "    store_path(box, &box->waiting[box->base.lookahead.packet]);",
            f"    {of_messages if layer.takes_stream else f'layer_{word}(box, at, captured, length);'}",
            "}",
        ]
    if has_one_path(layer, names):
        path = fast_path(names)
        out += [
            "",
            "/* Stores the path of a packet of the fast path, including the layer that it is pending for. */",
            "static inline void store_fast_path(struct sl_stack_box *box)",
            "{",
            f"    box->base.depth = {len(path)};",
            *(f"    box->base.path[{at}] = {index};" for at, index in enumerate(path)),
            "}",
            "",
            f"static void {fast_enter_of(layer)}(struct sl_stack_box *box, {UNIT});",
        ]
    out += _wait_function(names, layer, f"wait_{word}", enter, not waits_without_path(layer, names))
    if has_one_path(layer, names):
        out += _wait_function(names, layer, f"wait_{fast_enter_of(layer)}", fast_enter_of(layer), stores_path=False)
    return out


def _wait_function(names: StackNames, layer: LayerProgram, name: str, enter: str, stores_path: bool) -> list[str]:
    """The function that makes a packet pending for a layer. Stage 2 enters the layer by the C function `enter`."""
    # Inlined at the end of the fast path, where nearly every packet becomes pending. Not inlined in a stack that defers
    # to stage 2: the loop is long already, and inlining makes it slower.
    deferring = any(item.deferred is not None for item in names.program.layers.values())
    most = ends_templates(layer, names.program) or enter == fast_enter_of(layer)
    wait, path = ("wait_for", ", depth") if stores_path else ("wait_without_path", "")
    out = [
        "",
        f"{'SL_INLINED' if most and not deferring else 'static'} void {name}("
        f"{'SL_UNUSED ' if layer.lookahead is None else ''}{WAITING}, {UNIT}, SL_UNUSED unsigned depth)",
        "{",
        f"    {wait}(waiting, {enter}, at, captured, length{path});",
    ]
    if layer.lookahead is not None:
        slots = "&waiting->slots"
        if fills_slots(names.program, layer):  # the layers below must not see what lookahead fills
            out.append("    struct sl_slots predicted = waiting->slots;")
            slots = "&predicted"
        out.append(f"    lookahead_{identifier(layer.name)}(box, {slots}, at, captured, length, depth);")
    return [*out, "}"]


def arrive(names: StackNames) -> list[str]:
    """The functions that make up the body of the stage 1 loop."""
    lazily = names.program.pending_lazily
    unknown = f"sl_refuse_link_type(&box->base, frame->link_type); wait_for(waiting, unknown_link_type, {FRAME}, 0);"
    others = (["begin_waiting(box, waiting);"] if lazily else []) + _count_otherwise(
        names.program, first_root(names.program), "frame->length"
    )

    def enter(layer: LayerProgram) -> str:
        return stay_on_fast_path(layer, FRAME, "0")

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
        "/* Initialises the pending state of a packet. */",
        "static inline void begin_waiting(SL_UNUSED struct sl_stack_box *box, struct sl_pending *waiting)",
        "{",
        "    waiting->layer = ended;",
        *(["    sl_lookahead_want_none(&box->base.lookahead);"] if table_of_each(names) is not None else []),
        *(f"    {text}" for text in _empty(names.program)),
        "}",
        *_otherwise(names, lazily),
        "",
        "/* Stage 1 of a packet. */",
        "static inline void arrive(struct sl_stack_box *box, const struct sl_frame *frame, uint32_t packet)",
        "{",
        "    struct sl_pending *waiting = &box->waiting[packet];",
        "    box->base.lookahead.packet = packet;",
        *([] if lazily else ["    begin_waiting(box, waiting);"]),
        *("    " + line for line in by_link_type(names, enter, unknown, others)),
        "}",
    ]


def _otherwise(names: StackNames, lazily: bool) -> list[str]:
    """The functions for packets that do not match a template. `lazily`: they initialise the pending state first."""
    out: list[str] = []
    program = names.program
    for layer in program.layers.values():
        if layer.template is not None:
            word = identifier(layer.name)
            out += ["", otherwise_head(word), "{"]
            out += ["    " + line for line in _count_otherwise(program, layer.name, "length")]
            out += ["    begin_waiting(box, waiting);"] if lazily else []
            out += [f"    stateless_{word}(box, waiting, at, captured, length, depth);", "}"]
    return out


def _count_otherwise(program: Program, layer: str | None, length: str) -> list[str]:
    """Statements that count a packet of `length` bytes that did not match a layer's template."""
    at_once = [item.name for item in counted_per_burst(program)]
    if layer not in at_once:
        return []
    at = f"box->otherwise[{at_once.index(layer)}]"
    return [f"{at}.packets++;", f"{at}.bytes += {length};"]


def _empty(program: Program) -> list[str]:
    """Statements that clear the slots that must not hold values of the previous group.

    These are the slots that layers add to, and the byte slots, whose bytes may no longer exist. Lookahead graphs read
    slots even where the layer below that should have filled them was not followed.
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


def by_link_type(
    names: StackNames, enter: Callable[[LayerProgram], str], default: str, others_first: Sequence[str] = ()
) -> list[str]:
    """Statements that enter the stack by link type. The first link type is tested first, as most captures have it.

    `enter`: gives the statement that enters a layer. `default`: the statement for link types that the stack does not
    know. `others_first`: statements that run first for all link types but the first.
    """
    paths = [(link_type, enter(names.program.layers[name])) for link_type, name in names.program.roots]
    cases = [(link_type, path) for link_type, path in paths if link_type is not None]
    default = next((path for link_type, path in paths if link_type is None), default)
    if not cases:
        return [default]
    (first, path), *others = cases
    out = [f"if (SL_LIKELY(frame->link_type == {first})) {{", f"    {path}"]
    if others:
        out += ["} else {", *("    " + line for line in others_first), "    switch (frame->link_type) {"]
        out += [f"    case {link_type}: {path} break;" for link_type, path in others]
        return [*out, f"    default: {default}", "    }", "}"]
    return [*out, "} else {", *("    " + line for line in others_first), f"    {default}", "}"]
