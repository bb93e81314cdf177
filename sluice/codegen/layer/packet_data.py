"""The bytes of the current packet, as sequence instructions get them (`direct` in C, struct sl_packet_data): where a
graph initialises `direct`, and what the instructions before that point get.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ir import instruction as ir
from sluice.ir.graph import Block, Graph
from sluice.passes.analysis.lazy_init import BEFORE, after, lazily_initialised

GIVING = (ir.InsertNext, ir.InsertSeq)
"""Instructions that insert the bytes of the current packet into a sequence."""
TAKING = (ir.WaitingSeq, ir.Assemble, ir.SettleSeq, ir.Drain, ir.EndInst, ir.DestroyInst)
"""Instructions that use these bytes. Before the first insertion they get NONE."""
GIVEN = "direct"
NONE = "(struct sl_packet_data[2]){{.present = false}, {.present = false}}"
BEGINS = ["direct[0] = direct[1] = (struct sl_packet_data){.present = false};"]


class Direct:
    """The initialisation and the uses of `direct` in one graph that has sequences."""

    def __init__(self, graph: Graph) -> None:
        self._given = after(graph, _first(graph, GIVING, dict.fromkeys(graph.blocks, 0)))
        self._begins = lazily_initialised(graph, _first(graph, (*GIVING, *TAKING), self._given))

    def at_once(self) -> list[str]:
        """Statements that initialise `direct` before the graph."""
        return BEGINS if BEFORE in self._begins else []

    def begins(self, block: Block, at: int) -> list[str]:
        """Statements that initialise `direct` before instruction number `at` of a block."""
        return BEGINS if self._begins.get(block.name) == at else []

    def handed(self, block: Block, at: int) -> str:
        """The C argument that an instruction gets for the bytes of the packet."""
        given = self._given.get(block.name, at + 1) <= at or isinstance(block.instructions[at], GIVING)
        return GIVEN if given else NONE


def _first(graph: Graph, kinds: tuple[type[ir.Instruction], ...], start: Mapping[str, int]) -> dict[str, int]:
    """By block, its first instruction that is of GIVING, or that is of `kinds` and not before the number in `start`."""
    found: dict[str, int] = {}
    for name, begin in start.items():
        for at, instruction in enumerate(graph.blocks[name].instructions):
            if isinstance(instruction, GIVING) or (at >= begin and isinstance(instruction, kinds)):
                found[name] = at
                break
    return found
