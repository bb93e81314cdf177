"""Lazy initialisation: what few paths use is initialised only on these paths.

- The data of the current packet that sequence instructions share (`InitPacketData`) is initialised before its first
  use. A packet whose bytes bypass the sequence does not use it.
- The state of a packet that is pending for stage 2 is initialised when the packet leaves the fast path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sluice.ir.dataflow import backward
from sluice.ir.graph import Graph, LayerProgram, Program
from sluice.ir.instruction import InitPacketData
from sluice.passes.analysis.blocks import each_graph
from sluice.passes.analysis.packet_bytes import PacketBytes
from sluice.passes.analysis.pending_state import may_be_lazy


def run(program: Program) -> Program:
    """The program with initialisations at the first uses."""
    program = each_graph(program, _change)
    lazy = may_be_lazy(program)
    return program if program.pending_lazily == lazy else replace(program, pending_lazily=lazy)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    if graph.name != layer.main.name:
        return False
    used = PacketBytes(graph)
    if not used.initialised_at_entry():
        return False
    begins = lazily_initialised(graph, used.uses())
    begins.pop(BEFORE, None)
    for name, at in begins.items():
        graph.blocks[name].instructions.insert(at, InitPacketData())
    return bool(begins)


BEFORE = ""
"""Stands for a block: the initialisation is before the graph."""


def lazily_initialised(graph: Graph, first: Mapping[str, int]) -> dict[str, int]:
    """By block, the number of the instruction before which a variable is initialised.

    `first`: by block, the number of the first instruction that uses the variable. On every path, the variable is
    initialised once, before its first use. On a path without a use, it is not initialised (as pass `sinking` moves
    loads down). A number that equals the number of instructions, without the terminator, means the end of the block.
    If paths lead back to the entry of the graph, the initialisation is BEFORE the graph.
    """
    order = graph.order()
    wanted = backward(graph, False, lambda name, later: later or name in first, lambda one, other: one or other)
    before = graph.predecessors()
    if before[graph.entry] and wanted[graph.entry]:
        return {BEFORE: 0}
    # Whether the variable is not initialised yet at the start of a block, and at its end. Both start as true
    # everywhere, because a loop depends on itself.
    entering = dict.fromkeys(order, True)
    leaving = dict.fromkeys(order, True)
    changed = True
    while changed:
        changed = False
        for name in order:
            into = all(leaving[other] for other in before[name] if other in leaving)
            targets = [target for target in graph.blocks[name].terminator.targets() if wanted[target]]
            out = into and name not in first and all(entering[target] for target in targets)
            if (into, out) != (entering[name], leaving[name]):
                entering[name], leaving[name] = into, out
                changed = True
    waiting = [name for name in order if entering[name] and wanted[name] and not leaving[name]]
    return {name: first.get(name, len(graph.blocks[name].body)) for name in waiting}
