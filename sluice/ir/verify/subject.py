"""What a rule looks at, and the error that it raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Instruction
from sluice.ir.text import print_instruction
from sluice.lang.where import NOWHERE, Where

MAIN, DRAIN, END = "main", "drain", "end"


class VerifyError(Exception):
    """A program that breaks a rule: where in the program, which rule, and the line of the description.

    `stage` names the pass that left it so; empty when the program was built so.
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
        """The same error, blamed on pass `stage`."""
        return VerifyError(
            self.rule, self.reason, self.graph, self.block, self.instruction, self.where, stage
        )


@dataclass(frozen=True)
class Subject:
    """One graph in its layer and program; `kind` says which of the layer's graphs it is."""

    program: Program
    layer: LayerProgram
    kind: str
    graph: Graph

    def fail(
        self, rule: str, reason: str, block: Block | None = None, instruction: Instruction | None = None
    ) -> NoReturn:
        """Refuse the program."""
        raise VerifyError(
            rule,
            reason,
            self.graph.name,
            "" if block is None else block.name,
            "" if instruction is None else print_instruction(instruction),
            NOWHERE if instruction is None else instruction.where,
        )
