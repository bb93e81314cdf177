"""Lowers the actions and events of a layer (paper, 4.5 and 5.2)."""

from __future__ import annotations

from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Flip, Length, Reg, Slice, is_bytes, registers
from sluice.ir.instruction import (
    AddAlias,
    Assemble,
    Branch,
    Call,
    Count,
    Goto,
    LayerPath,
    LoseMessages,
    SwapSides,
    UnplacedSeq,
)
from sluice.lang.action import Assemble as AssembleAction
from sluice.lang.action import Assign as AssignAction
from sluice.lang.action import Block, Callback
from sluice.lang.action import SwapSides as SwapSidesAction
from sluice.lang.alias import AddAlias as AddAliasAction
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.events import UNPLACED_CAUSES, Event
from sluice.lang.expression import NUMBER, Expression
from sluice.lang.native import NativeCall
from sluice.lower.builder import GraphBuilder
from sluice.lower.layer_state import ASSEMBLED, SDU_OFFSET, SEQUENCED, LayerState, callbacks, initial, nothing
from sluice.lower.native import call_native
from sluice.lower.scope import BY_ALIAS, CREATED, LAST, PATH, SDU, SIDE, Scope


class EventBuilder:
    """Emits the actions and events of one layer into one graph.

    `held`: registers with the results of event conditions on virtual packets (v), which the earlier steps evaluated.
    """

    def __init__(self, layer: LayerState, out: GraphBuilder, scope: Scope) -> None:
        self.layer = layer
        self.out = out
        self.scope = scope
        self.held: dict[int, Reg] = {}

    def clear_data(self) -> None:
        """Set the fields of callback layouts to their initial values, so that a Callback always has defined fields."""
        seen: set[str] = set()
        for event in self.layer.prototype.events.defined.values():
            for callback in callbacks(event.action):
                name = callback.data.__name__
                if name in seen:
                    continue
                seen.add(name)
                for item in callback.data.fields.values():
                    bits = item.width if item.kind == NUMBER else 0
                    value = Const(initial(item.init)) if bits else nothing()
                    self.out.assign(Reg(f"local.data.{name}.{item.name}", bits), value)

    def action(self, action: object, event: Event | None = None) -> None:
        """An action of prep (`event` is None) or of an event."""
        if isinstance(action, Block):
            for part in action.actions:
                self.action(part, event)
        elif isinstance(action, Choice):
            self._choice(action, event)
        elif isinstance(action, AssignAction):
            self._assign(action)
        elif isinstance(action, NativeCall):
            call_native(self.layer, self.out, self.scope, action)
        elif isinstance(action, AssembleAction):
            if event is None:
                raise DescriptionError(
                    "Assemble() in prep",
                    "assemble in an event: p.event.asm = If(...) >> Assemble().",
                    action.where,
                )
            with self.out.at(action.where):
                self._assemble()
        elif isinstance(action, Callback):
            if event is None:
                raise DescriptionError(
                    "Callback() in prep",
                    "call back in an event: p.event.x = ... + Callback(data).",
                    action.where,
                )
            with self.out.at(action.where):
                name, fields = action.data.__name__, self.layer.shapes[event.name].fields
                values = tuple(Reg(f"local.data.{name}.{item}", bits) for item, bits in fields)
                self.out.emit(Call(event.name, SIDE, values))
        elif isinstance(action, AddAliasAction):
            with self.out.at(action.where):
                self._add_alias(action)
        else:
            assert isinstance(action, SwapSidesAction)
            if event is not None or not self.layer.prototype.oriented:
                raise DescriptionError(
                    "swap_sides() stands in prep of a connection-oriented parser",
                    "move it there.",
                    action.where,
                )
            # Only for the creating packet: later, the sequences of the sides already hold bytes.
            with self.out.at(action.where), self.out.when(CREATED, "swap sides"):
                self.out.emit(SwapSides(SIDE, SIDE))

    def _choice(self, choice: Choice, event: Event | None) -> None:
        out = self.out
        with out.at(choice.where):
            condition = self._condition(choice.condition)
            if choice.otherwise is None:
                with out.when(condition, "do"):
                    self.action(choice.body, event)
                return
            yes, no, after = out.name("do"), out.name("else"), out.name("after do")
            out.emit(Branch(condition, yes, no))
            out.block(yes)
            self.action(choice.body, event)
            out.emit(Goto(after))
            out.block(no)
            self.action(choice.otherwise, event)
            out.block(after)

    def _assign(self, action: AssignAction) -> None:
        with self.out.at(action.where):
            target = self.scope.register(action.register)
            value = self.scope.resolve(action.expression)
            if is_bytes(value) != target.is_bytes:
                raise DescriptionError(
                    f"'{target.name}' and what is assigned to it are not of one kind",
                    "a field of at most 64 bits holds a number, a longer one bytes.",
                    action.where,
                )
            self.out.assign(target, value)

    def _add_alias(self, action: AddAliasAction) -> None:
        if action.by_selector:
            if self.scope.packet:  # without a packet, no alias was used
                with self.out.when(BY_ALIAS, "came by an alias"):
                    self._add_selector(action)
            return
        name, parts = self.layer.context.aliases[action.parser.prototype]
        for value, part in zip(action.values, parts, strict=True):
            bits = self.scope.bits(value)
            if bits != part.bits:
                raise DescriptionError(
                    f"AddAlias with a value of {bits} bits where '{part.name}' of p.alias has {part.bits}",
                    "use a field as wide.",
                    action.where,
                )
        side = ZERO if action.side is None else self.scope.number(action.side)
        self._give_alias(action, name, side, tuple(self.scope.resolve(value) for value in action.values))

    def _add_selector(self, action: AddAliasAction) -> None:
        """The packet's own key and, if the parser is connection-oriented, the key of packets in the other direction."""
        layer = self.layer
        halves = [tuple(self.scope.resolve(item) for item in half) for half in layer.keys]
        if any(PATH in registers(part) for part in halves[0]):
            self.out.emit(LayerPath(PATH))
        if not layer.prototype.oriented:
            self._give_alias(action, layer.more_keys, ZERO, halves[0])
            return
        sender, receiver = halves
        self._give_alias(action, layer.more_keys, SIDE, sender + receiver)
        self._give_alias(action, layer.more_keys, Flip(SIDE, 1), receiver + sender)

    def _give_alias(self, action: AddAliasAction, name: str, side: Expr, key: tuple[Expr, ...]) -> None:
        evicted = Reg("local.evicted", 1)
        number, place = self.scope.number(action.number), self.scope.number(action.place)
        self.out.emit(AddAlias(evicted, name, number, place, side, key))
        with self.out.when(evicted, "alias evicted"):
            self.out.emit(Count("aliases:evicted"))

    def _condition(self, condition: Expression) -> Expr:
        return self.held.get(id(condition)) or self.scope.number(condition)

    def happens(self, name: str, values: dict[str, Expr]) -> None:
        """Emit a built-in event to its subscribers, then the events that happen with it."""
        shape = self.layer.built_in_shape(name)
        if name in self.layer.context.hooks:
            self.out.emit(Call(name, SIDE, tuple(values[item] for item, _ in shape)))
        effects = self.layer.along.get(name, [])
        if effects:
            for item, bits in shape:
                self.out.assign(Reg(f"local.{name}.{item}", bits), values[item])
        for effect in effects:
            self.event(effect)

    def gap(self, offset: Expr, length: Expr, cause: Expr) -> None:
        """A hole was given up: count it, emit event `gap`, and discard the message that it interrupts."""
        self.out.emit(Count("gaps"))
        if any(step.stream for step in self.layer.context.above):
            self.out.emit(LoseMessages(SIDE, Binary("+", offset, length)))
        self.happens("gap", {"offset": offset, "length": length, "cause": cause})

    def unplaced(self, side: Expr) -> Reg:
        """Bytes without a place in the stream are discarded and reported; the register says whether there were any."""
        any_ = Reg("local.unplaced", 1)
        before, repeated, outside = counts = [Reg(f"local.unplaced_{cause}", 64) for cause in UNPLACED_CAUSES]
        self.out.emit(UnplacedSeq(any_, before, repeated, outside, side))
        if self.layer.wanted("unplaced"):
            with self.out.when(any_, "unplaced"):
                for number, count in enumerate(counts):
                    with self.out.when(Binary("!=", count, ZERO), f"unplaced {UNPLACED_CAUSES[number]}"):
                        self.happens("unplaced", {"length": count, "cause": Const(number)})
        return any_

    def event(self, event: Event) -> None:
        """A user's event: if its condition holds, run its actions, then the events that happen with it."""
        action = event.action
        assert action is not None
        effects = self.layer.along.get(event.name, [])
        single = action.actions[0] if len(action.actions) == 1 else None
        with self.out.at(event.where):
            if isinstance(single, Choice) and single.otherwise is None:
                with self.out.when(self._condition(single.condition), f"event {event.name}"):
                    self.action(single.body, event)
                    for effect in effects:
                        self.event(effect)
            else:
                self.action(action, event)
                for effect in effects:
                    self.event(effect)

    def _assemble(self) -> None:
        """Assemble(). A packet outside the sequence keeps the SDU of p.sdu."""
        out = self.out
        if self.layer.prototype.sequence_condition is None or not self.scope.packet:
            self.assemble_sequence()
            return
        inside, outside, after = out.name("assemble"), out.name("no sequence"), out.name("assembled")
        out.emit(Branch(SEQUENCED, inside, outside))
        out.block(outside)
        out.assign(ASSEMBLED, ONE)
        out.emit(Goto(after))
        out.block(inside)
        self.assemble_sequence()
        out.block(after)

    def assemble_sequence(self) -> None:
        """Deliver the contiguous bytes as the SDU and in event `data`."""
        out = self.out
        out.emit(Assemble(SDU, SDU_OFFSET, SIDE))
        out.assign(ASSEMBLED, Binary(">", Length(SDU), ZERO))
        if self.layer.wanted("data"):
            with out.when(ASSEMBLED, "data"):
                sequence = self.layer.sequence
                head = ZERO if sequence is None else self.scope.number(sequence.head)
                delivered = SDU if head == ZERO else Slice(SDU, head, LAST)
                self.happens("data", {"offset": SDU_OFFSET, "bytes": delivered})
