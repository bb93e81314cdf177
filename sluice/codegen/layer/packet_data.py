"""A packet's own bytes (`direct` in C, struct sl_packet_data): where in a graph they begin, and what is handed on before."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.codegen.layer.lazy_init import BEFORE, behind, lazily_initialised
from sluice.ir import instruction as ir
from sluice.ir.graph import Block, Graph

GIVING = (ir.InsertNext, ir.InsertSeq)
"""Instructions that put the packet's own bytes into a sequence."""
TAKING = (ir.WaitingSeq, ir.Assemble, ir.SettleSeq, ir.Drain, ir.EndInst, ir.DestroyInst)
"""Instructions that ask for them; before the first was put there, for none."""
GIVEN = "direct"
NONE = "(struct sl_packet_data[2]){{.present = false}, {.present = false}}"
BEGINS = ["direct[0] = direct[1] = (struct sl_packet_data){.present = false};"]


class Direct:
    """Those of one graph that has sequences."""

    def __init__(self, graph: Graph) -> None:
        self._given = behind(graph, _first(graph, GIVING, dict.fromkeys(graph.blocks, 0)))
        self._begins = lazily_initialised(graph, _first(graph, (*GIVING, *TAKING), self._given))

    def at_once(self) -> list[str]:
        """Statements that begin them before the graph."""
        return BEGINS if BEFORE in self._begins else []

    def begins(self, block: Block, at: int) -> list[str]:
        """Statements that begin them before an instruction of a block, by number."""
        return BEGINS if self._begins.get(block.name) == at else []

    def handed(self, block: Block, at: int) -> str:
        """What an instruction is given of them."""
        given = self._given.get(block.name, at + 1) <= at or isinstance(block.instructions[at], GIVING)
        return GIVEN if given else NONE


def _first(graph: Graph, kinds: tuple[type[ir.Instruction], ...], start: Mapping[str, int]) -> dict[str, int]:
    """By block the first instruction of these kinds, from the one on that `start` says for it, or one that gives."""
    found: dict[str, int] = {}
    for name, begin in start.items():
        for at, instruction in enumerate(graph.blocks[name].instructions):
            if isinstance(instruction, GIVING) or (at >= begin and isinstance(instruction, kinds)):
                found[name] = at
                break
    return found
