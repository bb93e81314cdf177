"""Instructions on sequences as C: calls of sluice/runtime/stream/sequence.h."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.codegen.burst.stages import CURRENT, prefetches_following
from sluice.codegen.c.expressions import emit, number
from sluice.codegen.c.names import variable
from sluice.codegen.c.writer import LayerWriter, writes
from sluice.codegen.events.control import stream_on_demand, stream_wanted
from sluice.codegen.events.dispatch import watched_variable, watched_words
from sluice.codegen.layer.packet_data import INIT
from sluice.ir import instruction as ir
from sluice.ir.expression import Const, Expr, Flip
from sluice.ir.graph import given_up_name

NO_DATA = "&(struct sl_packet_data){.present = false}"
"""No bytes of the packet being processed, in C."""


def sequence_of(w: LayerWriter, side: Expr) -> str:
    assert w.table is not None
    if w.table.sides == 1 or isinstance(side, Const):
        return f"&inst->sequence[{side_of(w, side)}]"
    # as an index of the other side's fields (`place`), so that the C compiler calculates it once
    index = f"{emit(side.operand)} ^ 1" if isinstance(side, Flip) else emit(side)
    return f"sl_sequence_of(inst->sequence, {index})"


def packet_data_of(w: LayerWriter, side: Expr) -> str:
    return f"&{w.direct}[{side_of(w, side)}]"


def rules_of(w: LayerWriter, side: Expr | None = None) -> str:
    """The rules of a layer's sequences. With a side, the rules that functions may have changed for the instance."""
    if side is None or not w.controls_stream:
        return f"&rules_{w.word}"
    own = "&(struct sl_sequence_rules){0}"
    return f"sl_control_rules(&inst->control, {side_of(w, side)}, &rules_{w.word}, {own})"


def side_of(w: LayerWriter, side: Expr) -> str:
    """The index of a side in an instance, which has one or two sides."""
    assert w.table is not None
    return emit(side) if w.table.sides > 1 else "0"


def wanted_now(w: LayerWriter, side: Expr) -> str:
    """The C condition that the bytes of a side are wanted, in an instance that functions control."""
    return f"inst->control.buffer_data[{side_of(w, side)}]"


def call_of(w: LayerWriter, name: str) -> str:
    """The name of a runtime function that differs between sequences of bytes and of units."""
    return f"sl_units_{name}" if w.layer.rules is not None and w.layer.rules.units else f"sl_sequence_{name}"


def given_up(w: LayerWriter) -> str:
    """The counter of the bytes or units that are given up."""
    return given_up_name(w.layer.rules is not None and w.layer.rules.units)


@writes(ir.InWindow)
def in_window(w: LayerWriter, i: ir.InWindow) -> list[str]:
    arguments = ", ".join(emit(item) for item in (i.meta, i.length, i.low, i.high))
    return [f"{variable(i.target)} = sl_sequence_in_window({rules_of(w)}, {arguments});"]


@writes(ir.BeginSeq)
def begin_seq(w: LayerWriter, i: ir.BeginSeq) -> list[str]:
    begin = f"sl_sequence_begin({sequence_of(w, i.side)}, {rules_of(w)}, &box->base.pool, {emit(i.meta)}, {emit(i.rebase)});"
    if w.layer.rules is None or not w.layer.rules.buffer_data or i.rebase != Const(2):
        return [begin]
    out = [
        f"struct sl_sequence *sequence = {sequence_of(w, i.side)};",
        f"uint64_t here = sl_sequence_bytes(sequence, {NO_DATA});",
        begin,
        *_discarded(w, i.side),
    ]
    return ["{", *("    " + line for line in out), "}"]


def _discarded(w: LayerWriter, side: Expr) -> list[str]:
    """Statements that count the bytes that `sequence` held before (`here`) and holds no more. Those that nothing wants are
    only extents there, and were counted as such when they came.
    """
    out = [w.count("bytes:discarded", f"here - sl_sequence_bytes(sequence, {NO_DATA})")]
    return [f"if ({wanted_now(w, side)})", *("    " + line for line in out)] if w.controls_stream else out


@writes(ir.PlaceSeq)
def place_sequence(w: LayerWriter, i: ir.PlaceSeq) -> list[str]:
    place = f"{variable(i.target)} = sl_sequence_position({sequence_of(w, i.side)}, {rules_of(w)}, {emit(i.meta)});"
    return [*(want(w, i.side) if w.controls_stream else []), place]


def want(w: LayerWriter, side: Expr) -> list[str]:
    """Statements that update, before a packet reaches its sequence, whether anything subscribes to its side's bytes."""
    number = side_of(w, side)
    wanted = stream_wanted(w.names.functions, w.layer, w.names.weak)
    counter = f"&box->base.counters[{w.names.counters.index(w.layer.name, 'bytes:discarded')}]"
    out: list[str] = []
    for word in watched_words(stream_on_demand(w.names.functions, w.layer)) if wanted else ():
        own = f"&inst->watch[{word}]" if w.names.functions.watch_words > 1 else "&inst->watch"
        all_ = f"box->registered_further[{word - 1}]" if word else "box->base.registered"
        out.append(f"uint64_t {watched_variable(word)} = sl_watching({all_}, {own});")
    if "stopped" in wanted:
        out.append(f"uint64_t stopped = inst->control.stopped[{number}];")
    arguments = f"&inst->control, {number}, {sequence_of(w, side)}, {wanted or 'true'}, &box->base.pool, {counter}"
    return ["{", *("    " + line for line in [*out, f"sl_control_want({arguments});"]), "}"]


@writes(ir.InOrder)
def in_order(w: LayerWriter, i: ir.InOrder) -> list[str]:
    return [f"{variable(i.target)} = sl_sequence_in_order({sequence_of(w, i.side)}, {emit(i.position)});"]


@writes(ir.OverlapSeq)
def overlap(w: LayerWriter, i: ir.OverlapSeq) -> list[str]:
    out = [
        "struct sl_overlap overlap;",
        f"{variable(i.cursor)} = {emit(i.last)};" if emit(i.last) != variable(i.cursor) else "",
        f"{variable(i.more)} = {call_of(w, 'overlap')}({sequence_of(w, i.side)}, {rules_of(w, i.side)}, {emit(i.position)}, {emit(i.data)}, "
        f"&{variable(i.cursor)}, &overlap);",
        f"if ({variable(i.more)}) {{",
        f"    {variable(i.offset)} = overlap.offset;",
        f"    {variable(i.length)} = overlap.length;",
        f"    {variable(i.new)} = overlap.arrived;",
        f"    {variable(i.old)} = overlap.old;",
        "}",
    ]
    return ["{", *("    " + line for line in out if line), "}"]


@writes(ir.RoomSeq)
def room(w: LayerWriter, i: ir.RoomSeq) -> list[str]:
    arguments = (
        f"{sequence_of(w, i.side)}, {rules_of(w, i.side)}, &box->base.pool, {emit(i.position)}, {emit(i.data)}, "
        f"{emit(i.units)}"
    )
    return [f"{variable(i.target)} = {call_of(w, 'room')}({arguments});"]


@writes(ir.FullSeq)
def full(w: LayerWriter, i: ir.FullSeq) -> list[str]:
    arguments = f"{sequence_of(w, i.side)}, {rules_of(w)}, {emit(i.position)}"
    return [f"{variable(i.target)} = sl_sequence_full({arguments});"]


@writes(ir.InsertNext)
def insert_next(w: LayerWriter, i: ir.InsertNext) -> list[str]:
    arguments = (
        f"{sequence_of(w, i.side)}, {rules_of(w)}, {packet_data_of(w, i.side)}, {emit(i.position)}, {emit(i.data)}, "
        f"{emit(i.units)}"
    )
    wanted = f"{wanted_now(w, i.side)} && " if w.controls_stream else ""  # without bytes: the general path
    out = [f"{variable(i.target)} = {wanted}{call_of(w, 'insert_next')}({arguments});"]
    if w.layer.rules is None or not w.layer.rules.buffer_data:
        return out
    count = w.count("bytes:in", f"{emit(i.data)}.captured")
    return [*out, f"if (SL_LIKELY({variable(i.target)}))", f"    {count}"]


@writes(ir.ForwardSeq)
def forward(w: LayerWriter, i: ir.ForwardSeq) -> list[str]:
    arguments = (
        f"{sequence_of(w, i.side)}, {rules_of(w)}, {emit(i.position)}, {emit(i.data)}, {emit(i.units)}, "
        f"&{variable(i.offset)}"
    )
    data, forwarded = emit(i.data), variable(i.forwarded)
    out = [f"{variable(i.target)} = sl_sequence_forward({arguments});", f"{forwarded} = {data};"]
    if w.layer.rules is None or not w.layer.rules.buffer_data:
        return out
    counts = [w.count(name, f"{data}.captured") for name in ("bytes:in", "bytes:delivered")]
    if w.controls_stream:
        unwanted = [
            f"{forwarded} = (sl_bytes){{{data}.at, 0, 0}};",
            w.count("bytes:not wanted", f"{data}.captured"),
        ]
        counts = [
            f"if ({wanted_now(w, i.side)}) {{",
            *("    " + line for line in counts),
            "} else {",
            *("    " + line for line in unwanted),
            "}",
        ]
    return [*out, f"if (SL_LIKELY({variable(i.target)})) {{", *("    " + line for line in counts), "}"]


@writes(ir.InsertSeq)
def insert(w: LayerWriter, i: ir.InsertSeq) -> list[str]:
    arguments = (
        f"{sequence_of(w, i.side)}, {rules_of(w, i.side)}, &box->base.pool, {packet_data_of(w, i.side)}, {emit(i.position)}, "
        f"{emit(i.data)}, {emit(i.units)}"
    )
    sequence, data = f"{sequence_of(w, i.side)}, {packet_data_of(w, i.side)}", emit(i.data)
    insert = call_of(w, "insert")
    if w.layer.rules is None or not w.layer.rules.buffer_data:
        return [f"if (SL_UNLIKELY(!{insert}({arguments})))", "    " + w.count("no memory")]
    units = emit(i.units)
    bytes_in = f"{units} ? {data}.captured : 0" if w.layer.rules.units else f"sl_min({data}.captured, {units})"
    out = [
        *(_prefetch_following(w, i) if prefetches_following(w.layer, w.names) else []),
        f"uint64_t bytes = {bytes_in}, here = sl_sequence_bytes({sequence});",
        w.count("bytes:in", "bytes"),
        f"if (SL_LIKELY({insert}({arguments}))) {{",
        f"    if (SL_UNLIKELY(sl_sequence_bytes({sequence}) != here + bytes))",
        "        " + w.count("bytes:known already", f"here + bytes - sl_sequence_bytes({sequence})"),
        "} else {",
        "    " + w.count("no memory"),
        "    " + w.count("bytes:no memory", f"here + bytes - sl_sequence_bytes({sequence})"),
        "}",
    ]
    if w.controls_stream:
        out = [
            f"if (SL_LIKELY({wanted_now(w, i.side)})) {{",
            *("    " + line for line in out),
            "} else {",
            "    " + w.count("bytes:not wanted", bytes_in),
            f"    if (SL_UNLIKELY(!{insert}({arguments})))",
            "        " + w.count("no memory"),
            "}",
        ]
    return ["{", *("    " + line for line in out), "}"]


def _prefetch_following(w: LayerWriter, i: ir.InsertSeq) -> list[str]:
    """Statements by which a packet whose bytes will be held prefetches the bytes of the next packets."""
    assert w.table is not None
    given = f"&box->base.lookahead, &box->{w.table.variable}, &inst->head"
    return [
        f"if ({emit(i.data)}.captured > SL_NEXT_FROM && sl_position_before(({sequence_of(w, i.side)})->next, {emit(i.position)})) {{",
        f"    const struct sl_pending *here = &{CURRENT};",
        f"    if (sl_lookahead_next({given}, 1, here[1].at, here[1].captured))",
        f"        (void)sl_lookahead_next({given}, 2, here[2].at, here[2].captured);",
        "}",
    ]


@writes(ir.InitPacketData)
def init_packet_data(w: LayerWriter, i: ir.InitPacketData) -> list[str]:
    return list(INIT)


@writes(ir.CutSeq)
def cut(w: LayerWriter, i: ir.CutSeq) -> list[str]:
    return [f"{variable(i.target)} = sl_sequence_cut({sequence_of(w, i.side)});"]


@writes(ir.WaitingSeq)
def waiting(w: LayerWriter, i: ir.WaitingSeq) -> list[str]:
    return [f"{variable(i.target)} = sl_sequence_waiting({sequence_of(w, i.side)}, {packet_data_of(w, i.side)});"]


@writes(ir.Assemble)
def assemble(w: LayerWriter, i: ir.Assemble) -> list[str]:
    arguments = f"{sequence_of(w, i.side)}, {rules_of(w)}, &box->base.pool, {packet_data_of(w, i.side)}, &box->base.scratch, &{variable(i.offset)}"
    out = [f"{variable(i.target)} = {call_of(w, 'assemble')}({arguments});"]
    return [*out, w.count("bytes:delivered", f"{variable(i.target)}.captured")]


@writes(ir.SkipSeq)
def skip(w: LayerWriter, i: ir.SkipSeq) -> list[str]:
    return _gap(w, i, "skip_to", f", {emit(i.position)}")


@writes(ir.GiveUpSeq)
def give_up(w: LayerWriter, i: ir.GiveUpSeq) -> list[str]:
    return _gap(w, i, "give_up", cut=[f"{variable(i.cut)} = gap.cut;"])


def _gap(
    w: LayerWriter, i: ir.SkipSeq | ir.GiveUpSeq, function: str, argument: str = "", cut: Sequence[str] = ()
) -> list[str]:
    """The call of a function of the runtime that gives up a gap. cut: reads a further field of the gap."""
    sequence = f"{sequence_of(w, i.side)}, {rules_of(w, i.side)}, &box->base.pool{argument}"
    out = [
        "struct sl_gap gap = {0, 0, false};",
        f"{variable(i.more)} = sl_sequence_{function}({sequence}, &gap);",
        f"{variable(i.offset)} = gap.offset;",
        f"{variable(i.length)} = gap.length;",
        *cut,
        f"if ({variable(i.more)})",
        "    " + w.count(given_up(w), "gap.length"),
    ]
    return ["{", *("    " + line for line in out), "}"]


@writes(ir.AcknowledgeSeq)
def acknowledge(w: LayerWriter, i: ir.AcknowledgeSeq) -> list[str]:
    arguments = f"{sequence_of(w, i.side)}, {rules_of(w)}, {emit(i.received)}, {emit(i.edge)}, box->base.now, {i.grace}"
    return [f"{variable(i.due)} = sl_sequence_acknowledge({arguments});"]


@writes(ir.OverdueSeq)
def overdue(w: LayerWriter, i: ir.OverdueSeq) -> list[str]:
    arguments = f"{sequence_of(w, i.side)}, box->base.now, {number(i.wait)}"
    return [f"{variable(i.due)} = sl_sequence_overdue({arguments});"]


@writes(ir.SettledSeq)
def settled(w: LayerWriter, i: ir.SettledSeq) -> list[str]:
    return [f"{variable(i.target)} = sl_sequence_settled({sequence_of(w, i.side)});"]


@writes(ir.UnplacedSeq)
def unplaced(w: LayerWriter, i: ir.UnplacedSeq) -> list[str]:
    counted: list[str] = []
    if w.layer.rules is not None and w.layer.rules.buffer_data:
        counted = _discarded(w, i.side)
    out = [
        "struct sl_left_out left = {0, 0, 0};",
        f"struct sl_sequence *sequence = {sequence_of(w, i.side)};",
        f"uint64_t here = sl_sequence_bytes(sequence, {NO_DATA});" if counted else "",
        f"{variable(i.any)} = sl_sequence_leave_out(sequence, {rules_of(w, i.side)}, &box->base.pool, &left);",
        f"{variable(i.before)} = left.before;",
        f"{variable(i.repeated)} = left.repeated;",
        f"{variable(i.outside)} = left.outside;",
        *counted,
    ]
    return ["{", *("    " + line for line in out if line), "}"]


@writes(ir.RecordSeq)
def record(w: LayerWriter, i: ir.RecordSeq) -> list[str]:
    values = ", ".join(emit(value) for value in i.values)
    return [
        f"if (!sl_sequence_record({sequence_of(w, i.side)}, {rules_of(w)}, &box->base.pool, {emit(i.position)}, "
        f"(const uint64_t[]){{{values}}}))",
        "    " + w.count("no memory"),
    ]


@writes(ir.ReleaseSeq)
def release(w: LayerWriter, i: ir.ReleaseSeq) -> list[str]:
    out = [
        f"uint64_t words[{max(1, len(i.values))}];",
        f"{variable(i.more)} = sl_sequence_release({sequence_of(w, i.side)}, {rules_of(w)}, &box->base.pool, words);",
        f"if ({variable(i.more)}) {{",
        *(f"    {variable(reg)} = words[{n}];" for n, reg in enumerate(i.values)),
        "}",
    ]
    return ["{", *("    " + line for line in out), "}"]


@writes(ir.SettleSeq)
def settle(w: LayerWriter, i: ir.SettleSeq) -> list[str]:
    pool = f"{sequence_of(w, i.side)}, {rules_of(w, i.side)}, &box->base.pool, {packet_data_of(w, i.side)}"
    kept = variable(i.kept)
    fits, settle = call_of(w, "fits"), call_of(w, "settle")
    return [f"{kept} = {fits}({pool});", f"if (SL_LIKELY({kept}))", f"    {settle}({pool});"]


@writes(ir.Drain)
def drain(w: LayerWriter, i: ir.Drain) -> list[str]:
    arguments = f"box, inst, {w.direct}, (sl_bytes){{0}}, {emit(i.side)}, {emit(i.cause)}, {i.all}"
    out = [f"{variable(i.progress)} = drain_{w.word}({arguments});"]
    if w.layer.drain is not None and any(isinstance(item, ir.NextLayer) for item in w.layer.drain.instructions()):
        # what it forwards leaves values of other packets in the slots
        own = "struct sl_slots *own = box->slots, others = *own;"
        out = [own, "box->slots = &others;", *out, "box->slots = own;"]
    idle = f"SL_LIKELY(sl_sequence_idle({sequence_of(w, i.side)}))"
    if len(out) == 1:
        return [f"{variable(i.progress)} = {idle} ? 0 : drain_{w.word}({arguments});"]
    return [f"if ({idle}) {{", f"    {variable(i.progress)} = 0;", "} else {", *("    " + line for line in out), "}"]
