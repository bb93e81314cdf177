"""Where packets wait for their turn, how they go on there, and what somebody asks of those that wait."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.codegen.burst.fast_path import fast_path_stage, is_path_implicit, templates
from sluice.codegen.c.names import identifier
from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames
from sluice.ir import instruction as ir
from sluice.ir.graph import LayerProgram, Program, layers_above

UNIT = "const uint8_t *at, uint32_t captured, uint32_t length"
"""How a layer gets its unit: a struct of more than a pointer would be packed and taken apart at every call."""

PASSED_MAX = 8
"""Layers that a packet may pass by their stateless graphs; with more it waits for the next one's main graph."""

WAITING = "struct sl_stack_box *box, struct sl_pending *waiting"
"""What is handed on with an arriving packet."""

IN_HAND = "box->waiting[box->base.ahead.packet]"
"""What is kept of the packet in hand, where nobody was given it."""


def otherwise_head(word: str) -> str:
    """Head of the function by which a packet goes on that is otherwise than a layer's template."""
    return f"SL_COLD void otherwise_{word}({WAITING}, {UNIT}, unsigned depth)"


def ends_templates(layer: LayerProgram, program: Program) -> bool:
    """Whether it is the layer, without layers above, for which packets wait that templates brought there."""
    return layer is fast_path_stage(program) and layer.stateless is None and not layer.above


def series_of(names: StackNames) -> LayerProgram | None:
    """The layer where nearly all packets wait, if several in a row may pass its main graph in one call: they do nothing else
    in their turn but what all of them owe one layer below, and nobody asks for their way.
    """
    layer = fast_path_stage(names.program)
    if layer is None or layer.stateless is not None or layer.frame is not None:
        return None
    owed = [item for item in [*templates(names.program), layer] if item.turn is not None]
    if owed and (len(owed) > 1 or owed[0] is layer or not is_unnoted(layer, names)):
        return None
    return layer


def owed_in_series(names: StackNames) -> LayerProgram | None:
    """The layer to which packets that pass another one in a row owe their turn before."""
    if series_of(names) is None:
        return None
    return next((layer for layer in templates(names.program) if layer.turn is not None), None)


def row_of(names: StackNames, waiting: str) -> str:
    """The condition under which a packet that waits goes in a row with others."""
    layer, owed = series_of(names), owed_in_series(names)
    assert layer is not None
    if owed is not None:
        owing = f"{waiting}->layer == turn_{identifier(owed.name)}"
        return f"{owing} && {waiting}->then == {enter_of(layer, names)}"
    enter = most_of(layer) if is_led_one_way(layer, names) else enter_of(layer, names)
    return f"{waiting}->layer == {enter}"


def is_entered_noted(layer: LayerProgram, names: StackNames) -> bool:
    """Whether the way of a packet is noted before it enters the layer in its turn."""
    return layer.frame is not None or not is_unnoted(layer, names)


def is_led_one_way(layer: LayerProgram, names: StackNames) -> bool:
    """Whether somebody may ask, in a layer that several packets pass in a row, by which way they came, and of those that
    templates led there it is always the same: it is noted for all of a row at once.
    """
    if series_of(names) is not layer or is_unnoted(layer, names) or names.functions.needs_path:
        return False
    return is_path_implicit(names.program) and not _is_path_known(layer)


def fast_path(names: StackNames) -> list[int]:
    """The layers by which packets come that templates led, the one where they wait included, by their index."""
    behind = fast_path_stage(names.program)
    led = [*templates(names.program), *([behind] if behind is not None else [])]
    return [list(names.program.layers).index(layer.name) for layer in led]


def most_of(layer: LayerProgram) -> str:
    """The function by which packets enter the layer in their turn that templates led there, where they are told apart."""
    return f"most_{identifier(layer.name)}"


def enter_of(layer: LayerProgram, names: StackNames) -> str:
    """The function by which a packet in its turn enters the layer where it waited."""
    return f"{'enter' if is_entered_noted(layer, names) else 'layer'}_{identifier(layer.name)}"


def table_of_each(names: StackNames) -> Table | None:
    """The table in which nearly every packet is looked up, if that is foreseen: that of the layer where they wait."""
    layer = fast_path_stage(names.program)
    if layer is None or layer.instance is None or layer.ahead is None:
        return None
    foreseen = any(isinstance(i, ir.Prefetch) for i in layer.ahead.instructions())
    return names.tables[layer.instance.table] if foreseen else None


def asks_behind(layer: LayerProgram, names: StackNames) -> bool:
    """Whether a packet that a layer holds asks for those behind it: where nearly all packets wait, and bytes are held."""
    held = layer.rules is not None and layer.rules.buffer_data
    return held and layer is fast_path_stage(names.program) and table_of_each(names) is not None


def main_head(layer: LayerProgram) -> str:
    """Head of the function by which a packet passes the main graph of a layer."""
    given = UNIT if layer.frame is None else "sl_bytes unit, SL_UNUSED struct sl_stream stream"
    return f"static void layer_{identifier(layer.name)}(struct sl_stack_box *box, {given})"


def is_unnoted(layer: LayerProgram, names: StackNames) -> bool:
    """Whether nobody asks by which way a packet comes through a layer, or another one of its table, or how deep it is."""
    if names.functions.needs_path:
        return False
    layers = [layer]
    if layer.instance is not None:
        layers += names.tables[layer.instance.table].layers
    asking = (ir.Way, ir.TooDeep)
    asks = any(isinstance(i, asking) for item in layers for graph in item.graphs() for i in graph.instructions())
    return not asks and not any(item.above for item in layers)


def is_quiet(layer: LayerProgram, names: StackNames) -> bool:
    """Whether nobody asks either by which way a packet came while it waits for a layer."""
    return not _is_path_known(layer) and not is_entered_noted(layer, names)


def _is_path_known(layer: LayerProgram) -> bool:
    """Whether what is looked at ahead for a layer asks by which way a packet came."""
    return layer.ahead is not None and any(isinstance(i, (ir.Way, ir.LookAhead)) for i in layer.ahead.instructions())


def needs_packet(layer: LayerProgram, names: StackNames) -> bool:
    """Whether somebody may ask which packet is in hand while it is in a layer, or in one above, or while one of their
    instances ends: a function, or a module in C.
    """
    layers = names.program.layers
    reached = layers_above(layers, layer.name) | {layer.name}
    tables = {item.instance.table for name in reached if (item := layers[name]).instance is not None}
    sharing = {item.name for table in tables for item in names.tables[table].layers}
    reached |= sharing.union(*(layers_above(layers, name) for name in sharing))
    graphs = [graph for name in reached for graph in layers[name].graphs()]
    return names.functions.needs_packet or any(isinstance(i, ir.CallNative) for g in graphs for i in g.instructions())


def copied_units(names: StackNames) -> list[str]:
    """Statements that copy the units of the layers that a waiting packet has passed to where functions read them."""
    copy = "    memcpy(box->base.units, waiting->units, sizeof waiting->units);"
    return [copy] if names.functions.needs_units else []


def go_on(layer: LayerProgram, unit: str, depth: str) -> str:
    """The statement by which an arriving packet goes on to a layer, as far as that is stateless."""
    way = "wait" if layer.stateless is None else "stateless"
    return f"{way}_{identifier(layer.name)}(box, waiting, {unit}, {depth});"


def stay_on_fast_path(layer: LayerProgram, unit: str, depth: str, otherwise: Sequence[str] = ()) -> str:
    """The same, first by the layer's template; `otherwise`: what is done before where that is not the packet's way."""
    if layer.template is None:
        return go_on(layer, unit, depth)
    given = f"{identifier(layer.name)}(box, waiting, {unit}, {depth})"
    else_on = f"otherwise_{given};"
    return (
        f"if (!SL_LIKELY(template_{given})) {'{ ' + ' '.join([*otherwise, else_on]) + ' }' if otherwise else else_on}"
    )
