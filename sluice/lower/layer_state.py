"""State that the builders of one layer's graphs share: its description, its surroundings, and the registers they
use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.ir.expression import ZERO, Binary, Const, Expr, Reg, Slice, rewrite, width
from sluice.ir.graph import EventShape, KeyPart, NativeShape
from sluice.ir.simplify import simplify_node
from sluice.lang.action import Assemble, Block, Callback
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.events import BUILT_IN, DROP_REASONS, END_REASONS, GAP_CAUSES, Event, event_order
from sluice.lang.expression import NUMBER, Expression, Gathered, Number
from sluice.lang.field_value import FieldValue
from sluice.lang.layer import Branch as StackBranch
from sluice.lang.native import NativeFunction, native_calls
from sluice.lang.parser import PrototypeParts
from sluice.lang.psm import Transition
from sluice.lower.scope import STATE, UNIT, Scope, nested

IN_ORDER = Reg("local.in_order", 1)
INSERTED = Reg("local.inserted", 1)
SEQUENCED = Reg("local.sequenced", 1)
ASSEMBLED = Reg("local.assembled", 1)
FRESH = Reg("local.fresh", 1)
POSITION = Reg("local.position", 64)
SEQ_DATA = Reg("local.seq_data", 0)
SDU_OFFSET = Reg("local.sdu_offset", 64)
PROGRESS = Reg("local.progress", 1)
REASON = Reg("local.reason", 8)
CAUSE = Reg("local.cause", 8)
ALL = Reg("local.all", 1)
ALL_OR_NONE = Reg("local.all", 2)
"""The same register in drain graphs that may also be called with NO_HOLE or ACKNOWLEDGED."""
NO_HOLE = 2
"""The value of Drain.all that delivers only what is contiguous."""
ACKNOWLEDGED = 3
"""The value of Drain.all that gives up the holes that the receiver has acknowledged."""
STORED = Reg("local.stored", 1)

TIMEOUT = Reg("inst.timeout", 8)
"""The number of the instance's current timeout, set by its last transition."""
HOME = Reg("inst.home", 8)
"""Which of the layers that share the table used the instance last."""
BUSY = Reg("inst.busy", 8)
"""Nonzero while layers above process a packet of the instance: they must neither end nor use the instance."""

REASON_NUMBER = {name: number for number, name in enumerate(END_REASONS)}
DROP_NUMBER = {name: number for number, name in enumerate(DROP_REASONS)}
CAUSE_NUMBER = {name: number for number, name in enumerate(GAP_CAUSES)}


@dataclass
class Step:
    """A step to a layer above: the user's line, and the layer program that it leads to.

    `messages`: that layer takes messages, from the stream if there is one (`stream`), otherwise from the packet.
    `carried`: it takes bytes of the stream as they come, and has no instances of its own. `record`: it is a record.
    """

    branch: StackBranch
    target: str
    messages: bool = False
    stream: bool = False
    carried: bool = False
    record: bool = False


@dataclass
class LayerContext:
    """The surroundings of a layer.

    hooks: events that have subscribers.
    kept: the number of delivered bytes that functions need to read again; None if no function reads the sequence.
    above: steps to the layers above.
    exports: slots to fill with values of this layer that layers above read by name. offers: slots for its offers.
    overrides: slots that it changes for packets that satisfy a condition, with the condition and the value.
    asked: slots of this layer or lower layers that layers above read.
    options: checks that the user enabled.
    joined: names of offers that are joined to every key.
    aliases: by prototype, the name of its table of further keys, and the parts of these keys.
    table: the name of its table. shared: whether other layers use the table too. loops: whether a packet can reach the
    same table again from here.
    native_shapes: signatures of the native functions that the layers built so far call.
    of_streams, of_packets: the sources from which lower layers cut messages for it. carried: as of LayerProgram.
    """

    name: str
    scope: Scope
    hooks: frozenset[str]
    kept: int | None
    above: list[Step]
    exports: list[tuple[Reg, Expression]]
    offers: dict[str, Reg]
    overrides: list[tuple[Reg, Expression, Expression]]
    asked: list[Reg]
    options: frozenset[str]
    native_shapes: dict[NativeFunction, NativeShape]
    joined: tuple[str, ...]
    aliases: dict[PrototypeParts, tuple[str, tuple[KeyPart, ...]]]
    table: str
    home: int
    shared: bool
    loops: bool
    of_streams: bool
    of_packets: bool
    carried: bool


@dataclass
class LayerState:
    """A layer during lowering."""

    context: LayerContext
    shapes: dict[str, EventShape] = field(default_factory=lambda: {})

    def __post_init__(self) -> None:
        self.scope = self.context.scope
        self.prototype = self.scope.prototype
        self.sequence = self.prototype.sequence
        self.machine = self.prototype.machine
        self.standing, self.along = event_order(self.prototype.events.defined, self.prototype.relations)
        self.transitions: list[Transition] = list(self.machine.transitions.values()) if self.machine else []
        self.has_instance = self.prototype.keys is not None
        joined = [Gathered(name, self.prototype.lines["selector"]) for name in self.context.joined if self.has_instance]
        self.keys: tuple[list[Expression], ...] = tuple([*half, *joined] for half in self.prototype.keys or ())
        self.gathers = [name for name in self.context.joined if name in self.prototype.offers]
        self.assembles = any(has_assemble(event.action) for event in self.prototype.events.defined.values())
        self.timeouts = self._timeouts()
        self.v_fields = self._v_fields()
        self.native_shapes = self.context.native_shapes
        p = self.prototype
        actions = [p.prep_block, p.sdu_choice, *(event.action for event in p.events.defined.values())]
        self.native_calls = [call for action in actions for call in native_calls(action)]
        for event in self.prototype.events.defined.values():
            self._shape(event)

    @property
    def more_keys(self) -> str:
        """The table of further keys that have the shape of the selector; empty if there is none."""
        return f"{self.context.table}_more_keys" if self.prototype.alias_by_selector else ""

    @property
    def sides(self) -> int:
        """The number of sequences of an instance."""
        return 0 if self.sequence is None else (2 if self.prototype.oriented else 1)

    @property
    def drains(self) -> bool:
        """Whether bytes may be delivered after their packet is gone."""
        return self.sequence is not None and not self.sequence.whole

    @property
    def above(self) -> list[Reg]:
        """For each side, 1 + the number of the step that its last bytes took, 0 if none: bytes that are delivered
        without a packet take the same step. Empty if no bytes are delivered like this.
        """
        if not self.drains or not self.context.above:
            return []
        names = ["inst.above"] if self.sides == 1 else [f"inst.above.{side}" for side in range(self.sides)]
        return [Reg(name, 8) for name in names]

    @property
    def has_packet_data(self) -> bool:
        """Whether some packets use an instance that is never stored."""
        return self.prototype.key_condition is not None or self.prototype.creating is not None

    def wanted(self, name: str) -> bool:
        """Whether a built-in event has a subscriber or other events that happen with it."""
        return name in self.context.hooks or bool(self.along.get(name))

    def accepting(self) -> Expr | None:
        """Whether the current state is an accept state, as an expression; None if the machine has no accept state."""
        if self.machine is None:
            return None
        result: Expr | None = None
        for number, state in enumerate(self.machine.states()):
            if state.accept:
                test = Binary("==", STATE, Const(number))
                result = test if result is None else Binary("|", result, test)
        return result

    def is_silent_without_v(self) -> bool:
        """Whether a virtual packet with all fields 0 takes no transition and satisfies no event condition."""

        def change(node: Expr) -> Expr:
            return ZERO if node in self.v_fields else simplify_node(node)

        asked = [t.condition for t in self.transitions if not t.restart and t.condition is not None]
        asked += [condition for condition, _ in self.event_conditions()]
        return all(rewrite(self.scope.number(item), change) == ZERO for item in asked if uses_v(item))

    def event_conditions(self) -> list[tuple[Expression, Reg]]:
        """Event conditions on virtual packets, with the registers that store whether they held."""
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

    def _timeouts(self) -> list[float]:
        """The timeouts by number: 0 is the general one (0.0: never), the others are those of transitions."""
        lifetime = self.prototype.lifetime
        if lifetime is not None:
            other = next((t for t in self.transitions if t.timeout is not None), None)
            if other is not None or self.prototype.timeout is not None:
                raise DescriptionError(
                    f"{self.prototype.title} has a lifetime and a timeout",
                    "an instance with p.lifetime ends so long after it began; leave the timeouts out.",
                    self.prototype.lines["timeout"] if other is None else other.where,
                )
            return [lifetime]
        general = self.prototype.timeout
        found = [general if general is not None else 0.0]
        for transition in self.transitions:
            if transition.timeout is not None and transition.timeout not in found[1:]:
                found.append(transition.timeout)
        return found

    def _v_fields(self) -> list[Reg]:
        """Header fields that conditions read from virtual packets."""
        from sluice.lower.scope import action_expressions

        conditions = [t.condition for t in self.transitions if t.condition is not None]
        for event in self.prototype.events.defined.values():
            conditions += action_expressions(event.action)
        found: dict[str, Reg] = {}
        for condition in conditions:
            for item in nested(condition):
                if not isinstance(item, FieldValue) or item.group != "v":
                    continue
                if item.field.kind != NUMBER:
                    raise DescriptionError(
                        "a virtual packet keeps numbers only",
                        "use header fields of at most 64 bits in conditions with v.",
                        item.where,
                    )
                if self.sequence is None:
                    raise DescriptionError(
                        "virtual ordered packets need a sequence",
                        "define p.seq = Sequence(...), or use p.header.",
                        item.where,
                    )
                reg = self.scope.resolve(item)
                assert isinstance(reg, Reg)
                found[reg.name] = reg
        return list(found.values())

    def _shape(self, event: Event) -> None:
        for callback in callbacks(event.action):
            members = [(name, item.width if item.kind == NUMBER else 0) for name, item in callback.data.fields.items()]
            self.shapes[event.name] = EventShape(
                event.name, tuple(members), callback.data.__name__, where=str(event.where)
            )

    @property
    def accounts(self) -> bool:
        """Whether bytes without a place in the stream are counted."""
        s = self.sequence
        return s is not None and not s.units and not s.zero_based and self.wanted("unplaced")

    def built_in_shape(self, name: str) -> tuple[tuple[str, int], ...]:
        """Names and widths of the fields of a built-in event. Records that the event is used."""
        fields = tuple((item, 64 if kind == NUMBER else 0) for item, kind in BUILT_IN[name].items())
        self.shapes.setdefault(name, EventShape(name, fields, ""))
        return fields

    def reason_number(self, name: str, reason: str) -> int:
        """The number of a layer-defined reason that a built-in event carries."""
        self.built_in_shape(name)
        shape = self.shapes[name]
        if reason not in shape.reasons:
            shape.reasons += (reason,)
        return shape.reasons.index(reason)


def uses_v(expression: Expression) -> bool:
    """Whether a condition reads virtual ordered packets."""
    return any(isinstance(item, FieldValue) and item.group == "v" for item in nested(expression))


def has_assemble(action: object) -> bool:
    """Whether an action contains Assemble(), under any condition."""
    if isinstance(action, Block):
        return any(has_assemble(part) for part in action.actions)
    if isinstance(action, Choice):
        return any(has_assemble(branch) for branch in action.branches())
    return isinstance(action, Assemble)


def callbacks(action: object) -> list[Callback]:
    """All Callbacks in an action."""
    if isinstance(action, Block):
        return [found for part in action.actions for found in callbacks(part)]
    if isinstance(action, Choice):
        return [found for branch in action.branches() for found in callbacks(branch)]
    return [action] if isinstance(action, Callback) else []


def initial(init: Expression | None) -> int:
    """The initial value of a register."""
    if init is None:
        return 0
    assert isinstance(init, Number)
    return init.value


def nothing() -> Expr:
    """Bytes of length 0."""
    return Slice(UNIT, ZERO, ZERO)


def header_of(reg: Reg) -> Reg:
    """The header field of the packet for a field of virtual packets."""
    return Reg("header." + reg.name.split(".", 1)[1], reg.bits)


def all_of(*conditions: Expr) -> Expr:
    """1 if all conditions hold. Conditions wider than one bit are compared with 0."""
    result: Expr | None = None
    for condition in conditions:
        one = condition if width(condition) == 1 else Binary("!=", condition, ZERO)
        result = one if result is None else Binary("&", result, one)
    assert result is not None
    return result
