"""Builds a graph block by block."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sluice.ir.expression import ONE, ZERO, Const, Expr, Reg
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Assign, Branch, End, Goto, Instruction, Terminator, Time
from sluice.lang.where import NOWHERE, Where

TIME = Reg("local.time", 64)
"""Packet time, in nanoseconds since 1970."""


class GraphBuilder:
    """A graph under construction. Instructions are appended to the current block, which a terminator closes."""

    def __init__(self, name: str, parameters: tuple[Reg, ...]) -> None:
        self.graph = Graph(name, "entry", parameters)
        self._names: dict[str, int] = {}
        self.where = NOWHERE
        self.current: Block | None = self._open("entry")

    def _open(self, name: str) -> Block:
        if name in self.graph.blocks:
            raise AssertionError(f"block '{name}' is opened twice")
        block = Block(name)
        self.graph.blocks[name] = block
        return block

    def name(self, wish: str) -> str:
        """A block name that is not in use yet."""
        count = self._names.get(wish, 0) + 1
        self._names[wish] = count
        return wish if count == 1 else f"{wish} #{count}"

    @contextmanager
    def at(self, where: Where) -> Generator[None]:
        """Instructions emitted inside come from line `where` of the description."""
        before, self.where = self.where, where
        yield
        self.where = before

    def emit(self, instruction: Instruction) -> None:
        """Append to the current block; a terminator closes it. After that, instructions are unreachable and are
        dropped.
        """
        if self.current is None:
            return
        if instruction.where is NOWHERE:
            instruction.where = self.where
        self.current.instructions.append(instruction)
        if isinstance(instruction, Terminator):
            self.current = None

    def block(self, name: str) -> None:
        """Begin block `name` (from `self.name`). If the current block is still open, it continues there."""
        if self.current is not None:
            self.emit(Goto(name))
        self.current = self._open(name)

    def assign(self, target: Reg, value: Expr) -> None:
        """Emit an assignment."""
        self.emit(Assign(target, value))

    def end(self, outcome: str) -> None:
        """The packet leaves the layer."""
        self.emit(End(outcome))

    def end_block(self, outcome: str) -> str:
        """The name of the shared block that ends packets with `outcome`."""
        name = "end " + outcome
        if name not in self.graph.blocks:
            self.graph.blocks[name] = Block(name, [End(outcome, where=self.where)])
        return name

    @contextmanager
    def when(self, condition: Expr, wish: str, otherwise: str | None = None) -> Generator[None]:
        """Instructions emitted inside run if `condition` holds. Otherwise control continues after them, or at
        `otherwise`.
        """
        yes = self.name(wish)
        no = otherwise or self.name("after " + wish)
        self.emit(Branch(condition, yes, no))
        self.current = self._open(yes)
        yield
        if otherwise is None:
            self.block(no)

    @contextmanager
    def aside(self, name: str) -> Generator[None]:
        """Instructions emitted inside form block `name`. Afterwards the current block continues."""
        before, self.current = self.current, self._open(name)
        yield
        self.current = before

    def unless(self, condition: Expr, wish: str, to: str) -> None:
        """Go to block `to` unless `condition` holds; otherwise continue."""
        if isinstance(condition, Const) and condition.value:
            return
        name = self.name(wish)
        self.emit(Branch(condition, name, to))
        self.current = self._open(name)

    def finish(self) -> Graph:
        """The graph without unreachable blocks. If it reads packet time, it takes it first."""
        if TIME.name in self.graph.registers():
            self.graph.blocks[self.graph.entry].instructions.insert(0, Time(TIME, where=self.where))
        reachable = set(self.graph.order())
        self.graph.blocks = {name: block for name, block in self.graph.blocks.items() if name in reachable}
        return self.graph


def truth(value: bool) -> Const:
    """A constant bit."""
    return ONE if value else ZERO
