"""Splitting of stateless layers: all packets of a burst pass their stateless layers before any packet changes state.

The stateless part of a packet's path is needed twice: to predict its lookup, and to process the packet. The loop over a
burst is therefore split in two (loop distribution: Kennedy and Allen 1990). Stage 1 takes every packet through its
layers without state, up to the first layer with state, where the packet waits. Stage 2 processes the waiting packets in
order. Stage 1 writes nothing but counters, and slots, of which every waiting packet has its own copy.

Stage 1 runs a layer's stateless graph, which this pass makes from the main graph according to the table of effects.
Instructions that read only the packet and write only counters remain. A NextLayer becomes a NextStateless. At any other
instruction, the path returns: the packet then waits for the main graph of this layer, which starts from the beginning.
So nothing may have been written on a path that may still return. A packet is forwarded only if nothing remains to be
done after the layer above except counting, because that layer has not run yet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from sluice.ir.dataflow import leaves_trace
from sluice.ir.expression import ZERO
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Branch, End, Goto, Instruction, NextLayer, NextStateless, Resource, Return
from sluice.passes import constants, dead_code, tails


def run(program: Program) -> Program:
    """The program with stateless graphs in the layers from which packets are forwarded in stage 1."""
    if any(layer.stateless is not None for layer in program.layers.values()):
        return program
    return spread(program, [name for _, name in program.roots])


def spread(program: Program, names: Iterable[str]) -> Program:
    """The program with stateless graphs also in the layers with these names, and in those that they forward to in stage
    1.
    """
    found: dict[str, LayerProgram] = {}
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        layer = program.layers[name]
        if name in seen or layer.stateless is not None:
            continue
        seen.add(name)
        graph = Stateless(layer, layer.main).graph() if layer.frame is None else None
        if graph is not None:
            found[name] = layer.with_graphs(stateless=graph)
            waiting += leads_to(graph)
    if not found:
        return program
    layers = {name: found.get(name, layer) for name, layer in program.layers.items()}
    return dataclasses.replace(program, layers=layers)


def leads_to(graph: Graph) -> list[str]:
    """The layers that a stateless graph forwards to."""
    return [i.layer for i in graph.instructions() if isinstance(i, NextStateless)]


class Stateless:
    """Makes the stateless graph of a layer from a main graph."""

    def __init__(self, layer: LayerProgram, main: Graph) -> None:
        self.layer = layer
        self.main = main
        self.safe = set(main.blocks)
        """Blocks from which all paths are stateless to their end."""
        while unsafe := {name for name in self.safe if not self._is_safe(name, 0)}:
            self.safe -= unsafe

    def graph(self) -> Graph | None:
        """The stateless graph; None if it forwards no packet to another layer."""
        blocks: dict[str, Block] = {}
        waiting = [self.main.entry]
        while waiting:
            name = waiting.pop()
            if name not in blocks:
                blocks[name] = Block(name, self._keep(name))
                waiting += blocks[name].terminator.targets()
        graph = Graph(f"{self.layer.name}.stateless", self.main.entry, self.main.parameters, blocks)
        constants.change(self.layer, graph)
        dead_code.change(self.layer, graph)
        tails.change(self.layer, graph)
        return graph if leads_to(graph) else None

    def may_do(self, name: str, instruction: Instruction) -> bool:
        """Whether an instruction of a block may run in stage 1."""
        return is_stateless(instruction)

    def lead_on(self, name: str, outcome: str, instruction: NextLayer) -> list[Instruction]:
        """The instructions that forward a packet from a block to the layer above."""
        return [NextStateless(outcome, instruction.layer, instruction.sdu, where=instruction.where)]

    def _keep(self, name: str) -> list[Instruction]:
        """The instructions of a block up to the first that is not stateless, or that forwards to the layer above."""
        kept: list[Instruction] = []
        for at, instruction in enumerate(self.main.blocks[name].instructions):
            outcome = self._outcome(name, at) if type(instruction) is NextLayer else None
            if isinstance(instruction, NextLayer) and outcome is not None:
                return [*kept, *self.lead_on(name, outcome, instruction)]
            if not self.may_do(name, instruction) or (leaves_trace(instruction) and not self._is_safe(name, at)):
                return [*kept, Return(ZERO, where=instruction.where)]
            kept.append(instruction)
        return kept

    def _is_safe(self, name: str, at: int) -> bool:
        """Whether all paths from an instruction of a block are stateless, up to the layer above or the End."""
        block = self.main.blocks[name]
        for place, instruction in enumerate(block.instructions[at:], at):
            if type(instruction) is NextLayer:
                return self._outcome(name, place) is not None
            if not self.may_do(name, instruction):
                return False
        return self.safe.issuperset(block.terminator.targets())

    def _outcome(self, name: str, at: int) -> str | None:
        """The outcome of a packet after the NextLayer at this place. None if the outcome depends on the packet, or if
        anything is done before the End that has an effect or reads more than the packet.
        """
        facts = constants.Facts()
        seen: set[str] = set()
        block = self.main.blocks[name]
        body = block.body[at + 1 :]
        while True:
            for instruction in body:
                known = constants.evaluate(self.layer, instruction, facts)
                if known.WRITES or not is_stateless(known) or _reads_slot(known):
                    return None
                constants.step(self.layer, known, facts)
            last = constants.evaluate(self.layer, block.terminator, facts)
            match constants.decide(last) if isinstance(last, Branch) else last:
                case End(outcome):
                    return outcome
                case Goto(to) if to not in seen:
                    seen.add(to)
                    block = self.main.blocks[to]
                    body = block.body
                case _:
                    return None


def is_stateless(instruction: Instruction) -> bool:
    """Whether an instruction reads only the packet, and writes only counters."""
    if not (instruction.READS <= {Resource.PACKET} and instruction.WRITES <= {Resource.COUNTERS}):
        return False
    return not any(reg.space in ("perm", "inst") for reg in (*instruction.written(), *instruction.read_registers()))


def _reads_slot(instruction: Instruction) -> bool:
    return any(reg.space == "slot" for reg in instruction.read_registers())
