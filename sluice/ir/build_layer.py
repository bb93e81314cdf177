"""The graphs of one layer: a packet's way through it (DESIGN.md section 3), draining a side, ending an instance."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from sluice.ir.build_header import HeaderBuilder
from sluice.ir.builder import GraphBuilder
from sluice.ir.expression import MASK, ONE, ZERO, Binary, Const, Expr, Flip, Length, Reg, is_bytes, rewrite
from sluice.ir.graph import EventShape, Graph, InstanceLayout, KeyPart, LayerProgram, Rules, State
from sluice.ir.instruction import (
    Assemble,
    BeginSeq,
    Branch,
    Call,
    Count,
    CreateInst,
    CutSeq,
    DestroyInst,
    Drain,
    EndInst,
    FreshInst,
    GiveUpSeq,
    Goto,
    InOrder,
    InsertSeq,
    InWindow,
    Lookup,
    NextLayer,
    OverlapSeq,
    PlaceSeq,
    RecordSeq,
    ReleaseSeq,
    Return,
    RoomSeq,
    SettleSeq,
    SwapSides,
    Touch,
    WaitingSeq,
)
from sluice.ir.scope import PAYLOAD, SDU, SIDE, STATE, UNIT, CREATED, Scope, action_expressions, nested, serial_width
from sluice.lang.action import Assemble as AssembleAction
from sluice.lang.action import Assign as AssignAction
from sluice.lang.action import Block, Callback, SwapSides as SwapSidesAction, block
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError, DescriptionWarning
from sluice.lang.events import BUILT_IN, END_REASONS, GAP_CAUSES, Event, event_order
from sluice.lang.expression import NUMBER, Expression, FieldValue, to_expression
from sluice.lang.expression import Taken as TakenExpression
from sluice.lang.psm import Transition
from sluice.lang.stack import Branch as StackBranch

IN_ORDER = Reg("local.in_order", 1)
INSERTED = Reg("local.inserted", 1)
ASSEMBLED = Reg("local.assembled", 1)
RESTARTED = Reg("local.restarted", 1)
POSITION = Reg("local.position", 64)
SEQ_DATA = Reg("local.seq_data", 0)
SDU_OFFSET = Reg("local.sdu_offset", 64)
TIMEOUT = Reg("inst.timeout", 8)
ABOVE = Reg("inst.above", 8)
HOME = Reg("inst.home", 8)
REASON = Reg("local.reason", 8)
CAUSE = Reg("local.cause", 8)
ALL = Reg("local.all", 1)
PROGRESS = Reg("local.progress", 1)

REASON_NUMBER = {name: number for number, name in enumerate(END_REASONS)}
CAUSE_NUMBER = {name: number for number, name in enumerate(GAP_CAUSES)}


@dataclass
class Step:
    """A step to a layer above: the user's line, the graph that it leads to."""

    branch: StackBranch
    target: str


@dataclass
class LayerContext:
    """What a layer must know of its surroundings.

    hooks: events that somebody listens to. above: steps on. exports: slots to fill for layers above. options: checks
    that the user asked for. table: its table's name; shared: whether other layers use it too.
    """

    name: str
    scope: Scope
    hooks: frozenset[str]
    above: list[Step]
    exports: list[tuple[Reg, Expression]]
    options: frozenset[str]
    table: str
    home: int
    shared: bool
    loops: bool = False
    ends: dict[str, Expr] = field(default_factory=lambda: {})


def uses_v(expression: Expression) -> bool:
    """Whether a condition asks for virtual ordered packets."""
    return any(isinstance(item, FieldValue) and item.group == "v" for item in nested(expression))


class LayerBuilder:
    """Builds the program of one layer."""

    def __init__(self, context: LayerContext) -> None:
        self.context = context
        self.scope = context.scope
        self.prototype = context.scope.prototype
        self.sequence = self.prototype.sequence
        self.machine = self.prototype.machine
        self.standing, self.along = event_order(self.prototype, self.prototype.relations)
        self.shapes: dict[str, EventShape] = {}
        self.transitions = list(self.machine.transitions.values()) if self.machine else []
        self.timeouts = self._timeouts()
        self.assembles = any(_has_assemble(e.action) for e in self.prototype.events.defined.values() if e.action is not None)
        self.has_instance = self.prototype.keys is not None
        self._check()

    # --- the description as a whole ---------------------------------------------------------------------------

    def _check(self) -> None:
        p = self.prototype
        title = self.scope.layer.title
        if not self.has_instance:
            for what, value in (("perm", p.perm_layout), ("seq", p.sequence), ("psm", p.machine)):
                if value is not None:
                    raise DescriptionError(
                        f"{title} has {what} but no instances to keep it in", "give it p.selector = [...].", p.where
                    )
        if self.assembles and p.sequence is None:
            raise DescriptionError(f"{title} assembles but has no sequence", "define p.seq = Sequence(...).", p.where)
        if p.sequence is not None and not self.assembles and p._buffer_data and not p.sequence.whole:  # pyright: ignore[reportPrivateUsage]
            warnings.warn(
                f"{p.where}: {title} has a sequence but never assembles it; its bytes are held to the limit and then delivered in its stead",
                DescriptionWarning,
                stacklevel=2,
            )
        for condition in self._ordinary_expressions():
            for item in nested(condition):
                if isinstance(item, FieldValue) and item.group == "v":
                    raise DescriptionError(
                        "a virtual packet outside a condition of the machine or of an event",
                        "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
                        item.where,
                    )
        if p.machine is not None:
            for transition in self.transitions:
                assert transition.condition is not None
                if transition.restart and uses_v(transition.condition):
                    raise DescriptionError(
                        f"restart transition '{transition.name}' looks at virtual packets", "use p.header in it.", transition.where
                    )
                if transition.source.accept and not transition.source.start:
                    warnings.warn(
                        f"{transition.where}: transition '{transition.name}' leads out of state '{transition.source.name}', "
                        "which accepts: its instance is gone by then",
                        DescriptionWarning,
                        stacklevel=2,
                    )
                for item in nested(transition.condition):
                    if isinstance(item, TakenExpression) and item.owner in (p, self.scope.layer) and not uses_v(transition.condition):
                        raise DescriptionError(
                            f"transition '{transition.name}' depends on a transition of the same step",
                            "a step takes one transition; use the state instead.",
                            transition.where,
                        )

    def _ordinary_expressions(self) -> list[Expression]:
        p = self.prototype
        found: list[Expression] = action_expressions(p.prep_block)
        for key in p.keys or ():
            found += key
        if p.sequence is not None:
            s = p.sequence
            found += [s.meta, s.data] + [item for item in (s.data_len, s.start, *(s.window or ())) if item is not None]
        found += [r.condition for r in p.requirements] + list(p.offers.values()) + action_expressions(p.sdu_choice)
        found += [step.branch.condition for step in self.context.above if step.branch.condition is not None]
        return found

    def _timeouts(self) -> list[float]:
        """Timeout 0 is the general one (0.0: never); then those of transitions."""
        general = self.prototype.timeout
        found = [general if general is not None else 0.0]
        for transition in self.transitions:
            if transition.timeout is not None and transition.timeout not in found[1:]:
                found.append(transition.timeout)
        return found

    def _v_fields(self) -> list[Reg]:
        """Header fields that conditions ask of virtual packets."""
        conditions = [t.condition for t in self.transitions if t.condition is not None]
        for event in self.prototype.events.defined.values():
            conditions += action_expressions(event.action)
        found: dict[str, Reg] = {}
        for condition in conditions:
            for item in nested(condition):
                if isinstance(item, FieldValue) and item.group == "v":
                    if item.field.kind != NUMBER:
                        raise DescriptionError(
                            "a virtual packet keeps numbers only", "use header fields of at most 64 bits in conditions with v.", item.where
                        )
                    if self.sequence is None:
                        raise DescriptionError(
                            "virtual ordered packets need a sequence", "define p.seq = Sequence(...), or use p.header.", item.where
                        )
                    reg = self.scope.resolve(item)
                    assert isinstance(reg, Reg)
                    found[reg.name] = reg
        return list(found.values())

    # --- the program ------------------------------------------------------------------------------------------

    def build(self) -> LayerProgram:
        """All graphs of the layer."""
        self.v_fields = self._v_fields()
        for event in self.prototype.events.defined.values():
            self._shape(event)
        main = self._main()
        drain = self._drain() if self.sequence is not None and not self.sequence.whole else None
        end = self._end() if self.has_instance else None
        states: tuple[State, ...] = ()
        if self.machine is not None:
            states = tuple(State(s.name, s.accept, s.closed) for s in self.machine.states())
        return LayerProgram(
            name=self.context.name,
            layer=self.scope.layer.name,
            prototype=self.prototype.name,
            main=main,
            drain=drain,
            end=end,
            instance=self._instance(),
            rules=self._rules(),
            states=states,
            timeouts=tuple(self.timeouts),
            events=self.shapes,
            above=tuple(step.target for step in self.context.above),
            home=self.context.home,
        )

    def _rules(self) -> Rules | None:
        s = self.sequence
        if s is None:
            return None
        return Rules(
            width=self._meta_width(),
            linear=s.zero_based,
            policy=s.policy,
            whole=s.whole,
            buffer_data=bool(self.prototype.buffer_data),
            limit=s.limit,
            limit_pieces=s.limit_pieces,
            limit_records=s.limit_records,
            history=s.history,
            record=tuple(self.v_fields),
        )

    def _meta_width(self) -> int:
        assert self.sequence is not None
        if self.sequence.zero_based:
            return 64
        meta = self.sequence.meta
        bits = serial_width(meta)
        if bits:
            return bits
        if isinstance(meta, FieldValue):
            return meta.field.width
        found = self.scope.number(meta)
        return found.bits if isinstance(found, Reg) else 64

    def _instance(self) -> InstanceLayout | None:
        p = self.prototype
        if p.keys is None:
            return None
        fields: list[tuple[Reg, int]] = []
        if self.machine is not None:
            start = next(number for number, state in enumerate(self.machine.states()) if state.start)
            fields.append((STATE, start))
        if len(self.timeouts) > 1:
            fields.append((TIMEOUT, 0))
        if self.sequence is not None and self.context.above:
            fields.append((ABOVE, 0))
        if self.context.shared:
            fields.append((HOME, self.context.home))
        if p.perm_layout is not None:
            for item in p.perm_layout.fields.values():
                fields.append((Reg(f"perm.{item.name}", item.width), _initial(item.init)))
        parts: list[KeyPart] = []
        for number, expression in enumerate(p.keys[0]):
            bits = self.scope.bits(expression)
            if len(p.keys) == 2 and self.scope.bits(p.keys[1][number]) != bits:
                raise DescriptionError(
                    "the two lists of a selector differ in the width of a field", "pair source with destination.", expression.where
                )
            other = _key_name(p.keys[1][number]) if len(p.keys) == 2 else ""
            parts.append(KeyPart(_key_name(expression), bits, other))
        sides = 0 if self.sequence is None else (2 if p.oriented else 1)
        return InstanceLayout(self.context.table, tuple(parts), p.oriented, True, tuple(fields), sides)

    def _shape(self, event: Event) -> None:
        if event.action is None:
            fields = tuple((name, 64 if kind == NUMBER else 0) for name, kind in BUILT_IN[event.name].items())
            self.shapes.setdefault(event.name, EventShape(event.name, fields, ""))
            return
        for callback in _callbacks(event.action):
            members: list[tuple[str, int]] = []
            for name, item in callback.data.fields.items():
                members.append((name, item.width if item.kind == NUMBER else 0))
            self.shapes[event.name] = EventShape(event.name, tuple(members), callback.data.__name__, str(event.where))

    # --- actions ----------------------------------------------------------------------------------------------

    def _action(self, out: GraphBuilder, scope: Scope, action: object, event: Event | None = None, held: dict[int, Reg] | None = None) -> None:
        """Emit an action. `held`: registers for conditions that were evaluated before (those with v)."""
        if isinstance(action, Block):
            for part in action.actions:
                self._action(out, scope, part, event, held)
        elif isinstance(action, Choice):
            with out.at(action.where):
                condition = self._condition(scope, action.condition, held)
                if action.otherwise is None:
                    with out.when(condition, "do"):
                        self._action(out, scope, action.body, event, held)
                    return
                yes, no, after = out.name("do"), out.name("else"), out.name("after do")
                out.emit(Branch(condition, yes, no))
                out.block(yes)
                self._action(out, scope, action.body, event, held)
                out.emit(Goto(after))
                out.block(no)
                self._action(out, scope, action.otherwise, event, held)
                out.block(after)
        elif isinstance(action, AssignAction):
            with out.at(action.where):
                target = scope.register(action.register)
                value = scope.resolve(action.expression)
                if is_bytes(value) != target.is_bytes:
                    raise DescriptionError(
                        f"'{target.name}' and what is assigned to it are not of one kind",
                        "a field of at most 64 bits holds a number, a longer one bytes.",
                        action.where,
                    )
                out.assign(target, value)
        elif isinstance(action, AssembleAction):
            if event is None:
                raise DescriptionError("Assemble() in prep", "assemble in an event: p.event.asm = If(...) >> Assemble().", action.where)
            with out.at(action.where):
                self._assemble(out, scope)
        elif isinstance(action, Callback):
            if event is None:
                raise DescriptionError("Callback() in prep", "call back in an event: p.event.x = ... + Callback(data).", action.where)
            with out.at(action.where):
                name = action.data.__name__
                values = tuple(Reg(f"local.data.{name}.{n}", bits) for n, bits in self.shapes[event.name].fields)
                out.emit(Call(event.name, SIDE, values))
        else:
            assert isinstance(action, SwapSidesAction)
            if event is not None or not self.prototype.oriented:
                raise DescriptionError("swap_sides() stands in prep of a connection-oriented parser", "move it there.", action.where)
            with out.at(action.where):
                out.emit(SwapSides(SIDE, SIDE))

    def _condition(self, scope: Scope, condition: Expression, held: dict[int, Reg] | None) -> Expr:
        if held is not None and id(condition) in held:
            return held[id(condition)]
        return scope.number(condition)

    def _clear_data(self, out: GraphBuilder, scope: Scope) -> None:
        """Fields of callback layouts start from their init, so that a Callback always hands over something defined."""
        seen: set[str] = set()
        for event in self.prototype.events.defined.values():
            assert event.action is not None
            for callback in _callbacks(event.action):
                if callback.data.__name__ in seen:
                    continue
                seen.add(callback.data.__name__)
                for name, item in callback.data.fields.items():
                    bits = item.width if item.kind == NUMBER else 0
                    empty: Expr = Const(_initial(item.init)) if bits else UNIT
                    register = Reg(f"local.data.{callback.data.__name__}.{name}", bits)
                    out.assign(register, empty if bits else _nothing(UNIT))

    # --- events -----------------------------------------------------------------------------------------------

    def _raise(self, out: GraphBuilder, scope: Scope, name: str, values: dict[str, Expr]) -> None:
        """A built-in event happens: hand it to those who hooked it, and do what happens with it."""
        shape = tuple((n, 64 if kind == NUMBER else 0) for n, kind in BUILT_IN[name].items())
        if name in self.context.hooks:
            self.shapes.setdefault(name, EventShape(name, shape, ""))
            out.emit(Call(name, SIDE, tuple(values[n] for n, _ in shape)))
        effects = self.along.get(name, [])
        if effects:
            for n, bits in shape:
                out.assign(Reg(f"local.{name}.{n}", bits), values[n])
        for effect in effects:
            self._event(out, scope, effect, None)

    def _wanted(self, name: str) -> bool:
        return name in self.context.hooks or bool(self.along.get(name))

    def _event(self, out: GraphBuilder, scope: Scope, event: Event, held: dict[int, Reg] | None) -> None:
        """A user's event: when its condition holds, its actions, then the events that happen with it."""
        action = event.action
        assert action is not None
        effects = self.along.get(event.name, [])
        single = action.actions[0] if len(action.actions) == 1 else None
        with out.at(event.where):
            if isinstance(single, Choice) and single.otherwise is None:
                with out.when(self._condition(scope, single.condition, held), f"event {event.name}"):
                    self._action(out, scope, single.body, event, held)
                    for effect in effects:
                        self._event(out, scope, effect, held)
            else:
                self._action(out, scope, action, event, held)
                for effect in effects:
                    self._event(out, scope, effect, held)

    def _assemble(self, out: GraphBuilder, scope: Scope) -> None:
        """Assemble(): of a packet that is not part of the sequence, the SDU is what p.sdu says."""
        if self.prototype.sequence_condition is not None and scope.packet:
            outside, after = out.name("no sequence"), out.name("assembled")
            inside = out.name("assemble")
            out.emit(Branch(Reg("local.sequenced", 1), inside, outside))
            out.block(outside)
            out.assign(ASSEMBLED, ONE)
            out.emit(Goto(after))
            out.block(inside)
            self._assemble_sequence(out, scope)
            out.block(after)
        else:
            self._assemble_sequence(out, scope)

    def _assemble_sequence(self, out: GraphBuilder, scope: Scope) -> None:
        out.emit(Assemble(SDU, SDU_OFFSET, SIDE))
        out.assign(ASSEMBLED, Binary(">", Length(SDU), ZERO))
        if self._wanted("data"):
            with out.when(ASSEMBLED, "data"):
                self._raise(out, scope, "data", {"offset": SDU_OFFSET, "bytes": SDU})

    # --- main graph -------------------------------------------------------------------------------------------

    def _main(self) -> Graph:
        p, scope = self.prototype, self.scope
        out = GraphBuilder(self.context.name, (UNIT,))
        with out.at(p.where):
            HeaderBuilder(out, scope).build(p.format)
            for requirement in p.requirements:
                if requirement.option is None or requirement.option in self.context.options:
                    with out.at(requirement.where):
                        condition = scope.number(requirement.condition)
                        out.unless(condition, "required", out.end_block("malformed:" + requirement.reason))
            out.assign(CREATED, ZERO)
            out.assign(SIDE, ZERO)
            out.assign(ASSEMBLED, ZERO)
            if p.temp_layout is not None and not self.has_instance:
                self._clear_temp(out)
            self._clear_data(out, scope)
            if self.has_instance:
                self._instance_step(out)
            elif p.prep_block is not None:
                self._action(out, scope, p.prep_block)
            self._default_sdu(out)
            if self.sequence is not None:
                self._sequence_step(out)
            else:
                out.assign(IN_ORDER, ONE)
            held = self._machine_steps(out) if self.has_instance or self._event_conditions() else {}
            if self.has_instance:
                out.emit(Touch(TIMEOUT if len(self.timeouts) > 1 else ZERO))
                if self._wanted("packet"):
                    length = Length(SDU if p.sdu_choice is not None else PAYLOAD)
                    self._raise(out, scope, "packet", {"length": length})
            for event in self.standing:
                self._event(out, scope, event, held)
            self._next_layers(out)
        return out.finish()

    def _clear_temp(self, out: GraphBuilder) -> None:
        assert self.prototype.temp_layout is not None
        for item in self.prototype.temp_layout.fields.values():
            if item.kind == NUMBER:
                out.assign(Reg(f"temp.{item.name}", item.width), Const(_initial(item.init)))
            else:
                out.assign(Reg(f"temp.{item.name}", 0), _nothing(UNIT))

    def _instance_step(self, out: GraphBuilder) -> None:
        """Steps 1 and 2: the instance, prep, restart."""
        p, scope = self.prototype, self.scope
        assert p.keys is not None
        key = tuple(scope.resolve(item) for item in p.keys[0])
        reverse = tuple(scope.resolve(item) for item in p.keys[1]) if len(p.keys) == 2 else ()
        restarts = [t for t in self.transitions if t.restart]
        if restarts:
            out.assign(RESTARTED, ZERO)
        with out.at(p.keys[0][0].where):
            ready = out.name("instance ready")
            if p.key_condition is not None:
                stored, fresh = out.name("stored instance"), out.name("fresh instance")
                out.emit(Branch(scope.number(p.key_condition), stored, fresh))
                out.block(fresh)
                out.emit(FreshInst())
                out.assign(CREATED, ONE)
                out.emit(Goto(ready))
                out.block(stored)
            found, expired = Reg("local.found", 1), Reg("local.expired", 1)
            create, known, gone = out.name("create instance"), out.name("known instance"), out.name("expired instance")
            out.emit(Lookup(found, expired, SIDE, key, reverse))
            out.emit(Branch(found, known, create))
            out.block(known)
            out.emit(Branch(expired, gone, ready))
            out.block(gone)
            out.emit(EndInst(REASON_NUMBER["timeout"]))
            out.emit(Goto(create))
            out.block(create)
            out.emit(CreateInst(key, reverse))
            out.assign(CREATED, ONE)
            out.assign(SIDE, ZERO)
            out.block(ready)
        if p.temp_layout is not None:
            self._clear_temp(out)
        if p.prep_block is not None:
            self._action(out, scope, p.prep_block)
        for transition in restarts:
            assert transition.condition is not None and self.machine is not None
            with out.at(transition.where):
                condition = _both(
                    Binary("==", STATE, Const(self.machine.number_of(transition.source) or 0)),
                    Flip(RESTARTED, 1),
                    scope.number(transition.condition),
                )
                with out.when(condition, f"restart {transition.name}"):
                    out.assign(RESTARTED, ONE)
                    out.emit(EndInst(REASON_NUMBER["reused"]))
                    out.emit(Goto(create))
        if self._wanted("created"):
            with out.when(CREATED, "created"):
                self._raise(out, scope, "created", {})

    def _default_sdu(self, out: GraphBuilder) -> None:
        """What goes up where no sequence assembles: the payload, or what p.sdu says."""
        choice = self.prototype.sdu_choice
        if choice is None:
            out.assign(SDU, PAYLOAD)
            return

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
            else:
                assert isinstance(part, Expression)
                with out.at(part.where):
                    out.assign(SDU, self.scope.bytes(part))

        emit(choice)

    def _sequence_step(self, out: GraphBuilder) -> None:
        """Step 3: position and insert, with rexmit, out_of_wnd and gap."""
        p, s, scope = self.prototype, self.sequence, self.scope
        assert s is not None
        with out.at(s.where):
            meta = scope.number(s.meta)
            out.assign(INSERTED, ZERO)
            out.assign(SEQ_DATA, scope.bytes(s.data))
            units_reg = Reg("local.seq_units", 32)
            out.assign(units_reg, scope.number(s.data_len) if s.data_len is not None else Length(SEQ_DATA))
            done, outside = out.name("inserted"), out.name("not inserted")
            if p.sequence_condition is not None:
                sequenced = Reg("local.sequenced", 1)
                out.assign(sequenced, Binary("!=", scope.number(p.sequence_condition), ZERO))
                out.unless(sequenced, "sequence", outside)
            if s.window is not None:
                low, high = (scope.number(item) for item in s.window)
                inside = Reg("local.in_window", 1)
                out.emit(InWindow(inside, meta, units_reg, low, high))
                beyond, within = out.name("out of window"), out.name("in window")
                out.emit(Branch(inside, within, beyond))
                out.block(beyond)
                out.emit(Count("out of window"))
                self._raise(out, scope, "out_of_wnd", {})
                out.emit(Goto(outside if s.enforce else within))
                out.block(within)
            if s.whole:
                missing = Binary("<", Length(SEQ_DATA, captured=True), Length(SEQ_DATA))
                out.unless(Binary("==", missing, ZERO), "all there", out.end_block("cut:payload"))
            if not s.zero_based:
                out.emit(BeginSeq(SIDE, meta, scope.number(s.start) if s.start is not None else ZERO))
            out.emit(PlaceSeq(POSITION, SIDE, meta))
            if self._wanted("rexmit"):
                self._rexmit_loop(out)
            insert, room = out.name("insert"), Reg("local.room", 1)
            full = out.name("no room")
            again = out.name("room")
            out.block(again)
            out.emit(RoomSeq(room, SIDE, POSITION, SEQ_DATA))
            out.emit(Branch(room, insert, full))
            out.block(full)
            if s.whole:
                out.emit(EndInst(REASON_NUMBER["limit"]))
                out.end("dropped:limit")
            else:
                out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["limit"]), 0))
                out.emit(Branch(PROGRESS, again, insert))
            out.block(insert)
            out.emit(InsertSeq(SIDE, POSITION, SEQ_DATA, units_reg))
            out.assign(INSERTED, ONE)
            if not s.whole:
                cut = Reg("local.cut", 1)
                look = out.name("cut")
                out.block(look)
                out.emit(CutSeq(cut, SIDE))
                with out.when(cut, "give up cut bytes", done):
                    out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["snaplen"]), 0))
                    out.emit(Goto(look))
            if p.sequence_condition is not None or (s.window is not None and s.enforce):
                placed = out.name("placed")
                out.block(done)
                out.emit(Goto(placed))
                out.block(outside)
                out.emit(PlaceSeq(POSITION, SIDE, meta))
                done = placed
            out.block(done)
            out.emit(InOrder(IN_ORDER, SIDE, POSITION))
            if self.v_fields:
                with out.when(_both(INSERTED, Flip(IN_ORDER, 1)), "record"):
                    out.emit(RecordSeq(SIDE, POSITION, tuple(_header_of(reg) for reg in self.v_fields)))

    def _rexmit_loop(self, out: GraphBuilder) -> None:
        cursor = Reg("local.overlap_cursor", 64)
        more, offset, length = Reg("local.overlap_more", 1), Reg("local.overlap_offset", 64), Reg("local.overlap_length", 64)
        new, old = Reg("local.overlap_new", 0), Reg("local.overlap_old", 0)
        out.assign(cursor, ZERO)
        loop, after = out.name("overlaps"), out.name("overlaps done")
        out.block(loop)
        out.emit(OverlapSeq(more, cursor, offset, length, new, old, SIDE, POSITION, SEQ_DATA, cursor))
        with out.when(more, "rexmit", after):
            self._raise(out, self.scope, "rexmit", {"offset": offset, "length": length, "new": new, "old": old})
            out.emit(Goto(loop))
        out.block(after)

    def _event_conditions(self) -> list[tuple[Expression, Reg]]:
        """Conditions of events that ask for virtual packets, with the registers that remember whether they held."""
        found: list[tuple[Expression, Reg]] = []

        def look(action: object) -> None:
            if isinstance(action, Block):
                for part in action.actions:
                    look(part)
            elif isinstance(action, Choice):
                if uses_v(action.condition):
                    found.append((action.condition, Reg(f"local.held.{len(found)}", 1)))
                for branch in action.branches():
                    look(branch)

        for event in self.prototype.events.defined.values():
            look(event.action)
        return found

    def _machine_steps(self, out: GraphBuilder) -> dict[int, Reg]:
        """Steps 4 and 5: the arrival step, then one for every record that is released."""
        conditions = self._event_conditions()
        for _, register in conditions:
            out.assign(register, ZERO)
        for transition in self.transitions:
            out.assign(Reg(f"local.took.{transition.name}", 1), ZERO)
        steps = [t for t in self.transitions if not t.restart]

        def remember() -> None:
            for condition, register in conditions:
                out.assign(register, Binary("|", register, Binary("!=", self.scope.number(condition), ZERO)))

        if not self.v_fields:
            self._step(out, steps)
            return {}
        virtual = [t for t in steps if t.condition is not None and uses_v(t.condition)]
        real = [t for t in steps if t not in virtual]
        ordered, late, after = out.name("in order"), out.name("out of order"), out.name("after arrival")
        out.emit(Branch(IN_ORDER, ordered, late))
        out.block(ordered)
        for reg in self.v_fields:
            out.assign(reg, _header_of(reg))
        self._step(out, steps)
        remember()
        out.emit(Goto(after))
        out.block(late)
        self._step(out, real)
        out.block(after)
        loop, released = out.name("release"), out.name("all released")
        more = Reg("local.released", 1)
        out.block(loop)
        accepting = self._accepting()
        if accepting is not None:
            out.unless(Flip(accepting, 1), "not over", released)
        out.emit(ReleaseSeq(more, tuple(self.v_fields), SIDE))
        with out.when(more, "released record", released):
            self._step(out, virtual)
            remember()
            out.emit(Goto(loop))
        out.block(released)
        return {id(condition): register for condition, register in conditions}

    def _step(self, out: GraphBuilder, transitions: list[Transition]) -> None:
        """The first transition whose source is the current state and whose condition holds."""
        if self.machine is None or not transitions:
            return
        after = out.name("after step")
        for number, state in enumerate(self.machine.states()):
            own = [t for t in transitions if t.source is state]
            if not own:
                continue
            other = out.name(f"not {state.name}")
            with out.at(state.where), out.when(Binary("==", STATE, Const(number)), f"in {state.name}", other):
                for transition in own:
                    assert transition.condition is not None
                    with out.at(transition.where), out.when(self.scope.number(transition.condition), f"take {transition.name}"):
                        target = self.machine.number_of(transition.target)
                        assert target is not None
                        out.assign(STATE, Const(target))
                        out.assign(Reg(f"local.took.{transition.name}", 1), ONE)
                        if len(self.timeouts) > 1:
                            index = self.timeouts.index(transition.timeout, 1) if transition.timeout is not None else 0
                            out.assign(TIMEOUT, Const(index))
                        out.emit(Goto(after))
                out.emit(Goto(after))
            out.block(other)
        out.block(after)

    def _accepting(self) -> Expr | None:
        """Whether the current state accepts; None when no state of the machine does."""
        if self.machine is None:
            return None
        tests = [Binary("==", STATE, Const(n)) for n, s in enumerate(self.machine.states()) if s.accept]
        result: Expr | None = None
        for test in tests:
            result = test if result is None else Binary("|", result, test)
        return result

    def _next_layers(self, out: GraphBuilder) -> None:
        """Step 7: the layer above whose predicate holds first; an accept state destroys; what is left is counted."""
        passed = Reg("local.passed", 1)
        out.assign(passed, ZERO)
        if self.context.above:
            away = out.name("layers above done")
            if self.assembles:
                out.unless(ASSEMBLED, "something to pass on", away)
            for slot, expression in self.context.exports:
                out.assign(slot, self.scope.resolve(expression))
            for name, expression in self.prototype.offers.items():
                slot = self.context.ends.get(name)
                if isinstance(slot, Reg):
                    with out.at(expression.where):
                        out.assign(slot, self.scope.resolve(expression))
            for number, step in enumerate(self.context.above):
                assert step.branch.condition is not None
                with out.at(step.branch.where):
                    def go(number: int = number, step: Step = step) -> None:
                        if self.sequence is not None and self.has_instance:
                            out.assign(ABOVE, Const(number + 1))
                        out.emit(NextLayer(step.target, SDU))
                        out.assign(passed, ONE)
                        out.emit(Goto(away))

                    self._when_true(out, self.scope.number(step.branch.condition), f"to {step.target}", go)
            out.block(away)
        accepting = self._accepting() if self.has_instance else None
        if accepting is not None:
            with out.when(accepting, "accept"):
                out.emit(EndInst(REASON_NUMBER["accept"]))
                self._outcome(out, passed, held=False)
        if self.sequence is not None:
            with out.when(INSERTED, "settle"):
                out.emit(SettleSeq(SIDE))
        self._outcome(out, passed, held=self.sequence is not None)

    def _when_true(self, out: GraphBuilder, condition: Expr, wish: str, body: Callable[[], None]) -> None:
        if isinstance(condition, Const) and condition.value:
            out.block(out.name(wish))
            body()
        else:
            with out.when(condition, wish):
                body()

    def _outcome(self, out: GraphBuilder, passed: Reg, held: bool) -> None:
        """Every packet has one outcome."""
        if self.context.above:
            with out.when(passed, "passed on"):
                out.end("passed")
        if held:
            late = Binary("|", Flip(IN_ORDER, 1), Flip(ASSEMBLED, 1)) if self.assembles else Flip(IN_ORDER, 1)
            keeps = _both(INSERTED, Binary("!=", Length(SEQ_DATA), ZERO), late)
            with out.when(keeps, "held"):
                out.end("held")
        out.end("ended")

    # --- drain and end ----------------------------------------------------------------------------------------

    def _drain(self) -> Graph:
        """Deliver what waits, give a hole up, deliver what is behind it; with `all` until nothing is held."""
        scope = self.scope.without_packet()
        out = GraphBuilder(f"{self.context.name}.drain", (UNIT, SIDE, CAUSE, ALL))
        with out.at(self.prototype.where):
            waiting, more, cut = Reg("local.waiting", 1), Reg("local.gap_more", 1), Reg("local.gap_cut", 1)
            offset, length = Reg("local.gap_offset", 64), Reg("local.gap_length", 64)
            gave_up = Reg("local.gave_up", 1)
            self._clear_data(out, scope)
            out.assign(gave_up, ZERO)
            deliver, hole, done = out.name("deliver"), out.name("hole"), out.name("done")
            loop = out.name("look")
            out.block(loop)
            out.emit(WaitingSeq(waiting, SIDE))
            out.emit(Branch(waiting, deliver, hole))
            out.block(deliver)
            out.emit(Assemble(SDU, SDU_OFFSET, SIDE))
            out.assign(ASSEMBLED, Binary(">", Length(SDU), ZERO))
            with out.when(ASSEMBLED, "data"):
                self._raise(out, scope, "data", {"offset": SDU_OFFSET, "bytes": SDU})
                for event in self.standing:
                    if _has_assemble(event.action):
                        for effect in self.along.get(event.name, []):
                            self._event(out, scope, effect, None)
                for number, step in enumerate(self.context.above):
                    with out.when(Binary("==", ABOVE, Const(number + 1)), f"to {step.target}"):
                        out.emit(NextLayer(step.target, SDU))
            out.block(hole)
            out.unless(Binary("|", ALL, Flip(gave_up, 1)), "go on", done)
            out.emit(GiveUpSeq(more, offset, length, cut, SIDE))
            out.unless(more, "give up", done)
            out.assign(gave_up, ONE)
            out.emit(Count("gaps"))
            cause = Reg("local.gap_cause", 8)
            out.assign(cause, CAUSE)
            with out.when(cut, "cut by snap length"):
                out.assign(cause, Const(CAUSE_NUMBER["snaplen"]))
            self._raise(out, scope, "gap", {"offset": offset, "length": length, "cause": cause})
            out.emit(Goto(loop))
            out.block(done)
            out.emit(Return(gave_up))
        return out.finish()

    def _end(self) -> Graph:
        """The instance ends: what it holds is delivered, unless only the whole counts, and everybody is told."""
        scope = self.scope.without_packet()
        out = GraphBuilder(f"{self.context.name}.end", (UNIT, REASON))
        sides = 0 if self.sequence is None else (2 if self.prototype.oriented else 1)
        with out.at(self.prototype.where):
            out.assign(SIDE, ZERO)
            self._clear_data(out, scope)
            if self.sequence is not None and not self.sequence.whole:
                cause = Reg("local.cause", 8)
                out.assign(cause, Const(CAUSE_NUMBER["close"]))
                with out.when(Binary("==", REASON, Const(REASON_NUMBER["timeout"])), "by timeout"):
                    out.assign(cause, Const(CAUSE_NUMBER["timeout"]))
                for side in range(sides):
                    out.emit(Drain(PROGRESS, Const(side), cause, 1))
            self._raise(out, scope, "end", {"reason": REASON})
            out.emit(DestroyInst())
            out.emit(Return(ZERO))
        return out.finish()


def _has_assemble(action: object) -> bool:
    if isinstance(action, Block):
        return any(_has_assemble(part) for part in action.actions)
    if isinstance(action, Choice):
        return any(_has_assemble(branch) for branch in action.branches())
    return isinstance(action, AssembleAction)


def _callbacks(action: object) -> list[Callback]:
    if isinstance(action, Block):
        return [found for part in action.actions for found in _callbacks(part)]
    if isinstance(action, Choice):
        return [found for branch in action.branches() for found in _callbacks(branch)]
    return [action] if isinstance(action, Callback) else []


def _initial(init: Expression | None) -> int:
    from sluice.lang.expression import Number

    if init is None:
        return 0
    if not isinstance(init, Number):
        raise DescriptionError("init= is not a constant", "give a whole number, and compute in p.prep.", init.where)
    return init.value


def _nothing(base: Reg) -> Expr:
    from sluice.ir.expression import Slice

    return Slice(base, ZERO, ZERO)


def _header_of(reg: Reg) -> Reg:
    """The packet's own field for a field of virtual packets."""
    return Reg("header." + reg.name.split(".", 1)[1], reg.bits)


def _both(*conditions: Expr) -> Expr:
    """1 when all hold; conditions that are not one bit wide are compared with 0 first."""
    result: Expr | None = None
    for condition in conditions:
        one = condition if _is_bit(condition) else Binary("!=", condition, ZERO)
        result = one if result is None else Binary("&", result, one)
    assert result is not None
    return result


def _is_bit(condition: Expr) -> bool:
    from sluice.ir.expression import width

    return width(condition) == 1


def _key_name(expression: Expression) -> str:
    from sluice.lang.expression import Below

    if isinstance(expression, FieldValue):
        return expression.field.name
    if isinstance(expression, Below):
        return expression.name
    return "key"


__all__ = ["LayerBuilder", "LayerContext", "Step", "MASK", "CREATED", "rewrite", "block", "to_expression"]
