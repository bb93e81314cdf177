"""The bytes of the current packet, which sequence instructions get: which instructions may run after an insertion of
these bytes. The others get none.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import INSERTS_PACKET, USES_PACKET, InitPacketData


class PacketBytes:
    """The uses of the bytes of the packet in one graph that has sequences."""

    def __init__(self, graph: Graph) -> None:
        self._inserted = after(graph, _first_uses(graph, {}))
        self._initialised = sorted(
            block.name
            for block in graph.blocks.values()
            if any(isinstance(instruction, InitPacketData) for instruction in block.instructions)
        )
        self._uses = _first_uses(graph, self._inserted)

    def initialised_at_entry(self) -> bool:
        """Whether the caller of the graph initialises them, as the graph uses them and does not do so itself."""
        return bool(self._uses) and not self._initialised

    def may_be_inserted(self, block: Block, at: int) -> bool:
        """Whether instruction number `at` of a block inserts them, or may run after an instruction that does."""
        return self._inserted.get(block.name, at + 1) <= at or isinstance(block.instructions[at], INSERTS_PACKET)

    def uses(self) -> dict[str, int]:
        """By block, the number of the first instruction that inserts them, or uses them when they may be inserted."""
        return self._uses

    def places(self) -> list[str]:
        """The blocks in which they are initialised, for people; "entry" is before the graph."""
        return ["entry"] if self.initialised_at_entry() else self._initialised


def _first_uses(graph: Graph, inserted: Mapping[str, int]) -> dict[str, int]:
    """By block, its first instruction of INSERTS_PACKET, or of USES_PACKET from the number in `inserted` on."""
    found: dict[str, int] = {}
    for name, block in graph.blocks.items():
        begin = inserted.get(name, len(block.instructions))
        for at, instruction in enumerate(block.instructions):
            if isinstance(instruction, INSERTS_PACKET) or (at >= begin and isinstance(instruction, USES_PACKET)):
                found[name] = at
                break
    return found


def after(graph: Graph, first: Mapping[str, int]) -> dict[str, int]:
    """By block, the number of the first instruction that may run after an instruction of `first`.

    `first` is in the same form. Blocks where no instruction may run after one of `first` are omitted.
    """
    found = {name: at + 1 for name, at in first.items()}
    to_follow = list(first)
    while to_follow:
        for target in graph.blocks[to_follow.pop()].terminator.targets():
            if found.get(target) != 0:
                to_follow += [] if target in first else [target]
                found[target] = 0
    return found
