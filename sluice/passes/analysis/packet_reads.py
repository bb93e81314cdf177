"""What graphs read of the current packet besides its bytes: its path through the layers, its verdict, its identity.

What nothing reads is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.ir import instruction as ir
from sluice.ir.graph import LayerProgram


def _has(layers: Iterable[LayerProgram], kinds: type[ir.Instruction] | tuple[type[ir.Instruction], ...]) -> bool:
    graphs = [graph for layer in layers for graph in layer.graphs()]
    return any(isinstance(i, kinds) for graph in graphs for i in graph.instructions())


def read_path(layers: Iterable[LayerProgram]) -> bool:
    """Whether a graph of these layers reads the path of a packet, or its depth."""
    return _has(layers, (ir.LayerPath, ir.TooDeep))


def lookahead_reads_path(layer: LayerProgram, continues: bool = True) -> bool:
    """Whether the lookahead graph of a layer reads the path of a packet. continues: or goes on to another layer, which
    may.
    """
    kinds = (ir.LayerPath, ir.LookAhead) if continues else (ir.LayerPath,)
    return layer.lookahead is not None and any(isinstance(i, kinds) for i in layer.lookahead.instructions())


def read_verdicts(layers: Iterable[LayerProgram]) -> bool:
    """Whether a graph of these layers tests that a function has dropped the packet."""
    return _has(layers, ir.Dropped)


def call_native(layers: Iterable[LayerProgram]) -> bool:
    """Whether a graph of these layers calls a native module, which may read which packet is the current one."""
    return _has(layers, ir.CallNative)


def prefetches_instances(layer: LayerProgram) -> bool:
    """Whether the lookahead graph of a layer prefetches instances."""
    return layer.lookahead is not None and any(isinstance(i, ir.Prefetch) for i in layer.lookahead.instructions())
