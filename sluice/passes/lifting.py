"""Branch lifting (the paper, 5.2), guided: a block that several ways lead to is written once for each of them, where
a branch behind it is decided by which way was taken.

The paper lifts every branch to the top of the program, whose size then grows with the product of all of them, and has
later passes make use of it. Here a way stays apart from the others only as long as a register is known on it that
decides a branch further on; where no branch asks for it any more the ways join again. Which registers are worth it is
tried out: at each step the one that decides most branches beyond the blocks that it costs. A packet's own instance,
which no table holds, keeps its ways apart from the others' always: on it nearly all that follows is decided.

First, conditions that begin alike come apart: what `a & b` and `a & c` share is asked alone and first, so that a way
on which `a` is 0 is known to pass by both.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from sluice.ir.copy import with_targets
from sluice.ir.expression import Binary, Const, Expr, Flip, Reg, calculate, chain, children, is_bit, operands, registers
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Branch, Goto
from sluice.passes import constants, dead_code, instance
from sluice.passes.blocks import each_graph, fresh_names, remove_unreachable

SMALL = 100
"""Blocks that any graph may gain; a large one may come to have half as many again."""

Known = dict[str, int]
"""What registers are known to hold, by name."""


ROUNDS = 16
"""How often a graph is lifted at most; those of our stacks have enough after 4."""

Choices = dict[tuple[str, int, int], tuple[str, ...]]
"""Which registers were chosen to keep ways apart, by prototype and the numbers of blocks and instructions: the layers
of one prototype, as TCP over either IP, differ in little else than their keys, and need not be searched again.
"""


def run(program: Program) -> Program:
    """The program with ways kept apart, and what follows on each of them calculated."""
    return each_graph(program, partial(_change, {}))


def _change(choices: Choices, layer: LayerProgram, graph: Graph) -> bool:
    """Split, lift and clean up until there is nothing more; says whether there was anything."""
    most = len(graph.blocks) * 3 // 2 + SMALL
    for rounds in range(ROUNDS):
        if not any([split_conditions(graph), lift(layer, graph, most, choices)]):
            return rounds > 0
        constants.change(layer, graph)
        dead_code.change(layer, graph)
    return True


# --- conditions ---------------------------------------------------------------------------------------------


def tested(term: Expr) -> str | None:
    """The register that a term asks for by itself, if it is one that is near."""
    operand = term.operand if isinstance(term, Flip) and term.bits == 1 else term
    if isinstance(operand, Reg) and operand.bits == 1 and operand.space not in constants.FAR:
        return operand.name
    return None


def _operator(condition: Expr) -> str | None:
    match condition:
        case Binary("&" | "|" as operator, left, right) if is_bit(left) and is_bit(right):
            return operator
        case _:
            return None


def split_conditions(graph: Graph) -> bool:
    """Ask what several conditions have as an operand of & or | in a branch of its own; says whether any had."""
    asked = Counter[str]()
    for block in graph.blocks.values():
        if isinstance(last := block.terminator, Branch):
            operator = _operator(last.condition)
            parts = operands(last.condition, operator) if operator else [last.condition]
            asked.update({name for name in map(tested, parts) if name})
    names = fresh_names(graph)
    waiting = list(graph.blocks.values())
    changed = False
    while waiting:
        block = waiting.pop()
        last = block.terminator
        operator = _operator(last.condition) if isinstance(last, Branch) else None
        if operator is None:
            continue
        assert isinstance(last, Branch)
        parts = operands(last.condition, operator)
        common = [part for part in parts if (name := tested(part)) and asked[name] > 1]
        if not common:
            continue
        first = max(common, key=lambda part: asked[tested(part) or ""])
        parts.remove(first)
        behind = Block(next(names[block.name]), [Branch(chain(operator, parts), last.yes, last.no, where=last.where)])
        graph.blocks[behind.name] = behind
        names[behind.name] = names[block.name]
        ways = (behind.name, last.no) if operator == "&" else (last.yes, behind.name)
        block.instructions[-1] = Branch(first, *ways, where=last.where)
        waiting.append(behind)
        changed = True
    return changed


# --- what is known ------------------------------------------------------------------------------------------


def value_of(expression: Expr, known: Known) -> int | None:
    """What an expression of numbers comes to, if what is known says so."""
    match expression:
        case Const(value):
            return value
        case Reg(name, _):
            return known.get(name)
        case Flip(operand, bits):
            value = value_of(operand, known)
            return None if value is None else ~value & ((1 << bits) - 1)
        case Binary(operator, left, right, serial):
            one, other = value_of(left, known), value_of(right, known)
            if one is not None and other is not None:
                return calculate(operator, one, other, serial)
            if operator == "&" and (one == 0 or other == 0):
                return 0
            if operator == "|" and is_bit(left) and is_bit(right) and (one == 1 or other == 1):
                return 1
            return None
        case _:
            return None


@dataclass(frozen=True)
class Step:
    """What an instruction does to what is known, as far as branches ask for it.

    forgets, unknown: names that begin so, and registers, of which nothing is known behind it; `alone`: the same as
    `forgets` for an instance that is in no table. sets: what registers hold. while_empty: and what besides, as long as
    nothing was put into a sequence.
    """

    forgets: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    sets: tuple[tuple[Reg, Expr], ...] = ()
    while_empty: tuple[tuple[Reg, Expr], ...] = ()

    def apply(self, known: Known) -> None:
        """Change what is known."""
        empty = known.get(instance.EMPTY.name)
        if self.forgets:
            spaces = self.alone if known.get(instance.UNSTORED.name) else self.forgets
            for name in [name for name in known if name.startswith(spaces)]:
                del known[name]
        for name in self.unknown:
            known.pop(name, None)
        for reg, expression in (*self.sets, *self.while_empty) if empty else self.sets:
            value = value_of(expression, known)
            if value is None:
                known.pop(reg.name, None)
            else:
                known[reg.name] = value & ((1 << reg.bits) - 1)


class Decisions:
    """What decides the branches of a graph: the registers that conditions ask for, directly or by way of others."""

    def __init__(self, layer: LayerProgram, graph: Graph) -> None:
        self.graph = graph
        self.order = graph.order()
        self.asked = self._registers(layer)
        self.spared = {
            name: sum(instance.leaves_no_trace(layer, i) for i in graph.blocks[name].instructions)
            for name in self.order
        }
        self.steps = {name: list(self._steps(layer, graph.blocks[name])) for name in self.order}
        self.live = self._live()
        self.number = {name: number for number, name in enumerate(self.order)}
        self.exits = {name: list(self._exits(graph.blocks[name])) for name in self.order}

    def _registers(self, layer: LayerProgram) -> set[str]:
        found: set[str] = set()
        for block in self.graph.blocks.values():
            if isinstance(last := block.terminator, Branch):
                found |= {reg.name for reg in registers(last.condition) if not reg.is_bytes}
        assigned = [i for i in self.graph.instructions() if isinstance(i, Assign) and not i.target.is_bytes]
        told = [instance.without_sequence(layer, i) or instance.placed(layer, i) for i in self.graph.instructions()]
        values = [(i.target, i.value) for i in assigned] + [pair for pair in told if pair is not None]
        found |= {instance.UNSTORED.name, instance.EMPTY.name}
        while True:
            more = {
                reg.name
                for target, value in values
                if target.name in found and _decidable(value)
                for reg in registers(value)
                if not reg.is_bytes
            }
            if more <= found:
                return found
            found |= more

    def _steps(self, layer: LayerProgram, block: Block) -> Iterator[Step]:
        for instruction in block.instructions:
            begun = [(reg, Const(value)) for reg, value in instance.begun(layer, instruction)]
            told = instance.placed(layer, instruction)
            empty = instance.without_sequence(layer, instruction)
            match instruction:
                case Assign(target, value) if not target.is_bytes:
                    sets: list[tuple[Reg, Expr]] = [(target, value)]
                case _:
                    sets = [*begun] if told is None else [told]
            step = Step(
                instance.forgotten(instruction, False),
                instance.forgotten(instruction, True),
                tuple(reg.name for reg in instruction.written() if reg.name in self.asked),
                tuple((reg, value) for reg, value in sets if reg.name in self.asked),
                (empty,) if empty is not None and empty[0].name in self.asked else (),
            )
            if step != Step():
                yield step

    def _live(self) -> dict[str, set[str]]:
        """For every block the registers by which a branch in it or behind it may be decided."""
        live: dict[str, set[str]] = {name: set() for name in self.order}
        before = self.graph.predecessors()
        waiting = list(self.order)
        queued = set(waiting)
        while waiting:
            name = waiting.pop()
            queued.discard(name)
            block = self.graph.blocks[name]
            now: set[str] = {name for target in block.terminator.targets() for name in live[target]}
            if isinstance(last := block.terminator, Branch):
                now |= {reg.name for reg in registers(last.condition)}
            for step in reversed(self.steps[name]):
                for reg, value in reversed((*step.sets, *step.while_empty)):
                    if reg.name in now:
                        now.discard(reg.name)
                        if _decidable(value):
                            now |= {other.name for other in registers(value)}
                now.difference_update(step.unknown)
                now = {reg for reg in now if not reg.startswith(step.alone)} if step.alone else now
                if step.while_empty:
                    now.add(instance.EMPTY.name)
                if step.forgets != step.alone:
                    now.add(instance.UNSTORED.name)
            if self.spared[name]:
                now |= {instance.UNSTORED.name, instance.EMPTY.name}
            if now != live[name]:
                live[name] = now
                for other in before[name]:
                    if other in live and other not in queued:
                        queued.add(other)
                        waiting.append(other)
        return live

    def _exits(self, block: Block) -> Iterator[tuple[str, bool | None, Known]]:
        """The ways out of a block: where to, for which value of its condition, and what that tells."""
        last = block.terminator
        if not isinstance(last, Branch):
            for target in last.targets():
                yield target, None, {}
            return
        for target, holds in ((last.yes, True), (last.no, False)):
            learned = constants.learn(last.condition, holds)
            told = {reg: number.value for reg, number in learned.items() if isinstance(number, Const)}
            yield target, holds, {reg: value for reg, value in told.items() if reg in self.live[target]}

    def ways(self, name: str, known: Known) -> Iterator[tuple[str, Known]]:
        """The ways out of a block that can be taken, with what is known on each."""
        now = dict(known) if self.steps[name] else known
        for step in self.steps[name]:
            step.apply(now)
        last = self.graph.blocks[name].terminator
        value = value_of(last.condition, now) if isinstance(last, Branch) else None
        for target, holds, told in self.exits[name]:
            if value is None or bool(value) == holds:
                live = self.live[target]
                there = {reg: number for reg, number in now.items() if reg in live}
                there.update(told)
                yield target, there


def _decidable(expression: Expr) -> bool:
    """Whether it can be known at all: a loop's counter and lengths of bytes are not worth following."""
    if isinstance(expression, Const | Reg):
        return True
    return isinstance(expression, Binary | Flip) and all(map(_decidable, children(expression)))


# --- ways that stay apart -----------------------------------------------------------------------------------

Place = tuple[str, tuple[tuple[str, int], ...]]
"""A block, and what is known there of the registers that keep ways apart."""


@dataclass
class Ways:
    """A graph with ways kept apart: for every place where it leads, and what was lost where ways join."""

    leads: dict[Place, list[Place]]
    entry: Place
    decided: int
    lost: Counter[str]


def follow(decisions: Decisions, apart: tuple[str, ...], most: int) -> Ways | None:
    """The places of a graph when the registers `apart` keep ways apart; None when there are more than `most`."""

    def place(name: str, known: Known) -> Place:
        return name, tuple([(reg, known[reg]) for reg in apart if reg in known])

    entry = place(decisions.graph.entry, {})
    known: dict[Place, Known] = {entry: {}}
    leads: dict[Place, list[Place]] = {}
    waiting: list[tuple[int, Place]] = [(0, entry)]
    lost = Counter[str]()
    while waiting:
        _, at = heapq.heappop(waiting)
        if waiting and waiting[0][1] == at:
            continue
        leads[at] = []
        for target, facts in decisions.ways(at[0], known[at]):
            to = place(target, facts)
            leads[at].append(to)
            old = known.get(to)
            if old is None:
                known[to] = facts
                heapq.heappush(waiting, (decisions.number[target], to))
                if len(known) > most:
                    return None
            else:
                both = {reg: value for reg, value in old.items() if facts.get(reg) == value}
                lost.update((old.keys() | facts.keys()) - both.keys())
                if len(both) != len(old):
                    known[to] = both
                    heapq.heappush(waiting, (decisions.number[target], to))
    reached = _reached(leads, entry)
    decided = 0
    for at in reached:
        last = decisions.graph.blocks[at[0]].terminator
        decided += isinstance(last, Branch) and last.yes != last.no and len(leads[at]) == 1
        if known[at].get(instance.UNSTORED.name) and known[at].get(instance.EMPTY.name):
            decided += decisions.spared[at[0]]
    return Ways({at: leads[at] for at in reached}, entry, decided, lost)


def _reached(leads: dict[Place, list[Place]], entry: Place) -> list[Place]:
    seen = {entry}
    waiting = [entry]
    while waiting:
        for to in leads[waiting.pop()]:
            if to not in seen:
                seen.add(to)
                waiting.append(to)
    return list(seen)


def lift(layer: LayerProgram, graph: Graph, most: int, choices: Choices) -> bool:
    """Keep ways apart where that decides branches, in at most `most` blocks; says whether it did."""
    decisions = Decisions(layer, graph)
    if not decisions.asked:
        return False
    twins = layer.prototype, len(graph.blocks), sum(len(block.instructions) for block in graph.blocks.values())
    apart, best = _choose(decisions, most) if twins not in choices else (choices[twins], None)
    choices[twins] = apart
    best = best or follow(decisions, apart, most)
    if not apart or best is None or not best.decided:
        return False
    _write(graph, best)
    return True


def _choose(decisions: Decisions, most: int) -> tuple[tuple[str, ...], Ways | None]:
    """The registers that are worth keeping ways apart, with what becomes of them."""
    first = follow(decisions, (), most)
    if first is None:
        return (), None
    apart: tuple[str, ...] = (instance.UNSTORED.name,)
    best = follow(decisions, apart, most)
    if best is None or best.decided == first.decided:
        apart, best = (), first
    hopes: dict[str, float] = {}
    while (found := _best(decisions, apart, best, most, hopes)) is not None:
        apart, best = (*apart, found[0]), found[1]
    return apart, best


def _best(
    decisions: Decisions, apart: tuple[str, ...], ways: Ways, most: int, hopes: dict[str, float]
) -> tuple[str, Ways] | None:
    """The register that is most worth keeping ways apart besides, with what becomes of them; None when none is.

    `hopes`: what each was worth when it was tried last. It seldom becomes worth more by the choice of others, so those
    are tried again that promise most, until none promises more than the best has (lazy greedy: Minoux 1978).
    """
    for name in ways.lost:
        if not name.startswith("perm."):  # fields are rarely known
            hopes.setdefault(name, math.inf)
    best: tuple[int, str, Ways] | None = None
    for name in sorted(hopes, key=lambda name: (-hopes[name], name)):
        if name in apart or hopes[name] < 0 or (best is not None and hopes[name] <= best[0]):
            continue
        tried = follow(decisions, (*apart, name), most)
        if tried is None or tried.decided == ways.decided:
            hopes[name] = -1
            continue
        worth = tried.decided - ways.decided - (len(tried.leads) - len(ways.leads))
        hopes[name] = worth
        if worth >= 0 and (best is None or worth > best[0]):
            best = worth, name, tried
    return best and best[1:]


def _write(graph: Graph, ways: Ways) -> None:
    """Give every place a block of its own."""
    names = fresh_names(graph)
    called: dict[Place, str] = {}
    first: set[str] = set()
    for at in sorted(ways.leads, key=lambda at: (at != ways.entry, at)):
        called[at] = next(names[at[0]]) if at[0] in first else at[0]
        first.add(at[0])
    blocks: dict[str, Block] = {}
    for at in sorted(ways.leads, key=lambda at: called[at]):
        old = graph.blocks[at[0]]
        last = old.terminator
        match last, [called[target] for target in ways.leads[at]]:
            case Branch(), [to]:
                last = Goto(to, where=last.where)
            case Branch(condition), [yes, no]:
                last = Branch(condition, yes, no, where=last.where)
            case _:
                to = {target[0]: called[target] for target in ways.leads[at]}
                last = with_targets(last, to.__getitem__)
        block = Block(called[at], [*old.body, last])
        blocks[block.name] = block
    graph.entry = called[ways.entry]
    graph.blocks = blocks
    remove_unreachable(graph)
