"""Instructions that call functions, other layers and native modules, or count, as Python closures."""

from __future__ import annotations

import dataclasses

from sluice.ir import instruction as ir
from sluice.ir.graph import HELD
from sluice.ir.interpreter.box import (
    BUNDLE_BEGINS,
    BUNDLE_BYTES,
    BUNDLE_CHEAP,
    BUNDLE_HALVES,
    BUNDLE_HOLDS,
    BUNDLE_MORE,
    Box,
    Event,
)
from sluice.ir.interpreter.compiler import Compiler, makes
from sluice.ir.interpreter.expressions import number, set_number, set_string, string, value
from sluice.ir.interpreter.frame import Frame, Operation, Stream
from sluice.ir.interpreter.messages import Taker, cut_packet
from sluice.ir.interpreter.value import Bytes


@makes(ir.Call)
def _call(call: ir.Call, compiler: Compiler) -> Operation:
    events, layer, name = compiler.box.events, compiler.layer.program.name, call.event
    side, values = number(call.side), [value(item) for item in call.values]
    # a malformed message is of no instance of its own yet, and the stream's is not known where there will be one
    of_stream = name != "malformed" or compiler.layer.program.instance is None

    def operation(frame: Frame) -> None:
        instance = frame.instance or (frame.stream.instance if frame.stream and of_stream else None)
        got = [item(frame) for item in values]
        plain = tuple([item if isinstance(item, int) else item[0] for item in got])
        events.append(Event(layer, name, instance.number if instance else 0, side(frame), plain))

    return operation


@makes(ir.CallNative)
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


@makes(ir.EndNative)
def _end_native(end: ir.EndNative, compiler: Compiler) -> Operation:
    worker, context = compiler.box.natives[end.module], number(end.context)
    return lambda frame: worker.end(context(frame))


@makes(ir.Dropped)
def _dropped(instruction: ir.Dropped, compiler: Compiler) -> Operation:
    put = set_number(instruction.target)
    return lambda frame: put(frame, 0)  # it has no functions


@makes(ir.TooDeep)
def _too_deep(instruction: ir.TooDeep, compiler: Compiler) -> Operation:
    box, name, put = compiler.box, instruction.layer, set_number(instruction.target)
    first = _first_record(compiler, name)

    def operation(frame: Frame) -> None:
        if first:
            box.earn_packet()
        put(frame, box.is_too_deep(box.layers[name], frame.depth + 1))

    return operation


def _first_record(compiler: Compiler, name: str) -> bool:
    """Whether a layer is a record, and the one that is followed by it none."""
    layers = compiler.box.program.layers
    return layers[name].record and not compiler.layer.program.record


@makes(ir.SpendRecord)
def _spend_record(instruction: ir.SpendRecord, compiler: Compiler) -> Operation:
    box, parts = compiler.box, number(instruction.parts)
    return lambda frame: box.spend_record(parts(frame))


@makes(ir.NextMessages)
def _next_messages(following: ir.NextMessages, compiler: Compiler) -> Operation:
    box, name, sdu = compiler.box, following.layer, string(following.sdu)
    side, offset = number(following.side), number(following.offset)

    def operation(frame: Frame) -> None:
        messages, (data, length), at = frame.current.messages[side(frame)], sdu(frame), offset(frame)
        deep = not box.may_enter(box.layers[name], frame.depth + 1)
        if not deep:
            messages.take(data, at, _bundled(box, name, frame, Stream(frame.current, side(frame)), of_stream=True))
        if deep or len(data) < length:
            messages.gap(at + length)

    return operation


@makes(ir.CutMessages)
def _cut_messages(cut: ir.CutMessages, compiler: Compiler) -> Operation:
    box, name, sdu, side = compiler.box, cut.layer, string(cut.sdu), number(cut.side)

    def operation(frame: Frame) -> None:
        layer = box.layers[name]
        if not box.may_enter(layer, frame.depth + 1):
            return
        stream = frame.stream if frame.instance is None else Stream(frame.instance, side(frame))
        data, length = sdu(frame)
        box.earn(0 if box.work else 1 + len(data) // BUNDLE_BYTES)
        cut_packet((data, length), layer.counters, _bundled(box, name, frame, stream), lambda: box.exceeded(layer))

    return operation


def _bundled(box: Box, name: str, frame: Frame, stream: Stream | None, of_stream: bool = False) -> Taker:
    """The same as _sender. Bundled messages count, and for more where they begin instances, which others do as well."""
    taker = _sender(box, name, frame, stream)
    program, counters = box.layers[name].program, box.layers[name].counters
    if not program.in_bundle(of_stream):
        return taker

    def deliver(unit: Bytes) -> None:
        created, held = box.created, counters.get(HELD, 0)
        taker.deliver(unit)
        begun = box.created - created
        if not of_stream:
            box.bundled += min(BUNDLE_MORE * begun, box.bundle_most // 2)
        spent = BUNDLE_BEGINS * begun
        if program.bundled:
            spent += (1 if program.half else BUNDLE_HALVES) + BUNDLE_HOLDS * (counters.get(HELD, 0) - held)
        else:
            spent += BUNDLE_HALVES * (box.work % BUNDLE_CHEAP == 0)
        box.bundle_credit -= min(spent, box.bundle_credit)

    def brought(captured: int) -> None:
        box.earn_packet()
        box.earn(captured // BUNDLE_BYTES)

    if not of_stream:
        return dataclasses.replace(taker, deliver=deliver)

    def searched() -> None:
        box.bundle_credit -= 1

    bounded = lambda: not box.bundle_credit  # noqa: E731
    return dataclasses.replace(taker, deliver=deliver, brought=brought, bounded=bounded, searched=searched)


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


@makes(ir.CloseMessages)
def _close_messages(close: ir.CloseMessages, compiler: Compiler) -> Operation:
    box, name, side = compiler.box, close.layer, number(close.side)
    return lambda frame: frame.current.messages[side(frame)].close(_taker(box, name, frame, side(frame)))


@makes(ir.LoseMessages)
def _lose_messages(lose: ir.LoseMessages, compiler: Compiler) -> Operation:
    side, end = number(lose.side), number(lose.end)
    return lambda frame: frame.current.messages[side(frame)].gap(end(frame))


# Lookahead and path graphs change no result, so the interpreter runs none.
@makes(ir.Prefetch)
def _prefetch(_: ir.Prefetch, __: Compiler) -> Operation:
    return lambda _: None


@makes(ir.PathKey)
def _path_key(_: ir.PathKey, __: Compiler) -> Operation:
    return lambda _: None


@makes(ir.LookAhead)
def _next_lookahead(_: ir.LookAhead, __: Compiler) -> Operation:
    return lambda _: None


@makes(ir.NextLayer)
def _next_layer(following: ir.NextLayer, compiler: Compiler) -> Operation:
    box, name, sdu = compiler.box, following.layer, string(following.sdu)
    first = _first_record(compiler, name)

    def operation(frame: Frame) -> None:
        if first:
            box.earn_packet()
        stream = frame.stream if frame.instance is None and box.layers[name].program.takes_stream else None
        box.enter(name, sdu(frame), frame.context, frame.depth + 1, stream)

    return operation


@makes(ir.NextOfSide)
def _next_of_side(following: ir.NextOfSide, compiler: Compiler) -> Operation:
    box, name, sdu, side = compiler.box, following.layer, string(following.sdu), number(following.side)
    first = _first_record(compiler, name)

    def operation(frame: Frame) -> None:
        if first:
            box.earn_packet()
        box.enter(name, sdu(frame), frame.context, frame.depth + 1, Stream(frame.current, side(frame)))

    return operation


@makes(ir.Count)
def _count(count: ir.Count, compiler: Compiler) -> Operation:
    counters, name = compiler.layer.counters, count.counter

    def operation(frame: Frame) -> None:
        counters[name] += 1

    return operation
