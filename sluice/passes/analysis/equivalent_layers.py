"""Layers that differ only in the parts of their keys, such as TCP over either IP: a pass changes only one of them.

For a pass, a key is a list of registers that instructions read. If only keys read the registers that differ, the result
of a pass for one layer's graph is also the result for the other's, with the parts of keys replaced. This holds for
layers of other programs of the process, too: a stack that is compiled again with other functions differs in few graphs.
"""

from __future__ import annotations

from sluice.ir.copy import with_operands
from sluice.ir.expression import Expr, Reg, rewrite
from sluice.ir.graph import Block, Graph, LayerProgram
from sluice.ir.instruction import AddAlias, CreateInst, FindAlias, Instruction, Lookup

KEYED = (Lookup, CreateInst, FindAlias, AddAlias)

Parts = dict[Reg, Reg]
"""The parts of keys of one graph, with those of another graph that correspond to them."""


RESULTS = 16
"""The number of results that are stored for the graphs of one prototype and kind."""

ROLES = 512
"""The number of prototypes and kinds whose results are stored."""


class Changed:
    """The last results of a pass for the graphs that it has processed. No one may change these graphs any more."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[tuple[LayerProgram, Graph, Graph], ...]] = {}

    def find(self, layer: LayerProgram, graph: Graph) -> Graph | None:
        """The result for a graph, if an equivalent graph has been processed; the graph itself if the pass does not
        change it.
        """
        for other, before, after in self._seen.get(_role(layer, graph), ()):
            parts = different_parts(before, graph)
            if parts is not None and _around(other, layer):
                if after is before:
                    return graph
                # the same object, so that the next pass finds its result without comparing instructions
                return after if not parts and after.name == graph.name else _with_parts(after, graph.name, parts)
        return None

    def add(self, layer: LayerProgram, before: Graph, after: Graph) -> None:
        """Store the result for a graph."""
        role = _role(layer, before)
        if len(self._seen) == ROLES and role not in self._seen:
            self._seen = {}
        self._seen[role] = ((layer, before, after), *self._seen.get(role, ())[: RESULTS - 1])


def _role(layer: LayerProgram, graph: Graph) -> tuple[str, str]:
    """What identifies the graphs that may be equivalent: the prototype of the layer, and the kind of graph."""
    return layer.prototype, next(kind for kind, its in layer.graphs_by_kind() if its is graph)


def different_parts(graph: Graph, other: Graph) -> Parts | None:
    """The registers in keys by which two graphs differ; None if they differ in anything else."""
    if graph is other:
        return {}
    if list(graph.blocks) != list(other.blocks) or (graph.entry, graph.parameters) != (other.entry, other.parameters):
        return None
    parts: Parts = {}
    same: list[Instruction] = []
    for block, twin in zip(graph.blocks.values(), other.blocks.values(), strict=True):
        if len(block.instructions) != len(twin.instructions):
            return None
        for one, its in zip(block.instructions, twin.instructions, strict=True):
            if one is its or (one == its and one.where == its.where):
                same.append(one)
            elif not _differ_in_key(one, its, parts):
                return None
    apart = {*parts, *parts.values()}
    if len(set(parts.values())) < len(parts) or (apart and any(map(apart.intersection, map(_registers, same)))):
        return None
    return parts


def _differ_in_key(one: Instruction, other: Instruction, parts: Parts) -> bool:
    """Whether two instructions differ only in parts of keys: those in `parts`, and those that this call adds to it."""
    if not isinstance(one, KEYED) or not isinstance(other, KEYED) or one.where != other.where:
        return False
    for part, its in zip(_parts(one), _parts(other), strict=False):
        if part != its:
            if not isinstance(part, Reg) or not isinstance(its, Reg):
                return False
            parts.setdefault(part, its)
    return _with_key(one, parts) == other


def _parts(instruction: Lookup | CreateInst | FindAlias | AddAlias) -> tuple[Expr, ...]:
    return (*instruction.key, *(instruction.reverse if isinstance(instruction, Lookup | CreateInst) else ()))


def _registers(instruction: Instruction) -> tuple[Reg, ...]:
    return instruction.written() + instruction.read_registers()


def _around(layer: LayerProgram, other: LayerProgram) -> bool:
    """Whether two layers are equal in what passes depend on besides the graph: fields, sequence and end."""
    one, its = layer.instance, other.instance
    if one is None or its is None:
        return one is its and layer.rules == other.rules
    if (one.fields, one.sides, layer.rules) != (its.fields, its.sides, other.rules):
        return False
    if layer.end is None or other.end is None:
        return layer.end is other.end
    return different_parts(layer.end, other.end) is not None


def _with_parts(graph: Graph, name: str, parts: Parts) -> Graph:
    """The graph with the parts of keys replaced."""
    blocks = {
        block.name: Block(block.name, [_with_key(i, parts) if isinstance(i, KEYED) else i for i in block.instructions])
        for block in graph.blocks.values()
    }
    return Graph(name, graph.entry, graph.parameters, blocks)


def _with_key(instruction: Instruction, parts: Parts) -> Instruction:
    def change(node: Expr) -> Expr:
        return parts.get(node, node) if isinstance(node, Reg) else node

    def changed(key: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(rewrite(part, change) for part in key)

    match instruction:
        case Lookup(key=key, reverse=reverse) | CreateInst(key=key, reverse=reverse):
            return with_operands(instruction, key=changed(key), reverse=changed(reverse))
        case FindAlias(key=key) | AddAlias(key=key):
            return with_operands(instruction, key=changed(key))
        case _:
            return instruction
