"""The model of a sequence of units (meta counts whole units); sluice/runtime/stream/sequence_units.h is its C."""

from __future__ import annotations

from sluice.ir.expression import MASK
from sluice.ir.graph import Rules
from sluice.ir.interpreter.sequence import Sequence
from sluice.ir.interpreter.sequence_place import holding
from sluice.ir.interpreter.sequence_types import DATA, FARTHEST, PIECE_MAX, Overlap, Piece, signed
from sluice.ir.interpreter.value import EMPTY, Bytes

UNIT_MAX = PIECE_MAX - 8
"""A unit of more captured bytes is not held."""


class Units(Sequence):
    """One side's units: each takes one position, whatever its length, and is delivered on its own."""

    def __init__(self, rules: Rules) -> None:
        self.lengths: dict[int, int] = {}  # on the wire, of the units held, by position
        self.fresh_length = 0
        super().__init__(rules)

    @holding
    def clear(self) -> None:
        super().clear()
        self.lengths.clear()

    @property
    def held_bytes(self) -> int:
        """Captured bytes of the units held, delivered or not."""
        return sum(len(piece.data) for piece in self.pieces)

    def _held(self, position: int) -> Piece | None:
        return next((piece for piece in self.pieces if piece.position == position), None)

    def overlap(self, position: int, data: Bytes, cursor: int) -> tuple[int, Overlap] | None:
        """Whether the unit is known: delivered, given up, or held. There is one at most."""
        if cursor or not self.based:
            return None
        if signed(position - self.delivered) < 0:
            if signed(position - self.start) < 0:
                return None
            return 1, Overlap(self._old_offset(position), 1, data, EMPTY)
        piece = self._held(position)
        if piece is None:
            return None
        return 1, Overlap(self._offset(position), 1, data, (bytes(piece.data), self.lengths[position]))

    def room(self, position: int, data: Bytes, units: int) -> bool:
        """Whether the unit can be held within the limits; what leaves at once or is known takes no room."""
        if not units or signed(position - self.delivered) < 0 or self._held(position) is not None:
            return True
        if self.delivered == self.next and signed(position - self.next) <= 0:
            return True
        captured, rules = len(data[0]), self.rules
        if captured > UNIT_MAX:
            return False
        return self.held_bytes + captured <= self._limit() and len(self.pieces) < rules.limit_pieces

    def insert_next(self, position: int, data: Bytes, units: int) -> bool:
        """The same for the next unit in order, while nothing waits or is held; else nothing, and False."""
        simple = units and position == self.next == self.delivered and not self.pieces
        if not simple or (self.rules.linear and position >= FARTHEST):
            return False
        self.insert(position, data, units)
        return True

    @holding
    def insert(self, position: int, data: Bytes, units: int) -> None:
        """Insert the unit, or nothing. What is known stays."""
        self.settle()
        if not units or signed(position - self.delivered) < 0 or (self.rules.linear and position >= FARTHEST):
            return
        if position == self.next == self.delivered:
            self.fresh, self.fresh_length = data
            self.next = (self.next + 1) & MASK
        elif self._held(position) is None:
            self._hold(position, data)
        self._advance()

    def _hold(self, position: int, data: Bytes) -> None:
        self._begin_holding()
        self.pieces.append(Piece(DATA, position, 1, bytearray(data[0])))
        self.pieces.sort(key=lambda piece: self._distance(piece.position))
        self.lengths[position] = data[1]

    def fits(self) -> bool:
        """Whether the packet's own unit can be held."""
        return self.fresh is None or len(self.fresh) <= UNIT_MAX

    @holding
    def settle(self) -> None:
        """End of the packet: a unit that was not delivered is copied."""
        if self.fresh is not None:
            data, self.fresh = self.fresh, None
            self._hold(self.delivered, (data, self.fresh_length))

    @holding
    def assemble(self) -> tuple[Bytes, int]:
        """The next contiguous unit that has a length, and its number."""
        offset = self._offset(self.delivered)
        while self.delivered != self.next:
            offset = self._offset(self.delivered)
            if self.fresh is not None:
                unit, self.fresh = (self.fresh, self.fresh_length), None
            else:
                piece = self.pieces.pop(0)
                unit = bytes(piece.data), self.lengths.pop(piece.position)
            self._pass(1)
            if unit[1]:
                return unit, offset
        return EMPTY, offset
