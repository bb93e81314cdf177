"""Instructions on headers and instances as Python closures.

Lookup without an instance leaves `expired` and `side` 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sluice.ir import instruction as ir
from sluice.ir.graph import alias_tables
from sluice.ir.interpreter.compiler import Compiler, key_of, key_of_instance, makes
from sluice.ir.interpreter.expressions import assign, number, set_number, set_string, string
from sluice.ir.interpreter.frame import Frame, Operation
from sluice.ir.interpreter.value import InterpreterError, clip


@makes(ir.Load)
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


@makes(ir.LoadBytes)
def _load_bytes(load: ir.LoadBytes, compiler: Compiler) -> Operation:
    mark, size, put, at = number(load.mark), number(load.size), set_string(load.target), load.at

    def operation(frame: Frame) -> None:
        begin, count = mark(frame) + at, size(frame)
        data = frame.unit[0][begin : begin + count] if count else b""
        if len(data) < count:
            raise InterpreterError(f"'{load.target.name}' is loaded from bytes that no check covers")
        put(frame, (data, count))

    return operation


@makes(ir.LoadVarint)
def _load_varint(load: ir.LoadVarint, compiler: Compiler) -> Operation:
    mark, size, put = number(load.mark), number(load.size), set_number(load.target)

    def operation(frame: Frame) -> None:
        begin, count = mark(frame), size(frame)
        data = frame.unit[0][begin : begin + count]
        if len(data) < count or count not in (1, 2, 4, 8):
            raise InterpreterError(f"'{load.target.name}' is loaded from bytes that no check covers")
        put(frame, int.from_bytes(data, "big") & (1 << (8 * count - 2)) - 1)

    return operation


@makes(ir.Mark)
def _mark(mark: ir.Mark, compiler: Compiler) -> Operation:
    base, offset, put = number(mark.base), number(mark.offset), set_number(mark.target)
    return lambda frame: put(frame, base(frame) + offset(frame))


@makes(ir.Payload)
def _payload(payload: ir.Payload, compiler: Compiler) -> Operation:
    mark, put = number(payload.mark), set_string(payload.target)
    return lambda frame: put(frame, clip(frame.unit, mark(frame), frame.unit[1]))


@makes(ir.Assign)
def _assign(instruction: ir.Assign, compiler: Compiler) -> Operation:
    return assign(instruction.target, instruction.value)


# --- instances --------------------------------------------------------------------------------------------


@makes(ir.Lookup)
def _lookup(lookup: ir.Lookup, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    layout = layer.program.instance
    key, reverse = key_of_instance(lookup.key, layout), key_of_instance(lookup.reverse, layout)
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


@makes(ir.LayerPath)
def _layer_path(path: ir.LayerPath, compiler: Compiler) -> Operation:
    box, put = compiler.box, set_number(path.target)
    return lambda frame: put(frame, box.path_number())


@makes(ir.Time)
def _time(time: ir.Time, compiler: Compiler) -> Operation:
    box, put = compiler.box, set_number(time.target)
    return lambda frame: put(frame, box.now)


@makes(ir.FindAlias)
def _find_alias(find: ir.FindAlias, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    aliases = box.aliases[find.aliases]
    key = key_of(find.key, alias_tables(box.program)[find.aliases])
    return _looked_up(find, lambda frame: box.find_alias(layer, frame, aliases, key(frame)))


@makes(ir.AddAlias)
def _add_alias(add: ir.AddAlias, compiler: Compiler) -> Operation:
    aliases = compiler.box.aliases[add.aliases]
    key = key_of(add.key, alias_tables(compiler.box.program)[add.aliases])
    which, place, side = number(add.number), number(add.place), number(add.side)
    evicted = set_number(add.evicted)

    def operation(frame: Frame) -> None:
        known = which(frame)
        evicted(frame, known > 0 and aliases.add(key(frame), known, place(frame), side(frame)))

    return operation


@makes(ir.CreateInst)
def _create(create: ir.CreateInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    layout = layer.program.instance
    key, reverse = key_of_instance(create.key, layout), key_of_instance(create.reverse, layout)
    made = set_number(create.made)
    return lambda frame: made(frame, box.create(layer, frame, key(frame), reverse(frame)))


@makes(ir.FreshInst)
def _fresh(fresh: ir.FreshInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    return lambda frame: box.fresh(layer, frame)


@makes(ir.DestroyInst)
def _destroy(destroy: ir.DestroyInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer
    return lambda frame: box.destroy(layer, frame)


@makes(ir.EndInst)
def _end_instance(end: ir.EndInst, compiler: Compiler) -> Operation:
    box, layer = compiler.box, compiler.layer

    def operation(frame: Frame) -> None:
        box.end(box.owner(layer, frame.current), frame.current, end.reason, frame.context, frame.depth)
        frame.use(None)

    return operation


@makes(ir.RecallKey)
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


@makes(ir.Pad)
def _pad(pad: ir.Pad, compiler: Compiler) -> Operation:
    data, put = string(pad.data), set_string(pad.target)

    def operation(frame: Frame) -> None:
        captured, length = data(frame)
        put(frame, (bytes(captured).ljust(pad.size, b"\xff"), length))

    return operation


@makes(ir.Touch)
def _touch(touch: ir.Touch, compiler: Compiler) -> Operation:
    box, layer, timeout = compiler.box, compiler.layer, number(touch.timeout)
    return lambda frame: box.touch(layer, frame.current, timeout(frame))


@makes(ir.SwapSides)
def _swap_sides(swap: ir.SwapSides, compiler: Compiler) -> Operation:
    side, put = number(swap.side), set_number(swap.target)

    def operation(frame: Frame) -> None:
        instance = frame.current
        instance.swapped = not instance.swapped
        put(frame, side(frame) ^ 1)

    return operation
