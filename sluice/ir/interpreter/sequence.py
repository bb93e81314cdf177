"""The model of one side's packet sequence. sluice/runtime/stream/sequence.h does the same in C.

Positions are 64 bits wide, on a circle; meta of fewer bits is unwrapped around `next`. The order of three of
them is

    start <= delivered <= next

[delivered, next) is contiguous and waits to be delivered: as bytes of the packet being processed (`fresh`),
or in held pieces. For each packet: begin, position, overlap, room, insert, then assemble or settle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from sluice.ir.expression import MASK
from sluice.ir.graph import Rules
from sluice.ir.interpreter.holders import Holders
from sluice.ir.interpreter.value import EMPTY, Bytes, clip

DATA, CUT, PHANTOM = "data", "cut", "phantom"
"""Kinds of pieces: bytes; bytes that the snap length took; sequence space without bytes (SYN, FIN)."""

FARTHEST = (1 << 63) - 1
"""The farthest position of a linear sequence, and the farthest ahead that a piece may end."""

PIECE_MAX = 131072 - 48
"""Longer data is buffered as several pieces: the runtime's largest block, less the head of a piece."""

JOINED_MAX = 2048 - 48
"""Data that touches is one piece up to so many bytes: the runtime's blocks of 2 KiB, less the head of a piece."""

HISTORY_MAX = 65536

PIECE_SMALL = 256
"""The number of units below which a piece is small."""

SMALL_MOST = 1024
"""The maximum number of small pieces that a side may hold."""

FAR = 1 << 30
"""Bytes so far from all that is known of a stream belong to another one."""

EARLIER_MAX = 7
"""Ranges before the base that are remembered."""

HOLD = 1 << 24
"""Bytes that a side may hold where its sequence has no limit of its own."""

HOLD_LEAST = 1 << 20
"""Bytes that a side may hold, however small the window is that its receiver offers."""


def signed(distance: int) -> int:
    """A distance on the circle of 64 bits, the shorter way round."""
    distance &= MASK
    return distance - (1 << 64) if distance >> 63 else distance


def in_window(width: int, meta: int, length: int, low: int, high: int) -> bool:
    """Whether any of [meta, meta + max(length, 1)) lies in [low, high), all modulo 2^width."""
    mask = (1 << width) - 1
    size = (high - low) & mask
    return size != 0 and ((meta - low) & mask < size or (low - meta) & mask < max(length, 1))


def new_wins(policy: str, whole: bool, start: int, end: int, old_start: int, old_end: int) -> bool:
    """Whether a new segment [start, end) wins over a held piece [old_start, old_end) where both have bytes.

    The segment is taken as far as it has bytes and is not delivered, the piece as it stands. Systems treat the
    fragments of a datagram (`whole`) otherwise than the segments of a stream.
    """
    match policy, whole:
        case "last", _:
            return True
        case ("bsd", _) | ("windows", False):
            return start < old_start
        case "bsd_right", _:
            return start >= old_start
        case "linux", False:
            return start < old_start or (start == old_start and end > old_end)
        case "linux", True:
            return start <= old_start
        case "windows", True:
            return start < old_start and end > old_end
        case "solaris", False:
            return end >= old_end if start <= old_start else end > old_end
        case "solaris", True:
            return start < old_start and end >= old_end
        case _:
            return False


@dataclass(slots=True)
class Piece:
    """What is known of `length` units from `position` on."""

    kind: str
    position: int
    length: int
    data: bytearray = field(default_factory=bytearray)


class Record(NamedTuple):
    """What conditions on virtual ordered packets will need of a packet beyond `next`."""

    position: int
    values: tuple[int, ...]


class Overlap(NamedTuple):
    """Bytes that were known already: where in the stream, and both copies (the old bytes may be gone)."""

    offset: int
    length: int
    new: Bytes
    old: Bytes


class Gap(NamedTuple):
    """Bytes given up: where in the stream, how many, and whether the snap length took them."""

    offset: int
    length: int
    cut: bool


P = ParamSpec("P")
R = TypeVar("R")
Own = TypeVar("Own", bound="Sequence")


def holding(operation: Callable[Concatenate[Own, P], R]) -> Callable[Concatenate[Own, P], R]:
    """An operation after which the sequence may hold memory that it did not hold before, or none any more."""

    @wraps(operation)
    def noted(self: Own, *arguments: P.args, **named: P.kwargs) -> R:
        result = operation(self, *arguments, **named)
        if self.holds:
            self.holders.enter(self)
        else:
            self.holders.leave(self)
        return result

    return noted


class Sequence:
    """One side's sequence. `holders`: among which it is while it holds memory. `owner`: whose it is, for the box."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.holders = Holders()
        self.owner: Any = None
        self.clear()

    @holding
    def clear(self) -> None:
        """The end of an instance: everything held is gone."""
        self.based = self.rules.linear
        self.start: int = 0  # position of stream offset 0
        self.next: int = 0  # the next expected position
        self.delivered: int = 0  # everything before it was delivered or given up
        self.skipped: int = 0  # phantom units in [start, delivered)
        self.trailing: int = 0  # of those, the ones directly before `delivered`
        self.fresh: bytes | None = None  # [delivered, next) begins with these bytes of the current packet
        self.pieces: list[Piece] = []  # ascending, disjoint, all at or behind `delivered`
        self.records: list[Record] = []  # by position, then arrival
        self.history = bytearray()  # the last delivered bytes of an unbroken run
        self.history_end: int = 0
        self.heard = False  # what the receiver says is known
        self.edge: int = 0  # the farthest position that it has offered to take
        self.window: int = 0  # the largest window that it has offered
        self.received: int = 0  # the farthest position before which it has received everything
        self.armed = False  # `settled` and `since` are known
        self.settled: int = 0  # what `received` was at `since`
        self.since: int = 0
        self.moments: list[tuple[int, int]] = []  # since when all before a position has waited; see overdue()
        self.earlier: list[tuple[int, int]] = []  # ranges before the base that have come
        self.unplaced = [0, 0, 0]  # bytes before the base, there again, and outside, since they were last reported

    @property
    def holds(self) -> bool:
        """Whether anything is kept besides the positions (in C: there is a struct sl_held)."""
        return bool(self.pieces or self.records or self.history or self.earlier or self.unplaced[2])

    def _unhold(self) -> None:
        """What the receiver says is forgotten with the last of what is held, and so is how long it has waited."""
        if not self.holds:
            self.heard = self.armed = False
            self.moments = []

    @property
    def held_bytes(self) -> int:
        """Bytes in pieces, delivered or not."""
        return sum(piece.length for piece in self.pieces if piece.kind == DATA)

    @property
    def bytes(self) -> int:
        """Bytes that are here and were not delivered: held, or the packet's own."""
        return self.held_bytes + (len(self.fresh) if self.fresh is not None else 0)

    def _begin_holding(self) -> None:
        """A piece or record is about to be added: if it is the first, the side begins to hold data."""
        if not self.pieces and not self.records:
            self.holders.renew(self)

    @holding
    def gave_up(self) -> None:
        """After a drain that gave up all holes: records, history and the ranges before the base go, too."""
        if self.pieces:
            self.holders.renew(self)
            return
        self.records.clear()
        self.history.clear()
        self.earlier.clear()
        self.unplaced = [0, 0, 0]
        self._unhold()

    # --- where things lie -----------------------------------------------------------------------------------

    @holding
    def begin(self, meta: int, rebase: int) -> None:
        """The first packet sets the base; so does one with `rebase` 1, while nothing is held or delivered. With 2 what
        is held beyond it stays.
        """
        if self.rules.linear or (self.based and not rebase):
            return
        if self.based and rebase == 2:
            self._move(meta)
            return
        if self.based:
            nothing_yet = (self.delivered - self.start) & MASK == self.skipped
            if self.fresh is not None or not nothing_yet or self.held_bytes:
                return
            self.pieces.clear()
            self.records.clear()
        self.based = True
        self.start = self.next = self.delivered = meta & ((1 << self.rules.width) - 1)
        self.skipped = self.trailing = 0

    def _move(self, meta: int) -> None:
        """Move the base while nothing was delivered or given up: what is held beyond it stays."""
        base = self.position(meta)
        nothing_yet = (self.delivered - self.start) & MASK == self.skipped
        if self.fresh is not None or not nothing_yet or base == self.delivered:
            return
        held = self.holds
        self._unhold()
        self.start = self.next = self.delivered = base
        self.skipped = self.trailing = 0
        if not held:
            return
        kept: list[Piece] = []
        for piece in self.pieces:
            before = min(-signed(piece.position - base), piece.length)
            if before > 0:
                if piece.kind == DATA and self.rules.accounts:
                    self._count_earlier(piece.position, before)
                if before == piece.length:
                    continue
                piece = Piece(piece.kind, base, piece.length - before, piece.data[before:])
            kept.append(piece)
        self.pieces = kept
        self.armed = False
        self._advance()
        self._unhold()

    def _count_earlier(self, position: int, count: int) -> None:
        """Count bytes before the base: each position once, then as repeated. Too far before it they are outside."""
        if not count:
            return
        if (self.start - position) & MASK >= FAR:
            self.unplaced[2] += count
            return
        low, high, known = position, (position + count) & MASK, 0
        kept: list[tuple[int, int]] = []
        for start, end in self.earlier:
            if signed(high - start) < 0 or signed(end - low) < 0:
                kept.append((start, end))
                continue
            first, last = max(0, signed(start - position)), min(count, signed(end - position))
            known += max(0, last - first)
            low = start if signed(start - low) < 0 else low
            high = end if signed(high - end) < 0 else high
        if len(kept) == EARLIER_MAX:
            start, end = kept.pop()
            low = start if signed(start - low) < 0 else low
            high = end if signed(high - end) < 0 else high
        self.earlier = [*kept, (low, high)]
        known = min(known, count)
        self.unplaced[0] += count - known
        self.unplaced[1] += known

    # --- what the receiver says -----------------------------------------------------------------------------

    def acknowledge(self, received: int, edge: int, now: int, grace: int) -> bool:
        """The receiver has everything before `received`, and takes what lies before `edge`. Whether it is `grace`
        since it said so of a hole, further along than which something is held.
        """
        self._unhold()
        if not self.holds:
            return False
        window = (edge - received) & ((1 << self.rules.width) - 1)
        to = self.position(received)
        if not self.heard or signed(self.edge - (to + window)) < 0:
            self.edge = (to + window) & MASK
        self.window = max(self.window, window) if self.heard else window
        if not self.heard or signed(self.received - to) < 0:
            self.received = to
        self.heard = True
        beyond = self._beyond()
        if beyond is None or beyond.position == self.next or signed(self.received - self.next) <= 0:
            self.armed = False
            return False
        if not self.armed or signed(self.settled - self.next) <= 0:
            self.armed, self.settled, self.since = True, self.received, now
        return now - self.since >= grace

    def settled_before(self) -> int:
        """Before which position holes are to be given up."""
        return self.settled if self.armed else self.next

    @holding
    def overdue(self, now: int, wait: int) -> bool:
        """Whether bytes have been held for `wait` nanoseconds after a hole at `next`; also records what is held now.

        One moment is remembered, with the end of all that was held then: bytes wait for `wait` at least, and at most
        twice as long.
        """
        self._unhold()
        beyond = self._beyond()
        if beyond is None or beyond.position == self.next:
            self.moments = []
            return False
        if not self.moments or signed(self.moments[0][1] - self.next) <= 0:
            self.moments = [(now, (self.pieces[-1].position + self.pieces[-1].length) & MASK)]
        return now - self.moments[0][0] >= wait

    @holding
    def leave_out(self) -> tuple[int, int, int]:
        """Discard what is held further along than the receiver would take, if it is the first. Bytes without a place
        since the last call: before the base, there again, outside.
        """
        if not self.holds:
            return 0, 0, 0
        if self.delivered == self.next and self.rules.bounded:
            most = self._distance(self.next) + (self.window if self.heard else FAR)
            if self.heard:
                most = max(most, signed(self.edge - self.delivered))
            if self.pieces and self._distance(self.pieces[0].position) > most:
                self.unplaced[2] += self.held_bytes
                self.pieces.clear()
            if not self.pieces:
                self.records = [r for r in self.records if signed(r.position - self.delivered) <= most]
        before, repeated, outside = self.unplaced
        self.unplaced = [0, 0, 0]
        self._unhold()
        return before, repeated, outside

    def position(self, meta: int) -> int:
        """The position that `meta` means."""
        if self.rules.linear:
            return min(meta, FARTHEST)
        if not self.based:
            return meta
        unused = 64 - self.rules.width
        return (self.next + (signed((meta - self.next) << unused) >> unused)) & MASK

    def in_order(self, position: int) -> bool:
        """Whether `position` is at or before the next expected one, or none is known yet."""
        return not self.based or signed(position - self.next) <= 0

    def cut(self) -> bool:
        """Whether the next expected bytes are missing by the snap length."""
        piece = self._beyond()
        return piece is not None and piece.kind == CUT and piece.position == self.next

    def waiting(self) -> bool:
        """Whether contiguous bytes wait to be delivered."""
        return self.delivered != self.next

    def _beyond(self) -> Piece | None:
        """The first piece that does not lie before `next`."""
        waiting = (self.next - self.delivered) & MASK
        for piece in self.pieces:
            if self._distance(piece.position) >= waiting:
                return piece
        return None

    def _distance(self, position: int) -> int:
        return (position - self.delivered) & MASK

    def _offset(self, position: int) -> int:
        """The stream offset of a position that is not before `delivered`."""
        return (position - self.start - self.skipped) & MASK

    def _old_offset(self, position: int) -> int:
        """The stream offset of a position in [start, delivered).

        Exact when the phantoms among them lie at the end (a FIN), else as if they lay at the beginning.
        """
        units = min((position - self.start) & MASK, (self.delivered - self.trailing - self.start) & MASK)
        return max(0, units - (self.skipped - self.trailing))

    # --- what is known already ------------------------------------------------------------------------------

    def overlap(self, position: int, data: Bytes, cursor: int) -> tuple[int, Overlap] | None:
        """The next known range of the captured bytes of `data`, from `cursor` on, and the cursor behind it.

        In ascending order: what lies in [start, delivered), then each piece of bytes. None when no more are
        known.
        """
        captured = len(data[0])
        if cursor >= captured:
            return None
        at = signed(position + cursor - self.delivered)
        end = min(at + captured - cursor, FARTHEST)
        first = signed(self.start - self.delivered)
        old: bytes | None
        if first < 0 and at < 0 and end > first:
            low, high = max(at, first), min(end, 0)
            where = (self.delivered + low) & MASK
            offset, old = self._old_offset(where), self._remembered(where, high - low)
        else:
            at = max(at, 0)
            for piece in self.pieces:
                start = self._distance(piece.position)
                if piece.kind == DATA and start + piece.length > at:
                    break
            else:
                return None
            if start >= end:
                return None
            low, high = max(at, start), min(end, start + piece.length)
            offset = self._offset(self.delivered + low)
            old = bytes(piece.data[low - start : high - start]) if self.rules.buffer_data else None
        length = high - low
        low = (self.delivered + low - position) & MASK
        new = clip(data, low, low + length)
        return low + length, Overlap(offset, length, new, (old if old is not None else b"", length))

    def _remembered(self, position: int, length: int) -> bytes | None:
        back = (self.history_end - position) & MASK
        if not 0 < back <= len(self.history):
            return None
        low = len(self.history) - back
        return bytes(self.history[low : low + length])

    def _remember(self, position: int, data: bytes | bytearray) -> None:
        keep = min(self.rules.history, HISTORY_MAX)
        if not keep:
            return
        if position != self.history_end:
            self.history.clear()
        self.history_end = (position + len(data)) & MASK
        self.history += data
        del self.history[:-keep]

    # --- insert ---------------------------------------------------------------------------------------------

    def room(self, position: int, data: Bytes, units: int) -> bool:
        """Whether `data` with `units` of sequence space can be inserted within the limits.

        What is in order while nothing waits always can: it leaves with what it frees. So can what was
        delivered before. How much memory there is for all, and how much of it is in use, is not modelled.
        """
        captured, rules = len(data[0]), self.rules
        if self.delivered == self.next and signed(position - self.next) <= 0:
            return True
        if not units or signed(position + captured - self.delivered) <= 0:
            return True
        if self.held_bytes + captured > self._limit() or len(self.pieces) >= rules.limit_pieces:
            return False
        if rules.whole or not self.holds or min(data[1], units) >= PIECE_SMALL:
            return True
        return sum(piece.length < PIECE_SMALL for piece in self.pieces) < SMALL_MOST

    def _limit(self) -> int:
        """The maximum number of bytes that a side may hold: by its rules, or by the box's options and what its receiver
        accepts.
        """
        if self.rules.limit:
            return self.rules.limit
        return min(HOLD, max(self.window, HOLD_LEAST)) if self.heard else HOLD

    def full(self, position: int) -> bool:
        """Whether `position` is beyond `next`, and there are as many records as there may be."""
        return signed(position - self.next) > 0 and len(self.records) >= self.rules.limit_records

    @holding
    def insert(self, position: int, data: Bytes, units: int) -> None:
        """Insert `units` of sequence space: the captured bytes of `data`, those that were cut, then phantoms.

        What lies before `delivered` is dropped. Bytes that are next in order while nothing is held stay fresh
        until they are assembled or settled.
        """
        self._unhold()
        self.settle()
        if self.rules.linear and position > FARTHEST:
            return
        data = clip(data, 0, units)
        known = -signed(position - self.delivered)
        if known > 0:
            before = -signed(position - self.start)
            if self.rules.accounts and before > 0:
                self._count_earlier(position, min(before, len(data[0])))
            if units <= known:
                return
            data = clip(data, known, MASK)
            units -= known
            position = self.delivered
        units = min(units, FARTHEST - (position if self.rules.linear else self._distance(position)))
        if units == 0:
            return
        captured, length = clip(data, 0, units)
        cut, phantom, end = position + len(captured), position + length, position + units
        in_order = position == self.next and not self.pieces
        beyond = signed(position - self.next) > 0
        if in_order:
            if captured and self.rules.buffer_data:
                self.fresh = captured
                self.next = cut & MASK
            elif captured:
                self._pass(len(captured))
                self.next = self.delivered
            if cut == phantom:
                if self.fresh is not None:
                    self.next = end & MASK  # phantoms behind fresh bytes are known by the distance
                elif phantom != end:
                    self._skip(end - phantom)
                    self.next = self.delivered
                return
        else:
            self._fill(DATA, position, cut, captured)
        self._fill(CUT, cut, phantom)
        self._fill(PHANTOM, phantom, end)
        if beyond:
            self._join(self._distance(position), self._distance(end))
        self._advance()

    def insert_next(self, position: int, data: Bytes, units: int) -> bool:
        """The same for what is next in order, all captured, while nothing waits or is held; else nothing, and False."""
        captured, length = len(data[0]), data[1]
        simple = position == self.next == self.delivered and not self.pieces and captured == length <= units
        if not simple or (self.rules.linear and position > FARTHEST - units):
            return False
        self.insert(position, data, units)
        return True

    def forward(self, position: int, data: Bytes, units: int) -> int | None:
        """`insert_next` and `assemble` at once: the stream offset of the data, None where it is not next."""
        offset = self._offset(self.delivered)
        if not self.insert_next(position, data, units):
            return None
        self.assemble()
        return offset

    def fits(self) -> bool:
        """Whether the packet's own bytes can be held: a model has the memory."""
        return True

    @holding
    def settle(self) -> None:
        """End of the packet: bytes that were not delivered are copied."""
        if self.fresh is None:
            return
        data, self.fresh = self.fresh, None
        self._begin_holding()
        end = self.delivered + len(data)
        made = _cut_up(DATA, self.delivered, len(data), data)
        if self.next != end & MASK:
            made.append(Piece(PHANTOM, end & MASK, (self.next - end) & MASK))
        self.pieces[:0] = made

    def _fill(self, kind: str, low: int, high: int, data: bytes = b"") -> None:
        """Make [low, high) known: what is known stays, but the policy may let bytes replace bytes."""
        if low == high:
            return
        self._begin_holding()
        length = high - low
        start = self._distance(low)
        end = start + length
        if kind == DATA:
            self._uncover(start, end)
        found: list[Piece] = []
        at = start
        for piece in self.pieces:
            old_start = self._distance(piece.position)
            old_end = old_start + piece.length
            if old_end > start and at < end:
                if at < old_start:
                    stop = min(old_start, end)
                    found += self._new(kind, at, stop, data[at - start : stop - start])
                    at = stop
                if old_start < end:
                    stop = min(old_end, end)
                    rules = self.rules
                    wins = kind == DATA and new_wins(rules.policy, rules.whole, start, end, old_start, old_end)
                    if wins and rules.buffer_data:
                        piece.data[at - old_start : stop - old_start] = data[at - start : stop - start]
                    at = stop
            found.append(piece)
        if at < end:
            found += self._new(kind, at, end, data[at - start :])
        self.pieces = found

    def _new(self, kind: str, at: int, stop: int, data: bytes) -> list[Piece]:
        position = (self.delivered + at) & MASK
        if kind != DATA or not self.rules.buffer_data:
            return [Piece(kind, position, stop - at)]
        return _cut_up(kind, position, stop - at, data)

    def _uncover(self, start: int, end: int) -> None:
        """Take what is not bytes out of [start, end), distances from `delivered`: there bytes have come."""
        found: list[Piece] = []
        for piece in self.pieces:
            old_start = self._distance(piece.position)
            old_end = old_start + piece.length
            if piece.kind == DATA or old_end <= start or old_start >= end:
                found.append(piece)
                continue
            if old_start < start:
                found.append(Piece(piece.kind, piece.position, start - old_start))
            if old_end > end:
                found.append(Piece(piece.kind, (self.delivered + end) & MASK, old_end - end))
        self.pieces = found

    def _join(self, start: int, end: int) -> None:
        """Join pieces of one kind that touch between two distances from `delivered`.

        Not bytes of which a policy asks where the segments began that brought them.
        """
        found: list[Piece] = []
        for piece in self.pieces:
            at = self._distance(piece.position)
            before = found[-1] if found else None
            if (
                before is not None
                and start <= at <= end
                and before.kind == piece.kind
                and self._distance(before.position) + before.length == at
                and self._may_join(before, piece)
            ):
                before.length += piece.length
                before.data += piece.data
            else:
                found.append(piece)
        self.pieces = found

    def _may_join(self, piece: Piece, behind: Piece) -> bool:
        if piece.kind != DATA or not self.rules.buffer_data:
            return True
        return self.rules.policy in ("first", "last") and piece.length + behind.length <= JOINED_MAX

    # --- moves ----------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Move `next` over contiguous pieces up to what was cut; of a datagram in fragments over that, too. What is not
        waited for is passed at once.
        """
        done = 0
        for piece in self.pieces:
            distance, waiting = self._distance(piece.position), self._distance(self.next)
            if distance < waiting:  # bytes that replaced a phantom may reach farther than it did
                self.next = (self.delivered + max(waiting, distance + piece.length)) & MASK
                continue
            if piece.position != self.next or (piece.kind == CUT and not self.rules.whole):
                break
            if piece.kind == PHANTOM and self.delivered == self.next:
                self._skip(piece.length)
                self.next = self.delivered
                done += 1
            elif not self.rules.buffer_data:
                self._pass(piece.length)
                self.next = self.delivered
                done += 1
            else:
                self.next = (self.next + piece.length) & MASK
        del self.pieces[:done]

    def _skip(self, count: int) -> None:
        """Pass phantom units at `delivered`. Before anything real, the stream begins behind them."""
        anything = (self.delivered - self.start) & MASK != self.skipped
        self.delivered = (self.delivered + count) & MASK
        if not anything or self.skipped + count >= 1 << 32:
            self.start = (self.start + count) & MASK
        else:
            self.skipped += count
            self.trailing = min(self.trailing + count, 0xFFFF)

    def _pass(self, count: int) -> None:
        """Move `delivered` over units that are in the stream."""
        self.delivered = (self.delivered + count) & MASK
        self.trailing = 0

    # --- deliver --------------------------------------------------------------------------------------------

    @holding
    def assemble(self) -> tuple[Bytes, int]:
        """Deliver the contiguous bytes: all of [delivered, next), and the stream offset of the first."""
        offset = self._offset(self.delivered)
        if self.fresh is not None:
            data, self.fresh = self.fresh, None
            phantoms = (self.next - self.delivered - len(data)) & MASK
            self._remember(self.delivered, data)
            self._pass(len(data))
            if phantoms:
                self._skip(phantoms)
            return (data, len(data)), offset
        if self.delivered == self.next:
            return EMPTY, offset
        parts, unknown = bytearray(), 0
        while self.delivered != self.next:
            if self.rules.whole and self.pieces[0].kind == CUT:
                unknown = (self.next - self.delivered) & MASK  # what is held beyond is discarded with the instance
                break
            piece = self.pieces.pop(0)
            if piece.kind == DATA:
                parts += piece.data
                self._remember(piece.position, piece.data)
                self._pass(piece.length)
            else:
                self._skip(piece.length)
        return (bytes(parts), len(parts) + unknown), offset

    @holding
    def give_up(self) -> Gap | None:
        """Give up what is missing at `next`: what was cut there, else all up to the first piece or record.

        None when nothing is beyond, or when bytes still wait.
        """
        if self.delivered != self.next:
            return None
        cut = self.cut()
        if cut:
            length = self.pieces.pop(0).length
        else:
            ends = [signed(record.position - self.next) for record in self.records]
            ends = [end for end in ends if end > 0][:1]
            ends += [self._distance(piece.position) for piece in self.pieces[:1]]
            if not ends:
                return None
            length = min(ends)
        gap = Gap(self._offset(self.next), length, cut)
        self._pass(length)
        self.next = self.delivered
        self._advance()
        return gap

    @holding
    def skip_to(self, position: int) -> Gap | None:
        """Give up what is missing at `next`, up to `position` or to the first piece before it.

        None when that is nothing, or when bytes still wait.
        """
        length = signed(position - self.next)
        if self.pieces:
            length = min(length, self._distance(self.pieces[0].position))
        if self.delivered != self.next or length <= 0:
            return None
        gap = Gap(self._offset(self.next), length, False)
        self._pass(length)
        self.next = self.delivered
        self._advance()
        return gap

    # --- records --------------------------------------------------------------------------------------------

    @holding
    def record(self, position: int, values: tuple[int, ...]) -> None:
        """Keep a record behind those that are not beyond it."""
        self._unhold()
        self._begin_holding()
        at = len(self.records)
        while at and signed(position - self.records[at - 1].position) < 0:
            at -= 1
        self.records.insert(at, Record(position, values))

    @holding
    def release(self) -> tuple[int, ...] | None:
        """Take the lowest record out when it is not beyond `next` any more."""
        if not self.records or signed(self.records[0].position - self.next) > 0:
            return None
        return self.records.pop(0).values


def _cut_up(kind: str, position: int, length: int, data: bytes) -> list[Piece]:
    """Pieces of at most PIECE_MAX bytes each."""
    return [
        Piece(kind, (position + at) & MASK, min(PIECE_MAX, length - at), bytearray(data[at : at + PIECE_MAX]))
        for at in range(0, length, PIECE_MAX)
    ]
