"""Instructions of the IR as Python closures over a frame. What each means is said at its class.

Where an instruction says that there is nothing more (`more` is 0), its other registers become undefined.
Lookup without an instance leaves `expired` and `side` 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sluice.ir import instruction as ir
from sluice.ir.expression import Expr, Reg, is_bytes
from sluice.ir.graph import Block, Graph, InstanceLayout, KeyPart, Rules, alias_tables, given_up_name
from sluice.ir.interpreter.box import Box, Event, LayerState
from sluice.ir.interpreter.expressions import assign, number, set_number, set_string, string, unset, value
from sluice.ir.interpreter.frame import Code, Frame, Operation, Stream
from sluice.ir.interpreter.messages import Taker, cut_packet
from sluice.ir.interpreter.sequence import Sequence, in_window
from sluice.ir.interpreter.table import Key
from sluice.ir.interpreter.value import Bytes, InterpreterError, clip

Maker = Callable[[Any, "Compiler"], Operation]
Kind = TypeVar("Kind", bound=ir.Instruction)

_MAKERS: dict[type[ir.Instruction], Maker] = {}


def _for(cls: type[Kind]) -> Callable[[Callable[[Kind, Compiler], Operation]], None]:
    """Decorator: how instructions of class `cls` are compiled."""

    def register(maker: Callable[[Kind, Compiler], Operation]) -> None:
        _MAKERS[cls] = maker

    return register


class Compiler:
    """Compiles the graphs of one layer of a box."""

    def __init__(self, box: Box, layer: LayerState) -> None:
        self.box = box
        self.layer = layer

    @property
    def rules(self) -> Rules:
        """The layer's sequence."""
        if self.layer.program.rules is None:
            raise InterpreterError(f"layer '{self.layer.program.name}' has no sequence")
        return self.layer.program.rules

    def graph(self, graph: Graph) -> Code:
        """A graph, by its entry. A block is compiled when it first runs, as packets reach few blocks of a stack."""
        codes = {name: Code(name) for name in graph.blocks}
        for name, block in graph.blocks.items():
            codes[name].follow = self._first_run(codes[name], block, codes)
        return codes[graph.entry]

    def _first_run(self, code: Code, block: Block, codes: dict[str, Code]) -> Callable[[Frame], Code | None]:
        def first(frame: Frame) -> Code | None:
            code.operations = tuple(self._operation(item) for item in block.body)
            code.follow = self._observed_end(block.terminator, self._terminator(block.terminator, codes))
            for operation in code.operations:
                operation(frame)
            return code.follow(frame)

        return first

    def _operation(self, instruction: ir.Instruction) -> Operation:
        maker = _MAKERS.get(type(instruction))
        if maker is None:
            raise InterpreterError(f"no instruction for a block's body: {type(instruction).__name__}")
        return self._observed(instruction, maker(instruction, self))

    def _observed(self, instruction: ir.Instruction, operation: Operation) -> Operation:
        observer, layer = self.box.observer, self.layer
        if observer is None:
            return operation

        def observed(frame: Frame) -> None:
            operation(frame)
            observer.executed(layer, instruction, frame)

        return observed

    def _observed_end(
        self, last: ir.Terminator, follow: Callable[[Frame], Code | None]
    ) -> Callable[[Frame], Code | None]:
        observer, layer = self.box.observer, self.layer
        if observer is None:
            return follow

        def observed(frame: Frame) -> Code | None:
            observer.decided(layer, last, frame)
            return follow(frame)

        return observed

    def _terminator(self, last: ir.Terminator, codes: dict[str, Code]) -> Callable[[Frame], Code | None]:
        match last:
            case ir.Goto():
                to = codes[last.to]
                return lambda frame: to
            case ir.Branch():
                condition, yes, no = number(last.condition), codes[last.yes], codes[last.no]
                return lambda frame: yes if condition(frame) else no
            case ir.Check():
                return _check(last, codes)
            case ir.CheckWire():
                mark, size = number(last.mark), number(last.size)
                yes, short = codes[last.yes], codes[last.short]
                return lambda frame: yes if mark(frame) + size(frame) <= frame.unit[1] else short
            case ir.End():
                return self._end(last.outcome)
            case ir.Again():
                return self._again(last.unit)
            case ir.Return():
                return _return(last.result)
            case _:
                raise InterpreterError(f"no terminator: {type(last).__name__}")

    def _again(self, again: Expr) -> Callable[[Frame], Code | None]:
        box, layer, unit = self.box, self.layer, string(again)

        def follow(frame: Frame) -> Code | None:
            box.enter_again(layer, unit(frame), frame)
            return None

        return follow

    def _end(self, outcome: str) -> Callable[[Frame], Code | None]:
        counters = self.layer.counters

        def follow(frame: Frame) -> Code | None:
            counters[outcome] += 1
            return None

        return follow


def _check(check: ir.Check, codes: dict[str, Code]) -> Callable[[Frame], Code | None]:
    mark, size = number(check.mark), number(check.size)
    yes, cut, short = codes[check.yes], codes[check.cut], codes[check.short]

    def follow(frame: Frame) -> Code | None:
        end = mark(frame) + size(frame)
        captured, length = frame.unit
        return yes if end <= len(captured) else cut if end <= length else short

    return follow


def _return(result: Expr) -> Callable[[Frame], Code | None]:
    compute = number(result)

    def follow(frame: Frame) -> Code | None:
        frame.result = compute(frame)
        return None

    return follow


def _sequence(side: Expr) -> Callable[[Frame], Sequence]:
    """The sequence of a side of the current instance."""
    which = number(side)
    return lambda frame: frame.current.sequences[which(frame)]


def _all_unset(registers: tuple[Reg, ...]) -> Operation:
    drops = [unset(register) for register in registers]

    def operation(frame: Frame) -> None:
        for drop in drops:
            drop(frame)

    return operation


def _key(parts: tuple[Expr, ...], layout: InstanceLayout | None) -> Callable[[Frame], Key]:
    assert layout is not None
    return _key_of(parts, layout.key)


def _key_of(parts: tuple[Expr, ...], kinds: tuple[KeyPart, ...]) -> Callable[[Frame], Key]:
    values = [
        _key_bytes(part, kind.bits // 8) if is_bytes(part) else value(part)
        for part, kind in zip(parts, kinds, strict=False)
    ]
    return lambda frame: tuple([part(frame) for part in values])


def _key_bytes(part: Expr, size: int) -> Callable[[Frame], Bytes]:
    """Bytes of a key are as many as it says; those that are not there are 0."""
    compute = string(part)
    return lambda frame: (compute(frame)[0][:size].ljust(size, b"\0"), size)


# --- header -----------------------------------------------------------------------------------------------


@_for(ir.Load)
def _load(load: ir.Load, compiler: Compiler) -> Operation:
    mark, put = number(load.mark), set_number(load.target)
    first, last = load.at // 8, (load.at + load.bits + 7) // 8
    spare = 0 if load.order == "little" else -(load.at + load.bits) % 8
    mask, size = (1 << load.bits) - 1, last - first
    order = "little" if load.order == "little" else "big"

    def operation(frame: Frame) -> None:
        begin = mark(frame) + first
        data = frame.unit[0][begin : begin + size]
        if len(data) < size:
            raise InterpreterError(f"'{load.target.name}' is loaded from bytes that no check covers")
        put(frame, int.from_bytes(data, order) >> spare & mask)

    return operation


@_for(ir.LoadBytes)
def _load_bytes(load: ir.LoadBytes, compiler: Compiler) -> Operation:
    mark, size, put, at = number(load.mark), number(load.size), set_string(load.target), load.at

    def operation(frame: Frame) -> None:
        begin, count = mark(frame) + at, size(frame)
        data = frame.unit[0][begin : begin + count] if count else b""
        if len(data) < count:
            raise InterpreterError(f"'{load.target.name}' is loaded from bytes that no check covers")
        put(frame, (data, count))

    return operation


@_for(ir.LoadVarint)
def _load_varint(load: ir.LoadVarint, compiler: Compiler) -> Operation:
    mark, size, put = number(load.mark), number(load.size), set_number(load.target)

    def operation(frame: Frame) -> None:
        begin, count = mark(frame), size(frame)
        data = frame.unit[0][begin : begin + count]
        if len(data) < count or count not in (1, 2, 4, 8):
            raise InterpreterError(f"'{load.target.name}' is loaded from bytes that no check covers")
        put(frame, int.from_bytes(data, "big") & (1 << (8 * count - 2)) - 1)

    return operation


@_for(ir.Mark)
def _mark(mark: ir.Mark, compiler: Compiler) -> Operation:
    base, offset, put = number(mark.base), number(mark.offset), set_number(mark.target)
    return lambda frame: put(frame, base(frame) + offset(frame))


@_for(ir.Payload)
def _payload(payload: ir.Payload, compiler: Compiler) -> Operation:
    mark, put = number(payload.mark), set_string(payload.target)
    return lambda frame: put(frame, clip(frame.unit, mark(frame), frame.unit[1]))


@_for(ir.Assign)
def _assign(instruction: ir.Assign, compiler: Compiler) -> Operation:
    return assign(instruction.target, instruction.value)


# --- instances --------------------------------------------------------------------------------------------


@_for(ir.Lookup)
def _lookup(lookup: ir.Lookup, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    layout = layer.program.instance
    key, reverse = _key(lookup.key, layout), _key(lookup.reverse, layout)
    return _looked_up(lookup, lambda frame: box.lookup(layer, frame, key(frame), reverse(frame)))


def _looked_up(lookup: ir.Lookup | ir.FindAlias, look: Callable[[Frame], tuple[bool, bool, int]]) -> Operation:
    """What a look-up found, in its registers."""
    found, expired, side = set_number(lookup.found), set_number(lookup.expired), set_number(lookup.side)

    def operation(frame: Frame) -> None:
        is_there, is_over, which = look(frame)
        found(frame, is_there)
        expired(frame, is_over)
        side(frame, which)

    return operation


@_for(ir.LayerPath)
def _layer_path(path: ir.LayerPath, compiler: Compiler) -> Operation:
    box, put = compiler.box, set_number(path.target)
    return lambda frame: put(frame, box.path_number())


@_for(ir.Time)
def _time(time: ir.Time, compiler: Compiler) -> Operation:
    box, put = compiler.box, set_number(time.target)
    return lambda frame: put(frame, box.now)


@_for(ir.FindAlias)
def _find_alias(find: ir.FindAlias, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    aliases = box.aliases[find.aliases]
    key = _key_of(find.key, alias_tables(box.program)[find.aliases])
    return _looked_up(find, lambda frame: box.find_alias(layer, frame, aliases, key(frame)))


@_for(ir.AddAlias)
def _add_alias(add: ir.AddAlias, compiler: Compiler) -> Operation:
    aliases = compiler.box.aliases[add.aliases]
    key = _key_of(add.key, alias_tables(compiler.box.program)[add.aliases])
    which, place, side = number(add.number), number(add.place), number(add.side)
    evicted = set_number(add.evicted)

    def operation(frame: Frame) -> None:
        known = which(frame)
        evicted(frame, known > 0 and aliases.add(key(frame), known, place(frame), side(frame)))

    return operation


@_for(ir.CreateInst)
def _create(create: ir.CreateInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    layout = layer.program.instance
    key, reverse = _key(create.key, layout), _key(create.reverse, layout)
    made = set_number(create.made)
    return lambda frame: made(frame, box.create(layer, frame, key(frame), reverse(frame)))


@_for(ir.FreshInst)
def _fresh(fresh: ir.FreshInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    return lambda frame: box.fresh(layer, frame)


@_for(ir.DestroyInst)
def _destroy(destroy: ir.DestroyInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    return lambda frame: box.destroy(layer, frame)


@_for(ir.EndInst)
def _end_instance(end: ir.EndInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer

    def operation(frame: Frame) -> None:
        box.end(box.owner(layer, frame.current), frame.current, end.reason, frame.context, frame.depth)
        frame.use(None)

    return operation


@_for(ir.RecallKey)
def _recall_key(recall: ir.RecallKey, compiler: Compiler) -> Operation:
    layout = compiler.layer.program.instance
    assert layout is not None
    side, part, oriented = number(recall.side), recall.part, layout.oriented
    put: Callable[[Frame, Any], None]
    put = set_string(recall.target) if recall.target.is_bytes else set_number(recall.target)

    def operation(frame: Frame) -> None:
        instance = frame.current
        if instance.stored:
            half = instance.key[side(frame) ^ instance.swapped] if oriented else instance.key
            put(frame, half[part])

    return operation


@_for(ir.Pad)
def _pad(pad: ir.Pad, compiler: Compiler) -> Operation:
    data, put = string(pad.data), set_string(pad.target)

    def operation(frame: Frame) -> None:
        captured, length = data(frame)
        put(frame, (bytes(captured).ljust(pad.size, b"\xff"), length))

    return operation


@_for(ir.Touch)
def _touch(touch: ir.Touch, compiler: Compiler) -> Operation:
    box, layer, timeout = compiler.box, compiler.layer, number(touch.timeout)
    return lambda frame: box.touch(layer, frame.current, timeout(frame))


@_for(ir.SwapSides)
def _swap_sides(swap: ir.SwapSides, compiler: Compiler) -> Operation:
    side, put = number(swap.side), set_number(swap.target)

    def operation(frame: Frame) -> None:
        instance = frame.current
        instance.swapped = not instance.swapped
        put(frame, side(frame) ^ 1)

    return operation


# --- sequence ---------------------------------------------------------------------------------------------


@_for(ir.InWindow)
def _in_window(instruction: ir.InWindow, compiler: Compiler) -> Operation:
    meta, length = number(instruction.meta), number(instruction.length)
    low, high, put = number(instruction.low), number(instruction.high), set_number(instruction.target)
    width = compiler.rules.width
    return lambda frame: put(frame, in_window(width, meta(frame), length(frame), low(frame), high(frame)))


@_for(ir.BeginSeq)
def _begin(begin: ir.BeginSeq, compiler: Compiler) -> Operation:
    sequence, meta, rebase = _sequence(begin.side), number(begin.meta), number(begin.rebase)
    rules, counters = compiler.rules, compiler.layer.counters

    def operation(frame: Frame) -> None:
        which = sequence(frame)
        here = which.bytes
        which.begin(meta(frame), rebase(frame))
        if rules.buffer_data and which.bytes != here:
            counters["bytes:discarded"] += here - which.bytes

    return operation


@_for(ir.PlaceSeq)
def _place(place: ir.PlaceSeq, compiler: Compiler) -> Operation:
    sequence, meta, put = _sequence(place.side), number(place.meta), set_number(place.target)
    return lambda frame: put(frame, sequence(frame).position(meta(frame)))


@_for(ir.InOrder)
def _in_order(instruction: ir.InOrder, compiler: Compiler) -> Operation:
    sequence, position = _sequence(instruction.side), number(instruction.position)
    put = set_number(instruction.target)
    return lambda frame: put(frame, sequence(frame).in_order(position(frame)))


@_for(ir.OverlapSeq)
def _overlap(overlap: ir.OverlapSeq, compiler: Compiler) -> Operation:
    sequence, position, data = _sequence(overlap.side), number(overlap.position), string(overlap.data)
    last, more, cursor = number(overlap.last), set_number(overlap.more), set_number(overlap.cursor)
    offset, length = set_number(overlap.offset), set_number(overlap.length)
    new, old = set_string(overlap.new), set_string(overlap.old)
    nothing = _all_unset((overlap.cursor, overlap.offset, overlap.length, overlap.new, overlap.old))

    def operation(frame: Frame) -> None:
        found = sequence(frame).overlap(position(frame), data(frame), last(frame))
        more(frame, found is not None)
        if found is None:
            nothing(frame)
            return
        behind, known = found
        cursor(frame, behind)
        offset(frame, known.offset)
        length(frame, known.length)
        new(frame, known.new)
        old(frame, known.old)

    return operation


@_for(ir.RoomSeq)
def _room(room: ir.RoomSeq, compiler: Compiler) -> Operation:
    sequence, position, data = _sequence(room.side), number(room.position), string(room.data)
    units, put = number(room.units), set_number(room.target)
    return lambda frame: put(frame, sequence(frame).room(position(frame), data(frame), units(frame)))


@_for(ir.FullSeq)
def _full(full: ir.FullSeq, compiler: Compiler) -> Operation:
    sequence, position, put = _sequence(full.side), number(full.position), set_number(full.target)
    return lambda frame: put(frame, sequence(frame).full(position(frame)))


@_for(ir.InsertSeq)
def _insert(insert: ir.InsertSeq, compiler: Compiler) -> Operation:
    sequence, position = _sequence(insert.side), number(insert.position)
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


@_for(ir.InsertNext)
def _insert_next(insert: ir.InsertNext, compiler: Compiler) -> Operation:
    sequence, position, put = _sequence(insert.side), number(insert.position), set_number(insert.target)
    data, units = string(insert.data), number(insert.units)
    rules, counters = compiler.rules, compiler.layer.counters

    def operation(frame: Frame) -> None:
        given = data(frame)
        inserted = sequence(frame).insert_next(position(frame), given, units(frame))
        if inserted and rules.buffer_data:
            counters["bytes:in"] += len(given[0])
        put(frame, inserted)

    return operation


@_for(ir.ForwardSeq)
def _forward(forward: ir.ForwardSeq, compiler: Compiler) -> Operation:
    sequence, position, put = _sequence(forward.side), number(forward.position), set_number(forward.target)
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


@_for(ir.CutSeq)
def _cut(cut: ir.CutSeq, compiler: Compiler) -> Operation:
    sequence, put = _sequence(cut.side), set_number(cut.target)
    return lambda frame: put(frame, sequence(frame).cut())


@_for(ir.WaitingSeq)
def _waiting(waiting: ir.WaitingSeq, compiler: Compiler) -> Operation:
    sequence, put = _sequence(waiting.side), set_number(waiting.target)
    return lambda frame: put(frame, sequence(frame).waiting())


@_for(ir.Assemble)
def _assemble(assemble: ir.Assemble, compiler: Compiler) -> Operation:
    sequence, put, offset = _sequence(assemble.side), set_string(assemble.target), set_number(assemble.offset)
    counters = compiler.layer.counters

    def operation(frame: Frame) -> None:
        data, where = sequence(frame).assemble()
        counters["bytes:delivered"] += len(data[0])
        put(frame, data)
        offset(frame, where)

    return operation


@_for(ir.GiveUpSeq)
def _give_up(give_up: ir.GiveUpSeq, compiler: Compiler) -> Operation:
    sequence, more = _sequence(give_up.side), set_number(give_up.more)
    offset, length, cut = set_number(give_up.offset), set_number(give_up.length), set_number(give_up.cut)
    nothing = _all_unset((give_up.offset, give_up.length, give_up.cut))
    counters, gone = compiler.layer.counters, given_up_name(compiler.rules.units)

    def operation(frame: Frame) -> None:
        gap = sequence(frame).give_up()
        more(frame, gap is not None)
        if gap is None:
            nothing(frame)
            return
        counters[gone] += gap.length
        offset(frame, gap.offset)
        length(frame, gap.length)
        cut(frame, gap.cut)

    return operation


@_for(ir.SkipSeq)
def _skip(skip: ir.SkipSeq, compiler: Compiler) -> Operation:
    sequence, position, more = _sequence(skip.side), number(skip.position), set_number(skip.more)
    offset, length, nothing = set_number(skip.offset), set_number(skip.length), _all_unset((skip.offset, skip.length))
    counters, gone = compiler.layer.counters, given_up_name(compiler.rules.units)

    def operation(frame: Frame) -> None:
        gap = sequence(frame).skip_to(position(frame))
        more(frame, gap is not None)
        if gap is None:
            nothing(frame)
            return
        counters[gone] += gap.length
        offset(frame, gap.offset)
        length(frame, gap.length)

    return operation


@_for(ir.AcknowledgeSeq)
def _acknowledge(acknowledge: ir.AcknowledgeSeq, compiler: Compiler) -> Operation:
    sequence, put, box = _sequence(acknowledge.side), set_number(acknowledge.due), compiler.box
    received, edge, grace = number(acknowledge.received), number(acknowledge.edge), acknowledge.grace
    return lambda frame: put(frame, sequence(frame).acknowledge(received(frame), edge(frame), box.now, grace))


@_for(ir.OverdueSeq)
def _overdue(overdue: ir.OverdueSeq, compiler: Compiler) -> Operation:
    sequence, put, box, wait = _sequence(overdue.side), set_number(overdue.due), compiler.box, overdue.wait
    return lambda frame: put(frame, sequence(frame).overdue(box.now, wait))


@_for(ir.SettledSeq)
def _settled(settled: ir.SettledSeq, compiler: Compiler) -> Operation:
    sequence, put = _sequence(settled.side), set_number(settled.target)
    return lambda frame: put(frame, sequence(frame).settled_before())


@_for(ir.UnplacedSeq)
def _unplaced(unplaced: ir.UnplacedSeq, compiler: Compiler) -> Operation:
    sequence, any_ = _sequence(unplaced.side), set_number(unplaced.any)
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


@_for(ir.RecordSeq)
def _record(record: ir.RecordSeq, compiler: Compiler) -> Operation:
    sequence, position = _sequence(record.side), number(record.position)
    values = [number(item) for item in record.values]

    def operation(frame: Frame) -> None:
        sequence(frame).record(position(frame), tuple([item(frame) for item in values]))

    return operation


@_for(ir.ReleaseSeq)
def _release(release: ir.ReleaseSeq, compiler: Compiler) -> Operation:
    sequence, more = _sequence(release.side), set_number(release.more)
    targets, nothing = [set_number(register) for register in release.values], _all_unset(release.values)

    def operation(frame: Frame) -> None:
        values = sequence(frame).release()
        more(frame, values is not None)
        if values is None:
            nothing(frame)
            return
        for put, item in zip(targets, values, strict=True):
            put(frame, item)

    return operation


@_for(ir.SettleSeq)
def _settle(settle: ir.SettleSeq, compiler: Compiler) -> Operation:
    sequence, kept = _sequence(settle.side), set_number(settle.kept)

    def operation(frame: Frame) -> None:
        which = sequence(frame)
        fits = which.fits()
        if fits:
            which.settle()
        kept(frame, fits)

    return operation


@_for(ir.Drain)
def _drain(drain: ir.Drain, compiler: Compiler) -> Operation:
    box, layer, everything = compiler.box, compiler.layer, drain.all
    side, cause, put = number(drain.side), number(drain.cause), set_number(drain.progress)
    return lambda frame: put(frame, box.drain(layer, frame, side(frame), cause(frame), everything))


# --- outside ----------------------------------------------------------------------------------------------


@_for(ir.Call)
def _call(call: ir.Call, compiler: Compiler) -> Operation:
    events, layer, name = compiler.box.events, compiler.layer.program.name, call.event
    side, values = number(call.side), [value(item) for item in call.values]
    # a malformed message is of no instance of its own yet, and nobody knows the stream's where there will be one
    of_stream = name != "malformed" or compiler.layer.program.instance is None

    def operation(frame: Frame) -> None:
        instance = frame.instance or (frame.stream.instance if frame.stream and of_stream else None)
        got = [item(frame) for item in values]
        plain = tuple([item if isinstance(item, int) else item[0] for item in got])
        events.append(Event(layer, name, instance.number if instance else 0, side(frame), plain))

    return operation


@_for(ir.CallNative)
def _call_native(call: ir.CallNative, compiler: Compiler) -> Operation:
    box, worker = compiler.box, compiler.box.natives[call.module]
    context, inputs = number(call.context), [value(item) for item in call.inputs]
    reason, sdu = set_number(call.reason), set_string(call.sdu)
    outputs = [set_number(register) for register in call.outputs]
    function, begins = call.function, bool(call.begins)

    def operation(frame: Frame) -> None:
        got = tuple([item(frame) for item in inputs])
        given = worker.call(function, context(frame), begins, got, box.time)
        reason(frame, given.reason)
        sdu(frame, given.sdu)
        for put, item in zip(outputs, given.outputs, strict=True):
            put(frame, item)

    return operation


@_for(ir.EndNative)
def _end_native(end: ir.EndNative, compiler: Compiler) -> Operation:
    worker, context = compiler.box.natives[end.module], number(end.context)
    return lambda frame: worker.end(context(frame))


@_for(ir.Dropped)
def _dropped(instruction: ir.Dropped, compiler: Compiler) -> Operation:
    put = set_number(instruction.target)
    return lambda frame: put(frame, 0)  # it has no functions


@_for(ir.TooDeep)
def _too_deep(instruction: ir.TooDeep, compiler: Compiler) -> Operation:
    box, put = compiler.box, set_number(instruction.target)
    return lambda frame: put(frame, frame.depth >= box.program.depth)


@_for(ir.NextMessages)
def _next_messages(following: ir.NextMessages, compiler: Compiler) -> Operation:
    box, name, sdu = compiler.box, following.layer, string(following.sdu)
    side, offset = number(following.side), number(following.offset)

    def operation(frame: Frame) -> None:
        messages, (data, length), at = frame.current.messages[side(frame)], sdu(frame), offset(frame)
        deep = frame.depth >= box.program.depth
        if deep:
            box.too_deep += 1
        else:
            messages.take(data, at, _taker(box, name, frame, side(frame)))
        if deep or len(data) < length:
            messages.gap(at + length)

    return operation


@_for(ir.CutMessages)
def _cut_messages(cut: ir.CutMessages, compiler: Compiler) -> Operation:
    box, name, sdu, side = compiler.box, cut.layer, string(cut.sdu), number(cut.side)

    def operation(frame: Frame) -> None:
        if frame.depth >= box.program.depth:
            box.too_deep += 1
            return
        stream = frame.stream if frame.instance is None else Stream(frame.instance, side(frame))
        cut_packet(sdu(frame), box.layers[name].counters, _sender(box, name, frame, stream), box.may_work)

    return operation


def _taker(box: Box, name: str, frame: Frame, side: int) -> Taker:
    """Layer `name`, taking messages from a side of the current instance."""
    return _sender(box, name, frame, Stream(frame.current, side))


def _sender(box: Box, name: str, frame: Frame, stream: Stream | None) -> Taker:
    """Layer `name`, taking messages from `stream`, or from a packet of its."""
    layer, context, depth = box.layers[name], frame.context, frame.depth
    return Taker(
        name,
        lambda unit, searching: box.frame(layer, unit, searching, context),
        lambda unit: box.enter(name, unit, context, depth + 1, stream),
        lambda offset, length, cause: box.lost(layer, stream, (offset, length, cause), context),
        layer.program.resyncs,
    )


@_for(ir.CloseMessages)
def _close_messages(close: ir.CloseMessages, compiler: Compiler) -> Operation:
    box, name, side = compiler.box, close.layer, number(close.side)
    return lambda frame: frame.current.messages[side(frame)].close(_taker(box, name, frame, side(frame)))


@_for(ir.LoseMessages)
def _lose_messages(lose: ir.LoseMessages, compiler: Compiler) -> Operation:
    side, end = number(lose.side), number(lose.end)
    return lambda frame: frame.current.messages[side(frame)].gap(end(frame))


# Lookahead graphs change no result, so the interpreter runs none.
@_for(ir.Prefetch)
def _prefetch(_: ir.Prefetch, __: Compiler) -> Operation:
    return lambda _: None


@_for(ir.LookAhead)
def _next_lookahead(_: ir.LookAhead, __: Compiler) -> Operation:
    return lambda _: None


@_for(ir.NextLayer)
def _next_layer(following: ir.NextLayer, compiler: Compiler) -> Operation:
    box, name, sdu = compiler.box, following.layer, string(following.sdu)

    def operation(frame: Frame) -> None:
        stream = frame.stream if frame.instance is None and box.layers[name].program.takes_stream else None
        box.enter(name, sdu(frame), frame.context, frame.depth + 1, stream)

    return operation


@_for(ir.NextOfSide)
def _next_of_side(following: ir.NextOfSide, compiler: Compiler) -> Operation:
    box, name, sdu, side = compiler.box, following.layer, string(following.sdu), number(following.side)

    def operation(frame: Frame) -> None:
        box.enter(name, sdu(frame), frame.context, frame.depth + 1, Stream(frame.current, side(frame)))

    return operation


@_for(ir.Count)
def _count(count: ir.Count, compiler: Compiler) -> Operation:
    counters, name = compiler.layer.counters, count.counter

    def operation(frame: Frame) -> None:
        counters[name] += 1

    return operation


__all__ = ["Compiler"]
