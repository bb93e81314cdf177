"""Where packets lie in the sequence of a side: what sluice/runtime/stream/sequence_place.h does
in C, with what the receiver says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sluice.ir.expression import MASK
from sluice.ir.graph import Rules
from sluice.ir.interpreter.holders import Holders
from sluice.ir.interpreter.sequence_types import CUT, DATA, EARLIER_MAX, FAR, FARTHEST, PHANTOM, Piece, Record, signed

P = ParamSpec("P")
R = TypeVar("R")
Own = TypeVar("Own", bound="SequencePlace")


def holding(operation: Callable[Concatenate[Own, P], R]) -> Callable[Concatenate[Own, P], R]:
    """An operation after which the sequence may hold memory that it did not hold before, or none any more."""

    @wraps(operation)
    def registered(self: Own, *arguments: P.args, **named: P.kwargs) -> R:
        result = operation(self, *arguments, **named)
        if self.holds:
            self.holders.enter(self)
        else:
            self.holders.leave(self)
        return result

    return registered


class SequencePlace:
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
        self.pieces: list[Piece] = []  # ascending, disjoint, all at or after `delivered`
        self.records: list[Record] = []  # by position, then arrival
        self.history: bytearray = bytearray()  # the last delivered bytes of an unbroken run
        self.history_end: int = 0
        self.has_edge = False  # what the receiver says is known
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
            self.has_edge = self.armed = False
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
        since it said so of a hole, further along than which something is held. Further along than a window after
        `next`, and after the last bytes that are held or that far before them, it is not believed.
        """
        self._unhold()
        if not self.holds:
            return False
        window = (edge - received) & ((1 << self.rules.width) - 1)
        to = self.position(received)
        most = max(self.window, window) if self.has_edge else window
        believed = signed(self.next + most - to) >= 0
        if self.pieces:
            last = self.pieces[-1]
            after = signed(last.position + last.length + most - to) >= 0
            believed |= after and signed(to + most - last.position) >= 0
        if believed:
            if not self.has_edge or signed(self.edge - (to + window)) < 0:
                self.edge = (to + window) & MASK
            self.window = most
            if not self.has_edge or signed(self.received - to) < 0:
                self.received = to
            self.has_edge = True
        beyond = self._beyond()
        if (
            not self.has_edge
            or beyond is None
            or beyond.position == self.next
            or signed(self.received - self.next) <= 0
        ):
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
            most = self._distance(self.next) + (self.window if self.has_edge else FAR)
            if self.has_edge:
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
        """Pass phantom units at `delivered`. Before anything real, the stream begins after them."""
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
