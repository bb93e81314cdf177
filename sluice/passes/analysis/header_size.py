"""The sizes of headers, as far as they are constant on the paths through a graph."""

from __future__ import annotations

from sluice.ir.expression import Const, Expr, Reg
from sluice.ir.graph import Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Check, Goto, Instruction, Mark, Payload
from sluice.passes.analysis.fast_path import counted_per_burst, lead


def header_of(graph: Graph) -> int:
    """The bytes of a unit that every path through a graph checks for, up to the first branch or back edge."""
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
    """The offset of the bytes that a template forwards, if it is constant and they extend to the end of the unit."""
    assert layer.template is not None
    known = _Known()
    begins: dict[Expr, int | None] = {}
    for instruction in layer.template.instructions():
        known.learn(instruction)
        if isinstance(instruction, Payload):
            begins[instruction.target] = known.value(instruction.mark)
    return begins.get(lead(layer).sdu)


def knows_bytes(program: Program, at: int) -> bool:
    """Whether the byte count of layer `at` of `counted_per_burst` follows from the byte count of the first layer."""
    return all(begins_at(layer) is not None for layer in counted_per_burst(program)[:at])


class _Known:
    """Registers with a known constant value on one path through a graph, e.g. marks after headers of fixed length."""

    def __init__(self) -> None:
        self._constants: dict[Reg, int] = {}

    def value(self, expr: Expr) -> int | None:
        """The constant value of an expression, or None if it is not known."""
        if isinstance(expr, Const):
            return expr.value
        return self._constants.get(expr) if isinstance(expr, Reg) else None

    def learn(self, instruction: Instruction) -> None:
        """Update the known values with what an instruction writes."""
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
