"""What the two stages share: where packets become pending for stage 2, how they continue there, and which parts of
their state are read and so must be stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.codegen.c.names import identifier
from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames
from sluice.ir.graph import LayerProgram, Program, layers_above
from sluice.passes.analysis.fast_path import fast_path_stage, is_path_implicit, templates
from sluice.passes.analysis.packet_reads import (
    call_native,
    lookahead_reads_path,
    prefetches_instances,
    read_path,
    read_verdicts,
)

UNIT = "const uint8_t *at, uint32_t captured, uint32_t length"
"""How a unit is passed to a layer. A struct larger than a pointer would be packed and unpacked at every call."""

PASSED_MAX = 8
"""The most layers that a packet passes by stateless graphs. Then it becomes pending for the next layer's main graph."""

WAITING = "struct sl_stack_box *box, struct sl_pending *waiting"
"""The parameters that are passed along with an arriving packet."""

CURRENT = "box->waiting[box->base.lookahead.packet]"
"""The pending state of the current packet, in functions that do not have it as a parameter."""


def otherwise_head(word: str) -> str:
    """Head of the function for packets that do not match a layer's template."""
    return f"SL_COLD void otherwise_{word}({WAITING}, {UNIT}, unsigned depth)"


def ends_templates(layer: LayerProgram, program: Program) -> bool:
    """Whether packets become pending for this layer at the end of the fast path, and no layers are above it."""
    return layer is fast_path_stage(program) and layer.stateless is None and not layer.above


def series_of(names: StackNames) -> LayerProgram | None:
    """The layer at the end of the fast path, if one call may take several consecutive packets through its main graph.

    Stage 2 must do nothing else with these packets, except the deferred work of one layer below. If there is deferred
    work, nothing may read the path of the packets either.
    """
    layer = fast_path_stage(names.program)
    if layer is None or layer.stateless is not None or layer.takes_stream:
        return None
    deferring = [item for item in [*templates(names.program), layer] if item.deferred is not None]
    if deferring and (len(deferring) > 1 or deferring[0] is layer or not needs_no_path(layer, names)):
        return None
    return layer


def deferred_in_series(names: StackNames) -> LayerProgram | None:
    """The layer below whose deferred work is done for each packet of a series before its main graph."""
    if series_of(names) is None:
        return None
    return next((layer for layer in templates(names.program) if layer.deferred is not None), None)


def is_in_series(names: StackNames, waiting: str) -> str:
    """The C condition that a pending packet belongs to a series."""
    layer, deferring = series_of(names), deferred_in_series(names)
    assert layer is not None
    if deferring is not None:
        return (
            f"{waiting}->layer == deferred_{identifier(deferring.name)} && {waiting}->then == {enter_of(layer, names)}"
        )
    enter = fast_enter_of(layer) if has_one_path(layer, names) else enter_of(layer, names)
    return f"{waiting}->layer == {enter}"


def stores_path_on_entry(layer: LayerProgram, names: StackNames) -> bool:
    """Whether the path of a packet is stored in the box before the packet enters the layer in stage 2."""
    return layer.takes_stream or not needs_no_path(layer, names)


def has_one_path(layer: LayerProgram, names: StackNames) -> bool:
    """Whether the path may be read in a layer that processes series, and is the same for all packets from templates.

    The path is then stored once for a whole series.
    """
    if series_of(names) is not layer or needs_no_path(layer, names) or names.functions.needs_path:
        return False
    return is_path_implicit(names.program) and not lookahead_reads_path(layer)


def fast_path(names: StackNames) -> list[int]:
    """The indices of the layers of the fast path, including the layer where packets become pending."""
    next_stage = fast_path_stage(names.program)
    layers = [*templates(names.program), *([next_stage] if next_stage is not None else [])]
    return [list(names.program.layers).index(layer.name) for layer in layers]


def fast_enter_of(layer: LayerProgram) -> str:
    """The function by which packets of the fast path enter a layer in stage 2, if others use a different one."""
    return f"fast_{identifier(layer.name)}"


def enter_of(layer: LayerProgram, names: StackNames) -> str:
    """The function by which a packet enters, in stage 2, the layer that it is pending for."""
    return f"{'enter' if stores_path_on_entry(layer, names) else 'layer'}_{identifier(layer.name)}"


def table_of_each(names: StackNames) -> Table | None:
    """The table in which nearly every packet is looked up, if lookahead prefetches it: at the end of the fast path."""
    layer = fast_path_stage(names.program)
    if layer is None or layer.instance is None or layer.lookahead is None:
        return None
    return names.tables[layer.instance.table] if prefetches_instances(layer) else None


def prefetches_following(layer: LayerProgram, names: StackNames) -> bool:
    """Whether a held packet prefetches for the packets after it: at the end of the fast path, if bytes are held."""
    held = layer.rules is not None and layer.rules.buffer_data
    return held and layer is fast_path_stage(names.program) and table_of_each(names) is not None


def main_head(layer: LayerProgram) -> str:
    """Head of the function that runs the main graph of a layer for a packet."""
    given = UNIT if not layer.takes_stream else "sl_bytes unit, SL_UNUSED struct sl_stream stream"
    return f"static void layer_{identifier(layer.name)}(struct sl_stack_box *box, {given})"


def needs_no_path(layer: LayerProgram, names: StackNames) -> bool:
    """Whether a layer need not store the path and the depth of a packet.

    Neither it nor another layer of its table reads them, no function reads the path, and none of these layers has
    layers above.
    """
    if names.functions.needs_path:
        return False
    layers = [layer]
    if layer.instance is not None:
        layers += names.tables[layer.instance.table].layers
    return not read_path(layers) and not any(item.above for item in layers)


def waits_without_path(layer: LayerProgram, names: StackNames) -> bool:
    """Whether a pending packet's path is read neither by the layer's lookahead nor on entry to the layer in stage 2."""
    return not lookahead_reads_path(layer) and not stores_path_on_entry(layer, names)


def drops(names: StackNames) -> bool:
    """Whether a packet may be dropped where no output resets that for the next one."""
    return not names.functions.inline and read_verdicts(names.program.layers.values())


def needs_packet(layer: LayerProgram, names: StackNames) -> bool:
    """Whether a function, or a native module, may read which packet is the current one, while the packet is in a layer
    or in a layer above, or while an instance of these layers ends.
    """
    layers = names.program.layers
    reached = layers_above(layers, layer.name) | {layer.name}
    tables = {item.instance.table for name in reached if (item := layers[name]).instance is not None}
    sharing = {item.name for table in tables for item in names.tables[table].layers}
    reached |= sharing.union(*(layers_above(layers, name) for name in sharing))
    return names.functions.needs_packet or call_native(layers[name] for name in reached)


def copied_units(names: StackNames) -> list[str]:
    """Statements that copy the units of the layers that a pending packet has passed to where functions read them."""
    copy = "    memcpy(box->base.units, waiting->units, sizeof waiting->units);"
    return [copy] if names.functions.needs_units else []


def forward_to(layer: LayerProgram, unit: str, depth: str) -> str:
    """The statement that takes an arriving packet to a layer: to its stateless graph, or pending for its main graph."""
    kind = "wait" if layer.stateless is None else "stateless"
    return f"{kind}_{identifier(layer.name)}(box, waiting, {unit}, {depth});"


def stay_on_fast_path(layer: LayerProgram, unit: str, depth: str, otherwise: Sequence[str] = ()) -> str:
    """The same, by the layer's template first. `otherwise`: statements that run first if the packet does not match."""
    if layer.template is None:
        return forward_to(layer, unit, depth)
    given = f"{identifier(layer.name)}(box, waiting, {unit}, {depth})"
    else_on = f"otherwise_{given};"
    return (
        f"if (!SL_LIKELY(template_{given})) {'{ ' + ' '.join([*otherwise, else_on]) + ' }' if otherwise else else_on}"
    )
