"""Instructions on sequences as Python closures.

Where an instruction says that there is nothing more (`more` is 0), its other registers become undefined.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.ir import instruction as ir
from sluice.ir.graph import given_up_name
from sluice.ir.interpreter.compiler import Compiler, all_unset, makes, sequence_of
from sluice.ir.interpreter.expressions import number, set_number, set_string, string
from sluice.ir.interpreter.frame import Frame, Operation
from sluice.ir.interpreter.sequence_types import Gap, in_window


@makes(ir.InWindow)
def _in_window(instruction: ir.InWindow, compiler: Compiler) -> Operation:
    meta, length = number(instruction.meta), number(instruction.length)
    low, high, put = number(instruction.low), number(instruction.high), set_number(instruction.target)
    width = compiler.rules.width
    return lambda frame: put(frame, in_window(width, meta(frame), length(frame), low(frame), high(frame)))


@makes(ir.BeginSeq)
def _begin(begin: ir.BeginSeq, compiler: Compiler) -> Operation:
    sequence, meta, rebase = sequence_of(begin.side), number(begin.meta), number(begin.rebase)
    rules, counters = compiler.rules, compiler.layer.counters

    def operation(frame: Frame) -> None:
        which = sequence(frame)
        here = which.bytes
        which.begin(meta(frame), rebase(frame))
        if rules.buffer_data and which.bytes != here:
            counters["bytes:discarded"] += here - which.bytes

    return operation


@makes(ir.PlaceSeq)
def _place(place: ir.PlaceSeq, compiler: Compiler) -> Operation:
    sequence, meta, put = sequence_of(place.side), number(place.meta), set_number(place.target)
    return lambda frame: put(frame, sequence(frame).position(meta(frame)))


@makes(ir.InOrder)
def _in_order(instruction: ir.InOrder, compiler: Compiler) -> Operation:
    sequence, position = sequence_of(instruction.side), number(instruction.position)
    put = set_number(instruction.target)
    return lambda frame: put(frame, sequence(frame).in_order(position(frame)))


@makes(ir.OverlapSeq)
def _overlap(overlap: ir.OverlapSeq, compiler: Compiler) -> Operation:
    sequence, position, data = sequence_of(overlap.side), number(overlap.position), string(overlap.data)
    last, more, cursor = number(overlap.last), set_number(overlap.more), set_number(overlap.cursor)
    offset, length = set_number(overlap.offset), set_number(overlap.length)
    new, old = set_string(overlap.new), set_string(overlap.old)
    nothing = all_unset((overlap.cursor, overlap.offset, overlap.length, overlap.new, overlap.old))

    def operation(frame: Frame) -> None:
        found = sequence(frame).overlap(position(frame), data(frame), last(frame))
        more(frame, found is not None)
        if found is None:
            nothing(frame)
            return
        after, known = found
        cursor(frame, after)
        offset(frame, known.offset)
        length(frame, known.length)
        new(frame, known.new)
        old(frame, known.old)

    return operation


@makes(ir.RoomSeq)
def _room(room: ir.RoomSeq, compiler: Compiler) -> Operation:
    sequence, position, data = sequence_of(room.side), number(room.position), string(room.data)
    units, put = number(room.units), set_number(room.target)
    return lambda frame: put(frame, sequence(frame).room(position(frame), data(frame), units(frame)))


@makes(ir.FullSeq)
def _full(full: ir.FullSeq, compiler: Compiler) -> Operation:
    sequence, position, put = sequence_of(full.side), number(full.position), set_number(full.target)
    return lambda frame: put(frame, sequence(frame).full(position(frame)))


@makes(ir.InsertSeq)
def _insert(insert: ir.InsertSeq, compiler: Compiler) -> Operation:
    sequence, position = sequence_of(insert.side), number(insert.position)
    data, units = string(insert.data), number(insert.units)
    rules, counters = compiler.rules, compiler.layer.counters

    def operation(frame: Frame) -> None:
        which, given, count = sequence(frame), data(frame), units(frame)
        here = which.bytes
        which.insert(position(frame), given, count)
        if rules.buffer_data:
            arrived = (len(given[0]) if count else 0) if rules.units else min(len(given[0]), count)
            counters["bytes:in"] += arrived
            counters["bytes:known already"] += here + arrived - which.bytes

    return operation


@makes(ir.InitPacketData)
def _init_packet_data(_: ir.InitPacketData, __: Compiler) -> Operation:
    return lambda _: None  # a sequence of the interpreter copies what is inserted


@makes(ir.InsertNext)
def _insert_next(insert: ir.InsertNext, compiler: Compiler) -> Operation:
    sequence, position, put = sequence_of(insert.side), number(insert.position), set_number(insert.target)
    data, units = string(insert.data), number(insert.units)
    rules, counters = compiler.rules, compiler.layer.counters

    def operation(frame: Frame) -> None:
        given = data(frame)
        inserted = sequence(frame).insert_next(position(frame), given, units(frame))
        if inserted and rules.buffer_data:
            counters["bytes:in"] += len(given[0])
        put(frame, inserted)

    return operation


@makes(ir.ForwardSeq)
def _forward(forward: ir.ForwardSeq, compiler: Compiler) -> Operation:
    sequence, position, put = sequence_of(forward.side), number(forward.position), set_number(forward.target)
    data, units = string(forward.data), number(forward.units)
    forwarded, offset = set_string(forward.forwarded), set_number(forward.offset)
    rules, counters = compiler.rules, compiler.layer.counters

    def operation(frame: Frame) -> None:
        given, which = data(frame), sequence(frame)
        where = which.forward(position(frame), given, units(frame))
        if where is not None and rules.buffer_data:
            counters["bytes:in"] += len(given[0])
            counters["bytes:delivered"] += len(given[0])
        put(frame, where is not None)
        forwarded(frame, given)
        offset(frame, where or 0)

    return operation


@makes(ir.CutSeq)
def _cut(cut: ir.CutSeq, compiler: Compiler) -> Operation:
    sequence, put = sequence_of(cut.side), set_number(cut.target)
    return lambda frame: put(frame, sequence(frame).cut())


@makes(ir.WaitingSeq)
def _waiting(waiting: ir.WaitingSeq, compiler: Compiler) -> Operation:
    sequence, put = sequence_of(waiting.side), set_number(waiting.target)
    return lambda frame: put(frame, sequence(frame).waiting())


@makes(ir.Assemble)
def _assemble(assemble: ir.Assemble, compiler: Compiler) -> Operation:
    sequence, put, offset = sequence_of(assemble.side), set_string(assemble.target), set_number(assemble.offset)
    counters = compiler.layer.counters

    def operation(frame: Frame) -> None:
        data, where = sequence(frame).assemble()
        counters["bytes:delivered"] += len(data[0])
        put(frame, data)
        offset(frame, where)

    return operation


@makes(ir.GiveUpSeq)
def _give_up(give_up: ir.GiveUpSeq, compiler: Compiler) -> Operation:
    sequence, cut, uncut = sequence_of(give_up.side), set_number(give_up.cut), all_unset((give_up.cut,))
    store = _gap(give_up, compiler)

    def operation(frame: Frame) -> None:
        gap = sequence(frame).give_up()
        store(frame, gap)
        if gap is None:
            uncut(frame)
        else:
            cut(frame, gap.cut)

    return operation


@makes(ir.SkipSeq)
def _skip(skip: ir.SkipSeq, compiler: Compiler) -> Operation:
    sequence, position, store = sequence_of(skip.side), number(skip.position), _gap(skip, compiler)
    return lambda frame: store(frame, sequence(frame).skip_to(position(frame)))


def _gap(instruction: ir.GiveUpSeq | ir.SkipSeq, compiler: Compiler) -> Callable[[Frame, Gap | None], None]:
    """Counts a gap that is given up, and sets the registers that both instructions have for it."""
    more, offset = set_number(instruction.more), set_number(instruction.offset)
    length, nothing = set_number(instruction.length), all_unset((instruction.offset, instruction.length))
    counters, gone = compiler.layer.counters, given_up_name(compiler.rules.units)

    def store(frame: Frame, gap: Gap | None) -> None:
        more(frame, gap is not None)
        if gap is None:
            nothing(frame)
            return
        counters[gone] += gap.length
        offset(frame, gap.offset)
        length(frame, gap.length)

    return store


@makes(ir.AcknowledgeSeq)
def _acknowledge(acknowledge: ir.AcknowledgeSeq, compiler: Compiler) -> Operation:
    sequence, put, box = sequence_of(acknowledge.side), set_number(acknowledge.due), compiler.box
    received, edge, grace = number(acknowledge.received), number(acknowledge.edge), acknowledge.grace
    return lambda frame: put(frame, sequence(frame).acknowledge(received(frame), edge(frame), box.now, grace))


@makes(ir.OverdueSeq)
def _overdue(overdue: ir.OverdueSeq, compiler: Compiler) -> Operation:
    sequence, put, box, wait = sequence_of(overdue.side), set_number(overdue.due), compiler.box, overdue.wait
    return lambda frame: put(frame, sequence(frame).overdue(box.now, wait))


@makes(ir.SettledSeq)
def _settled(settled: ir.SettledSeq, compiler: Compiler) -> Operation:
    sequence, put = sequence_of(settled.side), set_number(settled.target)
    return lambda frame: put(frame, sequence(frame).settled_before())


@makes(ir.UnplacedSeq)
def _unplaced(unplaced: ir.UnplacedSeq, compiler: Compiler) -> Operation:
    sequence, any_ = sequence_of(unplaced.side), set_number(unplaced.any)
    targets = [set_number(item) for item in (unplaced.before, unplaced.repeated, unplaced.outside)]
    rules, counters = compiler.rules, compiler.layer.counters

    def operation(frame: Frame) -> None:
        which = sequence(frame)
        here = which.bytes
        found = which.leave_out()
        if rules.buffer_data:
            counters["bytes:discarded"] += here - which.bytes
        any_(frame, any(found))
        for put, count in zip(targets, found, strict=True):
            put(frame, count)

    return operation


@makes(ir.RecordSeq)
def _record(record: ir.RecordSeq, compiler: Compiler) -> Operation:
    sequence, position = sequence_of(record.side), number(record.position)
    values = [number(item) for item in record.values]

    def operation(frame: Frame) -> None:
        sequence(frame).record(position(frame), tuple([item(frame) for item in values]))

    return operation


@makes(ir.ReleaseSeq)
def _release(release: ir.ReleaseSeq, compiler: Compiler) -> Operation:
    sequence, more = sequence_of(release.side), set_number(release.more)
    targets, nothing = [set_number(register) for register in release.values], all_unset(release.values)

    def operation(frame: Frame) -> None:
        values = sequence(frame).release()
        more(frame, values is not None)
        if values is None:
            nothing(frame)
            return
        for put, item in zip(targets, values, strict=True):
            put(frame, item)

    return operation


@makes(ir.SettleSeq)
def _settle(settle: ir.SettleSeq, compiler: Compiler) -> Operation:
    sequence, kept = sequence_of(settle.side), set_number(settle.kept)

    def operation(frame: Frame) -> None:
        which = sequence(frame)
        fits = which.fits()
        if fits:
            which.settle()
        kept(frame, fits)

    return operation


@makes(ir.Drain)
def _drain(drain: ir.Drain, compiler: Compiler) -> Operation:
    box, layer, everything = compiler.box, compiler.layer, drain.all
    side, cause, put = number(drain.side), number(drain.cause), set_number(drain.progress)
    return lambda frame: put(frame, box.drain(layer, frame, side(frame), cause(frame), everything))
