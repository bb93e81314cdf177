"""The model of one side's packet sequence. sluice/runtime/stream/sequence.h does the same in C.

Positions are 64 bits wide, on a circle; meta of fewer bits is unwrapped around `next`. The order of three of
them is

    start <= delivered <= next

[delivered, next) is contiguous and waits to be delivered: as bytes of the packet being processed (`fresh`),
or in held pieces. For each packet: begin, position, overlap, room, insert, then assemble or settle.
"""

from __future__ import annotations

from sluice.ir.expression import MASK
from sluice.ir.interpreter.sequence_place import SequencePlace, holding
from sluice.ir.interpreter.sequence_types import (
    CUT,
    DATA,
    FARTHEST,
    HISTORY_MAX,
    HOLD,
    HOLD_LEAST,
    JOINED_MAX,
    PHANTOM,
    PIECE_MAX,
    PIECE_SMALL,
    SMALL_MOST,
    Gap,
    Overlap,
    Piece,
    Record,
    new_wins,
    signed,
)
from sluice.ir.interpreter.value import EMPTY, Bytes, clip


class Sequence(SequencePlace):
    """One side's sequence."""

    # --- what is known already ------------------------------------------------------------------------------

    def overlap(self, position: int, data: Bytes, cursor: int) -> tuple[int, Overlap] | None:
        """The next known range of the captured bytes of `data`, from `cursor` on, and the cursor after it.

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
        return min(HOLD, max(self.window, HOLD_LEAST)) if self.has_edge else HOLD

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
                    self.next = end & MASK  # phantoms after fresh bytes are known by the distance
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

    def _may_join(self, piece: Piece, following: Piece) -> bool:
        if piece.kind != DATA or not self.rules.buffer_data:
            return True
        return self.rules.policy in ("first", "last") and piece.length + following.length <= JOINED_MAX

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
        """Keep a record after those that are not beyond it."""
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
