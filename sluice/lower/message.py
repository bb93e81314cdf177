"""The graphs of a layer that takes messages: `frame` (the length of the next message) and `lost` (bytes form no
message).
"""

from __future__ import annotations

from sluice.ir.expression import MASK, ZERO, Binary, Const, Flip, Reg
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Count, Instruction, Return
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.events import LOSS_CAUSES, PACKET_LOSSES, STREAM_LOSSES
from sluice.lang.expression import Binary as WrittenBinary
from sluice.lang.expression import Expression, Invert, Number, Property
from sluice.lang.field_value import FieldValue
from sluice.lang.layout import HeaderFormat, LayoutType
from sluice.lang.requirement import Requirement
from sluice.lower.builder import GraphBuilder
from sluice.lower.events import EventBuilder
from sluice.lower.header import HeaderBuilder
from sluice.lower.layer_state import CAUSE, LayerState
from sluice.lower.scope import SIDE, UNIT, Scope, nested

SEARCHING = Reg("local.searching", 1)
LENGTH = Reg("local.length", 64)
OFFSET = Reg("local.offset", 64)

INCOMPLETE = ZERO
"""Result of the frame graph: the header is not complete yet."""
MALFORMED = Const(MASK)
TOO_LONG = Const(MASK - 1)
"""Results of the frame graph: no message begins here, because of the header (MALFORMED) or of the length (TOO_LONG)."""
CUT = Const(MASK - 2)
"""Result of the frame graph: the snap length cut the header off. The runtime uses these numbers."""


class _FrameGraph(GraphBuilder):
    """A graph whose packets have no outcome: a block that would end a packet returns that no message begins here."""

    def end_block(self, outcome: str) -> str:
        name = "end " + outcome
        if name not in self.graph.blocks:
            result = {"malformed:header too short": INCOMPLETE, "cut:header": CUT}.get(outcome, MALFORMED)
            self.graph.blocks[name] = Block(name, [Return(result, where=self.where)])
        return name

    def malformed(self, reason: str) -> str:
        """The block that returns MALFORMED or INCOMPLETE."""
        return self.end_block(f"malformed:{reason}")

    def emit(self, instruction: Instruction) -> None:
        """Omit counters of the header: they are counted when the message itself passes through the layer."""
        if not isinstance(instruction, Count) or instruction.counter.startswith("lost:"):
            super().emit(instruction)


def frame_graph(layer: LayerState) -> Graph:
    """The length of the message at the beginning of the unit. With `searching`, the resync condition must hold, too.

    Where the first layout decides, nothing else is parsed: a sender may fill streams with headers, and with bytes among
    which no message begins.
    """
    framing = layer.prototype.framing
    assert framing is not None
    format = layer.prototype.format
    if format is None:
        raise DescriptionError(
            "a message without a header", "its length must stand in one: set p.header.", framing.where
        )
    scope = Scope(layer.scope.layer, layer.scope.offers)
    out = _FrameGraph(f"{layer.context.name}.frame", (UNIT, SEARCHING))
    with out.at(framing.where):
        bad, long = out.name("no message"), out.name("too long")
        required = _required(layer) if layer.context.of_streams else []
        resync = framing.resync

        def searching() -> None:
            if resync is not None:
                with out.when(SEARCHING, "searching"):
                    out.unless(scope.number(resync), "a message begins", bad)

        at_once = resync is None or _first_decides(format, resync)
        decides = [framing.length, *(requirement.condition for requirement in required)]
        optional = all(isinstance(part, Choice) for part in format.parts[1:])
        if optional and at_once and all(_first_decides(format, item) for item in decides):
            format = HeaderFormat(format.parts[:1])
        HeaderBuilder(out, scope, out.malformed).build(format, searching if at_once else None)
        _require(out, scope, required)
        if not at_once:
            searching()
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


def _first_decides(format: HeaderFormat, expression: Expression) -> bool:
    """Whether a value is known once the first part of the header is, a layout."""
    first = format.parts[0]
    if not isinstance(first, LayoutType):
        return False
    fields = list(first.fields.values())
    for item in nested(expression):
        if isinstance(item, FieldValue) and item.group == "header":
            item = item.field
        if not isinstance(item, (Number, WrittenBinary, Invert)) and not any(item is known for known in fields):
            return False
    return True


def _required(layer: LayerState) -> list[Requirement]:
    """What p.require() says of the header alone also decides whether a message begins here. Otherwise a stream would
    wait for all bytes that an invalid header promises.
    """
    p, options = layer.prototype, layer.context.options
    enabled = [item for item in p.requirements if item.option is None or item.option in options]
    return [item for item in enabled if not item.after_prep(p) and all(map(_of_header, nested(item.condition)))]


def _require(out: GraphBuilder, scope: Scope, required: list[Requirement]) -> None:
    """Refuse a header that does not satisfy them."""
    for requirement in required:
        with out.at(requirement.where):
            refused = out.name("not required")
            out.unless(scope.number(requirement.condition), "required", refused)
            with out.aside(refused):
                with out.when(Flip(SEARCHING, 1), "where a message was due"):
                    out.emit(Count(f"lost:malformed ({requirement.reason})"))
                out.emit(Return(MALFORMED))


def _of_header(item: Expression) -> bool:
    """Whether a value is known as soon as the header is there."""
    return not isinstance(item, Property) or item.name in ("cursor", "time")


def lost_graph(layer: LayerState) -> Graph:
    """Event `lost`: `length` bytes at `offset` of the side's stream or of the packet form no message, for `cause`."""
    scope = layer.scope.without_packet()
    out = GraphBuilder(f"{layer.context.name}.lost", (UNIT, SIDE, OFFSET, LENGTH, CAUSE))
    events = EventBuilder(layer, out, scope)
    framing = layer.prototype.framing
    assert framing is not None
    with out.at(framing.where):
        events.clear_data()
        context = layer.context
        causes = {*(STREAM_LOSSES if context.of_streams else ()), *(PACKET_LOSSES if context.of_packets else ())}
        for number, cause in enumerate(LOSS_CAUSES):
            if cause not in causes or (cause == "bundle" and not (framing.bundled or framing.begins)):
                continue
            with out.when(Binary("==", CAUSE, Const(number)), cause):
                out.emit(Count(f"lost:{cause}"))
        if layer.wanted("lost"):
            events.happens("lost", {"offset": OFFSET, "length": LENGTH, "cause": CAUSE})
        out.emit(Return(ZERO))
    return out.finish()
