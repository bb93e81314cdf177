"""Constants and copies: known values replace registers, and expressions are evaluated with them.

Facts flow forward through a graph: a register equals a constant, or another register. Facts come from assignments, from
the branch that was taken (on the `yes` target of `Branch(x == 3)`, x is 3), and from the creation of an instance, whose
fields start from their init. A fact ends where either register is set again. Facts on instances and slots also end
where other graphs may run, or where another instance becomes the current one. At a join, only what holds on all paths
that can be taken remains. A branch that is decided becomes a Goto. An assignment of the value that the register already
holds is removed, and so are blocks that have become unreachable. Registers are not replaced by fields or slots, which
would have to be loaded from the instance or the context.

A length check and the reads that it covers must use the same expression for the size. A size is therefore replaced in
all of them or in none.
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
"""Length checks, and the reads that must find their own size in one."""

constant = cache(Const)
"""A number, as a shared object: comparing an object with itself is fast."""

Visit = list[tuple[Instruction, Instruction | None]]
"""The instructions of a block, each with its replacement; None if it can be removed."""


@dataclass(slots=True)
class Facts:
    """What registers are known to equal, by name: a Const or a Reg.

    `sources` has the names of all these Regs, and may have more: only when one of them is set again, facts have to be
    removed.
    """

    values: dict[str, Expr] = field(default_factory=lambda: {})
    sources: set[str] = field(default_factory=lambda: set(), compare=False)

    def copy(self) -> Facts:
        return Facts(dict(self.values), set(self.sources))

    def learn(self, more: dict[str, Expr]) -> Facts:
        """These facts together with further constants."""
        return Facts({**self.values, **more}, self.sources) if more else self

    def meet(self, other: Facts) -> Facts:
        """What is known on both of two paths."""
        theirs = other.values.get
        both = {name: value for name, value in self.values.items() if (same := theirs(name)) is value or same == value}
        return self if len(both) == len(self.values) else Facts(both, self.sources)

    def look_up(self, register: Reg) -> Expr:
        """What a register is known to equal; the register itself if nothing is known."""
        value: Expr = register
        while isinstance(value, Reg) and value.name in self.values:
            value = self.values[value.name]
        return value

    def holds(self, register: Reg) -> bool:
        """Whether a bit is known to be 1."""
        return self.values.get(register.name) == ONE

    def set(self, register: Reg, value: Expr) -> None:
        """Record that a register equals `value`. Older facts about the register have been removed by `forget`."""
        self.values[register.name] = value
        if isinstance(value, Reg):
            self.sources.add(value.name)

    def forget(self, register: Reg) -> None:
        """Remove the facts about a register that is set again."""
        name = register.name
        self.values.pop(name, None)
        if name in self.sources:
            self.sources.discard(name)
            for equal in [other for other, value in self.values.items() if value == register]:
                del self.values[equal]

    def forget_spaces(self, spaces: tuple[str, ...]) -> None:
        """Remove the facts about registers with these prefixes. No other register equals one: see `is_copy`."""
        for name in [name for name in self.values if name.startswith(spaces)]:
            del self.values[name]


def run(program: Program) -> Program:
    """The program with known values in place, and without the code that has become dead."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    changed = change(layer, graph)
    return dead_code.change(layer, graph) or changed


def change(layer: LayerProgram, graph: Graph) -> bool:
    """Replace registers by known values; returns whether anything changed.

    One run is sufficient. Facts start from the most optimistic assumption, and flow through rewritten instructions and
    along branches that can be taken only (conditional constants: Wegman and Zadeck 1991), so that rewriting yields no
    new facts.
    """
    simplified = _simplify(graph)
    return _propagate(layer, graph) or simplified


def _simplify(graph: Graph) -> bool:
    """Simplify every expression, without facts."""
    changed = False
    for block in graph.blocks.values():
        for place, instruction in enumerate(block.instructions):
            simpler = with_expressions(instruction, simplify)
            if simpler is not instruction:
                block.instructions[place] = simpler
                changed = True
    return changed


def _propagate(layer: LayerProgram, graph: Graph) -> bool:
    """Rewrite a graph, whose expressions are simplified, by facts; returns whether anything changed."""
    visits: dict[str, Visit] = {}

    def flow(block: Block, known: Facts) -> Iterator[tuple[str, Facts]]:
        now = known.copy()
        # the last visit of a block replaces earlier ones; it has the facts that hold there
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
    """The replacement of every size of a check or a read of bytes; the size itself if its uses would differ."""
    found: dict[Expr, Expr] = {}
    for visit in visits.values():
        for old, new in visit:
            if isinstance(old, SIZED) and isinstance(new, SIZED):
                if found.setdefault(old.size, new.size) != new.size:
                    found[old.size] = old.size
    return found


def _with_size(old: Instruction, new: Instruction, sizes: dict[Expr, Expr]) -> Instruction:
    """The rewritten instruction, with the size on which all uses agree."""
    if isinstance(old, SIZED) and isinstance(new, SIZED):
        size = sizes[old.size]
        if size is not new.size:
            return with_operands(new, size=size)
    return new


# --- facts --------------------------------------------------------------------------------------------------


def evaluate(layer: LayerProgram, instruction: Instruction, facts: Facts) -> Instruction:
    """The instruction with known values in place of its registers, simplified; the same object if nothing is known."""
    instruction = _with_values(instruction, facts)
    known = new_instance.placed(layer, instruction)
    if known is None and facts.holds(new_instance.EMPTY):
        known = new_instance.without_sequence(layer, instruction)
    return instruction if known is None else Assign(known[0], simplify(known[1]), where=instruction.where)


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
    """Change `facts` to those after an (evaluated) instruction that is not redundant."""
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
    """The position that a Mark sets, if it is known."""
    match instruction:
        case Mark(_, base, Const(offset)):
            value = facts.look_up(base)
            return value.value + offset if isinstance(value, Const) else None
        case _:
            return None


def is_copy(target: Reg, source: Reg) -> bool:
    """Whether an assignment preserves all of `source`, and reading `source` costs no more than reading `target`."""
    if target.name == source.name or source.space in FAR:
        return False
    return target.is_bytes == source.is_bytes and source.bits <= target.bits


def is_redundant(layer: LayerProgram, instruction: Instruction, facts: Facts) -> bool:
    """Whether an instruction assigns the value that the register already holds, or cannot have an effect."""
    if facts.holds(new_instance.UNSTORED) and facts.holds(new_instance.EMPTY):
        if new_instance.leaves_no_trace(layer, instruction):
            return True
    if not isinstance(instruction, Assign):
        return False
    target, value = instruction.target, instruction.value
    return value == target or (target.name in facts.values and value == facts.look_up(target))


# --- branches -----------------------------------------------------------------------------------------------


def decide(terminator: Terminator) -> Terminator:
    """The simplest terminator with the same targets and the same decision."""
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
    """The targets of a (decided) terminator, with what is known on each."""
    if isinstance(terminator, Branch):
        yield terminator.yes, facts.learn(learn(terminator.condition, True))
        yield terminator.no, facts.learn(learn(terminator.condition, False))
    else:
        for target in terminator.targets():
            yield target, facts


def learn(condition: Expr, holds: bool) -> dict[str, Expr]:
    """The facts that follow from a condition that holds, or does not hold."""
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
