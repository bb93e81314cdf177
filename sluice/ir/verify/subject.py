"""The input of a rule, and the error that it raises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NoReturn

from sluice.ir.expression import Reg
from sluice.ir.graph import Block, Graph, KeyPart, LayerProgram, Program, alias_tables
from sluice.ir.graph_kinds import KINDS
from sluice.ir.instruction import Instruction, NextLayer
from sluice.ir.text import print_instruction
from sluice.lang.where import NOWHERE, Where


class VerifyError(Exception):
    """A program that violates a rule: the place in the program, the rule, and the line of the description.

    `stage` names the pass that produced the program; empty after lowering.
    """

    def __init__(
        self,
        rule: str,
        reason: str,
        graph: str,
        block: str = "",
        instruction: str = "",
        where: Where = NOWHERE,
        stage: str = "",
    ) -> None:
        self.rule = rule
        self.reason = reason
        self.graph = graph
        self.block = block
        self.instruction = instruction
        self.where = where
        self.stage = stage
        super().__init__(self._message())

    def _message(self) -> str:
        place = f"graph '{self.graph}'"
        if self.block:
            place += f", block '{self.block}'"
        if self.instruction:
            place += f": {self.instruction}"
        line = f" (from {self.where})" if self.where.line else ""
        after = f"after pass '{self.stage}': " if self.stage else ""
        return f"{after}{place}: {self.reason} [rule: {self.rule}]{line}"

    def after(self, stage: str) -> VerifyError:
        """The same error, attributed to pass `stage`."""
        return VerifyError(self.rule, self.reason, self.graph, self.block, self.instruction, self.where, stage)


class Step(NamedTuple):
    """An instruction in its block, with the registers that it sets and reads."""

    block: Block
    instruction: Instruction
    written: tuple[Reg, ...]
    read: tuple[Reg, ...]


@dataclass(frozen=True)
class Whole:
    """Facts about the whole program that rules need, computed once."""

    program: Program

    @cached_property
    def slots(self) -> dict[str, int]:
        """Width of every slot that the program declares."""
        return {reg.name: reg.bits for reg in self.program.slots}

    @cached_property
    def aliases(self) -> dict[str, tuple[KeyPart, ...]]:
        """The tables of further keys: the parts of their keys, by the name of the table."""
        return alias_tables(self.program)

    @cached_property
    def reached(self) -> set[str]:
        """Layers that packets reach from the root layers."""
        layers = self.program.layers
        reached: set[str] = set()
        waiting = [name for _, name in self.program.roots]
        while waiting:
            name = waiting.pop()
            if name in reached or name not in layers:
                continue
            reached.add(name)
            for graph in layers[name].graphs():
                waiting += [item.layer for item in graph.instructions() if isinstance(item, NextLayer)]
        return reached

    @cached_property
    def filled(self) -> set[str]:
        """Slots that a reached layer fills."""
        return {
            reg.name
            for name in self.reached
            for kind, graph in self.program.layers[name].graphs_by_kind()
            if not KINDS[kind].predicts
            for instruction in graph.instructions()
            for reg in instruction.written()
            if reg.space == "slot"
        }


@dataclass(frozen=True)
class Subject:
    """One graph in its layer and program. `kind` is the name of its kind in KINDS."""

    whole: Whole
    layer: LayerProgram
    kind: str
    graph: Graph

    @cached_property
    def steps(self) -> dict[str, list[Step]]:
        """All instructions by block, cached because several rules iterate over them."""
        return {
            name: [Step(block, item, item.written(), item.read_registers()) for item in block.instructions]
            for name, block in self.graph.blocks.items()
        }

    def fail(
        self, rule: str, reason: str, block: Block | None = None, instruction: Instruction | None = None
    ) -> NoReturn:
        """Raise a VerifyError at this place of the graph."""
        raise VerifyError(
            rule,
            reason,
            self.graph.name,
            "" if block is None else block.name,
            "" if instruction is None else print_instruction(instruction),
            NOWHERE if instruction is None else instruction.where,
        )
