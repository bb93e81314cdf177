"""Deferral: a layer whose state does not affect forwarding lets packets continue in stage 1 and updates its state in
stage 2.

A layer that only records conversations, as UDP does, makes no decision that depends on these records: it forwards a
packet to the layer above whatever its state is. But `split_stateless` stops at such a layer, because state must change
in the order of packets, and all layers above (in a tunnel, a second stack) are left to stage 2. If the state of the
layer and the rest of its main graph are independent of each other, this pass therefore splits the graph into two slices
(Weiser, "Program Slicing", 1981). One slice is what the packet's path depends on, without any state; packets follow it
in stage 1. The other one, the layer's deferred graph, contains the lookup and everything that depends on it.
Its inputs are numbers that the packet carries along (not bytes, as an IPv6 address is). In stage 2, the packet runs the
deferred graph first, and then the layer that it waits for.

If the layers directly above have state as well, nothing is gained: a packet would pass one lookup only to wait at the
next.

A packet carries the inputs of one deferred graph only, so of the layers on one path, only the first has such a graph.
The deferred graph has ended before the layers above begin, and this must not be observable. Therefore no layer above
has instances in the same table: an instance that a packet is inside is not evicted, which matters in a full table. And
nothing has subscribed to the layer's events, since a function on an event could see the packet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sluice.ir.copy import copy_graph, with_expressions
from sluice.ir.dataflow import forward, leaves_trace
from sluice.ir.expression import ZERO, Expr, Reg, rewrite
from sluice.ir.graph import Block, Graph, LayerProgram, Program, layers_above
from sluice.ir.graph_kinds import DEFERRED, KINDS
from sluice.ir.instruction import (
    Again,
    Assign,
    Branch,
    CreateInst,
    DestroyInst,
    End,
    EndInst,
    Goto,
    Instruction,
    Lookup,
    NextDeferring,
    NextLayer,
    Pad,
    Prefetch,
    Resource,
    Return,
    SwapSides,
    Touch,
)
from sluice.passes import constants, dead_code, split_stateless, tails
from sluice.passes.analysis.blocks import blocks_after, remove_unreachable

OF_INSTANCES = (Lookup, EndInst, CreateInst, Touch, SwapSides)
"""What a layer that is deferred does with instances, besides changing their fields."""


def run(program: Program) -> Program:
    """The program with deferred graphs in the layers for which packets need not wait."""
    if any(layer.deferred is not None for layer in program.layers.values()):
        return program
    waiting = list(dict.fromkeys([*(name for _, name in program.roots), *_entered(program)]))
    for name in waiting:
        layer = program.layers[name]
        if layer.stateless is not None or not _is_independent(program, layer):
            continue
        parted = _Parted.of(layer)
        graph = parted.stateless() if parted is not None else None
        if parted is None or graph is None:
            continue
        spread = split_stateless.spread(program, split_stateless.leads_to(graph))
        if all(spread.layers[above].stateless is None for above in split_stateless.leads_to(graph)):
            continue
        layer = layer.with_graphs(stateless=graph, deferred=parted.deferred)
        program = dataclasses.replace(spread, layers={**spread.layers, name: layer})
        waiting += [other for other in _entered(program) if other not in waiting]
    return program


def _entered(program: Program) -> Iterator[str]:
    """The layers to which stateless graphs forward packets."""
    for layer in program.layers.values():
        if layer.stateless is not None:
            yield from split_stateless.leads_to(layer.stateless)


def _is_independent(program: Program, layer: LayerProgram) -> bool:
    """Whether other layers and functions on events cannot observe when the state of a layer is updated."""
    own = layer.instance
    if own is None or layer.rules is not None or layer.frame is not None:
        return False
    above = _reached(program, layer)
    if any(other.deferred is not None for other in map(program.layers.__getitem__, above)):
        return False
    for other in program.layers.values():
        if other.deferred is not None and layer.name in _reached(program, other):
            return False
        if other.instance is not None and other.instance.table == own.table:
            if other.name in above or (other.end is not None and not all(map(_is_quiet, other.end.instructions()))):
                return False
    return True


def _reached(program: Program, layer: LayerProgram) -> set[str]:
    """The layers above a layer, including the layer only if it can carry itself, as in a tunnel."""
    return {name for above in layer.above for name in layers_above(program.layers, above)}


def _is_quiet(instruction: Instruction) -> bool:
    """Whether an instruction of an end graph does nothing but destroy the instance and count."""
    return isinstance(instruction, DestroyInst) or instruction.WRITES <= {Resource.COUNTERS}


def _is_state(instruction: Instruction) -> bool:
    """Whether an instruction accesses the layer's instances and has no other effect."""
    if isinstance(instruction, (Assign, Branch)):
        return any(map(_is_field, (*instruction.written(), *instruction.read_registers())))
    return isinstance(instruction, OF_INSTANCES)


def _is_field(reg: Reg) -> bool:
    return reg.space in ("perm", "inst")


class _Parted:
    """A layer's main graph, split into its two halves."""

    def __init__(self, layer: LayerProgram, main: Graph, lookup: Lookup, begin: str) -> None:
        self.layer = layer
        self.lookup = lookup
        self.after = {begin, *blocks_after(main, begin)}
        """The blocks after the lookup; `begin` is the block that begins with it."""
        self.stage1 = main
        self.deferred = Graph(f"{layer.name}.deferred", begin, (), {})
        self.carried: tuple[Reg, ...] = ()

    @classmethod
    def of(cls, layer: LayerProgram) -> _Parted | None:
        """The two halves; None if they depend on each other."""
        main = copy_graph(layer.main)
        places = [(block, i) for block in main.blocks.values() for i in block.body if isinstance(i, Lookup)]
        if len(places) != 1:
            return None
        block, lookup = places[0]
        begin = f"{block.name} deferred"
        at = block.instructions.index(lookup)
        if begin in main.blocks or block.name in blocks_after(main, block.name):
            return None
        main.blocks[begin] = Block(begin, block.instructions[at:])
        block.instructions[at:] = [Goto(begin, where=lookup.where)]
        parted = cls(layer, main, lookup, begin)
        return parted if parted._only_updates_state() and parted._build_deferred() and parted._build_stage1() else None

    def _only_updates_state(self) -> bool:
        """Whether all state belongs to instances and is accessed only between the lookup and the layers above, and
        whether no slot passes it to these.
        """
        before = {self.stage1.entry, *blocks_after(self.stage1, self.stage1.entry, self.deferred.entry)}
        for name, block in self.stage1.blocks.items():
            above = False
            for instruction in block.instructions:
                if type(instruction) is NextLayer:
                    above = True
                    if name in self.after & before:
                        return False  # reached both through the lookup and around it
                elif _is_state(instruction):
                    fills_slot = any(reg.space == "slot" for reg in instruction.written())
                    if fills_slot or above or name in before:
                        return False
                elif isinstance(instruction, (Pad, Again)) and name not in self.after:
                    pass  # a header that was cut: the packet waits for the main graph
                elif not split_stateless.is_stateless(instruction):
                    return False
            if above and any(map(_is_state, self._instructions(blocks_after(self.stage1, name)))):
                return False
        return True

    def _instructions(self, names: set[str]) -> Iterator[Instruction]:
        for name in names:
            yield from self.stage1.blocks[name].instructions

    # --- the deferred half ---

    def _build_deferred(self) -> bool:
        """Build the deferred graph: everything from the lookup to the layers above, without what stage 1 does. False
        if it needs more than numbers of the packet.
        """
        self.deferred.blocks = {name: Block(name, list(self._lazy_variables(name))) for name in sorted(self.after)}
        remove_unreachable(self.deferred)
        constants.change(self.layer, self.deferred)
        dead_code.change(self.layer, self.deferred)
        tails.change(self.layer, self.deferred)
        dead_code.change(self.layer, self.deferred)
        if not all(isinstance(instruction, KINDS[DEFERRED].only) for instruction in self.deferred.instructions()):
            return False
        needed = self._needed()
        written = {reg.name for i in self._instructions(self.after) for reg in i.written()}
        if any(reg.is_bytes or reg.name in written for reg in needed):
            return False
        self.carried = tuple(sorted(needed, key=lambda reg: reg.name))
        taken: dict[Expr, Reg] = {reg: _carried(reg) for reg in self.carried}
        self.deferred.parameters = tuple(taken.values())

        def from_carried(value: Expr) -> Expr:
            return rewrite(value, lambda part: taken.get(part, part))

        for block in self.deferred.blocks.values():
            block.instructions = [with_expressions(i, from_carried) for i in block.instructions]
        return True

    def _lazy_variables(self, name: str) -> Iterator[Instruction]:
        for instruction in self.stage1.blocks[name].instructions:
            if isinstance(instruction, (NextLayer, End)):
                yield Return(ZERO, where=instruction.where)
                return
            if _is_state(instruction) or not leaves_trace(instruction):
                yield instruction

    def _needed(self) -> set[Reg]:
        """The registers of the packet that the deferred graph may read before it sets them."""
        nothing: frozenset[Reg] = frozenset()

        def flow(block: Block, known: frozenset[Reg]) -> Iterator[tuple[str, frozenset[Reg]]]:
            now = known.union(*(i.written() for i in block.instructions))
            for target in block.terminator.targets():
                yield target, now

        needed: set[Reg] = set()
        for name, known in forward(self.deferred, nothing, flow, frozenset[Reg].__and__).items():
            now = set(known)
            for instruction in self.deferred.blocks[name].instructions:
                of_packet = (reg for reg in instruction.read_registers() if not _is_field(reg))
                needed |= {reg for reg in of_packet if reg not in now}
                now |= set(instruction.written())
        return needed

    # --- the half that runs in stage 1 ---

    def _build_stage1(self) -> bool:
        """Remove the state from the main graph. False if the packet's path, or anything that remains, depends on the
        state.
        """
        undetermined: set[str] = set()
        size = -1
        while len(undetermined) > size:
            size = len(undetermined)
            for name in sorted(self.after & self.stage1.blocks.keys()):
                block = self.stage1.blocks[name]
                kept: list[Instruction] = []
                for instruction in block.body:
                    if _is_state(instruction) or (_reads(instruction, undetermined) and _is_pure(instruction)):
                        undetermined |= {reg.name for reg in instruction.written()}
                    else:
                        kept.append(instruction)
                last = block.terminator
                if _is_state(last) or _reads(last, undetermined):
                    meeting = self._meeting(name)
                    if meeting is None:
                        return False
                    between = self._instructions(blocks_after(self.stage1, name, meeting))
                    undetermined |= {reg.name for i in between for reg in i.written()}
                    last = Goto(meeting, where=last.where)
                block.instructions = [*kept, last]
            remove_unreachable(self.stage1)
            self.after &= self.stage1.blocks.keys()
        return not any(_reads(instruction, undetermined) for instruction in self.stage1.instructions())

    def _meeting(self, name: str) -> str | None:
        """The first block that all paths from a block reach. None if there is none, or if anything but state is changed
        before it.
        """
        paths = blocks_after(self.stage1, name) - {name}
        for candidate in filter(paths.__contains__, self.stage1.order()):
            between = blocks_after(self.stage1, name, candidate)
            ends = any(not self.stage1.blocks[other].terminator.targets() for other in between)
            if not ends and name not in between:
                return candidate if all(_is_state(i) or _is_pure(i) for i in self._instructions(between)) else None
        return None

    def stateless(self) -> Graph | None:
        """The stateless graph of what remains of the main graph."""
        return _Early(self).graph()


def _reads(instruction: Instruction, names: set[str]) -> bool:
    return any(reg.name in names for reg in instruction.read_registers())


def _is_pure(instruction: Instruction) -> bool:
    return split_stateless.is_stateless(instruction) and not leaves_trace(instruction)


def _carried(reg: Reg) -> Reg:
    """The parameter of the deferred graph for a register. (When the graph runs, slots belong to layers above.)"""
    return Reg(f"local.carried.{reg.name}", reg.bits)


class _Early(split_stateless.Stateless):
    """Makes the stateless graph: a packet that passes the lookup continues with a layer above, or waits."""

    def __init__(self, parted: _Parted) -> None:
        self.parted = parted
        super().__init__(parted.layer, parted.stage1)

    def may_do(self, name: str, instruction: Instruction) -> bool:
        ends = isinstance(instruction, End) and name in self.parted.after
        return not ends and super().may_do(name, instruction)

    def lead_on(self, name: str, outcome: str, instruction: NextLayer) -> list[Instruction]:
        if name not in self.parted.after:
            return super().lead_on(name, outcome, instruction)
        lookup, where = self.parted.lookup, instruction.where
        return [
            Prefetch(lookup.key, lookup.reverse, where=lookup.where),
            NextDeferring(outcome, instruction.layer, instruction.sdu, self.parted.carried, where=where),
        ]
