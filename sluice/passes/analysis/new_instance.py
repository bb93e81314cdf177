"""What is known about a new instance: its fields have their init values, and its sequences are empty.

Two registers that occur in no program represent this among the facts of passes. `instance.unstored` is 1 after a
FreshInst, whose instance is in no table, so that no other graph can find it. `sequence.empty` is 1 until something may
have been inserted into a sequence. The peephole optimisations of the paper (Appendix D) for packets that need no
sequence follow from these facts: "fast assemble" from the results of instructions on an empty sequence, "fast destroy"
from the steps that an end can omit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sluice.ir.dataflow import hidden_writes
from sluice.ir.expression import ONE, ZERO, Binary, Expr, Reg, width
from sluice.ir.graph import Graph, LayerProgram
from sluice.ir.instruction import (
    AcknowledgeSeq,
    Assign,
    Branch,
    Call,
    Count,
    CreateInst,
    CutSeq,
    DestroyInst,
    EndInst,
    EndNative,
    FindAlias,
    FreshInst,
    FullSeq,
    InOrder,
    Instruction,
    Lookup,
    OverdueSeq,
    PlaceSeq,
    Resource,
    Return,
    SwapSides,
    Terminator,
    Touch,
    WaitingSeq,
)

UNSTORED = Reg("instance.unstored", 1)
EMPTY = Reg("sequence.empty", 1)
_FAR = 62
"""The maximum width of a position that no sequence truncates."""


@cache
def forgotten(kind: type[Instruction], unstored: bool) -> tuple[str, ...]:
    """The prefixes of the names of registers that such an instruction may set without naming them.

    `unstored`: the current instance is known to be in no table, so that other graphs do not change it.
    """
    if issubclass(kind, SwapSides):
        return ()  # it turns the names of the sides, and sets no field
    spaces = hidden_writes(kind)
    if kind.RUNS_GRAPHS and unstored and not kind.NEEDS_INSTANCE:
        return tuple(space for space in spaces if space not in ("inst.", "perm."))
    if Resource.SEQUENCE in kind.WRITES:
        spaces = (*spaces, "sequence.")
    if issubclass(kind, Lookup | FindAlias | EndInst | DestroyInst):
        spaces = (*spaces, "instance.", "sequence.")
    return spaces


def begun(layer: LayerProgram, instruction: Instruction) -> Iterator[tuple[Reg, int]]:
    """The values of registers after an instruction that creates an instance."""
    if not isinstance(instruction, CreateInst | FreshInst) or layer.instance is None:
        return
    for reg, init in layer.instance.fields:
        if not reg.is_bytes:
            yield reg, init & ((1 << reg.bits) - 1)
    yield UNSTORED, int(isinstance(instruction, FreshInst))
    if layer.instance.sides:
        yield EMPTY, 1


def without_sequence(layer: LayerProgram, instruction: Instruction) -> tuple[Reg, Expr] | None:
    """The result of an instruction on a sequence that nothing has been inserted into, as an assignment."""
    rules = layer.rules
    match instruction:
        case InOrder(target, _, position) if rules is not None:
            return target, Binary("==", position, ZERO) if rules.linear else ONE
        case PlaceSeq(target, _, meta) if rules is not None and not rules.linear:
            return target, meta
        case CutSeq(target) | WaitingSeq(target) | FullSeq(target) | AcknowledgeSeq(target) | OverdueSeq(target):
            return target, ZERO
        case _:
            return None


def placed(layer: LayerProgram, instruction: Instruction) -> tuple[Reg, Expr] | None:
    """The result of an instruction on any sequence, as an assignment: if a sequence does not wrap, the position is
    meta.
    """
    match instruction:
        case PlaceSeq(target, _, meta) if layer.rules is not None and layer.rules.linear and width(meta) <= _FAR:
            return target, meta
        case _:
            return None


def leaves_no_trace(layer: LayerProgram, instruction: Instruction) -> bool:
    """Whether an instruction has no effect on an instance that is in no table and has empty sequences."""
    match instruction:
        case Touch():
            return True
        case EndInst(reason):
            return layer.end is not None and _is_quiet(layer.end, reason)
        case _:
            return False


def _is_quiet(end: Graph, reason: int) -> bool:
    """Whether an end graph has no observable effect if the instance was never stored."""
    known = {"local.stored": 0, "local.reason": reason}
    seen: set[str] = set()
    waiting = [end.entry]
    while waiting:
        block = end.blocks[waiting.pop()]
        if block.name in seen:
            continue
        seen.add(block.name)
        for instruction in block.instructions:
            if isinstance(instruction, Call | Count | EndNative) or instruction.RUNS_GRAPHS:
                return False
            if not isinstance(instruction, Assign | DestroyInst | Return | Terminator) and instruction.WRITES:
                return False
        waiting += _taken(block.terminator, known)
    return True


def _taken(last: Terminator, known: dict[str, int]) -> tuple[str, ...]:
    if isinstance(last, Branch) and isinstance(last.condition, Reg) and last.condition.name in known:
        return (last.yes if known[last.condition.name] else last.no,)
    return last.targets()
