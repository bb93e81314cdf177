"""Merging of the two sides: two paths for the sides of a connection that are mirror images become one path, which
selects fields by the number of the side.

A description says what a packet of one side does to the fields of that side and of the other. Then it says the same
with the sides exchanged. Two paths are twice the code, after a branch that no processor predicts if packets of many
connections are mixed. If the paths after a branch on the side differ only in the fields that they name, these fields
form pairs. The fields of a pair are adjacent in the instance. One path remains, which selects the field of each pair
by the side's number.

The two paths stay if other blocks lead into one of them. This happens where passes know the side of a packet, such as
that of the first packet of a connection, and no longer store its number. They also stay if they test the side once
more.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.ir.copy import with_operands
from sluice.ir.expression import SIDE, Expr, Reg, of_side, rewrite
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Branch, Goto, Instruction

Fields = dict[Reg, Reg]
"""Fields that the paths of side 0 name, and the fields that the paths of side 1 name in their place."""


def run(program: Program) -> Program:
    """The program with one path for both sides in main graphs, where possible."""
    fields: dict[str, list[Reg]] = {}  # by table, the fields of the layers that share it
    pairs: dict[str, Fields] = {}
    layers: dict[str, LayerProgram] = {}
    for name, layer in program.layers.items():
        layers[name] = layer
        if layer.instance is None:
            continue
        known = fields.setdefault(layer.instance.table, [])
        known += [reg for reg, _ in layer.instance.fields if reg not in known]
        main = merged(layer.main, known, pairs.setdefault(layer.instance.table, {}))
        if main is not layer.main:
            layers[name] = layer.with_graphs(main=main)
    changed = any(layers[name] is not layer for name, layer in program.layers.items())
    return replace(program, layers=layers) if changed else program


def merged(graph: Graph, fields: list[Reg], pairs: Fields) -> Graph:
    """The graph with one path for both sides where possible; the same object if nothing can be merged.

    `fields` are the fields of the instance, in order. `pairs` are the pairs of fields; the pairs that are found here
    are added to them. A field is in at most one pair.
    """
    before = graph.predecessors()
    blocks = dict(graph.blocks)
    for block in graph.blocks.values():
        match block.terminator:
            case Branch(condition, yes, no, where=where) if condition == SIDE and yes != no:
                paths = _Paths(graph)
                if (
                    paths.are_mirror_images(no, yes)
                    and paths.are_entered_from(block.name, before)
                    and _pair(paths.fields, fields, pairs)
                ):
                    blocks[block.name] = Block(block.name, [*block.body, Goto(no, where=where)])
                    of_side = {one: _of_side(one, other, pairs) for one, other in paths.fields.items() if one != other}
                    for name, twin in paths.twins.items():
                        blocks[name] = Block(name, [_renamed(i, of_side) for i in graph.blocks[name].instructions])
                        del blocks[twin]
            case _:
                pass
    return graph if len(blocks) == len(graph.blocks) else Graph(graph.name, graph.entry, graph.parameters, blocks)


class _Paths:
    """The paths of both sides, traversed in step."""

    def __init__(self, graph: Graph) -> None:
        self.blocks = graph.blocks
        self.twins: dict[str, str] = {}
        """The blocks of side 0's paths, each with the block of side 1 that is its mirror image."""
        self.fields: Fields = {}

    def are_mirror_images(self, no: str, yes: str) -> bool:
        """Whether the paths that begin at these blocks differ only in fields, and meet or leave the graph."""
        left = [(no, yes)]
        met: set[str] = set()
        while left:
            no, yes = left.pop()
            if no == yes:
                met.add(no)
                continue
            if no in self.twins:
                if self.twins[no] != yes:
                    return False
                continue
            self.twins[no] = yes
            ones, others = self.blocks[no].instructions, self.blocks[yes].instructions
            if len(ones) != len(others) or not all(map(self._same, ones, others)):
                return False
            left += zip(self.blocks[no].terminator.targets(), self.blocks[yes].terminator.targets(), strict=True)
        paths = [*self.twins, *self.twins.values(), *met]
        return len(paths) == len(set(paths))

    def are_entered_from(self, branch: str, before: dict[str, list[str]]) -> bool:
        """Whether these paths are entered only from this branch."""
        paths = {branch, *self.twins, *self.twins.values()}
        return all(paths.issuperset(before[name]) for name in paths - {branch})

    def _same(self, one: Instruction, other: Instruction) -> bool:
        """Whether two instructions differ only in the fields that they name and in their target blocks."""
        if type(one) is not type(other) or SIDE in one.written():
            return False
        if isinstance(one, Branch) and one.condition == SIDE:
            return False
        mine, its = one.written() + one.read_registers(), other.written() + other.read_registers()
        if len(mine) != len(its):
            return False
        for reg, twin in zip(mine, its, strict=True):
            if reg != twin and (reg.space, twin.space, reg.bits) != ("perm", "perm", twin.bits):
                return False
            self.fields.setdefault(reg, twin)
        leads = {item.name: getattr(other, item.name) for item in other.SHAPE.operands if item.role == "block"}
        return with_operands(_renamed(one, self.fields), **leads) == other


def _pair(named: Fields, fields: list[Reg], pairs: Fields) -> bool:
    """Add the fields that paths name to the pairs, if they agree with the existing pairs. Returns whether they do."""
    partner = {**pairs, **{second: first for first, second in pairs.items()}}
    found: Fields = {}
    for one, other in named.items():
        if one == other:
            continue
        if partner.get(one, other) != other or partner.get(other, one) != one:
            return False
        if one not in partner:
            first, second = sorted((one, other), key=fields.index)
            found[first] = second
        partner |= {one: other, other: one}
    pairs |= found
    return True


def _of_side(one: Reg, other: Reg, pairs: Fields) -> Reg:
    """The register that is `one` for a packet of side 0, and `other` for a packet of side 1."""
    return of_side(one, other) if one in pairs else of_side(other, one, other=True)


def _renamed(instruction: Instruction, names: Fields) -> Instruction:
    """The instruction with its fields replaced by `names`."""

    def named(node: Expr) -> Expr:
        return names.get(node, node) if isinstance(node, Reg) else node

    values: dict[str, object] = {}
    for item in instruction.SHAPE.operands:
        if item.role in ("write", "read"):
            value = getattr(instruction, item.name)
            values[item.name] = tuple(rewrite(part, named) for part in value) if item.many else rewrite(value, named)
    return with_operands(instruction, **values)
