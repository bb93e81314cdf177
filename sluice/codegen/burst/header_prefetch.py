"""How far into a packet most packets are read, so that so much of the next ones is asked for, and no more.

A line of a packet that nobody reads takes one of the buffers for misses from what is waited for: `http32k` with packets
cold took a tenth longer where three lines were asked for of which two are read.
"""

from __future__ import annotations

from sluice.codegen.burst.fast_path import counted_per_burst, fast_path_stage, lead, templates
from sluice.ir.expression import Const, Expr, Reg
from sluice.ir.graph import Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Check, Goto, Instruction, Mark, Payload

UNKNOWN = 192
"""Bytes of a packet that no template foresees; with a tunnel headers often have so many. More are never asked for."""

LIST = 4
"""Bytes behind the last header: by the first word of a list of options most lists are known (pass `padding`)."""


def header_bytes(program: Program) -> int:
    """The bytes of most packets that are read: the headers of the layers that templates lead through, and of the one
    behind them.
    """
    behind = fast_path_stage(program)
    if behind is None:
        return UNKNOWN
    headers = [*(layer.template for layer in templates(program)), behind.main]
    return min(sum(header_of(graph) for graph in headers if graph is not None) + LIST, UNKNOWN)


def header_of(graph: Graph) -> int:
    """The bytes of a unit that are read on every way through a graph: by length checks up to the first branch, or to where
    a loop begins anew.
    """
    known = _Known()
    size, label, seen = 0, graph.entry, set[str]()
    while label not in seen:
        seen.add(label)
        block = graph.blocks[label]
        for instruction in block.instructions:
            known.learn(instruction)
        match block.terminator:
            case Check(mark, n, yes) if (at := known.value(mark)) is not None and (more := known.value(n)) is not None:
                size, label = max(size, at + more), yes
            case Goto(to):
                label = to
            case _:
                break
    return size


def begins_at(layer: LayerProgram) -> int | None:
    """At which byte of its unit begins what a template leads on with, if that is always the same and all to the end."""
    assert layer.template is not None
    known = _Known()
    begins: dict[Expr, int | None] = {}
    for instruction in layer.template.instructions():
        known.learn(instruction)
        if isinstance(instruction, Payload):
            begins[instruction.target] = known.value(instruction.mark)
    return begins.get(lead(layer).sdu)


def knows_bytes(program: Program, at: int) -> bool:
    """Whether of layer `at` of those that are counted at once the bytes are known from those of the first."""
    return all(begins_at(layer) is not None for layer in counted_per_burst(program)[:at])


class _Known:
    """Registers that are known to be a constant, as marks behind headers of fixed length, on one way through a graph."""

    def __init__(self) -> None:
        self._constants: dict[Reg, int] = {}

    def value(self, expr: Expr) -> int | None:
        """What an expression is known to be."""
        if isinstance(expr, Const):
            return expr.value
        return self._constants.get(expr) if isinstance(expr, Reg) else None

    def learn(self, instruction: Instruction) -> None:
        """Take note of what an instruction sets."""
        known: int | None = None
        match instruction:
            case Assign(_, expr):
                known = self.value(expr)
            case Mark(_, base, offset) if (at := self.value(base)) is not None and (
                n := self.value(offset)
            ) is not None:
                known = at + n
            case _:
                pass
        for reg in instruction.written():
            self._constants.pop(reg, None)
            if known is not None:
                self._constants[reg] = known
