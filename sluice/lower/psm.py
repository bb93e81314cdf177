"""Steps 4 and 5 of a packet's path: the arrival step, then a release step for every record that is released."""

from __future__ import annotations

from sluice.ir.expression import ONE, ZERO, Binary, Const, Flip, Reg
from sluice.ir.instruction import Branch, Goto, ReleaseSeq
from sluice.lang.psm import Transition
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.layer_state import IN_ORDER, TIMEOUT, LayerState, header_of, uses_v
from sluice.lower.scope import SIDE, STATE


class MachineBuilder:
    """Emits the steps of one layer's state machine."""

    def __init__(self, layer: LayerState, out: GraphBuilder, events: EventBuilder) -> None:
        self.layer = layer
        self.out = out
        self.events = events
        self.conditions = layer.event_conditions()

    def build(self) -> dict[int, Reg]:
        """All steps. Returns the registers that store which event conditions on virtual packets held in one of them."""
        layer, out = self.layer, self.out
        for _, register in self.conditions:
            out.assign(register, ZERO)
        for transition in layer.transitions:
            out.assign(Reg(f"local.took.{transition.name}", 1), ZERO)
        steps = [t for t in layer.transitions if not t.restart]
        if not layer.v_fields:
            self._step(steps)
            return {}
        virtual = [t for t in steps if t.condition is not None and uses_v(t.condition)]
        ordered, out_of_order, after = out.name("in order"), out.name("out of order"), out.name("after arrival")
        out.emit(Branch(IN_ORDER, ordered, out_of_order))
        out.block(ordered)
        for reg in layer.v_fields:
            out.assign(reg, header_of(reg))
        self._step(steps)
        self._remember()
        out.emit(Goto(after))
        out.block(out_of_order)
        self._step([t for t in steps if t not in virtual])
        out.block(after)
        self._release(virtual)
        return {id(condition): register for condition, register in self.conditions}

    def _release(self, virtual: list[Transition]) -> None:
        """Release the records that are no longer beyond the next expected position, until an accept state."""
        out = self.out
        loop, released = out.name("release"), out.name("all released")
        more = Reg("local.released", 1)
        out.block(loop)
        accepting = self.layer.accepting()
        if accepting is not None:
            out.unless(Flip(accepting, 1), "not over", released)
        out.emit(ReleaseSeq(more, tuple(self.layer.v_fields), SIDE))
        with out.when(more, "released record", released):
            self._step(virtual)
            self._remember()
            out.emit(Goto(loop))
        out.block(released)

    def _remember(self) -> None:
        for condition, register in self.conditions:
            holds = Binary("!=", self.layer.scope.number(condition), ZERO)
            self.out.assign(register, Binary("|", register, holds))

    def _step(self, transitions: list[Transition]) -> None:
        """Take the first transition, in order of definition, from the current state whose condition holds."""
        out, machine, timeouts = self.out, self.layer.machine, self.layer.timeouts
        if machine is None or not transitions:
            return
        after = out.name("after step")
        for number, state in enumerate(machine.states()):
            own = [t for t in transitions if t.source is state]
            if not own:
                continue
            other = out.name(f"not {state.name}")
            with out.at(state.where), out.when(Binary("==", STATE, Const(number)), f"in {state.name}", other):
                for transition in own:
                    assert transition.condition is not None
                    condition = self.layer.scope.number(transition.condition)
                    with out.at(transition.where), out.when(condition, f"take {transition.name}"):
                        target = machine.number_of(transition.target)
                        assert target is not None
                        out.assign(STATE, Const(target))
                        out.assign(Reg(f"local.took.{transition.name}", 1), ONE)
                        if len(timeouts) > 1:
                            own_timeout = transition.timeout
                            out.assign(
                                TIMEOUT,
                                Const(timeouts.index(own_timeout, 1) if own_timeout is not None else 0),
                            )
                        if target != number and self.layer.wanted("state"):
                            self.events.happens("state", {"before": Const(number), "after": Const(target)})
                        out.emit(Goto(after))
                out.emit(Goto(after))
            out.block(other)
        out.block(after)
