"""Instructions of the IR, each declared once: its operands, and what it reads and writes besides them.

An operand is `write` (a register that it sets), `read` (an expression), `leads_to` (the name of a possible next block),
or a plain constant of the instruction. What is not an operand (the packet, the table, the sequence, the outside world)
is a Resource: READS and WRITES name the resources of an instruction. Passes, the verifier, the interpreter and the text
form all work from these declarations. Instructions of the paper's Appendix B keep their names; DESIGN.md section 4 adds
the rest.

An instruction in a graph is never changed but replaced by another one, because graphs share instructions.
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
    """State that instructions share without naming it as an operand."""

    PACKET = "packet"  # the bytes of the unit
    TABLE = "table"  # which instances exist
    INSTANCE = "instance"  # the current instance: its presence and its fields
    SEQUENCE = "sequence"  # pieces, records and positions of the instance's sequences
    TIMER = "timer"  # the instance's deadline
    COUNTERS = "counters"
    CONTEXT = "context"  # slots: values that layers below stored
    OUTSIDE = "outside"  # functions on events and layers above
    NATIVE = "native"  # the state of native functions (C functions that a description calls)
    CLOCK = "clock"  # packet time, which moves before a packet is processed
    CACHE = "cache"  # what the processor has cached; a change of it changes no result


R = Resource

GRAPHS = (R.TABLE, R.INSTANCE, R.SEQUENCE, R.TIMER, R.COUNTERS, R.CONTEXT, R.OUTSIDE, R.NATIVE)
"""Resources that graphs which run inside an instruction may write: the graphs of layers above (which may share this
layer's table, as in a tunnel, and so its instances), and the graphs that drain and end instances.
"""

Role = Literal["write", "read", "block", "plain"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a kind of instruction: its name, its role, whether it is a tuple, and the type of its items.

    `type` is Reg, Expr, int or str. A `read` of type Reg must stay a register (a mark).
    """

    name: str
    role: Role
    many: bool
    type: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The operands of a kind of instruction, and accessors for the operands of one role."""

    operands: tuple[Operand, ...]
    written: Callable[[Any], tuple[Reg, ...]]
    expressions: Callable[[Any], tuple[Expr, ...]]
    targets: Callable[[Any], tuple[str, ...]]


def write() -> Any:
    """Declares an operand that is a register set by the instruction, or a tuple of registers."""
    return field(metadata={"role": "write"})


def read() -> Any:
    """Declares an operand that is an expression, or a tuple of expressions."""
    return field(metadata={"role": "read"})


def leads_to() -> Any:
    """Declares an operand that is the name of a possible next block."""
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
    """A function that returns all values of the operands of one role, in order."""
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

    NEEDS_INSTANCE: there must be a current instance. NEEDS_SEQUENCE: its layer must have a sequence. RUNS_GRAPHS:
    graphs of this or other layers run inside it.
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
        """Registers that its expressions read. The result is cached: every pass needs it, and instructions never
        change.
        """
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
    """Class decorator that declares an instruction with its implicit reads and writes.

    instance, sequence: it needs one, and reads it. runs: graphs run inside it, so it writes the resources in GRAPHS.
    keeps_slots: the values that layers below stored for the packet are restored afterwards.
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
    """A number of `bits` bits at bit offset `at` from position `mark`. Needs a Check that covers it."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    bits: int
    order: str


@effects(reads=(R.PACKET,))
class LoadBytes(Instruction):
    """`size` bytes at byte offset `at` from position `mark`. Needs a Check that covers them."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    size: Expr = read()


@effects(reads=(R.PACKET,))
class LoadVarint(Instruction):
    """A variable-length integer (RFC 9000, 16) in the `size` bytes (1, 2, 4 or 8) at position `mark`: their value
    without the two highest bits, which encode the size. Needs a Check that covers them.
    """

    target: Reg = write()
    mark: Reg = read()
    size: Expr = read()


@effects()
class Mark(Instruction):
    """The position `offset` bytes after another one."""

    target: Reg = write()
    base: Reg = read()
    offset: Expr = read()


@effects()
class Payload(Instruction):
    """The bytes of the unit from position `mark` on (the paper's Payload())."""

    target: Reg = write()
    mark: Reg = read()


@effects()
class Assign(Instruction):
    """Set a register. A number is truncated to the register's width."""

    target: Reg = write()
    value: Expr = read()


# --- instances ----------------------------------------------------------------------------------------------


@effects(reads=(R.TABLE, R.TIMER), writes=(R.INSTANCE, R.TABLE, R.SEQUENCE, R.TIMER, R.COUNTERS, R.OUTSIDE))
class Lookup(Instruction):
    """Contain(key): find the instance by `key` or, if there is `reverse`, by `reverse`, and make it current.

    `found`: there is one. `expired`: its deadline has passed, so that it must be ended. `side`: 0 when the active side
    sent the packet, else 1. If none was found, `expired` and `side` are 0.

    Expired instances of the same table may end during the lookup. The slots that layers below filled for this packet
    are preserved.
    """

    found: Reg = write()
    expired: Reg = write()
    side: Reg = write()
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.TABLE,), writes=(R.CACHE,))
class Prefetch(Instruction):
    """Prefetch the memory that a Lookup of `key` and `reverse` will use. Only before stage 2."""

    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,))
class LayerPath(Instruction):
    """A number that identifies the packet's path of layers, from the first to this one. Distinct paths have distinct
    numbers.
    """

    target: Reg = write()


@effects(reads=(R.CLOCK,))
class Time(Instruction):
    """Packet time: the largest timestamp of a packet so far, in nanoseconds since 1970."""

    target: Reg = write()


@effects(reads=(R.TABLE, R.TIMER), writes=(R.INSTANCE,))
class FindAlias(Instruction):
    """Find the instance that got `key` from AddAlias in the table `aliases`, if it still exists, and make it current.

    `found`, `expired` and `side` are as for Lookup.
    """

    found: Reg = write()
    expired: Reg = write()
    side: Reg = write()
    aliases: str
    key: tuple[Expr, ...] = read()


@effects(writes=(R.TABLE,))
class AddAlias(Instruction):
    """Give the instance with `number` at `place` of its table the further key `key` in the table `aliases`.

    `side` is the side of packets that are found by this key. If another instance had the key, it loses it. `evicted`:
    the oldest further key was removed to make room for this one. Nothing happens for `number` 0, which is an instance
    that is not stored.
    """

    evicted: Reg = write()
    aliases: str
    number: Expr = read()
    place: Expr = read()
    side: Expr = read()
    key: tuple[Expr, ...] = read()


@effects(reads=(R.TABLE,), runs=True, keeps_slots=True)
class CreateInst(Instruction):
    """Create an instance under `key`. Its fields start from their initial values.

    If the table is full, another instance is evicted, which runs its end graph. `made` is 0 when no instance can be
    created: either all are in use by packets that enclose this one, or a layer above took the key while an ended
    instance delivered its data. In that case an empty instance, which is never stored, is current.
    """

    made: Reg = write()
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(writes=(R.INSTANCE, R.SEQUENCE, R.TIMER))
class FreshInst(Instruction):
    """Make a new instance current that is for this packet alone and is never stored."""


@effects(writes=(R.TABLE, R.INSTANCE, R.SEQUENCE, R.TIMER), instance=True)
class DestroyInst(Instruction):
    """Remove the current instance and free what its sequences hold. Only in end graphs."""


@effects(instance=True, runs=True, keeps_slots=True)
class EndInst(Instruction):
    """End the current instance for `reason` (its number in END_REASONS): runs the layer's end graph."""

    reason: int


@effects(writes=(R.TIMER,), instance=True)
class Touch(Instruction):
    """Set the deadline of the instance to now plus timeout number `timeout` of its layer."""

    timeout: Expr = read()


@effects(reads=(R.INSTANCE,), writes=(R.INSTANCE,), instance=True)
class SwapSides(Instruction):
    """Swap the active and the passive side of the instance. `target` is the packet's side afterwards."""

    target: Reg = write()
    side: Expr = read()


@effects(instance=True)
class RecallKey(Instruction):
    """Part number `part` of the instance's key, as packets of `side` have it in the selector's first list.

    An instance that is not stored has no key: the register keeps its value.
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
    """Set the base of the sequence if it has none, or if `rebase` is 1 while nothing is held or delivered. With
    `rebase` 2 move the base if nothing was delivered; held bytes after it stay.
    """

    side: Expr = read()
    meta: Expr = read()
    rebase: Expr = read()


@effects(instance=True, sequence=True)
class PlaceSeq(Instruction):
    """The position of `meta` in the sequence, unwrapped around the next expected position."""

    target: Reg = write()
    side: Expr = read()
    meta: Expr = read()


@effects(instance=True, sequence=True)
class InOrder(Instruction):
    """Whether `position` is at or before the next expected position, or no position is expected yet."""

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()


@effects(instance=True, sequence=True)
class OverlapSeq(Instruction):
    """The next range of `data` at `position` that is already known. Iterates with `cursor`, which starts at 0."""

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
    """Whether `data` at `position`, of `units` of sequence space, can be held within the limits and the box's
    memory.
    """

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(instance=True, sequence=True)
class FullSeq(Instruction):
    """Whether `position` is beyond the next expected one and the sequence has its maximum number of records."""

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class InsertNext(Instruction):
    """Insert `data` at `position` if it is next in order, completely captured, and no data is waiting or held. `target`
    says whether it was inserted.

    This is the fast path, taken by nearly all packets (the paper's fast forward). InsertSeq has the same effect and
    handles every packet.
    """

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class ForwardSeq(Instruction):
    """InsertNext and the Assemble after it in one: `data` is delivered without entering the sequence. `forwarded` is
    what is delivered: `data`, or no bytes if nothing uses them. `offset` is the stream offset of its first byte. (The
    paper's direct fast forward.)
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
    """Insert `data` at `position`. It takes `units` of sequence space."""

    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(instance=True, sequence=True)
class CutSeq(Instruction):
    """Whether the next expected bytes are known to be missing because of the snap length."""

    target: Reg = write()
    side: Expr = read()


@effects(instance=True, sequence=True)
class WaitingSeq(Instruction):
    """Whether contiguous bytes are waiting to be delivered."""

    target: Reg = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class Assemble(Instruction):
    """Deliver the contiguous bytes. `offset` is the stream offset of the first."""

    target: Reg = write()
    offset: Reg = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class SkipSeq(Instruction):
    """Give up the missing range at the next expected position, up to `position` or up to held data before it. `more` is
    0 when that range is empty.
    """

    more: Reg = write()
    offset: Reg = write()
    length: Reg = write()
    side: Expr = read()
    position: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class GiveUpSeq(Instruction):
    """Give up the first hole. `more` is 0 when there is none; `cut` is 1 when the snap length caused it."""

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


@effects(reads=(R.CLOCK,), writes=(R.SEQUENCE,), instance=True, sequence=True)
class OverdueSeq(Instruction):
    """Whether bytes of the side have been held for `wait` nanoseconds of packet time after a hole at the next expected
    position. It also records what is held now.
    """

    due: Reg = write()
    side: Expr = read()
    wait: int


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
    """Store a record of a packet that is beyond the next expected position."""

    side: Expr = read()
    position: Expr = read()
    values: tuple[Expr, ...] = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class ReleaseSeq(Instruction):
    """Take the lowest record that is no longer beyond the next expected position. `more` is 0 when there is none."""

    more: Reg = write()
    values: tuple[Reg, ...] = write()
    side: Expr = read()


@effects(writes=(R.SEQUENCE, R.COUNTERS), instance=True, sequence=True)
class SettleSeq(Instruction):
    """End of the packet: copies the bytes that were not delivered, because the packet's memory will be reused.

    `kept` is 0 when memory ran out. The bytes then still wait in the packet, and can be delivered.
    """

    kept: Reg = write()
    side: Expr = read()


@effects(instance=True, sequence=True, runs=True, keeps_slots=True)
class Drain(Instruction):
    """Run the layer's drain graph: deliver what waits, give up a hole for `cause`, deliver what follows the hole.

    With `all` 1 it repeats this until nothing is held. With `all` 2 it gives up no hole, with 3 only the holes that the
    receiver has acknowledged (SettledSeq). `progress` is 0 when there was nothing to do.
    """

    progress: Reg = write()
    side: Expr = read()
    cause: Expr = read()
    all: int


# --- events, other layers, native functions, counters -------------------------------------------------------


@effects(writes=(R.OUTSIDE,), reads=(R.CONTEXT,))
class Call(Instruction):
    """Emit `event` to its subscribers with `values`, its fields in order. `side` is the sender's."""

    event: str
    side: Expr = read()
    values: tuple[Expr, ...] = read()


@effects(reads=(R.OUTSIDE,))
class Dropped(Instruction):
    """Whether a function has dropped the packet so far."""

    target: Reg = write()


@effects(reads=(R.CONTEXT,))
class TooDeep(Instruction):
    """Whether the maximum number of layers is nested. A packet for the next layer is then counted and goes no
    further.
    """

    target: Reg = write()


@effects(reads=(R.PACKET, R.CONTEXT))
class Pad(Instruction):
    """A copy of what was captured of `data`, filled up with ones to `size` captured bytes.

    It lasts as long as the packet's turn; where there is no memory for it, `data` itself.
    """

    target: Reg = write()
    data: Expr = read()
    size: int


@effects(reads=(R.CONTEXT,), runs=True)
class NextLayer(Instruction):
    """Run the graph of `layer` on `sdu`."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True, instance=True, sequence=True)
class NextOfSide(NextLayer):
    """Run the graph of `layer`, which has no instances of its own, on `sdu`, bytes of `side` of the instance."""

    side: Expr = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT, R.CACHE))
class LookAhead(Instruction):
    """Run the lookahead graph of `layer` on `sdu`. Only in lookahead graphs."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True, instance=True, sequence=True)
class NextMessages(NextLayer):
    """Add `sdu`, at `offset` of the side's stream, to the layer's messages, and run the graph of `layer` on each
    complete message.

    If too many layers are nested, the bytes are a gap in the stream.
    """

    side: Expr = read()
    offset: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True)
class CutMessages(NextLayer):
    """Split `sdu` into consecutive messages, and run the graph of `layer` on each. The `lost` graph of `layer` runs for
    a rest that forms no message. `side` is that of the packet.
    """

    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class LoseMessages(Instruction):
    """The side's stream has a gap up to stream offset `end`: a partial message is discarded, and the start of the next
    message is unknown.
    """

    side: Expr = read()
    end: Expr = read()


@effects(runs=True, instance=True, sequence=True)
class CloseMessages(Instruction):
    """The side's stream ends. Runs the `lost` graph of `layer` if this layer took the side's last messages and a
    partial message, or a loss without an event so far, remains.
    """

    layer: str
    side: Expr = read()


@effects(reads=(R.NATIVE,), writes=(R.NATIVE,))
class CallNative(Instruction):
    """Call `function` of the native module `module` with `inputs`. It sets `outputs` and `sdu`.

    The function gets the module's state for the instance with number `context`; with `begins`, the state is created,
    zeroed, if there is none. `reason` is 0 or, when the function refused, 1 + the index of its reason. In that case the
    outputs are 0 and there is no SDU.
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
    """Free the state of the native module `module` for the instance with number `context`. Only in end graphs."""

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
    """Continue with block `to`."""

    to: str = leads_to()

    def targets(self) -> tuple[str, ...]:
        """As that of every terminator; so are most, and this is fast."""
        return (self.to,)


@effects()
class Branch(Terminator):
    """IfElse: `yes` when `condition` is not 0."""

    condition: Expr = read()
    yes: str = leads_to()
    no: str = leads_to()

    def targets(self) -> tuple[str, ...]:
        """As that of every terminator; so are most, and this is fast."""
        return self.yes, self.no


@effects(reads=(R.PACKET,))
class Check(Terminator):
    """Length check: `yes` when `size` bytes after `mark` were captured, `cut` when they were only on the wire, `short`
    when the unit is shorter.
    """

    mark: Reg = read()
    size: Expr = read()
    yes: str = leads_to()
    cut: str = leads_to()
    short: str = leads_to()


@effects(reads=(R.PACKET,))
class CheckWire(Terminator):
    """`yes` when the unit extends `size` bytes after `mark` on the wire, whether captured or not."""

    mark: Reg = read()
    size: Expr = read()
    yes: str = leads_to()
    short: str = leads_to()


@effects(writes=(R.COUNTERS,))
class End(Terminator):
    """The packet leaves the layer with `outcome`. Every packet has exactly one, so the counters conserve."""

    outcome: str


@effects(reads=(R.CONTEXT,), writes=(R.COUNTERS, R.CONTEXT, R.CACHE))
class NextStateless(Terminator):
    """The packet leaves the layer with `outcome`, and the stateless graph of `layer` runs on `sdu`. If that graph
    cannot forward the packet, or does not exist, the packet waits for the main graph of `layer`. Only in stateless
    graphs.
    """

    outcome: str
    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), writes=(R.COUNTERS, R.CONTEXT, R.CACHE))
class NextDeferring(NextStateless):
    """A NextStateless whose packet runs the deferred graph of this layer first in stage 2 (deferral). `carried` are the
    values of its parameters. Only in stateless graphs.
    """

    carried: tuple[Expr, ...] = read()


@effects()
class Dispatch(Terminator):
    """`key` selects the packet's worker. With `reverse`, `key` and `reverse` select the same worker in either order.
    Only in dispatch graphs.
    """

    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT,))
class NextDispatch(Terminator):
    """The dispatch graph of `layer` selects the packet's worker from `sdu`. Only in dispatch graphs."""

    layer: str
    sdu: Expr = read()


@effects(writes=(R.OUTSIDE,))
class PathKey(Instruction):
    """A key that the packet's path uses, in the name space `space`; with `reverse`, in either order. `use` is "stored"
    for one that finds instances, "passing" for one of a packet that stores none, "further" for a further key that may
    find an instance, and "added" for one that an instance gets. Only in path graphs.
    """

    use: str
    space: str
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT,))
class NextPath(Terminator):
    """The path graph of `layer` continues with `sdu`. Only in path graphs."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True)
class Again(Terminator):
    """The packet enters the layer anew with `unit`, before it has left a trace; only its second pass is counted."""

    unit: Expr = read()


@effects()
class Return(Terminator):
    """The end of a graph that is not a main graph, with its result. A stateless graph returns only before it has had an
    effect.
    """

    result: Expr = read()


def is_constant(expression: Expr, value: int) -> bool:
    """Whether an expression is the constant `value`."""
    return isinstance(expression, Const) and expression.value == value
