"""The graphs of a layer that takes messages: how long the next one is, and that bytes make none."""

from __future__ import annotations

from sluice.ir.expression import MASK, ZERO, Binary, Const, Reg
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Count, Instruction, Return
from sluice.lang.errors import DescriptionError
from sluice.lang.events import LOSS_CAUSES, PACKET_LOSSES, STREAM_LOSSES
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.header import HeaderBuilder
from sluice.lower.layer_state import CAUSE, LayerState
from sluice.lower.scope import SIDE, UNIT, Scope

SEARCHING = Reg("local.searching", 1)
LENGTH = Reg("local.length", 64)
OFFSET = Reg("local.offset", 64)

INCOMPLETE = ZERO
"""What the frame graph returns when the header is not all there yet."""
MALFORMED = Const(MASK)
TOO_LONG = Const(MASK - 1)
"""And when no message begins here: because of its header, or of its length."""
CUT = Const(MASK - 2)
"""And when the snap length cut its header off. The runtime knows these numbers."""


class _FrameGraph(GraphBuilder):
    """A graph whose packets have no outcome: what would end one tells instead that no message begins here."""

    def end_block(self, outcome: str) -> str:
        name = "end " + outcome
        if name not in self.graph.blocks:
            result = {"malformed:header too short": INCOMPLETE, "cut:header": CUT}.get(outcome, MALFORMED)
            self.graph.blocks[name] = Block(name, [Return(result, where=self.where)])
        return name

    def malformed(self, reason: str) -> str:
        """The block that tells so."""
        return self.end_block(f"malformed:{reason}")

    def emit(self, instruction: Instruction) -> None:
        """What a header counts is counted when the message itself goes through the layer."""
        if not isinstance(instruction, Count):
            super().emit(instruction)


def frame_graph(layer: LayerState) -> Graph:
    """How many bytes the message has that begins with the unit; `searching` asks the resync condition, too."""
    framing = layer.prototype.framing
    assert framing is not None
    if layer.prototype.format is None:
        raise DescriptionError(
            "a message without a header", "its length must stand in one: set p.header.", framing.where
        )
    scope = Scope(layer.scope.layer, layer.scope.offers)
    out = _FrameGraph(f"{layer.context.name}.frame", (UNIT, SEARCHING))
    with out.at(framing.where):
        HeaderBuilder(out, scope, out.malformed).build(layer.prototype.format)
        bad, long = out.name("no message"), out.name("too long")
        if framing.resync is not None:
            with out.when(SEARCHING, "searching"):
                out.unless(scope.number(framing.resync), "a message begins", bad)
        out.assign(LENGTH, scope.number(framing.length))
        out.unless(Binary(">=", LENGTH, Reg("mark.end", 32)), "holds its header", bad)
        out.unless(Binary("!=", LENGTH, ZERO), "holds something", bad)
        out.unless(Binary("<=", LENGTH, Const(framing.limit)), "within the limit", long)
        out.emit(Return(LENGTH))
        with out.aside(bad):
            out.emit(Return(MALFORMED))
        with out.aside(long):
            out.emit(Return(TOO_LONG))
    return out.finish()


def lost_graph(layer: LayerState) -> Graph:
    """Event `lost`: for `cause` the `length` bytes at `offset`, of the side's stream or the packet, make no message."""
    scope = layer.scope.without_packet()
    out = GraphBuilder(f"{layer.context.name}.lost", (UNIT, SIDE, OFFSET, LENGTH, CAUSE))
    events = EventBuilder(layer, out, scope)
    assert layer.prototype.framing is not None
    with out.at(layer.prototype.framing.where):
        events.clear_data()
        context = layer.context
        causes = {*(STREAM_LOSSES if context.of_streams else ()), *(PACKET_LOSSES if context.of_packets else ())}
        for number, cause in enumerate(LOSS_CAUSES):
            if cause not in causes:
                continue
            with out.when(Binary("==", CAUSE, Const(number)), cause):
                out.emit(Count(f"lost:{cause}"))
        if layer.wanted("lost"):
            events.happens("lost", {"offset": OFFSET, "length": LENGTH, "cause": CAUSE})
        out.emit(Return(ZERO))
    return out.finish()
