"""Adds graphs that a pass makes from main graphs, simplified: dispatch, lookahead and path graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sluice.ir.graph import Graph, Program
from sluice.passes import constants, dead_code, tails
from sluice.passes.analysis.blocks import drop_slots


def add_graphs(program: Program, kind: str, graphs: Mapping[str, Graph]) -> Program:
    """The program with graphs of a kind ("dispatch", "lookahead", "path"), by layer. Slots that none of them reads are
    dropped.
    """
    read = {reg.name for graph in graphs.values() for i in graph.instructions() for reg in i.read_registers()}
    layers = dict(program.layers)
    for name, graph in graphs.items():
        drop_slots(graph, read)
        constants.change(layers[name], graph)
        dead_code.change(layers[name], graph)
        tails.change(layers[name], graph)
        layers[name] = layers[name].with_graphs(**{kind: graph})
    return dataclasses.replace(program, layers=layers)
