"""Step 3 of a packet's way: its position in the sequence, and the insert with rexmit, out_of_wnd and gap."""

from __future__ import annotations

from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Flip, Length, Reg, Slice, chain
from sluice.ir.instruction import (
    AcknowledgeSeq,
    BeginSeq,
    Branch,
    Count,
    CutSeq,
    Drain,
    EndInst,
    FullSeq,
    Goto,
    InOrder,
    InsertNext,
    InsertSeq,
    InWindow,
    OverdueSeq,
    OverlapSeq,
    PlaceSeq,
    RecordSeq,
    RoomSeq,
    SkipSeq,
)
from sluice.lang.events import UNPLACED_CAUSES
from sluice.lang.sequence import Received, Sequence
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.layer_state import (
    ACKNOWLEDGED,
    CAUSE_NUMBER,
    FRESH,
    IN_ORDER,
    INSERTED,
    NO_HOLE,
    POSITION,
    PROGRESS,
    REASON_NUMBER,
    SEQ_DATA,
    SEQUENCED,
    LayerState,
    all_of,
    header_of,
)
from sluice.lower.next_layer import AboveBuilder
from sluice.lower.scope import SIDE

UNITS = Reg("local.seq_units", 32)
NEXT = Reg("local.next", 1)
SKIPPED, SKIP_OFFSET, SKIP_LENGTH = (
    Reg("local.skipped", 1),
    Reg("local.skip_offset", 64),
    Reg("local.skip_length", 64),
)


def end_fresh(layer: LayerState, out: GraphBuilder) -> None:
    """An instance that is never stored ends with its packet, and gives back what it holds."""
    if layer.has_packet_data:
        with out.when(FRESH, "end fresh instance"):
            out.emit(EndInst(REASON_NUMBER["accept"]))


class SequenceBuilder:
    """Emits the sequence step of one layer."""

    def __init__(self, layer: LayerState, out: GraphBuilder, events: EventBuilder, above: AboveBuilder) -> None:
        assert layer.sequence is not None
        self.layer = layer
        self.sequence: Sequence = layer.sequence
        self.scope = layer.scope
        self.out = out
        self.events = events
        self.above = above

    def build(self) -> None:
        """The whole step; leaves INSERTED, POSITION, IN_ORDER and, where conditions ask for v, a record."""
        out, s, scope = self.out, self.sequence, self.scope
        with out.at(s.where):
            self._other_side()
            self._overdue()
            meta = scope.number(s.meta)
            out.assign(INSERTED, ZERO)
            out.assign(SEQ_DATA, scope.bytes(s.data))
            out.assign(UNITS, self._units())
            if s.units and s.data_len is not None:
                nothing_or_all = Binary("-", ZERO, UNITS)  # 0, or the farthest
                out.assign(SEQ_DATA, Slice(SEQ_DATA, ZERO, nothing_or_all))
            outside, done = out.name("not inserted"), out.name("inserted")
            leaves = self._conditions(meta, outside)
            if not s.zero_based:
                if s.base is not None and s.start is not None:
                    with out.when(Binary("!=", scope.number(s.start), ZERO), "moved base"):
                        out.emit(BeginSeq(SIDE, scope.number(s.base), Const(2)))
                moves = s.start is not None and s.base is None
                out.emit(BeginSeq(SIDE, meta, scope.number(s.start) if moves and s.start is not None else ZERO))
            out.emit(PlaceSeq(POSITION, SIDE, meta))
            if self.layer.wanted("rexmit"):
                if s.units:
                    with out.when(UNITS, "a unit"):
                        self._overlaps()
                else:
                    self._overlaps()
            if s.skip is not None:
                with out.when(Binary("!=", scope.number(s.skip), ZERO), "skip"):
                    self._skip_to()
            simple, ordered = out.name("inserted next"), out.name("ordered")
            if not s.whole:  # of a datagram in fragments all wait for the last one
                out.emit(InsertNext(NEXT, SIDE, POSITION, SEQ_DATA, UNITS))
                out.unless(Flip(NEXT, 1), "not next", simple)
                with out.aside(simple):
                    out.assign(INSERTED, ONE)
                    out.assign(IN_ORDER, ONE)
                    out.emit(Goto(ordered))
            self._make_room()
            out.emit(InsertSeq(SIDE, POSITION, SEQ_DATA, UNITS))
            out.assign(INSERTED, ONE)
            if not s.whole and not s.units:
                self._give_up_cut_bytes()
            out.block(done)
            if leaves:
                placed = out.name("placed")
                out.emit(Goto(placed))
                out.block(outside)
                out.emit(PlaceSeq(POSITION, SIDE, meta))
                out.block(placed)
            out.emit(InOrder(IN_ORDER, SIDE, POSITION))
            if self.layer.v_fields:
                out_of_order = all_of(INSERTED, Flip(IN_ORDER, 1))
                if self.layer.is_silent_without_v():
                    # what says nothing in its turn need not be remembered until then
                    out_of_order = all_of(
                        out_of_order, chain("|", [Binary("!=", header_of(reg), ZERO) for reg in self.layer.v_fields])
                    )
                with out.when(out_of_order, "record"):
                    out.emit(RecordSeq(SIDE, POSITION, tuple(header_of(reg) for reg in self.layer.v_fields)))
            if s.acknowledged is not None:
                self._acknowledged(s.acknowledged)
            if s.wait is not None:
                out.emit(OverdueSeq(Reg("local.overdue", 1), SIDE, s.wait))  # what is held from now on
            if not s.whole:
                out.block(ordered)

    def _acknowledged(self, received: Received) -> None:
        """What the receiver has said before of this side: for a hole that the packet may have left."""
        with self.out.when(all_of(INSERTED, Flip(IN_ORDER, 1)), "after a hole"):
            self._receives(SIDE, received)

    def _receives(self, side: Expr, received: Received) -> None:
        """Take what the receiver of a side says, and give up a hole that is due."""
        out, due = self.out, Reg("local.due", 1)
        done = out.name("after received")
        for condition, said in received:
            other = out.name("other receiver") if condition is not None else done
            if condition is not None:
                out.unless(Binary("!=", self.scope.number(condition), ZERO), "receiver", other)
            when, position, edge = (self.scope.number(item) for item in said)
            out.unless(Binary("!=", when, ZERO), "acknowledges", done)
            out.emit(AcknowledgeSeq(due, side, position, edge, self.sequence.grace))
            out.unless(due, "not to come", done)
            out.emit(Drain(PROGRESS, side, Const(CAUSE_NUMBER["acknowledged"]), ACKNOWLEDGED))
            out.emit(Goto(done))
            if other != done:
                out.block(other)
        out.block(done)

    def _other_side(self) -> None:
        """What the packet says of the other side's bytes. They are delivered before its own, which may answer them."""
        out, s, other = self.out, self.sequence, Flip(SIDE, 1)
        if s.decides is not None:
            when, base = (self.scope.number(item) for item in s.decides)
            with out.when(when, "decides"):
                out.emit(BeginSeq(other, base, Const(2)))
                out.emit(Drain(PROGRESS, other, Const(CAUSE_NUMBER["acknowledged"]), NO_HOLE))
        if s.acknowledges is not None:
            self._receives(other, s.acknowledges)

    def _overdue(self) -> None:
        """Give up the holes of each side after which bytes have been held for long enough."""
        out, wait = self.out, self.sequence.wait
        if wait is None:
            return
        due = Reg("local.overdue", 1)
        for side in (SIDE, Flip(SIDE, 1)) if self.layer.sides > 1 else (SIDE,):
            again, done = out.name("overdue"), out.name("nothing overdue")
            out.block(again)
            out.emit(OverdueSeq(due, side, wait))
            out.unless(due, "is overdue", done)
            out.emit(Drain(PROGRESS, side, Const(CAUSE_NUMBER["timeout"]), 0))
            out.emit(Branch(PROGRESS, again, done))
            out.block(done)

    def _units(self) -> Expr:
        """How much sequence space the packet takes."""
        s = self.sequence
        if s.data_len is None:
            return ONE if s.units else Length(SEQ_DATA)
        number = self.scope.number(s.data_len)
        return Binary("!=", number, ZERO) if s.units else number

    def _conditions(self, meta: Expr, outside: str) -> bool:
        """What keeps a packet from being inserted; whether anything can."""
        out, s, scope = self.out, self.sequence, self.scope
        leaves = False
        if self.layer.prototype.sequence_condition is not None:
            out.assign(SEQUENCED, Binary("!=", scope.number(self.layer.prototype.sequence_condition), ZERO))
            out.unless(SEQUENCED, "sequence", outside)
            leaves = True
        if s.outside is not None:
            foreign, fits = out.name("outside"), out.name("not outside")
            out.emit(Branch(Binary("!=", scope.number(s.outside), ZERO), foreign, fits))
            out.block(foreign)
            self._left_out()
            out.emit(Goto(outside))
            out.block(fits)
            leaves = True
        if s.window is not None:
            low, high = (scope.number(item) for item in s.window)
            inside = Reg("local.in_window", 1)
            out.emit(InWindow(inside, meta, UNITS, low, high))
            beyond, within = out.name("out of window"), out.name("in window")
            out.emit(Branch(inside, within, beyond))
            out.block(beyond)
            out.emit(Count("out of window"))
            self.events.happens("out_of_wnd", {})
            if s.enforce and not s.units and not s.zero_based:
                self._left_out()
            out.emit(Goto(outside if s.enforce else within))
            out.block(within)
            leaves = leaves or s.enforce
        return leaves

    def _left_out(self) -> None:
        """The bytes of a packet that is not inserted have no place in the stream."""
        if self.layer.wanted("unplaced"):
            length = Length(SEQ_DATA, captured=True)
            with self.out.when(Binary("!=", length, ZERO), "left out"):
                self.events.happens("unplaced", {"length": length, "cause": Const(UNPLACED_CAUSES.index("outside"))})

    def _overlaps(self) -> None:
        """Event rexmit, for every range of the bytes that is known already."""
        out = self.out
        cursor, more = Reg("local.overlap_cursor", 64), Reg("local.overlap_more", 1)
        offset, length = Reg("local.overlap_offset", 64), Reg("local.overlap_length", 64)
        new, old = Reg("local.overlap_new", 0), Reg("local.overlap_old", 0)
        out.assign(cursor, ZERO)
        loop, after = out.name("overlaps"), out.name("overlaps done")
        out.block(loop)
        out.emit(OverlapSeq(more, cursor, offset, length, new, old, SIDE, POSITION, SEQ_DATA, cursor))
        with out.when(more, "rexmit", after):
            self.events.happens("rexmit", {"offset": offset, "length": length, "new": new, "old": old})
            out.emit(Goto(loop))
        out.block(after)

    def _make_room(self) -> None:
        """At a limit, holes are given up one by one; where only the whole counts, the instance ends."""
        out, s = self.out, self.sequence
        insert, full, again = out.name("insert"), out.name("no room"), out.name("room")
        room = Reg("local.room", 1)
        if self.layer.v_fields and not s.whole:
            # One hole given up lets at least one record go in this packet's release steps.
            many = Reg("local.many_records", 1)
            out.emit(FullSeq(many, SIDE, POSITION))
            with out.when(many, "too many records"):
                out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["limit"]), 0))
        out.block(again)
        out.emit(RoomSeq(room, SIDE, POSITION, SEQ_DATA, UNITS))
        out.emit(Branch(room, insert, full))
        out.block(full)
        if s.whole:
            out.emit(EndInst(REASON_NUMBER["limit"]))
            out.end("dropped:limit")
        else:
            out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["limit"]), 0))
            skip = out.name("no room at all")
            out.emit(Branch(PROGRESS, again, skip))
            out.block(skip)
            # Nothing is held: the stream goes on with this packet, which then needs no room.
            out.emit(SkipSeq(SKIPPED, SKIP_OFFSET, SKIP_LENGTH, SIDE, POSITION))
            with out.when(SKIPPED, "skipped"):
                self.events.gap(SKIP_OFFSET, SKIP_LENGTH, Const(CAUSE_NUMBER["limit"]))
        out.block(insert)

    def _skip_to(self) -> None:
        """What is missing before this packet's position will not come; what is held there goes on."""
        out = self.out
        loop, after = out.name("skip on"), out.name("skipped all")
        out.block(loop)
        out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["skipped"]), NO_HOLE))
        out.emit(SkipSeq(SKIPPED, SKIP_OFFSET, SKIP_LENGTH, SIDE, POSITION))
        with out.when(SKIPPED, "skipped", after):
            self.events.gap(SKIP_OFFSET, SKIP_LENGTH, Const(CAUSE_NUMBER["skipped"]))
            out.emit(Goto(loop))
        out.block(after)

    def _give_up_cut_bytes(self) -> None:
        """Bytes that the snap length took will not come: the stream goes on after them at once."""
        out = self.out
        cut, look, after = Reg("local.cut", 1), out.name("cut"), out.name("nothing cut")
        out.block(look)
        out.emit(CutSeq(cut, SIDE))
        with out.when(cut, "give up cut bytes", after):
            self.above.cut_packet()
            out.emit(Drain(PROGRESS, SIDE, Const(CAUSE_NUMBER["snaplen"]), 0))
            out.emit(Goto(look))
        out.block(after)
