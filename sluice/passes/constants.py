"""Constants and copies: what is known of registers is put in their place, and what follows from it is
calculated.

Facts flow forward through a graph: a register equals a constant, or another register. They come from
assignments, from the branch that was taken (behind `Branch(x == 3)` x is 3 on yes), and from the creation of
an instance, whose fields start from their init; they end where either register is set anew, and for instances
and slots wherever other graphs may run or another instance becomes the current one. At a join only what holds
on all ways that can be taken is kept. A branch that is decided becomes a Goto, an assignment of what the
register holds already goes, and so do blocks to which no path leads any more. Fields whose copy would have to
be fetched from the instance or the context are not put in place of registers, which are nearer.

A length check and the reads that it covers must go on to name the same size: a size is replaced alike in all
of them or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.ir.copy import with_expressions
from sluice.ir.dataflow import forward, hidden_writes
from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Flip, Reg, rewrite
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import (
    Assign,
    Branch,
    Check,
    CreateInst,
    FreshInst,
    Goto,
    Instruction,
    LoadBytes,
    Mark,
)
from sluice.passes.blocks import each_graph, remove_unreachable
from sluice.passes.simplify import is_bit, simplify_node

Facts = dict[str, Expr]
"""What registers are known to equal, by name: a Const or a Reg."""

FAR = ("perm", "inst", "slot")


def run(program: Program) -> Program:
    """A copy of the program with known values in place."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    """Rewrite one graph; says whether anything changed."""

    def flow(block: Block, facts: Facts) -> Iterator[tuple[str, Facts]]:
        after = dict(facts)
        for instruction in block.body:
            step(layer, evaluate(instruction, after), after)
        return leave(evaluate(block.terminator, after), after)

    start = forward(graph, {}, flow, meet)
    sizes = common_sizes(layer, graph, start)
    changed = False
    for name, facts in start.items():
        block = graph.blocks[name]
        rewritten = list(_rewrite_block(layer, block, dict(facts), sizes))
        if rewritten != block.instructions:
            block.instructions = rewritten
            changed = True
    return remove_unreachable(graph) or changed


def _rewrite_block(
    layer: LayerProgram, block: Block, facts: Facts, sizes: dict[Expr, Expr]
) -> Iterator[Instruction]:
    for instruction in block.instructions:
        simpler = evaluate(instruction, facts)
        if isinstance(simpler, (Check, LoadBytes)):
            assert isinstance(instruction, (Check, LoadBytes))
            simpler.size = sizes[instruction.size]
        if isinstance(simpler, Branch):
            yield decide(simpler)
        elif not is_redundant(simpler, facts):
            yield simpler
        step(layer, simpler, facts)


def common_sizes(layer: LayerProgram, graph: Graph, start: dict[str, Facts]) -> dict[Expr, Expr]:
    """For every size of a check or read of bytes what to write in its stead: itself where its uses differ."""
    found: dict[Expr, Expr] = {}
    for name, facts in start.items():
        now = dict(facts)
        for instruction in graph.blocks[name].instructions:
            simpler = evaluate(instruction, now)
            if isinstance(instruction, (Check, LoadBytes)):
                assert isinstance(simpler, (Check, LoadBytes))
                if found.setdefault(instruction.size, simpler.size) != simpler.size:
                    found[instruction.size] = instruction.size
            step(layer, simpler, now)
    return found


# --- facts
# --------------------------------------------------------------------------------------------------------


def meet(left: Facts, right: Facts) -> Facts:
    """What is known on both of two ways."""
    return {name: value for name, value in left.items() if right.get(name) == value}


def evaluate(instruction: Instruction, facts: Facts) -> Instruction:
    """The instruction with what is known in place of its registers, and simplified."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Reg):
            return look_up(node, facts)
        return simplify_node(node)

    return with_expressions(instruction, lambda expression: rewrite(expression, change))


def look_up(register: Reg, facts: Facts) -> Expr:
    """What a register is known to equal; itself when nothing is known."""
    value: Expr = register
    while isinstance(value, Reg) and value.name in facts:
        value = facts[value.name]
    return value


def step(layer: LayerProgram, instruction: Instruction, facts: Facts) -> None:
    """What is known after an (evaluated) instruction; changes `facts`."""
    position = _position(instruction, facts)
    redundant = is_redundant(instruction, facts)
    forget_spaces(facts, hidden_writes(instruction))
    if redundant:
        return
    for reg in instruction.written():
        forget(facts, reg)
    match instruction:
        case Assign(target, Const(value)) if not target.is_bytes:
            facts[target.name] = Const(value & ((1 << target.bits) - 1))
        case Assign(target, Reg() as source) if is_copy(target, source):
            facts[target.name] = source
        case Mark(target):
            if position is not None:
                facts[target.name] = Const(position & ((1 << target.bits) - 1))
        case CreateInst() | FreshInst() if layer.instance is not None:
            for reg, init in layer.instance.fields:
                if not reg.is_bytes:
                    facts[reg.name] = Const(init & ((1 << reg.bits) - 1))
        case _:
            pass


def _position(instruction: Instruction, facts: Facts) -> int | None:
    """Where a Mark lies, if that is known."""
    match instruction:
        case Mark(_, base, Const(offset)):
            value = look_up(base, facts)
            return value.value + offset if isinstance(value, Const) else None
        case _:
            return None


def is_copy(target: Reg, source: Reg) -> bool:
    """Whether an assignment keeps all of `source`, and reading it in place of `target` is no more work."""
    if target.name == source.name or source.space in FAR:
        return False
    return target.is_bytes == source.is_bytes and source.bits <= target.bits


def is_redundant(instruction: Instruction, facts: Facts) -> bool:
    """Whether it assigns what the register holds already."""
    match instruction:
        case Assign(target, value):
            return value == target or (target.name in facts and value == look_up(target, facts))
        case _:
            return False


def forget(facts: Facts, register: Reg) -> None:
    """A register is set anew."""
    facts.pop(register.name, None)
    for name in [name for name, value in facts.items() if value == register]:
        del facts[name]


def forget_spaces(facts: Facts, spaces: frozenset[str]) -> None:
    """Registers of whole spaces may be set anew. Nothing is known to equal one of them: see `is_copy`."""
    for name in [name for name in facts if name.split(".", 1)[0] in spaces]:
        del facts[name]


# --- branches
# -----------------------------------------------------------------------------------------------------


def decide(branch: Branch) -> Instruction:
    """The simplest terminator that goes where the branch goes."""
    match branch.condition:
        case Const(value):
            return Goto(branch.yes if value else branch.no, where=branch.where)
        case Flip(operand, 1) if is_bit(operand):
            return decide(Branch(operand, branch.no, branch.yes, where=branch.where))
        case Binary("!=", operand, Const(0)):
            return decide(Branch(operand, branch.yes, branch.no, where=branch.where))
        case _:
            return branch


def leave(terminator: Instruction, facts: Facts) -> Iterator[tuple[str, Facts]]:
    """The ways out that can be taken, with what is known on each."""
    simpler = decide(terminator) if isinstance(terminator, Branch) else terminator
    match simpler:
        case Branch(condition, yes, no):
            yield yes, {**facts, **learn(condition, True)}
            yield no, {**facts, **learn(condition, False)}
        case Goto(to):
            yield to, facts
        case Check(_, _, yes, cut, short):
            for target in (yes, cut, short):
                yield target, facts
        case _:
            for target in getattr(simpler, "targets", tuple[str, ...])():
                yield target, facts


def learn(condition: Expr, holds: bool) -> Facts:
    """What follows from a condition that holds, or does not."""
    match condition:
        case Reg(name, bits) if not holds or bits == 1:
            return {name: ONE if holds else ZERO}
        case Flip(operand, 1) if is_bit(operand):
            return learn(operand, not holds)
        case Binary("==", Reg(name, _), Const() as value) if holds:
            return {name: value}
        case Binary("!=", Reg(name, _), Const() as value) if not holds:
            return {name: value}
        case Binary("&", left, right) if holds and is_bit(left) and is_bit(right):
            return {**learn(left, True), **learn(right, True)}
        case Binary("|", left, right) if not holds:
            return {**learn(left, False), **learn(right, False)}
        case _:
            return {}
