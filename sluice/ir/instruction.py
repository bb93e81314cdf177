"""Instructions of the IR, each declared once: operands, and what it reads and writes besides them.

An operand is `write` (a register that it sets), `read` (an expression), or a plain constant of the instruction. What
is not an operand - the packet, the table, the sequence, the outside world - is a Resource: READS and WRITES name them.
Passes, the verifier, the interpreter and the text form all work from these declarations. Instructions of the paper's
Appendix B keep their names; DESIGN.md section 4 adds the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

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


R = Resource


def write() -> Any:
    """Declares an operand that is a register set by the instruction (or a tuple of them)."""
    return field(metadata={"role": "write"})


def read() -> Any:
    """Declares an operand that is an expression (or a tuple of them, or None)."""
    return field(metadata={"role": "read"})


@dataclass(slots=True)
class Instruction:
    """Base of all instructions. `where` is the line of the description that it came from."""

    READS: ClassVar[frozenset[Resource]] = frozenset()
    WRITES: ClassVar[frozenset[Resource]] = frozenset()
    NEEDS_INSTANCE: ClassVar[bool] = False

    where: Where = field(default=NOWHERE, kw_only=True, compare=False)

    @classmethod
    def operands(cls) -> Iterator[tuple[str, str]]:
        """Name and role ("write", "read", "plain") of every operand, in order."""
        for item in dataclasses.fields(cls):
            if item.name != "where":
                yield item.name, item.metadata.get("role", "plain")

    def written(self) -> Iterator[Reg]:
        """Registers that it sets."""
        for name, role in self.operands():
            if role == "write":
                value = getattr(self, name)
                yield from value if isinstance(value, tuple) else (value,)

    def expressions(self) -> Iterator[Expr]:
        """Expressions that it evaluates."""
        for name, role in self.operands():
            value = getattr(self, name)
            if role == "read" and value is not None:
                yield from value if isinstance(value, tuple) else (value,)

    def read_registers(self) -> Iterator[Reg]:
        """Registers that its expressions read."""
        for expression in self.expressions():
            yield from registers(expression)

    def has_effect(self) -> bool:
        """Whether it does more than set its registers."""
        return bool(self.WRITES)


def effects(reads: tuple[Resource, ...] = (), writes: tuple[Resource, ...] = (), instance: bool = False) -> Any:
    """Class decorator: declares the implicit reads and writes of an instruction."""

    def declare(cls: type[Instruction]) -> type[Instruction]:
        cls.READS = frozenset(reads) | (frozenset({R.INSTANCE}) if instance else frozenset())
        cls.WRITES = frozenset(writes)
        cls.NEEDS_INSTANCE = instance
        INSTRUCTIONS[cls.__name__] = cls
        return cls

    return declare


INSTRUCTIONS: dict[str, type[Instruction]] = {}

# --- header -------------------------------------------------------------------------------------------------------


@effects(reads=(R.PACKET,))
@dataclass(slots=True)
class Load(Instruction):
    """A number of `bits` bits that begins `at` bits behind position `mark`. Needs a Check that covers it."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    bits: int
    order: str


@effects(reads=(R.PACKET,))
@dataclass(slots=True)
class LoadBytes(Instruction):
    """`size` bytes that begin `at` bytes behind position `mark`. Needs a Check that covers them."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    size: Expr = read()


@effects()
@dataclass(slots=True)
class Mark(Instruction):
    """A position `offset` bytes behind another one."""

    target: Reg = write()
    base: Reg = read()
    offset: Expr = read()


@effects()
@dataclass(slots=True)
class Payload(Instruction):
    """What follows position `mark` in the unit (the paper's Payload())."""

    target: Reg = write()
    mark: Reg = read()


@effects()
@dataclass(slots=True)
class Assign(Instruction):
    """Modify a register; a number keeps the low bits that fit."""

    target: Reg = write()
    value: Expr = read()


# --- instances ----------------------------------------------------------------------------------------------------


@effects(reads=(R.TABLE, R.TIMER), writes=(R.INSTANCE,))
@dataclass(slots=True)
class Lookup(Instruction):
    """Contain(key): find the instance by `key` or, if there is `reverse`, by that; it becomes the current one.

    `found`: there is one. `expired`: its deadline has passed (it is then to be ended). `side`: 0 when the packet was
    sent by the active side, else 1.
    """

    found: Reg = write()
    expired: Reg = write()
    side: Reg = write()
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.TABLE,), writes=(R.TABLE, R.INSTANCE, R.SEQUENCE, R.OUTSIDE))
@dataclass(slots=True)
class CreateInst(Instruction):
    """Create an instance under `key`; its fields start from their init. When the table is full another one is evicted."""

    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(writes=(R.INSTANCE, R.SEQUENCE))
@dataclass(slots=True)
class FreshInst(Instruction):
    """An instance for this packet alone, which is never stored."""


@effects(writes=(R.TABLE, R.INSTANCE, R.SEQUENCE), instance=True)
@dataclass(slots=True)
class DestroyInst(Instruction):
    """Remove the current instance and give back what its sequences hold. Only in the graph that ends instances."""


@effects(reads=(R.SEQUENCE,), writes=(R.TABLE, R.INSTANCE, R.SEQUENCE, R.COUNTERS, R.OUTSIDE), instance=True)
@dataclass(slots=True)
class EndInst(Instruction):
    """End the current instance for `reason` (its number in END_REASONS): runs the layer's end graph."""

    reason: int


@effects(writes=(R.TIMER,), instance=True)
@dataclass(slots=True)
class Touch(Instruction):
    """The instance lives on for the timeout number `timeout` of its layer, from now."""

    timeout: Expr = read()


@effects(reads=(R.INSTANCE,), writes=(R.INSTANCE,), instance=True)
@dataclass(slots=True)
class SwapSides(Instruction):
    """Turn which side of the instance is active; `side` is the packet's side afterwards."""

    target: Reg = write()
    side: Expr = read()


# --- sequence -----------------------------------------------------------------------------------------------------


@effects()
@dataclass(slots=True)
class InWindow(Instruction):
    """Whether any position of [meta, meta + max(length, 1)) lies in [low, high), modulo meta's width."""

    target: Reg = write()
    meta: Expr = read()
    length: Expr = read()
    low: Expr = read()
    high: Expr = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class BeginSeq(Instruction):
    """The first packet sets the base; so does one with `anew`, while nothing is held or delivered."""

    side: Expr = read()
    meta: Expr = read()
    anew: Expr = read()


@effects(reads=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class PlaceSeq(Instruction):
    """Where `meta` lies in the sequence, unwrapped around the next expected position."""

    target: Reg = write()
    side: Expr = read()
    meta: Expr = read()


@effects(reads=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class InOrder(Instruction):
    """Whether `position` is at or before the next expected one, or none is known yet."""

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()


@effects(reads=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class OverlapSeq(Instruction):
    """The next range of `data` at `position` that is known already: iterates by `cursor`, which starts at 0."""

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


@effects(reads=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class RoomSeq(Instruction):
    """Whether `data` at `position` can be held within the limits."""

    target: Reg = write()
    side: Expr = read()
    position: Expr = read()
    data: Expr = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE, R.COUNTERS), instance=True)
@dataclass(slots=True)
class InsertSeq(Instruction):
    """Insert `data` at `position`; it takes `units` of sequence space."""

    side: Expr = read()
    position: Expr = read()
    data: Expr = read()
    units: Expr = read()


@effects(reads=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class CutSeq(Instruction):
    """Whether the next expected bytes are known to be missing by the snap length."""

    target: Reg = write()
    side: Expr = read()


@effects(reads=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class WaitingSeq(Instruction):
    """Whether contiguous bytes wait to be delivered."""

    target: Reg = write()
    side: Expr = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class Assemble(Instruction):
    """Deliver the contiguous bytes; `offset` is the stream offset of the first."""

    target: Reg = write()
    offset: Reg = write()
    side: Expr = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class GiveUpSeq(Instruction):
    """Give up the first hole: `more` is 0 when there is none; `cut` when it comes from the snap length."""

    more: Reg = write()
    offset: Reg = write()
    length: Reg = write()
    cut: Reg = write()
    side: Expr = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE, R.COUNTERS), instance=True)
@dataclass(slots=True)
class RecordSeq(Instruction):
    """Leave a record of a packet that is beyond the next expected position."""

    side: Expr = read()
    position: Expr = read()
    values: tuple[Expr, ...] = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE,), instance=True)
@dataclass(slots=True)
class ReleaseSeq(Instruction):
    """The lowest record that is no longer beyond the next expected position; `more` is 0 when there is none."""

    more: Reg = write()
    values: tuple[Reg, ...] = write()
    side: Expr = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE, R.COUNTERS), instance=True)
@dataclass(slots=True)
class SettleSeq(Instruction):
    """End of the packet: bytes that were not delivered are copied, as the packet goes away."""

    side: Expr = read()


@effects(reads=(R.SEQUENCE,), writes=(R.SEQUENCE, R.COUNTERS, R.OUTSIDE), instance=True)
@dataclass(slots=True)
class Drain(Instruction):
    """Deliver what waits, give up a hole for `cause`, deliver what is behind it: runs the layer's drain graph.

    With `all` it goes on until nothing is held. `progress` is 0 when there was nothing to do.
    """

    progress: Reg = write()
    side: Expr = read()
    cause: Expr = read()
    all: int


# --- outside ------------------------------------------------------------------------------------------------------


@effects(writes=(R.OUTSIDE,), reads=(R.CONTEXT,))
@dataclass(slots=True)
class Call(Instruction):
    """Invoke whoever hooked `event` with `values`, in the order of the event's fields. `side` is the sender's."""

    event: str
    side: Expr = read()
    values: tuple[Expr, ...] = read()


@effects(writes=(R.OUTSIDE, R.COUNTERS, R.CONTEXT, R.TABLE), reads=(R.CONTEXT,))
@dataclass(slots=True)
class NextLayer(Instruction):
    """Run the graph of `layer` on `sdu`."""

    layer: str
    sdu: Expr = read()


@effects(writes=(R.COUNTERS,))
@dataclass(slots=True)
class Count(Instruction):
    """Add one to a counter of the layer."""

    counter: str


# --- terminators: the last instruction of a block ------------------------------------------------------------------


@dataclass(slots=True)
class Terminator(Instruction):
    """Ends a block."""

    def targets(self) -> tuple[str, ...]:
        """Names of the blocks that may follow."""
        return tuple(
            getattr(self, name) for name, role in self.operands() if role == "plain" and name in ("to", "yes", "no", "cut", "short")
        )

    def retarget(self, old: str, new: str) -> None:
        """Let what led to block `old` lead to `new`."""
        for name in ("to", "yes", "no", "cut", "short"):
            if getattr(self, name, None) == old:
                setattr(self, name, new)


@effects()
@dataclass(slots=True)
class Goto(Terminator):
    """Go on with block `to`."""

    to: str


@effects()
@dataclass(slots=True)
class Branch(Terminator):
    """IfElse: `yes` when `condition` is not 0."""

    condition: Expr = read()
    yes: str
    no: str


@effects(reads=(R.PACKET,))
@dataclass(slots=True)
class Check(Terminator):
    """Length check: `yes` when `size` bytes behind `mark` were captured, `cut` when they were on the wire only,
    `short` when the unit is shorter than that.
    """

    mark: Reg = read()
    size: Expr = read()
    yes: str
    cut: str
    short: str


@effects(reads=(R.PACKET,))
@dataclass(slots=True)
class CheckWire(Terminator):
    """`yes` when the unit reaches `size` bytes behind `mark` on the wire, captured or not."""

    mark: Reg = read()
    size: Expr = read()
    yes: str
    short: str


@effects(writes=(R.COUNTERS,))
@dataclass(slots=True)
class End(Terminator):
    """The packet leaves the layer with `outcome`; every packet has exactly one, so the counters conserve."""

    outcome: str


@effects()
@dataclass(slots=True)
class Return(Terminator):
    """The end of a drain or end graph, with its result."""

    result: Expr = read()


def is_constant(expression: Expr, value: int) -> bool:
    """Whether an expression is the constant `value`."""
    return isinstance(expression, Const) and expression.value == value
