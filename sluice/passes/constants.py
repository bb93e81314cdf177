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
from dataclasses import dataclass, field
from functools import cache

from sluice.ir.copy import with_expressions, with_operands
from sluice.ir.dataflow import forward
from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Flip, Reg, is_bit, rewrite
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
    LoadVarint,
    Mark,
    Terminator,
)
from sluice.ir.simplify import simplify, simplify_node
from sluice.passes import dead_code
from sluice.passes.analysis import new_instance
from sluice.passes.analysis.blocks import each_graph, remove_unreachable

FAR = ("perm", "inst", "slot")
SIZED = (Check, LoadBytes, LoadVarint)
"""Length checks and the reads that need to find their own size in one."""

constant = cache(Const)
"""A number; always the same object, as objects that are the same need not be compared."""

Visit = list[tuple[Instruction, Instruction | None]]
"""What became of a block's instructions: each with what to write in its stead, None when it can go."""


@dataclass(slots=True)
class Facts:
    """What registers are known to equal, by name: a Const or a Reg.

    `sources` has the names of all those Regs, and may have more: only when one of them is set anew there is
    something to forget.
    """

    values: dict[str, Expr] = field(default_factory=lambda: {})
    sources: set[str] = field(default_factory=lambda: set(), compare=False)

    def copy(self) -> Facts:
        return Facts(dict(self.values), set(self.sources))

    def learn(self, more: dict[str, Expr]) -> Facts:
        """These facts, and constants that are known besides."""
        return Facts({**self.values, **more}, self.sources) if more else self

    def meet(self, other: Facts) -> Facts:
        """What is known on both of two ways."""
        theirs = other.values.get
        both = {name: value for name, value in self.values.items() if (same := theirs(name)) is value or same == value}
        return self if len(both) == len(self.values) else Facts(both, self.sources)

    def look_up(self, register: Reg) -> Expr:
        """What a register is known to equal; itself when nothing is known."""
        value: Expr = register
        while isinstance(value, Reg) and value.name in self.values:
            value = self.values[value.name]
        return value

    def holds(self, register: Reg) -> bool:
        """Whether a bit is known to be 1."""
        return self.values.get(register.name) == ONE

    def set(self, register: Reg, value: Expr) -> None:
        """The register, forgotten before, is now known to equal `value`."""
        self.values[register.name] = value
        if isinstance(value, Reg):
            self.sources.add(value.name)

    def forget(self, register: Reg) -> None:
        """A register is set anew."""
        name = register.name
        self.values.pop(name, None)
        if name in self.sources:
            self.sources.discard(name)
            for equal in [other for other, value in self.values.items() if value == register]:
                del self.values[equal]

    def forget_spaces(self, spaces: tuple[str, ...]) -> None:
        """Registers whose names begin so may be set anew. Nothing equals one of them: see `is_copy`."""
        for name in [name for name in self.values if name.startswith(spaces)]:
            del self.values[name]


def run(program: Program) -> Program:
    """The program with known values in place, and without what nobody reads any more."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    changed = change(layer, graph)
    return dead_code.change(layer, graph) or changed


def change(layer: LayerProgram, graph: Graph) -> bool:
    """Put in place what is known; says whether there was anything.

    Once is enough: facts are found from everything downwards, by instructions as they will be and along branches that
    can be taken alone (conditional constants: Wegman and Zadeck 1991), so that what is rewritten tells nothing new.
    """
    simplified = _simplify(graph)
    return _propagate(layer, graph) or simplified


def _simplify(graph: Graph) -> bool:
    """Give every expression its simplest form, without knowing anything."""
    changed = False
    for block in graph.blocks.values():
        for place, instruction in enumerate(block.instructions):
            simpler = with_expressions(instruction, simplify)
            if simpler is not instruction:
                block.instructions[place] = simpler
                changed = True
    return changed


def _propagate(layer: LayerProgram, graph: Graph) -> bool:
    """Rewrite a graph, whose expressions are simple, by what is known; says whether anything changed."""
    visits: dict[str, Visit] = {}

    def flow(block: Block, known: Facts) -> Iterator[tuple[str, Facts]]:
        now = known.copy()
        # the last visit of a block, which stays, is the one with the facts that hold there
        visit = visits[block.name] = []
        for instruction in block.instructions:
            simpler = evaluate(layer, instruction, now)
            if isinstance(simpler, Terminator):
                simpler = decide(simpler)
                visit.append((instruction, simpler))
                return leave(simpler, now)
            if is_redundant(layer, simpler, now):
                visit.append((instruction, None))
            else:
                visit.append((instruction, simpler))
                step(layer, simpler, now)
        raise AssertionError(f"block '{block.name}' has no terminator")

    forward(graph, Facts(), flow, Facts.meet)
    sizes = common_sizes(visits)
    changed = False
    for name, visit in visits.items():
        block = graph.blocks[name]
        rewritten = [_with_size(old, new, sizes) for old, new in visit if new is not None]
        if rewritten != block.instructions:
            block.instructions = rewritten
            changed = True
    return remove_unreachable(graph) or changed


def common_sizes(visits: dict[str, Visit]) -> dict[Expr, Expr]:
    """For every size of a check or read of bytes what to write in its stead: itself where its uses differ."""
    found: dict[Expr, Expr] = {}
    for visit in visits.values():
        for old, new in visit:
            if isinstance(old, SIZED) and isinstance(new, SIZED):
                if found.setdefault(old.size, new.size) != new.size:
                    found[old.size] = old.size
    return found


def _with_size(old: Instruction, new: Instruction, sizes: dict[Expr, Expr]) -> Instruction:
    """The rewritten instruction, with the size that all of its kind agree on."""
    if isinstance(old, SIZED) and isinstance(new, SIZED):
        size = sizes[old.size]
        if size is not new.size:
            return with_operands(new, size=size)
    return new


# --- facts --------------------------------------------------------------------------------------------------


def evaluate(layer: LayerProgram, instruction: Instruction, facts: Facts) -> Instruction:
    """The instruction with what is known in place of its registers, and simplified; itself without that."""
    instruction = _with_values(instruction, facts)
    told = new_instance.placed(layer, instruction)
    if told is None and facts.holds(new_instance.EMPTY):
        told = new_instance.without_sequence(layer, instruction)
    return instruction if told is None else Assign(told[0], simplify(told[1]), where=instruction.where)


def _with_values(instruction: Instruction, facts: Facts) -> Instruction:
    values = facts.values
    if not any(reg.name in values for reg in instruction.read_registers()):
        return instruction

    def change(node: Expr) -> Expr:
        if isinstance(node, Reg):
            return facts.look_up(node)
        return simplify_node(node)

    return with_expressions(instruction, lambda expression: rewrite(expression, change))


def step(layer: LayerProgram, instruction: Instruction, facts: Facts) -> None:
    """What is known after an (evaluated) instruction that is not redundant; changes `facts`."""
    position = _position(instruction, facts)
    spaces = new_instance.forgotten(type(instruction), facts.holds(new_instance.UNSTORED))
    if spaces:
        facts.forget_spaces(spaces)
    for reg in instruction.written():
        facts.forget(reg)
    match instruction:
        case Assign(target, Const(value)) if not target.is_bytes:
            facts.set(target, constant(value & ((1 << target.bits) - 1)))
        case Assign(target, Reg() as source) if is_copy(target, source):
            facts.set(target, source)
        case Mark(target) if position is not None:
            facts.set(target, constant(position & ((1 << target.bits) - 1)))
        case CreateInst() | FreshInst():
            for reg, value in new_instance.begun(layer, instruction):
                facts.set(reg, constant(value))
        case _:
            pass


def _position(instruction: Instruction, facts: Facts) -> int | None:
    """Where a Mark lies, if that is known."""
    match instruction:
        case Mark(_, base, Const(offset)):
            value = facts.look_up(base)
            return value.value + offset if isinstance(value, Const) else None
        case _:
            return None


def is_copy(target: Reg, source: Reg) -> bool:
    """Whether an assignment keeps all of `source`, and reading it in place of `target` is no more work."""
    if target.name == source.name or source.space in FAR:
        return False
    return target.is_bytes == source.is_bytes and source.bits <= target.bits


def is_redundant(layer: LayerProgram, instruction: Instruction, facts: Facts) -> bool:
    """Whether it assigns what the register holds already, or nothing can come of it."""
    if facts.holds(new_instance.UNSTORED) and facts.holds(new_instance.EMPTY):
        if new_instance.leaves_no_trace(layer, instruction):
            return True
    if not isinstance(instruction, Assign):
        return False
    target, value = instruction.target, instruction.value
    return value == target or (target.name in facts.values and value == facts.look_up(target))


# --- branches -----------------------------------------------------------------------------------------------


def decide(terminator: Terminator) -> Terminator:
    """The simplest terminator that goes where this one goes."""
    if not isinstance(terminator, Branch):
        return terminator
    yes, no = terminator.yes, terminator.no
    match terminator.condition:
        case Const(value):
            return Goto(yes if value else no, where=terminator.where)
        case Flip(operand, 1) if is_bit(operand):
            return decide(Branch(operand, no, yes, where=terminator.where))
        case Binary("!=", operand, Const(0)):
            return decide(Branch(operand, yes, no, where=terminator.where))
        case _:
            return terminator


def leave(terminator: Terminator, facts: Facts) -> Iterator[tuple[str, Facts]]:
    """The ways out of a (decided) terminator, with what is known on each."""
    if isinstance(terminator, Branch):
        yield terminator.yes, facts.learn(learn(terminator.condition, True))
        yield terminator.no, facts.learn(learn(terminator.condition, False))
    else:
        for target in terminator.targets():
            yield target, facts


def learn(condition: Expr, holds: bool) -> dict[str, Expr]:
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
