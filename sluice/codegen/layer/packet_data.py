"""The bytes of the current packet, as sequence instructions get them in C: `direct`, struct sl_packet_data."""

from __future__ import annotations

from sluice.ir.graph import Block, Graph
from sluice.passes.analysis.packet_bytes import PacketBytes

GIVEN = "direct"
NONE = "(struct sl_packet_data[2]){{.present = false}, {.present = false}}"
INIT = ["direct[0] = direct[1] = (struct sl_packet_data){.present = false};"]


class Direct:
    """The C of the initialisation and the uses of `direct` in one graph that has sequences."""

    def __init__(self, graph: Graph) -> None:
        self._bytes = PacketBytes(graph)

    def at_entry(self) -> list[str]:
        """Statements that initialise `direct` before the graph, if no instruction of the graph does."""
        return INIT if self._bytes.initialised_at_entry() else []

    def argument(self, block: Block, at: int) -> str:
        """The C argument that an instruction gets for the bytes of the packet."""
        return GIVEN if self._bytes.may_be_inserted(block, at) else NONE
