"""Instructions on the sequence of a side."""

from __future__ import annotations

from sluice.ir.expression import Expr, Reg
from sluice.ir.instruction.declaration import Instruction, R, effects, read, write


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


@effects(writes=(R.SEQUENCE,), sequence=True)
class InitPacketData(Instruction):
    """Initialise the record of the current packet's bytes, which InsertNext and InsertSeq set: nothing is inserted yet.
    Without this instruction, the record is initialised before the graph. Only in main graphs.
    """


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
