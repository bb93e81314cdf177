"""Templates: a packet on the most frequent path is recognised by a few masked comparisons of many bits each.

A stateless layer tests one property after another: the version, the length of the header, whether there are options,
whether the packet is a fragment. Nearly every packet gives the same answers, and every other path ends early. This pass
therefore copies one path of a layer's stateless graph (see `split_stateless`) into a graph of its own: the template
graph. If the conditions of the path leave a single value for a header field, the field is not read. Neighbouring bytes
with such fields are read as one word, which is compared under a mask. After the comparison the value of the field is
known, and expressions that depend on it become constants. (Header compression uses the same template: Jacobson, RFC
1144, 3.) A packet that does not match restarts the layer with its stateless graph. This is safe because the template
graph writes only slots, and the stateless graph writes these again.

The template of a layer is the shortest path to a layer above; of equally short ones, the one that the description names
first. Templates are made for a chain of layers that follow each other in this manner, starting from the first link
type.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from sluice.ir.expression import COMPARISONS, ZERO, Binary, Const, Expr, Flip, Reg, is_bit
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import (
    Assign,
    Branch,
    Check,
    CheckWire,
    Goto,
    Instruction,
    Load,
    Mark,
    NextStateless,
    Resource,
    Return,
    Terminator,
)
from sluice.passes import constants, dead_code
from sluice.passes.analysis.wide_compare import compares

LONGEST = 6
"""The maximum number of consecutive layers with templates. It is less than the number that a packet may pass in stage
1.
"""

NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def run(program: Program) -> Program:
    """The program with templates in the first layers of the fast path."""
    if any(layer.template is not None for layer in program.layers.values()) or not program.roots:
        return program
    layers = dict(program.layers)
    _, name = program.roots[0]
    for _ in range(min(LONGEST, program.depth - 1)):
        layer = layers[name]
        if layer.stateless is None or layer.template is not None:
            break
        found = _template(layer, layer.stateless)
        if found is None:
            break
        graph, above = found
        layers[name] = layer.with_graphs(template=graph)
        name = above
    return dataclasses.replace(program, layers=layers)


def _template(layer: LayerProgram, stateless: Graph) -> tuple[Graph, str] | None:
    """The template graph of a layer and the layer that it forwards to; None if there is no template."""
    graph = template_of(layer.name, stateless)
    if graph is None:
        return None
    constants.change(layer, graph)
    dead_code.change(layer, graph)
    forwarded = [i.layer for i in graph.instructions() if isinstance(i, NextStateless)]
    return (graph, forwarded[0]) if forwarded else None  # None if the conditions of the path contradict each other


def template_of(name: str, stateless: Graph) -> Graph | None:
    """The shortest path of a stateless graph as a graph of its own, with word comparisons in place of known fields."""
    path = _nearest(stateless)
    if path is None or _adds_to_slots(path):
        return None
    return Graph(f"{name}.template", stateless.entry, stateless.parameters, _Line(stateless, path).blocks())


def _nearest(graph: Graph) -> list[Block] | None:
    """The blocks on the path with the fewest instructions to a layer above; None if no path reaches one."""
    far = len(graph.blocks) * max(len(block.instructions) for block in graph.blocks.values()) + 1
    distance = {
        block.name: len(block.instructions) if isinstance(block.terminator, NextStateless) else far
        for block in graph.blocks.values()
    }
    changed = True
    while changed:
        changed = False
        for block in graph.blocks.values():
            nearest = min((distance[target] for target in _goes_on(block)), default=far) + len(block.instructions)
            if nearest < distance[block.name]:
                distance[block.name] = nearest
                changed = True
    path = [graph.blocks[graph.entry]]
    if distance[graph.entry] >= far:
        return None
    while not isinstance(path[-1].terminator, NextStateless):
        # of equally short paths the last: where a condition does not hold, the packet has no special property
        path.append(graph.blocks[min(reversed(_goes_on(path[-1])), key=lambda name: distance[name])])
    return path


def _goes_on(block: Block) -> tuple[str, ...]:
    """The targets by which a path to a layer above may leave a block. Of a length check, this is only the target for
    enough bytes. If the block writes anything but slots, there are none.
    """
    if any(not i.WRITES <= {Resource.CONTEXT} for i in block.instructions):
        return ()
    last = block.terminator
    return (last.yes,) if isinstance(last, (Check, CheckWire)) else last.targets()


def _adds_to_slots(path: list[Block]) -> bool:
    """Whether the path reads a slot that it also writes. Its new value may depend on the old one, so that the stateless
    graph could not write it again.
    """
    instructions = [instruction for block in path for instruction in block.instructions]
    read = {reg.name for instruction in instructions for reg in instruction.read_registers() if reg.space == "slot"}
    return any(reg.name in read for instruction in instructions for reg in instruction.written())


@dataclass
class _Field:
    """The position of a field in the unit, in bits, and the range of values that the conditions of a path leave."""

    at: int
    bits: int
    order: str
    least: int
    most: int

    @property
    def is_known(self) -> bool:
        """Whether only one value is left."""
        return self.least == self.most

    def in_bytes(self) -> dict[int, tuple[int, int]]:
        """For every byte of the unit that the field overlaps: the mask of the field's bits, and those of them that are
        1.
        """
        first, last = self.at // 8, (self.at + self.bits + 7) // 8
        unused = last * 8 - self.at - self.bits
        size = last - first
        order = "little" if self.order == "little" else "big"
        mask = (((1 << self.bits) - 1) << unused).to_bytes(size, order)
        ones = (self.least << unused).to_bytes(size, order)
        return {first + n: (mask[n], ones[n]) for n in range(size)}


class _Line:
    """Writes a path as a graph of its own; a packet that leaves the path returns."""

    def __init__(self, graph: Graph, path: list[Block]) -> None:
        self.path = path
        self.other = "other"
        while self.other in graph.blocks:
            self.other += "."
        self.fields: dict[str, _Field] = {}
        self.position: dict[str, int] = {}
        self.made: dict[str, Block] = {}
        self.name = path[0].name
        self.open: list[Instruction] = []
        self.compared: set[str] = set()
        instructions = [instruction for block in path for instruction in block.body]
        written = Counter(reg.name for instruction in instructions for reg in instruction.written())
        for instruction in instructions:
            # a register that is set twice has no single value on the path
            if all(written[reg.name] == 1 for reg in instruction.written()):
                self._find(instruction)
        for block, following in pairwise(path):
            last = block.terminator
            if isinstance(last, Branch):
                self._narrow(last.condition, following.name == last.yes)

    def _find(self, instruction: Instruction) -> None:
        """Record the position of a mark, or the field that a load reads."""
        match instruction:
            case Assign(target, Const(value)) if target.space == "mark":
                self.position[target.name] = value
            case Mark(target, Reg(base), Const(offset)) if base in self.position:
                self.position[target.name] = self.position[base] + offset
            case Load(target, mark, at, bits, order) if mark.name in self.position:
                place = 8 * self.position[mark.name] + at
                self.fields[target.name] = _Field(place, bits, order, 0, (1 << bits) - 1)
            case _:
                pass

    def _narrow(self, condition: Expr, holds: bool) -> None:
        """Narrow the ranges of fields by a condition that holds, or does not hold, on the path."""
        match condition:
            case Reg() as field:
                self._compare("!=" if holds else "==", field, 0)
            case Flip(operand, 1) if is_bit(operand):
                self._narrow(operand, not holds)
            case Binary("&", left, right) if holds and is_bit(left) and is_bit(right):
                self._narrow(left, True)
                self._narrow(right, True)
            case Binary("|", left, right) if not holds:
                self._narrow(left, False)
                self._narrow(right, False)
            case Binary(operator, Reg() as field, Const(value), 0) if operator in COMPARISONS:
                self._compare(operator if holds else NEGATED[operator], field, value)
            case _:
                pass

    def _compare(self, operator: str, register: Reg, value: int) -> None:
        field = self.fields.get(register.name)
        if field is None:
            return
        if operator == "==" or operator == ">=":
            field.least = max(field.least, value)
        if operator == "==" or operator == "<=":
            field.most = min(field.most, value)
        if operator == ">" or (operator == "!=" and value == field.least):
            field.least = max(field.least, value + 1)
        if operator == "<" or (operator == "!=" and value == field.most):
            field.most = min(field.most, value - 1)

    def blocks(self) -> dict[str, Block]:
        """The blocks of the graph."""
        for block, following in zip(self.path, [*self.path[1:], None], strict=True):
            self.open += [self._known(instruction) for instruction in block.body]
            last = block.terminator
            if following is None:
                self._close(last, "")
            elif isinstance(last, Check):
                self._close(
                    Check(last.mark, last.size, following.name, self.other, self.other, where=last.where),
                    following.name,
                )
                self._words(last)
            elif isinstance(last, CheckWire):
                self._close(
                    CheckWire(last.mark, last.size, following.name, self.other, where=last.where), following.name
                )
            elif isinstance(last, Branch) and last.yes != last.no:
                paths = (following.name, self.other) if following.name == last.yes else (self.other, following.name)
                self._close(Branch(last.condition, *paths, where=last.where), following.name)
            else:
                self._close(Goto(following.name, where=last.where), following.name)
        where = self.path[0].terminator.where
        self.made[self.other] = Block(self.other, [Return(ZERO, where=where)])
        return self.made

    def _close(self, terminator: Terminator, following: str) -> None:
        self.made[self.name] = Block(self.name, [*self.open, terminator])
        self.name, self.open = following, []

    def _known(self, instruction: Instruction) -> Instruction:
        """The instruction, or the assignment of a constant if it loads a field that was compared as part of a word."""
        if isinstance(instruction, Load) and instruction.target.name in self.compared:
            return Assign(
                instruction.target, Const(self.fields[instruction.target.name].least), where=instruction.where
            )
        return instruction

    def _words(self, check: Check) -> None:
        """Compare the bytes that a length check covers and that have known bits."""
        if check.mark.name not in self.position or not isinstance(check.size, Const):
            return
        begin = self.position[check.mark.name]
        wanted: dict[int, tuple[int, int]] = {}
        for name, field in self.fields.items():
            there = begin <= field.at // 8 and field.at + field.bits <= 8 * (begin + check.size.value)
            if there and field.is_known and name not in self.compared:
                self.compared.add(name)
                for byte, (mask, ones) in field.in_bytes().items():
                    before = wanted.get(byte, (0, 0))
                    wanted[byte] = before[0] | mask, before[1] | ones
        following = self.name
        for load, holds in compares(wanted, begin + check.size.value, check.mark, begin, check):
            after = f"{following} known to {(8 * begin + load.at + load.bits) // 8}"
            self.open.append(load)
            self._close(Branch(holds, after, self.other, where=check.where), after)
