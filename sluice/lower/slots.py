"""Slots: values that a layer stores for the layers above it, with or without a current packet.

Data that is delivered without a packet (at a timeout, at the end of input) belongs to packets that are gone. The values
that layers above read about such data come from the instance: a part of its key, as packets of that side have it; an
expression of its fields; or any other number, which is stored in the instance with the value of that side's last
forwarded packet. Bytes that are not part of the key are empty.
"""

from __future__ import annotations

from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Flip, Reg, registers
from sluice.ir.instruction import RecallKey
from sluice.lang.expression import Expression
from sluice.lang.stack import GATHER
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.layer_state import LayerState, nothing
from sluice.lower.scope import SIDE, gathered


def fill_slots(layer: LayerState, events: EventBuilder, out: GraphBuilder) -> None:
    """Fill the slots that layers above read, while there is a current packet."""
    for name in layer.gathers:
        offered = events.scope.number(layer.prototype.offers[name])
        out.assign(gathered(name), Binary("+", Binary("*", _before(name), Const(GATHER)), offered))
    for slot, expression in own_slots(layer):
        with out.at(expression.where):
            out.assign(slot, events.scope.resolve(expression))
    for slot, condition, value in layer.context.overrides:
        if slot in layer.context.asked:
            with out.at(condition.where), out.when(events.scope.number(condition), f"change {slot.name}"):
                out.assign(slot, events.scope.resolve(value))
    for slot in _kept(layer):
        for side, field in enumerate(_fields(layer, slot)):
            if len(_fields(layer, slot)) == 1:
                out.assign(field, slot)
            else:
                with out.when(Binary("==", SIDE, Const(side)), f"keep {slot.name}"):
                    out.assign(field, slot)


def remember_gathered(layer: LayerState, out: GraphBuilder) -> None:
    """Save what lower layers gathered, in a layer that adds to it."""
    for name in layer.gathers:
        out.assign(_before(name), gathered(name))


def restore_gathered(layer: LayerState, out: GraphBuilder) -> None:
    """Restore what lower layers gathered, after the layers above ran: other layers above the lower layer must not see
    it.
    """
    for name in layer.gathers:
        out.assign(gathered(name), _before(name))


def _before(name: str) -> Reg:
    return Reg(f"local.gathered.{name}", 64)


def recall_slots(layer: LayerState, events: EventBuilder, out: GraphBuilder) -> None:
    """Fill the slots for data that is delivered without a packet."""
    own = dict(own_slots(layer))
    for slot in dict.fromkeys([*own, *layer.context.asked]):
        part = _part(layer, slot)
        if part is not None:
            number, other = part
            out.emit(RecallKey(slot, Flip(SIDE, 1) if other else SIDE, number))
        elif slot in own and _lasts(layer, own[slot]):
            out.assign(slot, events.scope.resolve(own[slot]))
        elif slot.is_bytes:
            out.assign(slot, nothing())
        elif slot in layer.context.asked:
            fields = _fields(layer, slot)
            out.assign(slot, fields[0])
            if len(fields) == 2:
                with out.when(Binary("==", SIDE, ONE), f"recall {slot.name}"):
                    out.assign(slot, fields[1])
        else:
            out.assign(slot, ZERO)


def kept_fields(layer: LayerState) -> list[Reg]:
    """The instance fields that store slots."""
    return [field for slot in _kept(layer) for field in _fields(layer, slot)]


def own_slots(layer: LayerState) -> list[tuple[Reg, Expression]]:
    """Slots that this layer fills, with their expressions. An offer that no layer reads costs nothing."""
    context = layer.context
    offers = [(context.offers[name], item) for name, item in layer.prototype.offers.items()]
    return context.exports + [(slot, item) for slot, item in offers if slot in context.asked]


def _kept(layer: LayerState) -> list[Reg]:
    """Slots whose value is stored in a field of the instance."""
    if not layer.drains:
        return []
    own = dict(own_slots(layer))
    return [
        slot
        for slot in layer.context.asked
        if not slot.is_bytes and _part(layer, slot) is None and not (slot in own and _lasts(layer, own[slot]))
    ]


def _fields(layer: LayerState, slot: Reg) -> list[Reg]:
    name = f"inst.kept.{slot.name.partition('.')[2]}"
    if layer.sides == 1:
        return [Reg(name, slot.bits)]
    return [Reg(f"{name}.{side}", slot.bits) for side in range(layer.sides)]


def _part(layer: LayerState, slot: Reg) -> tuple[int, bool] | None:
    """The part of the key that holds a slot's value, and whether it is in the selector's second list."""
    if slot in map(gathered, layer.gathers):
        return None  # the key has the value gathered below this layer
    own = dict(own_slots(layer))
    value: Expr = layer.scope.resolve(own[slot]) if slot in own else slot
    for other, keys in enumerate(layer.keys):
        for number, item in enumerate(keys):
            if layer.scope.resolve(item) == value:
                return number, bool(other)
    return None


def _lasts(layer: LayerState, expression: Expression) -> bool:
    """Whether the instance alone determines the value of an expression."""
    return all(reg.space in ("perm", "inst") for reg in registers(layer.scope.resolve(expression)))
