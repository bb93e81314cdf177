"""Lowers one layer: its graphs, the layout of its instances, and the rules of its sequence."""

from __future__ import annotations

import warnings

from sluice.ir.expression import Reg
from sluice.ir.graph import Graph, InstanceLayout, KeyPart, LayerProgram, Rules, State
from sluice.ir.graph_kinds import DRAIN, END, FRAME, LOST
from sluice.lang.errors import DescriptionError, DescriptionWarning
from sluice.lang.expression import Below, Expression, Gathered
from sluice.lang.field_value import FieldValue
from sluice.lang.psm import Taken
from sluice.lower.instance_end import drain_graph, end_graph
from sluice.lower.layer_state import (
    BUSY,
    HOME,
    TIMEOUT,
    LayerContext,
    LayerState,
    initial,
    uses_v,
)
from sluice.lower.main_graph import MainBuilder
from sluice.lower.message import frame_graph, lost_graph
from sluice.lower.scope import (
    STATE,
    nested,
    serial_width,
)
from sluice.lower.slots import kept_fields


def build_layer(context: LayerContext) -> LayerProgram:
    """The program of one layer. Raises DescriptionError for an invalid description."""
    layer = LayerState(context)
    check(layer)
    main, others = MainBuilder(layer).build(), dict[str, Graph]()
    if layer.drains:
        others[DRAIN] = drain_graph(layer)
    if layer.has_instance:
        others[END] = end_graph(layer)
    framing = layer.prototype.framing
    if framing is not None:
        others |= {FRAME: frame_graph(layer), LOST: lost_graph(layer)}
    states: tuple[State, ...] = ()
    if layer.machine is not None:
        states = tuple(State(s.name, s.accept, s.closed) for s in layer.machine.states())
    return LayerProgram(
        name=context.name,
        layer=layer.scope.layer.name,
        prototype=layer.prototype.name,
        main=main,
        others=others,
        resyncs=framing is not None and framing.resync is not None,
        record=layer.prototype.record,
        costly=layer.prototype.costly,
        bundled=framing is not None and framing.bundled and (context.of_packets or context.of_streams),
        half=framing is not None and framing.half,
        begins=framing is not None and framing.begins and not framing.bundled and context.of_packets,
        of_streams=context.of_streams,
        of_packets=context.of_packets,
        carried=context.carried,
        instance=_instance_layout(layer),
        rules=_rules(layer),
        states=states,
        timeouts=tuple(layer.timeouts),
        lifetime=layer.prototype.lifetime is not None,
        events=layer.shapes,
        above=tuple(step.target for step in context.above),
        home=context.home,
    )


# --- the description as a whole ---------------------------------------------------------------------------------


def check(layer: LayerState) -> None:
    """Warn of probable mistakes and refuse invalid transitions; `sluice.lang.check` has checked the rest."""
    p = layer.prototype
    if p.sequence is not None and not layer.assembles and p.buffer_data and not p.sequence.whole:
        warnings.warn(
            f"{p.lines['seq']}: {layer.scope.layer.title} has a sequence but never assembles it; "
            "its bytes are held to the limit",
            DescriptionWarning,
            stacklevel=2,
        )
    _check_transitions(layer)


def _check_transitions(layer: LayerState) -> None:
    for transition in layer.transitions:
        assert transition.condition is not None
        if transition.restart and uses_v(transition.condition):
            raise DescriptionError(
                f"restart transition '{transition.name}' looks at virtual packets",
                "use p.header in it.",
                transition.where,
            )
        if transition.source.accept and not transition.source.start:
            warnings.warn(
                f"{transition.where}: transition '{transition.name}' leads out of state '{transition.source.name}', "
                "which accepts: its instance is gone by then",
                DescriptionWarning,
                stacklevel=2,
            )
        for item in nested(transition.condition):
            if isinstance(item, Taken) and item.owner in (layer.prototype, layer.scope.layer):
                raise DescriptionError(
                    f"transition '{transition.name}' depends on a transition of the same step",
                    "a step takes one transition; use the state instead.",
                    transition.where,
                )


# --- layouts of instances and sequences --------------------------------------------------------------------------


def _rules(layer: LayerState) -> Rules | None:
    s = layer.sequence
    if s is None:
        return None
    return Rules(
        width=_meta_width(layer),
        linear=s.zero_based,
        policy=s.policy,
        whole=s.whole,
        buffer_data=bool(layer.prototype.buffer_data),
        limit=s.limit,
        limit_pieces=s.limit_pieces,
        limit_records=s.limit_records,
        history=max(s.history, layer.context.kept or 0),
        record=tuple(layer.v_fields),
        units=s.units,
        observed=layer.context.kept is not None,
        accounts=layer.accounts,
        bounded=s.bounded,
    )


def _meta_width(layer: LayerState) -> int:
    """The width at which meta wraps, in bits; 64 for a zero-based sequence, which does not wrap."""
    assert layer.sequence is not None
    meta = layer.sequence.meta
    if layer.sequence.zero_based:
        return 64
    if serial_width(meta):
        return serial_width(meta)
    if isinstance(meta, FieldValue):
        return meta.field.width
    found = layer.scope.number(meta)
    return found.bits if isinstance(found, Reg) else 64


def _instance_layout(layer: LayerState) -> InstanceLayout | None:
    p, context = layer.prototype, layer.context
    if p.keys is None:
        return None
    fields: list[tuple[Reg, int]] = []
    if layer.machine is not None:
        start = next(number for number, state in enumerate(layer.machine.states()) if state.start)
        fields.append((STATE, start))
    if len(layer.timeouts) > 1:
        fields.append((TIMEOUT, 0))
    fields += [(above, 0) for above in layer.above]
    if context.shared:
        fields.append((HOME, context.home))
    if context.loops:
        fields.append((BUSY, 0))
    fields += [(field, 0) for field in kept_fields(layer)]
    if p.perm_layout is not None:
        for item in p.perm_layout.fields.values():
            fields.append((Reg(f"perm.{item.name}", item.width), initial(item.init)))
    parts: list[KeyPart] = []
    for number, expression in enumerate(layer.keys[0]):
        bits = layer.scope.bits(expression)
        other = ""
        if len(layer.keys) == 2:
            other = key_name(layer.keys[1][number])
            if layer.scope.bits(layer.keys[1][number]) != bits:
                raise DescriptionError(
                    "the two lists of a selector differ in the width of a field",
                    "pair source with destination.",
                    expression.where,
                )
        parts.append(KeyPart(key_name(expression), bits, other))
    aliases, alias = context.aliases.get(p, ("", ()))
    key, of = tuple(parts), tuple(fields)
    most = p.max_instances or 0
    return InstanceLayout(context.table, key, p.oriented, True, of, layer.sides, aliases, alias, layer.more_keys, most)


def key_name(expression: Expression) -> str:
    """The name of a part of a key: that of its field or offer."""
    if isinstance(expression, FieldValue):
        return expression.field.name
    return expression.name if isinstance(expression, (Below, Gathered)) else "key"
