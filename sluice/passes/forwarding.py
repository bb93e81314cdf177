"""Direct fast forward (the paper, Appendix D): bytes that are next in order bypass the sequence.

Such a packet inserts its bytes, releases records that are no longer beyond the next expected position, and takes its
bytes out again. Since nothing is held, there are no records, and the output is what it inserted (in C nothing, for a
side whose bytes no function needs). The code after a successful InsertNext is duplicated. If an Assemble follows on
every path, and nothing before it accesses the sequence or may run another graph, the two instructions become one
ForwardSeq, and the instructions between them that query the sequence get constant results.

The pass does not apply if history is stored (which needs the bytes), to sequences of units, or if functions read the
sequence between the two instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from sluice.ir.copy import copy_graph
from sluice.ir.dataflow import forward
from sluice.ir.expression import ONE, ZERO, Binary, Expr, Length, Reg, Slice, registers
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import (
    Assemble,
    Assign,
    Branch,
    ForwardSeq,
    InsertNext,
    Instruction,
    ReleaseSeq,
    Resource,
    SettleSeq,
)
from sluice.passes import constants, dead_code
from sluice.passes.analysis.blocks import each_graph, twin

FORWARDED = Reg("local.forwarded", 0)
OFFSET = Reg("local.forward_offset", 64)


def run(program: Program) -> Program:
    """The program with packets that are in order bypassing their sequences."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    rules = layer.rules
    if rules is None or rules.history or rules.units or rules.observed:
        return False
    places = [block.name for block in graph.blocks.values() if _insert(block) is not None]
    changed = [_forward(graph, place, rules.buffer_data) for place in places]
    if any(changed):
        constants.change(layer, graph)
        dead_code.change(layer, graph)
    return any(changed)


def _insert(block: Block) -> InsertNext | None:
    """The InsertNext at the end of a block whose branch tests its success."""
    match block.instructions[-2:]:
        case [InsertNext(target) as insert, Branch(condition)] if condition == target:
            return insert
        case _:
            return None


def _forward(graph: Graph, place: str, buffered: bool) -> bool:
    """Bypass the sequence for what is next in order, if the code after the insert of a block permits it; returns
    whether it does.
    """
    tried = copy_graph(graph)
    block = tried.blocks[place]
    insert, last = block.instructions[-2:]
    assert isinstance(insert, InsertNext) and isinstance(last, Branch)
    yes = twin(tried, last.yes)
    offset: Expr = OFFSET
    data: Expr = FORWARDED
    if not buffered:  # nothing is stored, and nothing comes out
        offset, data = Binary("+", OFFSET, Length(insert.data)), Slice(insert.data, ZERO, ZERO)
    if not _decide(tried, yes, insert, data, offset):
        return False
    block.instructions[-2:] = [
        ForwardSeq(
            *(insert.target, FORWARDED, OFFSET, insert.side, insert.position, insert.data, insert.units),
            where=insert.where,
        ),
        Branch(last.condition, yes, last.no, where=last.where),
    ]
    graph.blocks = tried.blocks
    return True


class _State(Enum):
    """Where the bytes of the packet are, on a path after the ForwardSeq."""

    WAIT = "they are still to be taken out"
    TAKEN = "and the sequence is empty"
    UNKNOWN = "they were taken out, and another graph may have run"
    LOST = "they were not taken out as they should have been"


def _meet(one: _State, other: _State) -> _State:
    if one is other:
        return one
    return _State.LOST if {one, other} & {_State.WAIT, _State.LOST} else _State.UNKNOWN


def _decide(graph: Graph, entry: str, insert: InsertNext, data: Expr, offset: Expr) -> bool:
    """Rewrite the blocks after a ForwardSeq, which no other path enters, by what is known there. False if the Assemble
    is missing on a path.
    """
    read = {reg.name for reg in (*registers(insert.side), *registers(insert.data))}

    def step(state: _State, i: Instruction) -> tuple[_State, list[Instruction]]:
        """The state after an instruction, and the instructions that replace it."""
        match i:
            case ReleaseSeq(more, _, side) if side == insert.side and state in (_State.WAIT, _State.TAKEN):
                return state, [Assign(more, ZERO, where=i.where)]
            case Assemble(target, to, side) if side == insert.side and state is _State.WAIT:
                return _State.TAKEN, [Assign(target, data, where=i.where), Assign(to, offset, where=i.where)]
            case SettleSeq(kept, side) if side == insert.side and state is _State.TAKEN:
                return state, [Assign(kept, ONE, where=i.where)]
            case _ if _interferes(i) or read & {reg.name for reg in i.written()}:
                return _meet(state, _State.UNKNOWN), [i]
            case _:
                return state, [i]

    def flow(block: Block, state: _State) -> Iterator[tuple[str, _State]]:
        for i in block.body:
            state, _ = step(state, i)
        for target in block.terminator.targets():
            yield target, state

    region = Graph(graph.name, entry, graph.parameters, graph.blocks)
    for name, state in forward(region, _State.WAIT, flow, _meet).items():
        block = graph.blocks[name]
        written: list[Instruction] = []
        for i in block.body:
            state, instead = step(state, i)
            written += instead
        if state is _State.LOST or (state is _State.WAIT and not block.terminator.targets()):
            return False
        block.instructions = [*written, block.terminator]
    return True


def _interferes(instruction: Instruction) -> bool:
    """Whether an instruction may read or change the sequence."""
    return instruction.NEEDS_SEQUENCE or instruction.RUNS_GRAPHS or Resource.TABLE in instruction.WRITES
