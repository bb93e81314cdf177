"""Copies of programs, so that a pass may change what it is given and its caller still has what was there.

Expressions, registers and descriptions of instances are immutable and shared; only what a pass changes is
copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from sluice.ir.expression import Expr
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Instruction

I = TypeVar("I", bound=Instruction)  # noqa: E741


def copy_instruction(instruction: I) -> I:
    """The same instruction, as an object of its own."""
    return dataclasses.replace(instruction)


def copy_graph(graph: Graph) -> Graph:
    """A graph whose blocks and instructions are its own."""
    blocks = {
        name: Block(block.name, [copy_instruction(item) for item in block.instructions])
        for name, block in graph.blocks.items()
    }
    return Graph(graph.name, graph.entry, graph.parameters, blocks)


def copy_layer(layer: LayerProgram) -> LayerProgram:
    """A layer whose graphs are its own."""
    return dataclasses.replace(
        layer,
        main=copy_graph(layer.main),
        drain=None if layer.drain is None else copy_graph(layer.drain),
        end=None if layer.end is None else copy_graph(layer.end),
        events=dict(layer.events),
    )


def copy_program(program: Program) -> Program:
    """A program whose layers are its own."""
    return dataclasses.replace(
        program, layers={name: copy_layer(layer) for name, layer in program.layers.items()}
    )


@cache
def value_operands(cls: type[Instruction]) -> tuple[str, ...]:
    """Names of the operands that take any expression; one declared `Reg` (a mark) must stay a register."""
    types = {item.name: str(item.type) for item in dataclasses.fields(cls)}
    return tuple(name for name, role in cls.operands() if role == "read" and types[name] != "Reg")


def with_expressions(instruction: I, change: Callable[[Expr], Expr]) -> I:
    """The instruction with `change` applied to every expression that it evaluates, but for marks."""
    values: dict[str, object] = {}
    for name in value_operands(type(instruction)):
        value: Expr | tuple[Expr, ...] | None = getattr(instruction, name)
        if isinstance(value, tuple):
            values[name] = tuple(change(item) for item in value)
        elif value is not None:
            values[name] = change(value)
    return dataclasses.replace(instruction, **values)
