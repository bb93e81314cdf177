"""Step 7 of a packet's path, and the path of bytes that are delivered without their packet: to the layers above.

A packet goes to the first layer whose predicate holds. Bytes may be delivered when their packet is gone (after a hole,
or at the end of an instance). They take the step that bytes of their side took last. If none did yet, they take the
step that the packet of the first held bytes would have taken. If the snap length cut off the end of a packet, the bytes
before the cut may be delivered while their packet is still at step 3; they take the same step as the packet.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Length, Reg, registers
from sluice.ir.instruction import CutMessages, Goto, NextLayer, NextMessages, NextOfSide, TooDeep
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.layer_state import (
    ASSEMBLED,
    BUSY,
    DROP_NUMBER,
    INSERTED,
    SDU_OFFSET,
    SEQ_DATA,
    SEQUENCED,
    LayerState,
    Step,
    all_of,
)
from sluice.lower.native import refusals
from sluice.lower.scope import REFUSED, SDU, SIDE
from sluice.lower.slots import fill_slots, own_slots, recall_slots, restore_gathered

PASSED = Reg("local.passed", 1)
ABOVE = Reg("local.above", 8)
"""1 + the number of a step; 0 for none."""


class AboveBuilder:
    """Emits the transfer of data from one layer to the layers above it."""

    def __init__(self, layer: LayerState, out: GraphBuilder, events: EventBuilder) -> None:
        self.layer = layer
        self.out = out
        self.events = events
        self.steps = layer.context.above

    def packet(self) -> None:
        """Step 7. Sets PASSED."""
        layer, out = self.layer, self.out
        out.assign(PASSED, ZERO)
        if not self.steps:
            return
        done = out.name("layers above done")
        if refusals(layer):
            out.unless(Binary("==", REFUSED, ZERO), "not refused", done)
        if layer.assembles:
            waits = out.name("nothing to pass on") if layer.drains else done
            out.unless(ASSEMBLED, "something to pass on", waits)
            if layer.drains:
                with out.aside(waits):
                    self._waits()
                    out.emit(Goto(done))
        fill_slots(layer, self.events, out)

        def go(number: int, step: Step) -> None:
            self._remember(Const(number + 1))
            if layer.context.loops and layer.has_instance:
                out.assign(BUSY, ONE)
            self._pass_to(step)
            if layer.context.loops and layer.has_instance:
                out.assign(BUSY, ZERO)
            out.assign(PASSED, ONE)
            out.emit(Goto(done))

        if self._first(go):
            self._remember(ZERO)
        out.block(done)
        restore_gathered(layer, out)

    def cut_packet(self) -> None:
        """Choose the step before delivering bytes of the packet that precede bytes cut off by the snap length."""
        if not self.steps:
            return
        asked = [step.branch.condition for step in self.steps] + [item for _, item in own_slots(self.layer)]
        resolved = [self.events.scope.resolve(item) for item in asked]
        for taken in {reg: None for item in resolved for reg in registers(item) if reg.name.startswith("local.took.")}:
            self.out.assign(taken, ZERO)  # transitions come in a later step
        self._choose()

    def drained(self) -> None:
        """Forward bytes that are delivered without a packet."""
        layer, out = self.layer, self.out
        if not self.steps:
            return
        recall_slots(layer, self.events, out)
        was_busy = Reg("local.was_busy", 8)
        if layer.context.loops:
            out.assign(was_busy, BUSY)
            out.assign(BUSY, ONE)
        above = self._recall()
        for number, step in enumerate(self.steps):
            with out.when(Binary("==", above, Const(number + 1)), f"to {step.target}"):
                self._pass_to(step)
        if layer.context.loops:
            out.assign(BUSY, was_busy)

    def _first(self, emit: Callable[[int, Step], None]) -> bool:
        """Emit the first step whose predicate holds. Returns whether there may be none. `emit` must close the block."""
        for number, step in enumerate(self.steps):
            with self.out.at(step.branch.where):
                condition = self.events.scope.number(step.branch.condition)
                if isinstance(condition, Const) and condition.value:
                    self.out.block(self.out.name(f"to {step.target}"))
                    emit(number, step)
                    return False
                with self.out.when(condition, f"to {step.target}"):
                    emit(number, step)
        return True

    def _pass_to(self, step: Step) -> None:
        """Forward the SDU to a layer above, whole or cut into messages."""
        out = self.out
        if self.layer.wanted("dropped"):
            too_deep = Reg("local.too_deep", 1)
            why = "too many records" if step.record else "too deep"
            out.emit(TooDeep(too_deep, step.target))
            with out.when(too_deep, why):
                self.events.happens("dropped", {"length": Length(SDU), "reason": Const(DROP_NUMBER[why])})
        if step.stream:
            out.emit(NextMessages(step.target, SDU, SIDE, SDU_OFFSET))
        elif step.messages:
            out.emit(CutMessages(step.target, SDU, SIDE))
        elif step.carried:
            out.emit(NextOfSide(step.target, SDU, SIDE))
        else:
            out.emit(NextLayer(step.target, SDU))

    # --- the step of bytes whose packet is gone -----------------------------------------------------------------------

    def _waits(self) -> None:
        """Choose the step if bytes stay held and no bytes of this side went to a layer above so far."""
        out = self.out
        with (
            out.when(all_of(INSERTED, Binary("!=", Length(SEQ_DATA), ZERO)), "bytes wait"),
            out.when(Binary("==", self._recall(), ZERO), "first that wait"),
        ):
            self._choose()

    def _choose(self) -> None:
        """Record the packet's step as the step of this side's bytes."""
        out = self.out
        fill_slots(self.layer, self.events, out)
        chosen = out.name("way chosen")

        def choose(number: int, _: Step) -> None:
            out.assign(ABOVE, Const(number + 1))
            out.emit(Goto(chosen))

        if self._first(choose):
            out.assign(ABOVE, ZERO)
        out.block(chosen)
        restore_gathered(self.layer, out)
        self._store(ABOVE)

    def _remember(self, above: Const) -> None:
        """Record the step that a packet took, unless the packet is outside the sequence, so that its bytes are not the
        side's.
        """
        if not self.layer.drains:
            return
        if self.layer.prototype.sequence_condition is None:
            self._store(above)
        else:
            with self.out.when(SEQUENCED, "of the sequence"):
                self._store(above)

    def _store(self, above: Expr) -> None:
        kept, out = self.layer.above, self.out
        if len(kept) == 1:
            out.assign(kept[0], above)
            return
        passive, known = out.name("passive side's"), out.name("way known")
        with out.when(Binary("==", SIDE, ZERO), "active side's", passive):
            out.assign(kept[0], above)
            out.emit(Goto(known))
        out.block(passive)
        out.assign(kept[1], above)
        out.block(known)

    def _recall(self) -> Reg:
        kept, out = self.layer.above, self.out
        if len(kept) == 1:
            return kept[0]
        out.assign(ABOVE, kept[0])
        with out.when(Binary("==", SIDE, ONE), "passive side's"):
            out.assign(ABOVE, kept[1])
        return ABOVE
