"""Layers that differ in nothing but what their keys are made of, as TCP over either IP: passes change one of them.

To a pass a key is what instructions read, and no more. So where the registers that make the difference are read by
keys alone, what becomes of one layer's graph becomes of the other's, with its own key put in.
"""

from __future__ import annotations

from sluice.ir.copy import with_operands
from sluice.ir.expression import Expr, Reg, rewrite
from sluice.ir.graph import Block, Graph, LayerProgram
from sluice.ir.instruction import AddAlias, CreateInst, FindAlias, Instruction, Lookup

KEYED = (Lookup, CreateInst, FindAlias, AddAlias)

Parts = dict[Reg, Reg]
"""What keys of one graph are made of, and what those of another one have in its place."""


class Changed:
    """What a pass made of the graphs that it has seen."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], list[tuple[LayerProgram, Graph, Graph]]] = {}

    def find(self, layer: LayerProgram, graph: Graph) -> Graph | None:
        """What the pass makes of a graph, if it has seen one like it: the same object where it changes nothing."""
        for other, before, after in self._seen.get(_role(layer, graph), ()):
            parts = different_parts(before, graph)
            if parts is not None and _around(other, layer):
                return graph if after is before else _with_parts(after, graph.name, parts)
        return None

    def add(self, layer: LayerProgram, before: Graph, after: Graph) -> None:
        """Remember what the pass made of a graph."""
        self._seen.setdefault(_role(layer, before), []).append((layer, before, after))


def _role(layer: LayerProgram, graph: Graph) -> tuple[str, str]:
    """What a graph is for, as far as layers of one prototype can share it."""
    return layer.prototype, next(kind for kind, its in layer.graphs_by_kind() if its is graph)


def different_parts(graph: Graph, other: Graph) -> Parts | None:
    """The registers in keys by which two graphs differ; None when they differ in more."""
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
    """Whether two instructions differ in parts of keys alone, by `parts` and those that are added to it."""
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
    """Whether what passes ask of a layer besides the graph is the same of both: its fields, its sequence, its end."""
    one, its = layer.instance, other.instance
    if one is None or its is None:
        return one is its and layer.rules == other.rules
    if (one.fields, one.sides, layer.rules) != (its.fields, its.sides, other.rules):
        return False
    if layer.end is None or other.end is None:
        return layer.end is other.end
    return different_parts(layer.end, other.end) is not None


def _with_parts(graph: Graph, name: str, parts: Parts) -> Graph:
    """The graph with other parts of keys."""
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
