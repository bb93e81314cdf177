"""The graphs that drain a side and end an instance. No packet enters them: other graphs and timeouts run them."""

from __future__ import annotations

from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Flip, Reg
from sluice.ir.graph import INSTANCE_NUMBER, Graph
from sluice.ir.instruction import (
    Branch,
    CloseMessages,
    DestroyInst,
    Drain,
    EndNative,
    GiveUpSeq,
    Goto,
    Return,
    SettledSeq,
    SkipSeq,
    WaitingSeq,
)
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.layer_state import (
    ACKNOWLEDGED,
    ALL,
    ALL_OR_NONE,
    ASSEMBLED,
    BUSY,
    CAUSE,
    CAUSE_NUMBER,
    PROGRESS,
    REASON,
    REASON_NUMBER,
    STORED,
    LayerState,
    all_of,
    has_assemble,
)
from sluice.lower.native import own_modules
from sluice.lower.next_layer import AboveBuilder
from sluice.lower.scope import SIDE, UNIT


def drain_graph(layer: LayerState) -> Graph:
    """Deliver what waits, give up a hole, deliver what follows it; with `all`, repeat until nothing is held.

    Units are delivered one by one. For them, `all` may also be NO_HOLE.

    There may be no current packet. Values of a packet are then 0 or empty; slots.py restores what layers above read.
    """
    scope = layer.scope.without_packet()
    units = layer.sequence is not None and layer.sequence.units
    bounded = layer.sequence is not None and layer.sequence.bounded
    mode = ALL_OR_NONE if units or bounded else ALL
    out = GraphBuilder(f"{layer.context.name}.drain", (UNIT, SIDE, CAUSE, mode))
    events = EventBuilder(layer, out, scope)
    with out.at(layer.prototype.where):
        waiting, more, cut = Reg("local.waiting", 1), Reg("local.gap_more", 1), Reg("local.gap_cut", 1)
        offset, length, cause = (
            Reg("local.gap_offset", 64),
            Reg("local.gap_length", 64),
            Reg("local.gap_cause", 8),
        )
        gave_up = Reg("local.gave_up", 1)
        events.clear_data()
        out.assign(gave_up, ZERO)
        loop, deliver, hole, done = out.name("look"), out.name("deliver"), out.name("hole"), out.name("done")
        out.block(loop)
        out.emit(WaitingSeq(waiting, SIDE))
        out.emit(Branch(waiting, deliver, hole))
        out.block(deliver)
        events.assemble_sequence()
        with out.when(ASSEMBLED, "delivered"):
            for event in layer.standing:
                if has_assemble(event.action):
                    for effect in layer.along.get(event.name, []):
                        events.event(effect)
            AboveBuilder(layer, out, events).drained()
            if units:
                out.emit(Goto(loop))
        out.block(hole)
        more_holes: Expr = Binary("|", ALL, Flip(gave_up, 1))
        if bounded:
            _give_up_acknowledged(layer, out, events, loop, done)
        if units or bounded:
            first_one = all_of(Binary("==", mode, ZERO), Flip(gave_up, 1))
            more_holes = Binary("|", Binary("==", mode, ONE), first_one)
        out.unless(more_holes, "go on", done)
        if bounded or layer.accounts:
            with out.when(events.unplaced(SIDE), "discarded"):
                out.assign(gave_up, ONE)
                out.unless(Binary("==", mode, ONE), "and holes", done)
        out.emit(GiveUpSeq(more, offset, length, cut, SIDE))
        out.unless(more, "give up", done)
        out.assign(gave_up, ONE)
        out.assign(cause, CAUSE)
        with out.when(cut, "cut by snap length"):
            out.assign(cause, Const(CAUSE_NUMBER["snaplen"]))
        events.gap(offset, length, cause)
        out.emit(Goto(loop))
        out.block(done)
        out.emit(Return(gave_up))
    return out.finish()


def _give_up_acknowledged(layer: LayerState, out: GraphBuilder, events: EventBuilder, loop: str, done: str) -> None:
    """Where a drain is asked to: one hole, or the part of one, that the receiver has acknowledged; then round again."""
    skipped, position = Reg("local.skipped", 1), Reg("local.settled", 64)
    offset, length = Reg("local.skip_offset", 64), Reg("local.skip_length", 64)
    with out.when(Binary("==", ALL_OR_NONE, Const(ACKNOWLEDGED)), "acknowledged holes"):
        out.emit(SettledSeq(position, SIDE))
        out.emit(SkipSeq(skipped, offset, length, SIDE, position))
        out.unless(skipped, "skip", done)
        events.gap(offset, length, CAUSE)
        out.emit(Goto(loop))


def end_graph(layer: LayerState) -> Graph:
    """End an instance: deliver what it holds, unless only the whole counts, and emit event `end`.

    An instance that was never stored emits no event `end`.
    """
    scope = layer.scope.without_packet()
    out = GraphBuilder(f"{layer.context.name}.end", (UNIT, REASON, STORED))
    events = EventBuilder(layer, out, scope)
    with out.at(layer.prototype.where):
        out.assign(SIDE, ZERO)
        events.clear_data()
        if layer.context.loops:
            out.assign(BUSY, ONE)
        if layer.drains:
            cause = Reg("local.cause", 8)
            out.assign(cause, Const(CAUSE_NUMBER["close"]))
            with out.when(Binary("==", REASON, Const(REASON_NUMBER["timeout"])), "by timeout"):
                out.assign(cause, Const(CAUSE_NUMBER["timeout"]))
            for side in range(layer.sides):
                out.emit(Drain(PROGRESS, Const(side), cause, 1))
        for step in layer.context.above:
            if step.stream:
                for side in range(layer.sides):
                    out.emit(CloseMessages(step.target, Const(side)))
        if layer.wanted("end"):
            with out.when(STORED, "stored"):
                events.happens("end", {"reason": REASON})
        for module in own_modules(layer):
            out.emit(EndNative(module.name, INSTANCE_NUMBER))
        out.emit(DestroyInst())
        out.emit(Return(ZERO))
    return out.finish()
