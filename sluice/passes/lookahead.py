"""Lookahead: prefetches the memory that the first lookups of a burst of packets need.

A packet's own bytes, the bucket of its table and its instance are three cache misses, one after another, and each takes
longer than all of the arithmetic. The generated code therefore goes through a burst three times. First it prefetches
the packets' headers. Then it follows each packet from the layer that it waits for (see `split_stateless`) until its
keys are known, and prefetches the buckets, then the instances. Finally it processes the packets, in order. (Group
prefetching: Chen et al., Improving Hash Join Performance through Prefetching, ICDE 2004.)

The second step runs a layer's lookahead graph (`ahead`), which this pass makes from the main graph: a Lookup becomes a
Prefetch, a NextLayer becomes a LookAhead. A lookahead graph is only a hint, so it can be cheap. It ignores branches to
packets that are refused, except for length checks that a read needs. It skips loops, such as a list of options. Where a
branch depends on an instance, it follows the path that is nearest to a lookup. The table of effects determines which
instructions remain: those that write nothing but slots, of which a lookahead graph has its own copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from sluice.ir.copy import with_expressions
from sluice.ir.expression import MASK, ZERO, Const, Expr, Slice
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import (
    Branch,
    Check,
    CheckWire,
    Goto,
    Instruction,
    LayerPath,
    LookAhead,
    Lookup,
    NextLayer,
    Prefetch,
    Return,
    Terminator,
)
from sluice.passes.analysis.blocks import PURE, loops
from sluice.passes.derived_graphs import add_graphs

Names = frozenset[str]
"""Names of registers."""


def run(program: Program) -> Program:
    """The program with lookahead graphs in the layers with a lookup, and in those below them."""
    if any(layer.lookahead is not None for layer in program.layers.values()):
        return program
    leading = _leading(program)
    lookahead = {name: _Lookahead(program.layers[name], leading).graph() for name in leading}
    return add_graphs(program, "lookahead", lookahead) if leading else program


def _leading(program: Program) -> set[str]:
    """The layers in whose main graph a packet reaches a lookup, or a layer for which this holds."""
    found: set[str] = set()
    while True:
        more = {
            name
            for name, layer in program.layers.items()
            if layer.frame is None and any(_is_target(i, found) for i in layer.main.instructions())
        }
        if more == found:
            return found
        found = more


def _is_target(instruction: Instruction, leading: set[str]) -> bool:
    if isinstance(instruction, Lookup):
        return True
    return type(instruction) is NextLayer and instruction.layer in leading


class _Lookahead:
    """Makes the lookahead graph of a layer."""

    def __init__(self, layer: LayerProgram, leading: set[str]) -> None:
        self.layer = layer
        self.leading = leading
        self.main = layer.main
        self.order = self.main.order()
        self.distance = self._distances(())
        self.loops = loops(self.main)
        self.direct = self._distances(self.loops.keys())
        self.done = "done"
        while self.done in self.main.blocks:
            self.done += "."

    def graph(self) -> Graph:
        """The lookahead graph."""
        known = self._known()
        blocks: dict[str, Block] = {}
        first = self.main.blocks[self.main.entry].instructions[0]
        waiting = [self.main.entry]
        while waiting:
            name = waiting.pop()
            if name in blocks:
                continue
            if name == self.done:
                blocks[name] = Block(name, [Return(ZERO, where=first.where)])
                continue
            kept, there = self._keep(name, known[name])
            if not kept or not isinstance(kept[-1], Return):
                kept.append(self._lead_on(self.main.blocks[name].terminator, there))
            blocks[name] = Block(name, kept)
            waiting += blocks[name].terminator.targets()
        return Graph(f"{self.layer.name}.lookahead", self.main.entry, self.layer.main.parameters, blocks)

    def _known(self) -> dict[str, Names]:
        """For every reachable block, the registers that are known there on every path."""
        known = {self.main.entry: frozenset(reg.name for reg in self.layer.main.parameters)}
        waiting = deque([self.main.entry])
        while waiting:
            name = waiting.popleft()
            _, there = self._keep(name, known[name])
            for to, forgotten in self._exits(self.main.blocks[name].terminator).values():
                if to == self.done:
                    continue
                facts = (there - forgotten) & known.get(to, there)
                if known.get(to) != facts:
                    known[to] = facts
                    waiting.append(to)
        return known

    def _keep(self, name: str, known: Names) -> tuple[list[Instruction], Names]:
        """The instructions of a block's body that remain, and the registers that are known after it."""
        kept: list[Instruction] = []
        now = set(known)
        for instruction in self.main.blocks[name].body:
            written = {reg.name for reg in instruction.written()}
            readable = self._readable(instruction, now)
            if isinstance(instruction, (*PURE, LayerPath)) and readable and not any(map(_is_field, written)):
                kept.append(with_expressions(instruction, _to_its_end))
                now |= written
                continue
            now -= written
            if isinstance(instruction, Lookup) and readable:
                kept.append(Prefetch(instruction.key, instruction.reverse, where=instruction.where))
            elif _is_target(instruction, self.leading) and isinstance(instruction, NextLayer) and readable:
                kept.append(LookAhead(instruction.layer, instruction.sdu, where=instruction.where))
                kept.append(Return(ZERO, where=instruction.where))
                break
        return kept, frozenset(now)

    def _readable(self, instruction: Instruction, known: set[str] | Names) -> bool:
        """Whether all registers that an instruction reads are known. Slots always are: those that were not set are
        empty.
        """
        return all(reg.name in known or reg.space == "slot" for reg in instruction.read_registers())

    def _lead_on(self, last: Terminator, known: Names) -> Terminator:
        """The terminator of the lookahead graph for a terminator of the main graph."""
        to = {target: exit for target, (exit, _) in self._exits(last).items()}
        leading = [target for target in last.targets() if to[target] != self.done]
        match last:
            case Check(mark, size, yes) if yes in leading and self._readable(last, known):
                return Check(mark, size, to[yes], self.done, self.done, where=last.where)
            case Check(yes=yes) | CheckWire(yes=yes) if yes in leading:
                return Goto(to[yes], where=last.where)
            case Branch(condition, yes, no) if self._readable(last, known) and {yes, no} <= self.distance.keys():
                return Branch(condition, to[yes], to[no], where=last.where)
            case Branch() | Goto() if leading:
                return Goto(to[min(leading, key=lambda target: self.distance[to[target]])], where=last.where)
            case _:
                return Return(ZERO, where=last.where)

    def _exits(self, last: Terminator) -> dict[str, tuple[str, set[str]]]:
        """For every target of a terminator, the block where the lookahead graph continues, and the registers that are
        no longer known there.

        If one path leads through a loop and another does not, only the latter is followed: optional lists are rare.
        """
        direct = [target for target in last.targets() if target in self.direct]
        return {
            target: (self.done, set[str]()) if direct and target not in direct else self._past_loops(target)
            for target in last.targets()
        }

    def _past_loops(self, target: str) -> tuple[str, set[str]]:
        """The block where a path continues if it skips loops, and the registers that the loops would set."""
        forgotten: set[str] = set()
        while target in self.loops:
            loop = self.loops[target]
            forgotten |= {reg.name for name in loop for i in self.main.blocks[name].instructions for reg in i.written()}
            exits = {to for name in loop for to in self.main.blocks[name].terminator.targets()} - loop
            target = min(exits, key=lambda to: (self.distance.get(to, len(self.order)), to), default=self.done)
        return (target if target in self.distance else self.done), forgotten

    def _distances(self, without: Collection[str]) -> dict[str, int]:
        """The number of blocks before the next target on paths that avoid certain blocks. Blocks without such a path
        are omitted.
        """
        found = {
            name: 0
            for name, block in self.main.blocks.items()
            if any(_is_target(i, self.leading) for i in block.instructions)
        }
        before = self.main.predecessors()
        waiting = deque(found)
        while waiting:
            name = waiting.popleft()
            for other in before[name]:
                if other not in found and other not in without:
                    found[other] = found[name] + 1
                    waiting.append(other)
        return found


def _to_its_end(expression: Expr) -> Expr:
    """Bytes without the end that a header gives them. What is read of them is checked against the end of the packet."""
    match expression:
        case Slice(base, low, _):
            return base if low == ZERO else Slice(base, low, Const(MASK))
        case _:
            return expression


def _is_field(name: str) -> bool:
    return name.startswith(("perm.", "inst."))
