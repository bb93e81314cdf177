"""Builds the main graph of a layer: the path of a packet through it (DESIGN.md section 3)."""

from __future__ import annotations

from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Flip, Length, Reg, registers
from sluice.ir.graph import HELD, Graph
from sluice.ir.instruction import (
    Branch,
    CreateInst,
    Drain,
    Dropped,
    EndInst,
    FindAlias,
    FreshInst,
    Goto,
    LayerPath,
    Lookup,
    SettleSeq,
    SpendRecord,
    Touch,
    WaitingSeq,
)
from sluice.lang.choice import Choice
from sluice.lang.expression import NUMBER, Expression
from sluice.lang.native import NativeCall
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.header import HeaderBuilder
from sluice.lower.layer_state import (
    ASSEMBLED,
    BUSY,
    CAUSE_NUMBER,
    DROP_NUMBER,
    FRESH,
    HOME,
    IN_ORDER,
    INSERTED,
    NO_HOLE,
    PROGRESS,
    REASON_NUMBER,
    SDU_OFFSET,
    SEQ_DATA,
    TIMEOUT,
    LayerState,
    all_of,
    initial,
    nothing,
)
from sluice.lower.native import call_native, first_reason, refusals
from sluice.lower.next_layer import PASSED, AboveBuilder
from sluice.lower.psm import MachineBuilder
from sluice.lower.scope import (
    BY_ALIAS,
    CREATED,
    PATH,
    PAYLOAD,
    REFUSED,
    SDU,
    SIDE,
    STATE,
    UNIT,
    Scope,
)
from sluice.lower.sequence import SequenceBuilder, end_fresh
from sluice.lower.slots import remember_gathered

RESTARTED = Reg("local.restarted", 1)
ORPHAN = Reg("local.orphan", 1)


class MainBuilder:
    """Emits the path of a packet through a layer."""

    def __init__(self, layer: LayerState) -> None:
        self.layer = layer
        self.reasons: dict[str, str] = {}
        """For each reason why a packet is malformed before its instance is known, the block that ends it."""
        self.scope: Scope = layer.scope
        self.out = GraphBuilder(layer.context.name, (UNIT, SIDE) if self._side_of_stream else (UNIT,))
        self.events = EventBuilder(layer, self.out, self.scope)
        self.above = AboveBuilder(layer, self.out, self.events)

    @property
    def _side_of_stream(self) -> bool:
        """Whether the side is a parameter: the sender of the stream or packet that the bytes are from. A layer with
        instances determines the side itself.
        """
        return self.layer.context.carried or (self.layer.prototype.framing is not None and not self.layer.has_instance)

    def build(self) -> Graph:
        """The whole graph."""
        layer, out, p = self.layer, self.out, self.layer.prototype
        with out.at(p.where):
            header = HeaderBuilder(out, self.scope, self._malformed, "checksums" in layer.context.options)
            header.build(p.format)
            if p.record:
                out.emit(SpendRecord(header.parts))
            self._require(after_prep=False)
            remember_gathered(layer, out)
            out.assign(CREATED, ZERO)
            if not self._side_of_stream:
                out.assign(SIDE, ZERO)
            out.assign(ASSEMBLED, ZERO)
            if any(step.stream for step in layer.context.above):
                out.assign(SDU_OFFSET, ZERO)
            self.events.clear_data()
            if layer.has_instance:
                self._instance()
            else:
                self._prepare()
            self._default_sdu()
            if layer.sequence is not None:
                SequenceBuilder(layer, out, self.events, self.above).build()
            else:
                out.assign(IN_ORDER, ONE)
            if layer.has_instance or layer.event_conditions():
                self.events.held = MachineBuilder(layer, out, self.events).build()
            if layer.has_instance:
                if p.lifetime is not None:
                    with out.when(CREATED, "lifetime begins"):
                        out.emit(Touch(ZERO))
                else:
                    out.emit(Touch(TIMEOUT if len(layer.timeouts) > 1 else ZERO))
            if layer.wanted("packet"):
                length = Length(SDU if p.sdu_choice is not None else PAYLOAD)
                self.events.happens("packet", {"length": length})
            for event in layer.standing:
                self.events.event(event)
            self.above.packet()
            if layer.sequence is not None and layer.sequence.units and layer.assembles:
                self._further_units()
            self._leave()
        return out.finish()

    def _begin_temp(self) -> None:
        """Set the fields of temp to their initial values."""
        out, p = self.out, self.layer.prototype
        if p.temp_layout is not None:
            for item in p.temp_layout.fields.values():
                bits = item.width if item.kind == NUMBER else 0
                out.assign(Reg(f"temp.{item.name}", bits), Const(initial(item.init)) if bits else nothing())

    def _prepare(self) -> None:
        """Initialise temp, run prep, and check the requirements that depend on them."""
        self._begin_temp()
        if self.layer.prototype.prep_block is not None:
            self.events.action(self.layer.prototype.prep_block)
        self._require(after_prep=True)

    def _require(self, after_prep: bool) -> None:
        """End packets that violate a requirement as malformed."""
        layer, out = self.layer, self.out
        for requirement in layer.prototype.requirements:
            if requirement.after_prep(layer.prototype) is not after_prep:
                continue
            if requirement.option is None or requirement.option in layer.context.options:
                with out.at(requirement.where):
                    condition = self.scope.number(requirement.condition)
                    at_instance = after_prep and layer.has_instance
                    malformed = self._malformed_at_instance if at_instance else self._malformed
                    out.unless(condition, "required", malformed(requirement.reason))

    def _malformed(self, reason: str) -> str:
        """The block that ends packets which are malformed before their instance is known."""
        layer, out = self.layer, self.out
        end = out.end_block("malformed:" + reason)
        if not layer.wanted("malformed"):
            return end
        if reason not in self.reasons:
            malformed = self.reasons[reason] = out.name("malformed " + reason)
            with out.aside(malformed):
                if not self._side_of_stream:
                    out.assign(SIDE, ZERO)
                self.events.clear_data()
                self._tell_malformed(reason)
                out.emit(Goto(end))
        return self.reasons[reason]

    def _malformed_at_instance(self, reason: str) -> str:
        """The block that ends packets which are malformed after prep.

        If the packet created its instance, event `created` is emitted all the same.
        """
        layer, out = self.layer, self.out
        malformed = out.name("malformed " + reason)
        with out.aside(malformed):
            if layer.wanted("created"):
                with out.when(CREATED, "created malformed"):
                    self.events.happens("created", {})
            if layer.wanted("malformed"):
                self._tell_malformed(reason)
            self._end_before_steps("malformed:" + reason)
        return malformed

    def _end_before_steps(self, outcome: str) -> None:
        """The packet makes no step. An instance that it created gets its timeout, so that it ends."""
        layer, out = self.layer, self.out
        end = out.end_block(outcome)
        out.unless(CREATED, "made for it", end)
        out.emit(Touch(ZERO))
        accepting = layer.accepting()
        if accepting is not None:
            with out.when(accepting, "accept"):
                out.emit(EndInst(REASON_NUMBER["accept"]))
                out.emit(Goto(end))
        end_fresh(layer, out)
        out.emit(Goto(end))

    def _tell_malformed(self, reason: str) -> None:
        layer = self.layer
        number = layer.reason_number("malformed", reason)
        self.events.happens("malformed", {"length": Length(UNIT), "reason": Const(number)})

    def _instance(self) -> None:
        """Steps 1 and 2: look up or create the instance, run prep, handle restarts."""
        layer, out, scope, p = self.layer, self.out, self.scope, self.layer.prototype
        key = tuple(scope.resolve(item) for item in layer.keys[0])
        reverse = tuple(scope.resolve(item) for item in layer.keys[1]) if len(layer.keys) == 2 else ()
        restarts = [transition for transition in layer.transitions if transition.restart]
        if restarts:
            out.assign(RESTARTED, ZERO)
        if self._has_orphans:
            out.assign(ORPHAN, ZERO)
        with out.at(layer.keys[0][0].where):
            ready, create, fresh = (
                out.name("instance ready"),
                out.name("create instance"),
                out.name("fresh instance"),
            )
            if layer.has_packet_data:
                out.assign(FRESH, ZERO)
                if p.key_condition is not None:
                    out.unless(scope.number(p.key_condition), "stored instance", fresh)
                with out.aside(fresh):
                    out.emit(FreshInst())
                    self._came_by_alias(ZERO)
                    out.assign(FRESH, ONE)
                    out.assign(CREATED, ONE)
                    out.emit(Goto(ready))
            self._look_up(key, reverse, ready, create)
            out.block(create)
            self._came_by_alias(ZERO)
            if p.creating is not None:
                with out.at(p.lines["creates"]):
                    out.unless(scope.number(p.creating), "may begin one", self._orphan(fresh))
            made = Reg("local.made", 1)
            out.emit(CreateInst(made, key, reverse))
            if layer.context.loops:
                out.unless(made, "made", self._dropped("no instance"))
            out.assign(CREATED, ONE)
            out.assign(SIDE, ZERO)
            out.block(ready)
            if layer.context.shared:
                self._move_home()
        self._prepare()
        for transition in restarts:
            assert transition.condition is not None and layer.machine is not None
            source = layer.machine.number_of(transition.source)
            assert source is not None
            here = Binary("==", STATE, Const(source))
            condition = all_of(here, Flip(RESTARTED, 1), scope.number(transition.condition))
            with out.at(transition.where), out.when(condition, f"restart {transition.name}"):
                out.assign(RESTARTED, ONE)
                out.emit(EndInst(REASON_NUMBER["reused"]))
                if layer.has_packet_data:
                    self._record_path(key)  # needed at `create`, also when the packet was not looked up
                    out.emit(Branch(FRESH, fresh, create))
                else:
                    out.emit(Goto(create))
        if layer.wanted("created"):
            with out.when(CREATED, "created"):
                self.events.happens("created", {})
        if self._has_orphans:
            with out.when(ORPHAN, "orphan"):
                self.events.happens("orphan", {"length": Length(PAYLOAD)})
        if layer.wanted("sent"):
            self._sent()

    def _sent(self) -> None:
        """Event `sent`: a packet that a function drops there goes no further."""
        out, before, after = self.out, Reg("local.dropped_before", 1), Reg("local.dropped_after", 1)
        out.emit(Dropped(before))
        self.events.happens("sent", {"length": Length(PAYLOAD)})
        out.emit(Dropped(after))
        dropped = out.name("dropped at sent")
        with out.aside(dropped):
            self._end_before_steps("dropped:by a function")
        out.unless(Flip(Binary("&", after, Flip(before, 1)), 1), "not dropped", dropped)

    @property
    def _has_orphans(self) -> bool:
        """Whether event `orphan` (a packet without an instance that may not create one) has a subscriber."""
        return self.layer.prototype.creating is not None and self.layer.wanted("orphan")

    def _orphan(self, fresh: str) -> str:
        """The block that sets ORPHAN and continues at block `fresh`; without a subscriber, `fresh` itself."""
        if not self._has_orphans:
            return fresh
        orphan = self.out.name("orphan packet")
        with self.out.aside(orphan):
            self.out.assign(ORPHAN, ONE)
            self.out.emit(Goto(fresh))
        return orphan

    def _look_up(self, key: tuple[Expr, ...], reverse: tuple[Expr, ...], ready: str, create: str) -> None:
        out = self.out
        found, expired = Reg("local.found", 1), Reg("local.expired", 1)
        known, gone = out.name("known instance"), out.name("expired instance")
        self._record_path(key)
        self._came_by_alias(ZERO)
        out.emit(Lookup(found, expired, SIDE, key, reverse))
        p = self.layer.prototype
        if p.alias_keys is None:
            out.emit(Branch(found, known, create))
        else:
            unknown = out.name("unknown by its key")
            out.emit(Branch(found, known, unknown))
            out.block(unknown)
            name, _ = self.layer.context.aliases[p]
            with out.at(p.alias_keys[0][0].where):
                if p.alias_condition is not None:
                    out.unless(self.scope.number(p.alias_condition), "has an alias", create)
                self._came_by_alias(ONE)
                looks = [(name, tuple(self.scope.resolve(item) for item in alias)) for alias in p.alias_keys]
                looks += [(self.layer.more_keys, key + reverse)] if p.alias_by_selector else []
                for last, (aliases, alias) in enumerate(looks, 1 - len(looks)):
                    if last == 0 and p.alias_by_selector:
                        self._came_by_alias(ZERO)
                    out.emit(FindAlias(found, expired, SIDE, aliases, alias))
                    another = create if last == 0 else out.name("unknown by this alias")
                    out.emit(Branch(found, known, another))
                    if last != 0:
                        out.block(another)
        out.block(known)
        if self.layer.context.loops:
            # A tunnel within itself: the enclosing packet is still using the instance.
            out.unless(Binary("==", BUSY, ZERO), "not busy", self._dropped("nested in itself"))
        out.emit(Branch(expired, gone, ready))
        out.block(gone)
        out.emit(EndInst(REASON_NUMBER["timeout"]))
        out.emit(Goto(create))

    def _came_by_alias(self, whether: Const) -> None:
        """Record whether the packet was found by an alias, so that it may add its own key to the instance."""
        if self.layer.prototype.alias_by_selector:
            self.out.assign(BY_ALIAS, whether)

    def _record_path(self, key: tuple[Expr, ...]) -> None:
        """Compute the number of the packet's path of layers if it is part of the key."""
        if any(PATH in registers(part) for part in key):
            self.out.emit(LayerPath(PATH))

    def _dropped(self, why: str) -> str:
        """The block that ends a packet that goes no further, for a reason in DROP_REASONS."""
        out = self.out
        end = out.end_block("dropped:" + why)
        if not self.layer.wanted("dropped"):
            return end
        dropped = out.name(why)
        with out.aside(dropped):
            self._begin_temp()
            self.events.happens("dropped", {"length": Length(UNIT), "reason": Const(DROP_NUMBER[why])})
            out.emit(Goto(end))
        return dropped

    def _move_home(self) -> None:
        """The layer that used a shared instance last is the layer that will end it."""
        out, home = self.out, Const(self.layer.context.home)
        with out.when(Binary("!=", HOME, home), "from another layer"):
            out.assign(HOME, home)
            for above in self.layer.above:
                out.assign(above, ZERO)

    def _default_sdu(self) -> None:
        """The SDU if no sequence assembles: the payload, or the value of p.sdu."""
        out = self.out

        def emit(part: object) -> None:
            if isinstance(part, Choice):
                with out.at(part.where):
                    yes, no, after = out.name("sdu"), out.name("other sdu"), out.name("after sdu")
                    out.emit(Branch(self.scope.number(part.condition), yes, no))
                    out.block(yes)
                    emit(part.body)
                    out.emit(Goto(after))
                    out.block(no)
                    emit(part.otherwise)
                    out.block(after)
            elif isinstance(part, NativeCall):
                call_native(self.layer, out, self.scope, part, first_reason(self.layer, part.function))
            else:
                assert isinstance(part, Expression)
                with out.at(part.where):
                    out.assign(SDU, self.scope.bytes(part))

        if refusals(self.layer):
            out.assign(REFUSED, ZERO)
        if self.layer.prototype.sdu_choice is None:
            out.assign(SDU, PAYLOAD)
        else:
            emit(self.layer.prototype.sdu_choice)

    def _further_units(self) -> None:
        """After a unit was delivered, deliver the units that are now contiguous, one by one, to the same layer."""
        out, waiting = self.out, Reg("local.further", 1)
        out.assign(waiting, ZERO)
        with out.when(ASSEMBLED, "unit delivered"):
            out.emit(WaitingSeq(waiting, SIDE))
            with out.when(waiting, "further units"):
                out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["limit"]), NO_HOLE))

    def _leave(self) -> None:
        """An accept state destroys the instance; undelivered data is copied; the outcome of the packet is counted."""
        layer, out = self.layer, self.out
        accepting = layer.accepting() if layer.has_instance else None
        if accepting is not None:
            with out.when(accepting, "accept"):
                out.emit(EndInst(REASON_NUMBER["accept"]))
                self._outcome(held=False)
        end_fresh_first = layer.has_packet_data and layer.has_instance
        if layer.sequence is not None:
            with out.when(INSERTED, "settle"):
                self._settle(layer.sequence.whole)
        if end_fresh_first:
            end_fresh(layer, out)
        self._outcome(held=layer.sequence is not None)

    def _settle(self, whole: bool) -> None:
        """Copy what was not delivered. If memory runs out, deliver it now; a sequence that delivers only the whole ends
        instead.
        """
        out = self.out
        kept = Reg("local.kept", 1)
        out.emit(SettleSeq(kept, SIDE))
        with out.when(Flip(kept, 1), "not kept"):
            if whole:
                out.emit(EndInst(REASON_NUMBER["limit"]))
                out.end("dropped:limit")
            else:
                out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["limit"]), 0))

    def _outcome(self, held: bool) -> None:
        """Every packet has one outcome."""
        layer, out = self.layer, self.out
        for condition, reason in refusals(layer):
            with out.when(condition, reason):
                out.end("dropped:" + reason)
        if layer.context.above:
            with out.when(PASSED, "passed on"):
                out.end("passed")
        if held:
            out_of_order: Expr = Flip(IN_ORDER, 1)
            if layer.assembles:
                out_of_order = Binary("|", out_of_order, Flip(ASSEMBLED, 1))
            with out.when(all_of(INSERTED, Binary("!=", Length(SEQ_DATA), ZERO), out_of_order), "held"):
                out.end(HELD)
        out.end("ended")
