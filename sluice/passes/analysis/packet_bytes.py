"""The bytes of the current packet, which sequence instructions get: where a graph initialises them, lazily, and which
instructions precede every insertion of these bytes and so get none.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ir import instruction as ir
from sluice.ir.graph import Block, Graph
from sluice.passes.analysis.lazy_init import BEFORE, after, lazily_initialised

GIVING = (ir.InsertNext, ir.InsertSeq)
"""Instructions that insert the bytes of the current packet into a sequence."""
TAKING = (ir.WaitingSeq, ir.Assemble, ir.SettleSeq, ir.Drain, ir.EndInst, ir.DestroyInst)
"""Instructions that use these bytes, if they were inserted."""


class PacketBytes:
    """The initialisation and the uses of the bytes of the packet in one graph that has sequences."""

    def __init__(self, graph: Graph) -> None:
        self._given = after(graph, _first(graph, GIVING, dict.fromkeys(graph.blocks, 0)))
        self._begins = lazily_initialised(graph, _first(graph, (*GIVING, *TAKING), self._given))

    def begins_at_once(self) -> bool:
        """Whether they are initialised before the graph."""
        return BEFORE in self._begins

    def begins(self, block: Block, at: int) -> bool:
        """Whether they are initialised before instruction number `at` of a block."""
        return self._begins.get(block.name) == at

    def may_be_given(self, block: Block, at: int) -> bool:
        """Whether instruction number `at` of a block inserts them, or may run after an instruction that does."""
        return self._given.get(block.name, at + 1) <= at or isinstance(block.instructions[at], GIVING)

    def places(self) -> list[str]:
        """The blocks in which they are initialised, for people; "entry" is before the graph."""
        return sorted("entry" if name == BEFORE else name for name in self._begins)


def _first(graph: Graph, kinds: tuple[type[ir.Instruction], ...], start: Mapping[str, int]) -> dict[str, int]:
    """By block, its first instruction that is of GIVING, or that is of `kinds` and not before the number in `start`."""
    found: dict[str, int] = {}
    for name, begin in start.items():
        for at, instruction in enumerate(graph.blocks[name].instructions):
            if isinstance(instruction, GIVING) or (at >= begin and isinstance(instruction, kinds)):
                found[name] = at
                break
    return found
