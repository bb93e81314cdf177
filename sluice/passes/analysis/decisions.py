"""For `lifting`: the facts that decide the branches of a graph, and how a path through a block changes them.

A fact is "register r holds n". A set of facts is an integer with a bit for each: a graph is followed many times, and
with integers, joining two paths, or selecting the facts that may still decide a branch, is one operation. The exits of
a block are computed once for all paths with the same facts about the registers that the block reads or sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sluice.ir.dataflow import backward
from sluice.ir.expression import Binary, Const, Expr, Flip, Reg, calculate, children, is_bit, registers
from sluice.ir.graph import Block, Graph, LayerProgram
from sluice.ir.instruction import Assign, Branch
from sluice.passes import constants
from sluice.passes.analysis import new_instance

Known = dict[str, int]
"""The values that registers are known to hold, by name."""

Facts = int
"""The same as bits, each for a register and its value; see Decisions.facts."""


def value_of(expression: Expr, known: Known) -> int | None:
    """The value of an arithmetic expression, if the known values determine it."""
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
    """How an instruction changes the known values, as far as branches depend on them.

    forgets, unknown: prefixes of register names, and registers, that have no known value after it; `alone`: the same as
    `forgets` for an instance that is in no table. sets: the values that registers get. while_empty: further values, as
    long as nothing has been inserted into a sequence.
    """

    forgets: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    sets: tuple[tuple[Reg, Expr], ...] = ()
    while_empty: tuple[tuple[Reg, Expr], ...] = ()

    def apply(self, known: Known) -> None:
        """Change the known values."""
        empty = known.get(new_instance.EMPTY.name)
        if self.forgets:
            spaces = self.alone if known.get(new_instance.UNSTORED.name) else self.forgets
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


class Exit(NamedTuple):
    """An exit of a block, for paths with the same facts: its facts are `(before & keeps) | brings`.

    target: the number of the block where it continues.
    """

    target: int
    keeps: Facts
    brings: Facts


class Decisions:
    """What decides the branches of a graph: the registers that conditions depend on, directly or through other
    registers.
    """

    def __init__(self, layer: LayerProgram, graph: Graph) -> None:
        self.graph = graph
        self.order = graph.order()
        """The names of the blocks by their numbers; the entry is the first."""
        self.asked = self._registers(layer)
        blocks = [graph.blocks[name] for name in self.order]
        self.branches = [isinstance(last := block.terminator, Branch) and last.yes != last.no for block in blocks]
        """Which blocks, by their numbers, end with a branch that is not decided."""
        self.spared = [sum(new_instance.leaves_no_trace(layer, i) for i in block.instructions) for block in blocks]
        """For each block, the number of instructions that have no effect if the instance is in no table and its
        sequences are empty.
        """
        self.steps = {name: list(self._steps(layer, graph.blocks[name])) for name in self.order}
        self.number = {name: number for number, name in enumerate(self.order)}
        self.live = self._live()
        self.exits = {name: list(self._exits(graph.blocks[name])) for name in self.order}
        self.facts: list[tuple[str, int]] = []
        """Every fact that has been used; its bit is 1 << its index here."""
        self.of: dict[str, Facts] = defaultdict(int)
        """All facts about a register."""
        self._bits: dict[tuple[str, int], Facts] = {}
        self._concerns: dict[str, list[str]] = defaultdict(list)
        """The blocks whose exits depend on a register."""
        for name in self.order:
            for reg in self._concern(name):
                self._concerns[reg].append(name)
        self.cached: list[dict[Facts, list[Exit]]] = [{} for _ in self.order]
        """The results of `paths` so far, by the number of the block and the facts that concern it."""
        self.concerning: list[Facts] = [0] * len(self.order)
        """All facts about the registers that a block's exits depend on, by the number of the block."""

    def fact(self, register: str, value: int) -> Facts:
        """The bit that represents a fact."""
        bit = self._bits.get((register, value))
        if bit is None:
            bit = self._bits[register, value] = 1 << len(self.facts)
            self.facts.append((register, value))
            self.of[register] |= bit
            for name in self._concerns[register]:  # results so far were computed without this fact and remain valid
                self.concerning[self.number[name]] |= bit
        return bit

    def all_of(self, names: Iterable[str]) -> Facts:
        """All facts about some registers that have been used so far."""
        found = 0
        for name in names:
            found |= self.of[name]
        return found

    def bits(self, known: Known) -> Facts:
        """The known values as bits."""
        facts = 0
        for register, value in known.items():
            facts |= self.fact(register, value)
        return facts

    def known(self, facts: Facts) -> Known:
        """The values that the bits represent."""
        found: Known = {}
        while facts:
            bit = facts & -facts
            register, value = self.facts[bit.bit_length() - 1]
            found[register] = value
            facts ^= bit
        return found

    def _registers(self, layer: LayerProgram) -> set[str]:
        found: set[str] = set()
        for block in self.graph.blocks.values():
            if isinstance(last := block.terminator, Branch):
                found |= {reg.name for reg in registers(last.condition) if not reg.is_bytes}
        assigned = [i for i in self.graph.instructions() if isinstance(i, Assign) and not i.target.is_bytes]
        known = [
            new_instance.without_sequence(layer, i) or new_instance.placed(layer, i) for i in self.graph.instructions()
        ]
        values = [(i.target, i.value) for i in assigned] + [pair for pair in known if pair is not None]
        found |= {new_instance.UNSTORED.name, new_instance.EMPTY.name}
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
            unknown = tuple([reg.name for reg in instruction.written() if reg.name in self.asked])
            forgets = new_instance.forgotten(type(instruction), False)
            if not unknown and not forgets:
                continue
            begun = [(reg, Const(value)) for reg, value in new_instance.begun(layer, instruction)]
            placed = new_instance.placed(layer, instruction)
            empty = new_instance.without_sequence(layer, instruction)
            match instruction:
                case Assign(target, value) if not target.is_bytes:
                    sets: list[tuple[Reg, Expr]] = [(target, value)]
                case _:
                    sets = [*begun] if placed is None else [placed]
            yield Step(
                forgets,
                new_instance.forgotten(type(instruction), True),
                unknown,
                tuple((reg, value) for reg, value in sets if reg.name in self.asked),
                (empty,) if empty is not None and empty[0].name in self.asked else (),
            )

    def _live(self) -> dict[str, set[str]]:
        """For every block, the registers that may decide a branch in it or after it."""

        def flow(name: str, following: set[str]) -> set[str]:
            now: set[str] = set(following)
            if isinstance(last := self.graph.blocks[name].terminator, Branch):
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
                    now.add(new_instance.EMPTY.name)
                if step.forgets != step.alone:
                    now.add(new_instance.UNSTORED.name)
            if self.spared[self.number[name]]:
                now |= {new_instance.UNSTORED.name, new_instance.EMPTY.name}
            return now

        return backward(self.graph, set[str](), flow, lambda left, right: left | right)

    def _exits(self, block: Block) -> Iterator[tuple[str, bool | None, Known]]:
        """The exits of a block: the target, the value of the condition that leads there, and what this implies."""
        last = block.terminator
        if not isinstance(last, Branch):
            for target in last.targets():
                yield target, None, {}
            return
        for target, holds in ((last.yes, True), (last.no, False)):
            learned = constants.learn(last.condition, holds)
            learned_values = {reg: number.value for reg, number in learned.items() if isinstance(number, Const)}
            yield target, holds, {reg: value for reg, value in learned_values.items() if reg in self.live[target]}

    def _concern(self, name: str) -> set[str]:
        """The registers that a block reads, sets or forgets, and those that are no longer live after it."""
        found: set[str] = {new_instance.UNSTORED.name, new_instance.EMPTY.name}
        for step in self.steps[name]:
            found |= {reg for reg in self.asked if step.forgets and reg.startswith(step.forgets)}
            found.update(step.unknown)
            for reg, value in (*step.sets, *step.while_empty):
                found |= {reg.name, *(other.name for other in registers(value))}
        if isinstance(last := self.graph.blocks[name].terminator, Branch):
            found |= {reg.name for reg in registers(last.condition)}
        for target, _, learned_values in self.exits[name]:
            found |= learned_values.keys()
            found |= self.live[name] - self.live[target]
        return found

    def paths(self, number: int, facts: Facts) -> list[Exit]:
        """The exits of a block that can be taken, and the facts on each."""
        asked = facts & self.concerning[number]
        paths = self.cached[number].get(asked)
        if paths is None:
            paths = self.cached[number][asked] = self._calculate(number, self.known(asked))
        return paths

    def _calculate(self, number: int, now: Known) -> list[Exit]:
        name = self.order[number]
        for step in self.steps[name]:
            step.apply(now)
        last = self.graph.blocks[name].terminator
        value = value_of(last.condition, now) if isinstance(last, Branch) else None
        found: list[tuple[int, Facts]] = []
        for target, holds, learned_values in self.exits[name]:
            if value is None or bool(value) == holds:
                live = self.live[target]
                later = {reg: held for reg, held in now.items() if reg in live} | learned_values
                found.append((self.number[target], self.bits(later)))
        keeps = ~self.concerning[number]  # after `bits`, which may add facts to the mask
        return [Exit(target, keeps, brings) for target, brings in found]


def _decidable(expression: Expr) -> bool:
    """Whether a value may become known. Counters of loops and lengths of bytes are not worth following."""
    if isinstance(expression, Const | Reg):
        return True
    return isinstance(expression, Binary | Flip) and all(map(_decidable, children(expression)))
