"""Instructions with effects outside their layer, as C: functions on events, layers above, counters."""

from __future__ import annotations

from zlib import crc32

from sluice.codegen.burst.stages import CURRENT
from sluice.codegen.c.expressions import as_arguments, emit, operand
from sluice.codegen.c.names import boolean, identifier, storage, variable
from sluice.codegen.c.writer import LayerWriter, key_hash, writes
from sluice.codegen.events.dispatch import Dispatcher, watched_variables
from sluice.codegen.events.functions import callback_name, embedded_struct, event_struct, is_embedded
from sluice.ir import instruction as ir
from sluice.ir.expression import Expr
from sluice.ir.graph_kinds import LOST, MAIN


def instance_pointer(w: LayerWriter) -> str:
    assert w.table is not None
    return "inst->head.slot == SL_SLOT_FRESH ? NULL : &inst->head" if w.may_be_fresh else "&inst->head"


@writes(ir.Call)
def call(w: LayerWriter, i: ir.Call) -> list[str]:
    layer, shape = w.layer, w.layer.events[i.event]
    dispatcher = Dispatcher(w.names.functions, layer, w.names.streams)
    calls = dispatcher.statements(i.event)  # of the subscribers that get the instance
    weak = _embedded(w, i)
    if not calls and not weak:
        return []
    values: list[str] = []
    for value, (_, bits) in zip(i.values, shape.fields, strict=True):
        values.append(emit(value) if bits in (0, 64) else f"(uint{8 * storage(bits)}_t)({emit(value)})")
    side = f"(uint32_t){operand(i.side)}"
    if w.kind != LOST and w.table is not None:
        instance = instance_pointer(w)
        if w.kind == MAIN and "malformed" in layer.events:  # malformed may precede any instance
            instance = f"!inst ? NULL : {instance}"
        where = f"{{&box->base, &layers[{w.index}], {instance}, {side}, &layers[{w.index}], unit}}"
    elif layer.takes_stream:
        where = f"{{&box->base, &layers[{w.index}], stream.instance, {side}, stream.owner, unit}}"
    else:
        where = f"{{&box->base, &layers[{w.index}], NULL, {side}, &layers[{w.index}], unit}}"
    out = [
        f"struct sl_event event = {where};",
        *([f"{event_struct(shape)} data = {{{', '.join(values) or '0'}}};"] if calls else []),
        *watched_variables(dispatcher.on_demand(i.event)),
        *(
            [f"uint64_t stopped = sl_stopped(&event, {boolean(i.event == 'end')});"]
            if dispatcher.tests_stopped(i.event)
            else []
        ),
        *calls,
    ]
    if weak:
        given = f"{embedded_struct(w.names.prefix, shape)} given = {{{', '.join(values) or '0'}}};"
        out += ["struct sl_event_info info = sl_event_info(&event);", given, f"{weak}(&info, &given);"]
    return ["{", *("    " + line for line in out), "}"]


def _embedded(w: LayerWriter, i: ir.Call) -> str:
    """The function of the embedding program that gets the event; empty if there is none."""
    if not w.names.weak:
        return ""
    if w.layer.events[i.event].callback:
        return f"{w.names.prefix}_{callback_name(w.names.program, w.layer, i.event)}"
    return f"{w.names.prefix}_on_{i.event}" if is_embedded(w.layer, i.event, w.names.functions) else ""


@writes(ir.Dropped)
def dropped(w: LayerWriter, i: ir.Dropped) -> list[str]:
    return [f"{variable(i.target)} = sl_is_dropped(&box->base);"]


@writes(ir.TooDeep)
def too_deep(w: LayerWriter, i: ir.TooDeep) -> list[str]:
    record = w.names.program.layers[i.layer].record
    deep = "!adds_record(box)" if record else "!nests(box)"
    return [*_earn(w, i.layer), f"{variable(i.target)} = {deep};"]


def _earn(w: LayerWriter, layer: str) -> list[str]:
    """The statement before a first record: its packet earns."""
    first = w.names.program.layers[layer].record and not w.layer.record
    return ["sl_earn_packet(&box->base);"] if first else []


@writes(ir.SpendRecord)
def spend_record(_: LayerWriter, i: ir.SpendRecord) -> list[str]:
    return [f"sl_spend_record(&box->base, {emit(i.parts)});"]


@writes(ir.NextLayer)
def next_layer(w: LayerWriter, i: ir.NextLayer) -> list[str]:
    if w.names.program.layers[i.layer].takes_stream:
        stream = stream_of(w, i.side) if isinstance(i, ir.NextOfSide) else _stream_below(w)
        return unless_deep(w, i.layer, [f"layer_{identifier(i.layer)}(box, {emit(i.sdu)}, {stream});"], [])
    return unless_deep(w, i.layer, as_arguments(i.sdu, lambda sdu: f"layer_{identifier(i.layer)}(box, {sdu});"), [])


writes(ir.NextOfSide)(next_layer)


@writes(ir.LookAhead)
def next_lookahead(w: LayerWriter, i: ir.LookAhead) -> list[str]:
    lookahead = as_arguments(i.sdu, lambda sdu: f"lookahead_{identifier(i.layer)}(box, slots, {sdu}, depth + 1);")
    if w.names.path_is_known:  # stage 2 writes this entry of the path again
        lookahead.insert(0, f"{CURRENT}.path[depth] = {w.index};")
    return ["if (depth < SL_PREFETCH_DEPTH) {", *("    " + line for line in lookahead), "}"]


@writes(ir.PathKey)
def path_key(w: LayerWriter, i: ir.PathKey) -> list[str]:
    space = f"{crc32(i.space.encode()):#x}"  # the same for a stack in every process
    return [f"sl_path_key(keys, SL_KEY_{i.use.upper()}, secret, {space}, {key_hash(i.key, i.reverse)});"]


@writes(ir.NextMessages)
def next_messages(w: LayerWriter, i: ir.NextMessages) -> list[str]:
    offset, sdu = emit(i.offset), emit(i.sdu)
    cut = f"messages_{identifier(i.layer)}(box, {stream_of(w, i.side)}, messages, {offset}, {sdu});"
    gap = f"sl_messages_gap(messages, &box->base.pool, {offset} + {sdu}.length);"
    out = unless_deep(w, i.layer, [cut, f"if (SL_UNLIKELY({sdu}.captured < {sdu}.length))", "    " + gap], [gap])
    return _with_messages(w, i.side, out)


@writes(ir.CutMessages)
def cut_messages(w: LayerWriter, i: ir.CutMessages) -> list[str]:
    return unless_deep(w, i.layer, [f"cut_{identifier(i.layer)}(box, {stream_of(w, i.side)}, {emit(i.sdu)});"], [])


def unless_deep(w: LayerWriter, layer: str, on: list[str], otherwise: list[str]) -> list[str]:
    """Statements that continue with the next layer, unless layers are nested too deep for it."""
    # tested even if the layers form no loop, as instances that end during processing nest further
    nested = f"if (SL_LIKELY({'may_add_record' if w.names.program.layers[layer].record else 'may_nest'}(box)))"
    if len(on) == 1 and not otherwise:
        return [*_earn(w, layer), nested, "    " + on[0]]
    out = [*_earn(w, layer), f"{nested} {{", *("    " + line for line in on), "}"]
    if otherwise:
        out[-1:] = ["} else {", *("    " + line for line in otherwise), "}"]
    return out


@writes(ir.LoseMessages)
def lose_messages(w: LayerWriter, i: ir.LoseMessages) -> list[str]:
    return _with_messages(w, i.side, [f"sl_messages_gap(messages, &box->base.pool, {emit(i.end)});"])


@writes(ir.CloseMessages)
def close_messages(w: LayerWriter, i: ir.CloseMessages) -> list[str]:
    close = f"close_{identifier(i.layer)}(box, {stream_of(w, i.side)}, &inst->messages[{_side(w, i.side)}]);"
    return ["if (inst->messages)", "    " + close]


def stream_of(w: LayerWriter, side: Expr) -> str:
    """The stream that messages are cut from: of this layer's instance, or of the message that contains this one."""
    if w.table is None:
        return _stream_below(w)
    return f"(struct sl_stream){{&layers[{w.index}], {instance_pointer(w)}, (uint32_t){operand(side)}}}"


def _stream_below(w: LayerWriter) -> str:
    """The stream that the bytes of this layer are from, for a layer above; none if it has instances of its own."""
    known = w.table is None and w.layer.takes_stream
    return "stream" if known else f"(struct sl_stream){{&layers[{w.index}], NULL, 0}}"


def _with_messages(w: LayerWriter, side: Expr, statements: list[str]) -> list[str]:
    """Statements that use `messages`, the state of the incomplete message of a side's stream."""
    assert w.table is not None
    sides = w.table.sides
    own = f"&box->{w.table.kept_messages}.at[{sides} * inst->head.slot]"  # set already if it is not stored
    begun = f"sl_messages_begin(&inst->messages, {own}, {sides})"
    return [
        "{",
        f"    struct sl_messages *messages = &{begun}[{_side(w, side)}];",
        *("    " + line for line in statements),
        "}",
    ]


def _side(w: LayerWriter, side: Expr) -> str:
    assert w.table is not None
    return emit(side) if w.table.sides > 1 else "0"


@writes(ir.CallNative)
def call_native(w: LayerWriter, i: ir.CallNative) -> list[str]:
    module = w.names.program.native(i.module)
    shape = module.function(i.function) if module is not None else None
    assert shape is not None
    call = [".context = NULL"]
    out: list[str] = []
    for kind, name, wanted in (("uint64_t", "numbers", False), ("sl_bytes", "bytes", True)):
        values = [emit(item) for item, is_bytes in zip(i.inputs, shape.inputs, strict=True) if is_bytes == wanted]
        if values:
            out.append(f"const {kind} {name}[] = {{{', '.join(values)}}};")
            call.append(f".{name} = {name}")
    if shape.outputs:
        out.append(f"uint64_t outputs[{shape.outputs}] = {{0}};")
        call.append(".outputs = outputs")
    bounds = f"{shape.outputs}, {shape.limit}, {len(shape.reasons)}, {boolean(bool(i.begins))}"
    arguments = f"&box->native_{i.module}, &box->base, {i.function}, &call, {emit(i.context)}"
    out += [
        f"struct sl_native_call call = {{{', '.join(call)}}};",
        f"{variable(i.reason)} = sl_native_run({arguments}, (struct sl_native_bounds){{{bounds}}});",
        f"{variable(i.sdu)} = (sl_bytes){{call.sdu, call.length, call.length}};",
    ]
    for number, target in enumerate(i.outputs):
        mask = f" & sl_mask({target.bits})" if target.bits < 64 else ""
        out.append(f"{variable(target)} = outputs[{number}]{mask};")
    return ["{", *("    " + line for line in out), "}"]


@writes(ir.EndNative)
def end_native(w: LayerWriter, i: ir.EndNative) -> list[str]:
    return [f"sl_native_end(&box->native_{i.module}, &box->base.pool, {emit(i.context)});"]


@writes(ir.Count)
def counter(w: LayerWriter, i: ir.Count) -> list[str]:
    return [w.count(i.counter)]
