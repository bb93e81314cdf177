"""How far into a packet most packets are read, so that so much of the next ones is asked for, and no more.

A line of a packet that nobody reads takes one of the buffers for misses from what is waited for: `http32k` with packets
cold took a tenth longer where three lines were asked for of which two are read.
"""

from __future__ import annotations

from sluice.codegen.most import led_to, templates
from sluice.ir.expression import Const, Expr, Reg
from sluice.ir.graph import Graph, Program
from sluice.ir.instruction import Assign, Check, Goto, Mark

UNKNOWN = 192
"""Bytes of a packet that no template foresees; with a tunnel headers often have so many. More are never asked for."""

LIST = 4
"""Bytes behind the last header: by the first word of a list of options most lists are known (pass `padding`)."""


def header_bytes(program: Program) -> int:
    """The bytes of most packets that are read: the headers of the layers that templates lead through, and of the one
    behind them.
    """
    led = templates(program)
    if not led:
        return UNKNOWN
    headers = [layer.template for layer in led] + [program.layers[led_to(led[-1])].main]
    return min(sum(header_of(graph) for graph in headers if graph is not None) + LIST, UNKNOWN)


def header_of(graph: Graph) -> int:
    """The bytes of a unit that are read on every way through a graph: by length checks up to the first branch, or to where
    a loop begins anew.
    """
    constants: dict[Reg, int] = {}

    def value(expr: Expr) -> int | None:
        return expr.value if isinstance(expr, Const) else constants.get(expr) if isinstance(expr, Reg) else None

    size, label, seen = 0, graph.entry, set[str]()
    while label not in seen:
        seen.add(label)
        block = graph.blocks[label]
        for instruction in block.instructions:
            known: int | None = None
            match instruction:
                case Assign(_, expr):
                    known = value(expr)
                case Mark(_, base, offset) if (at := value(base)) is not None and (n := value(offset)) is not None:
                    known = at + n
                case _:
                    pass
            for reg in instruction.written():
                constants.pop(reg, None)
                if known is not None:
                    constants[reg] = known
        match block.terminator:
            case Check(mark, n, yes) if (at := value(mark)) is not None and (more := value(n)) is not None:
                size, label = max(size, at + more), yes
            case Goto(to):
                label = to
            case _:
                break
    return size
