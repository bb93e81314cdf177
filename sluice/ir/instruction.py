"""Instructions of the IR, each declared once: operands, and what it reads and writes besides them.

An operand is `write` (a register that it sets), `read` (an expression), `leads_to` (the name of a block that
may follow), or a plain constant of the instruction. What is not an operand - the packet, the table, the
sequence, the outside world - is a Resource: READS and WRITES name them. Passes, the verifier, the
interpreter and the text form all work from these declarations. Instructions of the paper's Appendix B keep
their names; DESIGN.md section 4 adds the rest.

An instruction that stands in a graph is never changed, another one is put in its place: graphs share them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

from sluice.ir.expression import Const, Expr, Reg, registers
from sluice.lang.where import NOWHERE, Where


class Resource(Enum):
    """What instructions share without naming it."""

    PACKET = "packet"  # the bytes of the unit
    TABLE = "table"  # which instances exist
    INSTANCE = "instance"  # the current instance: its presence and its fields
    SEQUENCE = "sequence"  # pieces, records and positions of the instance's sequences
    TIMER = "timer"  # the instance's deadline
    COUNTERS = "counters"
    CONTEXT = "context"  # slots: what layers below left
    OUTSIDE = "outside"  # functions on events and layers above
    NATIVE = "native"  # what functions in C that a description calls keep
    CACHE = "cache"  # which memory the processor has at hand; what is done to it changes no result


R = Resource

GRAPHS = (R.TABLE, R.INSTANCE, R.SEQUENCE, R.TIMER, R.COUNTERS, R.CONTEXT, R.OUTSIDE, R.NATIVE)
"""What graphs that run inside an instruction may write: those of layers above (which may share this layer's
table, as in a tunnel, and so its instances), and those that drain and end instances."""

Role = Literal["write", "read", "block", "plain"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a kind of instruction: name, role, whether it is a tuple, and the type of its items.

    `type` is Reg, Expr, int or str; a `read` of type Reg must stay a register (a mark).
    """

    name: str
    role: Role
    many: bool
    type: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The operands of a kind of instruction, and how to take those of one role out of an instruction."""

    operands: tuple[Operand, ...]
    written: Callable[[Any], tuple[Reg, ...]]
    expressions: Callable[[Any], tuple[Expr, ...]]
    targets: Callable[[Any], tuple[str, ...]]


def write() -> Any:
    """Declares an operand that is a register set by the instruction (or a tuple of them)."""
    return field(metadata={"role": "write"})


def read() -> Any:
    """Declares an operand that is an expression (or a tuple of them)."""
    return field(metadata={"role": "read"})


def leads_to() -> Any:
    """Declares an operand that is the name of a block which may follow."""
    return field(metadata={"role": "block"})


def _operands(cls: type[Instruction]) -> tuple[Operand, ...]:
    found: list[Operand] = []
    for item in dataclasses.fields(cls):
        if item.init and item.name != "where":
            text = str(item.type)
            many = text.startswith("tuple[")
            role: Role = item.metadata.get("role", "plain")
            found.append(Operand(item.name, role, many, text[6:].split(",")[0] if many else text))
    return tuple(found)


def _taker(operands: tuple[Operand, ...], role: Role) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives all values of the operands of one role, in order."""
    names = [item.name for item in operands if item.role == role]
    many = [item.many for item in operands if item.role == role]
    if not names:
        return _nothing
    take = attrgetter(*names)
    match many:
        case [True]:
            return take
        case [False]:
            return lambda instruction: (take(instruction),)
        case _ if not any(many):
            return take
        case _:

            def flat(instruction: Any) -> tuple[Any, ...]:
                values = zip(take(instruction), many, strict=True)
                return tuple(item for value, is_tuple in values for item in (value if is_tuple else (value,)))

            return flat


def _nothing(_: Any) -> tuple[Any, ...]:
    return ()


def _shape(cls: type[Instruction]) -> Shape:
    operands = _operands(cls)
    return Shape(operands, _taker(operands, "write"), _taker(operands, "read"), _taker(operands, "block"))


@dataclass(slots=True)
class Instruction:
    """Base of all instructions. `where` is the line of the description that it came from.

    NEEDS_INSTANCE: there must be a current instance. NEEDS_SEQUENCE: its layer must have a sequence.
    RUNS_GRAPHS: graphs of this or other layers run inside it.
    """

    SHAPE: ClassVar[Shape] = Shape((), _nothing, _nothing, _nothing)
    READS: ClassVar[frozenset[Resource]] = frozenset()
    WRITES: ClassVar[frozenset[Resource]] = frozenset()
    NEEDS_INSTANCE: ClassVar[bool] = False
    NEEDS_SEQUENCE: ClassVar[bool] = False
    RUNS_GRAPHS: ClassVar[bool] = False

    where: Where = field(default=NOWHERE, kw_only=True, compare=False)
    _read: tuple[Reg, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def written(self) -> tuple[Reg, ...]:
        """Registers that it sets."""
        return self.SHAPE.written(self)

    def expressions(self) -> tuple[Expr, ...]:
        """Expressions that it evaluates."""
        return self.SHAPE.expressions(self)

    def read_registers(self) -> tuple[Reg, ...]:
        """Registers that its expressions read; kept, as every pass asks, and instructions never change."""
        found = self._read
        if found is None:
            found = ()
            for expression in self.SHAPE.expressions(self):
                found += registers(expression)
            self._read = found
        return found

    def has_effect(self) -> bool:
        """Whether it does more than set its registers."""
        return bool(self.WRITES)


INSTRUCTIONS: dict[str, type[Instruction]] = {}

I = TypeVar("I", bound=Instruction)  # noqa: E741


@dataclass_transform(field_specifiers=(write, read, leads_to))
def effects(
    reads: tuple[Resource, ...] = (),
    writes: tuple[Resource, ...] = (),
    instance: bool = False,
    sequence: bool = False,
    runs: bool = False,
    keeps_slots: bool = False,
) -> Callable[[type[I]], type[I]]:
    """Class decorator: an instruction, with its implicit reads and writes.

    instance, sequence: it needs one, and reads it. runs: graphs run inside it, and write what GRAPHS says;
    keeps_slots: but what layers below left for the packet is there again afterwards.
    """

    def declare(cls: type[I]) -> type[I]:
        made = dataclass(slots=True)(cls)
        needs = ((R.INSTANCE,) if instance else ()) + ((R.SEQUENCE,) if sequence else ())
        made.READS = frozenset(reads + needs)
        made.WRITES = frozenset(writes + (GRAPHS if runs else ())) - ({R.CONTEXT} if keeps_slots else set())
        made.NEEDS_INSTANCE = instance
        made.NEEDS_SEQUENCE = sequence
        made.RUNS_GRAPHS = runs
        made.SHAPE = _shape(made)
        INSTRUCTIONS[made.__name__] = made
        return made

    return declare


# --- header -------------------------------------------------------------------------------------------------


@effects(reads=(R.PACKET,))
class Load(Instruction):
    """A number of `bits` bits that begins `at` bits behind position `mark`. Needs a Check that covers it."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    bits: int
    order: str


@effects(reads=(R.PACKET,))
class LoadBytes(Instruction):
    """`size` bytes that begin `at` bytes behind position `mark`. Needs a Check that covers them."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    size: Expr = read()


@effects(reads=(R.PACKET,))
class LoadVarint(Instruction):
    """A variable-length integer (RFC 9000, 16) in the `size` bytes (1, 2, 4 or 8) behind `mark`: what they hold
    without the two highest bits, which tell the size. Needs a Check that covers them.
    """

    target: Reg = write()
    mark: Reg = read()
    size: Expr = read()


@effects()
class Mark(Instruction):
    """A position `offset` bytes behind another one."""

    target: Reg = write()
    base: Reg = read()
    offset: Expr = read()


@effects()
class Payload(Instruction):
    """What follows position `mark` in the unit (the paper's Payload())."""

    target: Reg = write()
    mark: Reg = read()


@effects()
class Assign(Instruction):
    """Modify a register; a number keeps the low bits that fit."""

    target: Reg = write()
    value: Expr = read()


# --- instances ----------------------------------------------------------------------------------------------


@effects(reads=(R.TABLE, R.TIMER), writes=(R.INSTANCE, R.TABLE, R.SEQUENCE, R.TIMER, R.COUNTERS, R.OUTSIDE))
class Lookup(Instruction):
    """Contain(key): find the instance by `key` or, if there is `reverse`, by that; make it the current one.

    `found`: there is one. `expired`: its deadline has passed (it is then to be ended). `side`: 0 when the
    packet was sent by the active side, else 1. Where none was found, `expired` and `side` are 0.

    Others of the table that have expired may end meanwhile; what layers below left for this packet is kept.
    """

    found: Reg = write()
    expired: Reg = write()
    side: Reg = write()
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.TABLE,), writes=(R.CACHE,))
class Prefetch(Instruction):
    """Ask for the memory that a Lookup of `key` and `reverse` will want. Only before the packet's turn."""

    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,))
class Way(Instruction):
    """A number for the layers that the packet is in now, from the first to this one: another for every other way."""

    target: Reg = write()


@effects(reads=(R.TABLE, R.TIMER), writes=(R.INSTANCE,))
class FindAlias(Instruction):
    """Find the instance that AddAlias gave `key` to in the table `aliases`, if it is still there; make it current.

    `found`, `expired` and `side` are as of a Lookup.
    """

    found: Reg = write()
    expired: Reg = write()
    side: Reg = write()
    aliases: str
    key: tuple[Expr, ...] = read()


@effects(writes=(R.TABLE,))
class AddAlias(Instruction):
    """The instance with `number` at `place` of its table has `key` as a further key in the table `aliases`.

    `side`: of packets that are found so. Another instance that had the key has it no longer. `evicted`: the oldest
    further key had to make room for this one. Nothing happens for `number` 0, an instance that is not stored.
    """

    evicted: Reg = write()
    aliases: str
    number: Expr = read()
    place: Expr = read()
    side: Expr = read()
    key: tuple[Expr, ...] = read()


@effects(reads=(R.TABLE,), runs=True, keeps_slots=True)
class CreateInst(Instruction):
    """Create an instance under `key`; its fields start from their init.

    When the table is full another one is evicted, which runs the end graph of that one. `made` is 0 when there can be
    none: all are in use by packets that this one came out of, or what an end delivered took the key. Then an empty one
    stands in its place that is never stored.
    """

    made: Reg = write()
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(writes=(R.INSTANCE, R.SEQUENCE, R.TIMER))
class FreshInst(Instruction):
    """An instance for this packet alone, which is never stored."""


@effects(writes=(R.TABLE, R.INSTANCE, R.SEQUENCE, R.TIMER), instance=True)
class DestroyInst(Instruction):
    """Remove the current instance, and give back what its sequences hold. Only in end graphs."""


@effects(instance=True, runs=True, keeps_slots=True)
class EndInst(Instruction):
    """End the current instance for `reason` (its number in END_REASONS): runs the layer's end graph."""

    reason: int


@effects(writes=(R.TIMER,), instance=True)
class Touch(Instruction):
    """The instance lives on for the timeout number `timeout` of its layer, from now."""

    timeout: Expr = read()


@effects(reads=(R.INSTANCE,), writes=(R.INSTANCE,), instance=True)
class SwapSides(Instruction):
    """Turn which side of the instance is active; `side` is the packet's side afterwards."""

    target: Reg = write()
    side: Expr = read()


@effects(instance=True)
class RecallKey(Instruction):
    """Part number `part` of the instance's key, as packets of `side` have it in the selector's first list.

    Of an instance that is not stored there is no key: the register keeps what it has.
    """

    target: Reg = write()
    side: Expr = read()
    part: int


# --- sequence -----------------------------------------------------------------------------------------------


@effects(sequence=True)
class InWindow(Instruction):
    """Whether any position of [meta, meta + max(length, 1)) lies in [low, high), modulo meta's width."""

    target: Reg = write()
    meta: Expr = read()
    length: Expr = read()
    low: Expr = read()
    high: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class BeginSeq(Instruction):
    """The first packet sets the base; so does one with `anew` 1, while nothing is held or delivered. With 2 the base
    moves while nothing is delivered: what is held beyond it stays.
    """

    side: Expr = read()
    meta: Expr = read()
    anew: Expr = read()


@effects(instance=True, sequence=True)
class PlaceSeq(Instruction):
    """Where `meta` lies in the sequence, unwrapped around the next expected position."""

    target: Reg = write()
    side: Expr = read()
    meta: Expr = read()


@effects(instance=True, sequence=True)
class InOrder(Instruction):
    """Whether `position` is at or before the next expected one, or none is known yet."""

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()


@effects(instance=True, sequence=True)
class OverlapSeq(Instruction):
    """The next range of `data` at `position` that is known already; iterates by `cursor`, from 0 on."""

    more: Reg = write()
    cursor: Reg = write()
    offset: Reg = write()
    length: Reg = write()
    new: Reg = write()
    old: Reg = write()
    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    last: Expr = read()


@effects(instance=True, sequence=True)
class RoomSeq(Instruction):
    """Whether `data` at `position`, of `units` of sequence space, can be held: by the limits and the box's memory."""

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(instance=True, sequence=True)
class FullSeq(Instruction):
    """Whether `position` is beyond the next expected one, and there are as many records as there may be."""

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class InsertNext(Instruction):
    """Insert `data` at `position` if it is next in order, all captured, and nothing waits or is held. `target`: it did.

    The way of nearly all packets (the paper's fast forward); an InsertSeq does the same for any.
    """

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class ForwardSeq(Instruction):
    """InsertNext and the Assemble behind it at once: `data` goes by without being put into the sequence. `forwarded` is
    what comes out, `data` or nothing where nobody wants the bytes, and `offset` that of its first byte in the stream.
    (The paper's direct fast forward.)
    """

    target: Reg = write()
    forwarded: Reg = write()
    offset: Reg = write()
    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class InsertSeq(Instruction):
    """Insert `data` at `position`; it takes `units` of sequence space."""

    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(instance=True, sequence=True)
class CutSeq(Instruction):
    """Whether the next expected bytes are known to be missing by the snap length."""

    target: Reg = write()
    side: Expr = read()


@effects(instance=True, sequence=True)
class WaitingSeq(Instruction):
    """Whether contiguous bytes wait to be delivered."""

    target: Reg = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class Assemble(Instruction):
    """Deliver the contiguous bytes; `offset` is the stream offset of the first."""

    target: Reg = write()
    offset: Reg = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class SkipSeq(Instruction):
    """Give up what is missing at the next expected position, up to `position` or to what is held before it; `more` is 0
    when that is nothing.
    """

    more: Reg = write()
    offset: Reg = write()
    length: Reg = write()
    side: Expr = read()
    position: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class GiveUpSeq(Instruction):
    """Give up the first hole: `more` is 0 when there is none; `cut` when it comes from the snap length."""

    more: Reg = write()
    offset: Reg = write()
    length: Reg = write()
    cut: Reg = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class AcknowledgeSeq(Instruction):
    """The receiver of `side` has received everything before `received`, and takes what lies before `edge` (of meta's
    width). `due`: `grace` nanoseconds ago it said so of a hole, further along than which something is held.
    """

    due: Reg = write()
    side: Expr = read()
    received: Expr = read()
    edge: Expr = read()
    grace: int


@effects(instance=True, sequence=True)
class SettledSeq(Instruction):
    """Before which position the holes are to be given up that AcknowledgeSeq found due; none: the next expected one."""

    target: Reg = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class UnplacedSeq(Instruction):
    """Discard what is held further along than the receiver would take, if it is the first that is held. `any`: bytes
    have had no place in the stream since the last one: so many before the base, there again, and outside.
    """

    any: Reg = write()
    before: Reg = write()
    repeated: Reg = write()
    outside: Reg = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class RecordSeq(Instruction):
    """Leave a record of a packet that is beyond the next expected position."""

    side: Expr = read()
    position: Expr = read()
    values: tuple[Expr, ...] = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class ReleaseSeq(Instruction):
    """The lowest record no longer beyond the next expected position; `more` is 0 when there is none."""

    more: Reg = write()
    values: tuple[Reg, ...] = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class SettleSeq(Instruction):
    """End of the packet: bytes that were not delivered are copied, as the packet goes away.

    `kept` is 0 when there was no memory: then they still wait, and can be delivered.
    """

    kept: Reg = write()
    side: Expr = read()


@effects(instance=True, sequence=True, runs=True, keeps_slots=True)
class Drain(Instruction):
    """Deliver what waits, give up a hole for `cause`, deliver what is behind it: the layer's drain graph.

    With `all` 1 it goes on until nothing is held; with 2 no hole is given up; with 3 those that the receiver
    acknowledged (SettledSeq). `progress` is 0 when there was nothing to do.
    """

    progress: Reg = write()
    side: Expr = read()
    cause: Expr = read()
    all: int


# --- outside ------------------------------------------------------------------------------------------------


@effects(writes=(R.OUTSIDE,), reads=(R.CONTEXT,))
class Call(Instruction):
    """Invoke whoever hooked `event` with `values`, its fields in their order. `side` is the sender's."""

    event: str
    side: Expr = read()
    values: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,))
class TooDeep(Instruction):
    """Whether as many layers are nested as may be: what goes to the next one is counted, and goes no further."""

    target: Reg = write()


@effects(reads=(R.CONTEXT,), runs=True)
class NextLayer(Instruction):
    """Run the graph of `layer` on `sdu`."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT, R.CACHE))
class LookAhead(Instruction):
    """Run the ahead graph of `layer` on `sdu`. Only in ahead graphs."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True, instance=True, sequence=True)
class NextMessages(NextLayer):
    """Cut what the side's stream brings at `offset` into messages, and run the graph of `layer` on each whole one.

    Where layers are nested too deep it is a gap in the stream.
    """

    side: Expr = read()
    offset: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True)
class CutMessages(NextLayer):
    """Cut `sdu` into messages, one behind the other, and run the graph of `layer` on each; of what is left and makes
    none its `lost` graph hears. `side` is that of the packet.
    """

    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class LoseMessages(Instruction):
    """The side's stream has a gap, up to stream offset `end`: what was kept of a message is of no use, and where the
    next begins is unknown.
    """

    side: Expr = read()
    end: Expr = read()


@effects(runs=True, instance=True, sequence=True)
class CloseMessages(Instruction):
    """The side's stream ends: runs the `lost` graph of `layer`, if that took its messages last and was left with
    part of one, or with a loss that nobody was told yet.
    """

    layer: str
    side: Expr = read()


@effects(reads=(R.NATIVE,), writes=(R.NATIVE,))
class CallNative(Instruction):
    """Call `function` of the native module `module` with `inputs`: `outputs` and `sdu` are what it gives.

    It sees what the module keeps for the instance of number `context`; with `begins` that is made, zeroed, where there
    is none yet. `reason` is 0, or why it refused: 1 + its place among the function's reasons. Then the outputs are 0
    and there is no SDU.
    """

    reason: Reg = write()
    sdu: Reg = write()
    outputs: tuple[Reg, ...] = write()
    module: str
    function: str
    begins: int
    context: Expr = read()
    inputs: tuple[Expr, ...] = read()


@effects(reads=(R.NATIVE,), writes=(R.NATIVE,))
class EndNative(Instruction):
    """What the native module `module` keeps for the instance of number `context` ends. Only in end graphs."""

    module: str
    context: Expr = read()


@effects(writes=(R.COUNTERS,))
class Count(Instruction):
    """Add one to a counter of the layer."""

    counter: str


# --- terminators: the last instruction of a block -----------------------------------------------------------


@dataclass(slots=True)
class Terminator(Instruction):
    """Ends a block."""

    def targets(self) -> tuple[str, ...]:
        """Names of the blocks that may follow."""
        return self.SHAPE.targets(self)


@effects()
class Goto(Terminator):
    """Go on with block `to`."""

    to: str = leads_to()


@effects()
class Branch(Terminator):
    """IfElse: `yes` when `condition` is not 0."""

    condition: Expr = read()
    yes: str = leads_to()
    no: str = leads_to()


@effects(reads=(R.PACKET,))
class Check(Terminator):
    """Length check: `yes` when `size` bytes behind `mark` were captured, `cut` when they were on the wire
    only, `short` when the unit is shorter than that.
    """

    mark: Reg = read()
    size: Expr = read()
    yes: str = leads_to()
    cut: str = leads_to()
    short: str = leads_to()


@effects(reads=(R.PACKET,))
class CheckWire(Terminator):
    """`yes` when the unit reaches `size` bytes behind `mark` on the wire, captured or not."""

    mark: Reg = read()
    size: Expr = read()
    yes: str = leads_to()
    short: str = leads_to()


@effects(writes=(R.COUNTERS,))
class End(Terminator):
    """The packet leaves the layer with `outcome`; every packet has exactly one, so the counters conserve."""

    outcome: str


@effects(reads=(R.CONTEXT,), writes=(R.COUNTERS, R.CONTEXT, R.CACHE))
class NextStateless(Terminator):
    """The packet leaves the layer with `outcome` for the stateless graph of `layer`, with `sdu`; where that does not
    lead on, or there is none, it waits for the main graph of `layer`. Only in stateless graphs.
    """

    outcome: str
    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), writes=(R.COUNTERS, R.CONTEXT, R.CACHE))
class NextDeferring(NextStateless):
    """A NextStateless of a packet that in its turn first passes the turn graph of this layer, whose parameters are
    `carried`. Only in stateless graphs.
    """

    carried: tuple[Expr, ...] = read()


@effects()
class Dispatch(Terminator):
    """`key` says for which worker a packet is; with `reverse` both do, in any order. Only in dispatch graphs."""

    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT,))
class NextDispatch(Terminator):
    """The packet is for the worker that the dispatch graph of `layer` says of `sdu`. Only in dispatch graphs."""

    layer: str
    sdu: Expr = read()


@effects()
class Return(Terminator):
    """The end of a graph that is no main graph, with its result; of a stateless one before it left a trace."""

    result: Expr = read()


def is_constant(expression: Expr, value: int) -> bool:
    """Whether an expression is the constant `value`."""
    return isinstance(expression, Const) and expression.value == value
