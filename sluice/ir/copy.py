"""Copies of programs, so that a pass can change its copy while the caller's program stays intact.

Instructions, expressions, registers and instance layouts are immutable and shared. A copy has its own graphs, blocks
and lists of instructions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import is_
from typing import TypeVar

from sluice.ir.expression import Expr
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Instruction, Terminator

I = TypeVar("I", bound=Instruction)  # noqa: E741
T = TypeVar("T", bound=Terminator)


def copy_graph(graph: Graph) -> Graph:
    """A copy of a graph with its own blocks."""
    blocks = {name: Block(block.name, list(block.instructions)) for name, block in graph.blocks.items()}
    return Graph(graph.name, graph.entry, graph.parameters, blocks)


def map_graphs(program: Program, change: Callable[[LayerProgram, Graph], Graph]) -> Program:
    """The program with `change` applied to every graph. Layers without a change stay the same objects."""
    layers = {name: _map_layer(layer, change) for name, layer in program.layers.items()}
    if all(map(is_, layers.values(), program.layers.values())):
        return program
    return dataclasses.replace(program, layers=layers)


def _map_layer(layer: LayerProgram, change: Callable[[LayerProgram, Graph], Graph]) -> LayerProgram:
    changed = {kind: change(layer, graph) for kind, graph in layer.graphs_by_kind()}
    if all(changed[kind] is graph for kind, graph in layer.graphs_by_kind()):
        return layer
    return layer.with_graphs(**changed)


def copy_program(program: Program) -> Program:
    """A copy of a program with its own graphs."""
    return map_graphs(program, lambda _, graph: copy_graph(graph))


def with_operands(instruction: I, **values: object) -> I:
    """The instruction with new values for some operands, from the same line of the description."""
    operands = [values.get(item.name, getattr(instruction, item.name)) for item in instruction.SHAPE.operands]
    return type(instruction)(*operands, where=instruction.where)


def with_expressions(instruction: I, change: Callable[[Expr], Expr]) -> I:
    """The instruction with `change` applied to every expression that it evaluates, except marks.

    Returns the same object when nothing changes.
    """
    values: dict[str, object] = {}
    for operand in instruction.SHAPE.operands:
        if operand.role != "read" or operand.type == "Reg":
            continue
        if operand.many:
            old_items: tuple[Expr, ...] = getattr(instruction, operand.name)
            new_items = tuple(map(change, old_items))
            if not all(map(is_, new_items, old_items)):
                values[operand.name] = new_items
        else:
            old: Expr = getattr(instruction, operand.name)
            new = change(old)
            if new is not old:
                values[operand.name] = new
    return with_operands(instruction, **values) if values else instruction


def with_targets(terminator: T, lead: Callable[[str], str]) -> T:
    """The terminator with every target x replaced by `lead(x)`. Returns the same object when nothing changes."""
    values: dict[str, object] = {}
    for operand in terminator.SHAPE.operands:
        if operand.role == "block":
            old: str = getattr(terminator, operand.name)
            new = lead(old)
            if new != old:
                values[operand.name] = new
    return with_operands(terminator, **values) if values else terminator
