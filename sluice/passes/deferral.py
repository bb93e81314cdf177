"""Deferral: a layer that only keeps book of packets lets them pass before their turn, and keeps book then.

A layer that notes conversations, as UDP does, decides nothing by what it notes: a packet goes on to the layer above
whatever was known of its conversation. Yet `split_stateless` stops there, since what changes state has to wait for the
packet's turn; and all that is above, in a tunnel a second stack, is left to the second loop over the group. So where
the state of such a layer and the rest of its main graph are independent of each other the graph is parted, into two
slices (Weiser, "Program Slicing", 1981). One is what the packet's way depends on, without any state, and packets go on
by it before their turn. The other one, the layer's turn graph, is what they owe it: the look-up and all that comes of
it, from the numbers that they carry along (not bytes, as an address of IPv6 is); in its turn a packet passes that, and
then the layer that it waits for.

Nothing is gained where the layers above keep something as well: a packet would pass the one to wait for the other.

A packet carries one such debt, so of layers that one way leads through only the first has a turn graph. And it must not
matter that the turn is over when the layers above begin: none of them has instances in the same table, which may be
full of those that packets came out of, and nobody is told of the layer's events, who would see the packet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sluice.ir.copy import copy_graph, with_expressions
from sluice.ir.dataflow import forward, leaves_trace
from sluice.ir.expression import ZERO, Expr, Reg, rewrite
from sluice.ir.graph import Block, Graph, LayerProgram, Program, layers_above
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
from sluice.ir.verify.traces import IN_TURN
from sluice.passes import constants, dead_code, split_stateless, tails
from sluice.passes.analysis.blocks import behind, remove_unreachable

OF_INSTANCES = (Lookup, EndInst, CreateInst, Touch, SwapSides)
"""What a layer that keeps book does with instances, besides changing their fields."""


def run(program: Program) -> Program:
    """The program with turn graphs in the layers for which packets need not wait."""
    if any(layer.turn is not None for layer in program.layers.values()):
        return program
    waiting = list(dict.fromkeys([*(name for _, name in program.roots), *_led(program)]))
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
        layer = dataclasses.replace(layer, stateless=graph, turn=parted.turn)
        program = dataclasses.replace(spread, layers={**spread.layers, name: layer})
        waiting += [other for other in _led(program) if other not in waiting]
    return program


def _led(program: Program) -> Iterator[str]:
    """The layers to which packets come before their turn."""
    for layer in program.layers.values():
        if layer.stateless is not None:
            yield from split_stateless.leads_to(layer.stateless)


def _is_independent(program: Program, layer: LayerProgram) -> bool:
    """Whether it is the same for all other layers when a layer keeps its book, and for whoever hears of packets."""
    own = layer.instance
    if own is None or layer.rules is not None or layer.frame is not None:
        return False
    above = _reached(program, layer)
    if any(other.turn is not None for other in map(program.layers.__getitem__, above)):
        return False
    for other in program.layers.values():
        if other.turn is not None and layer.name in _reached(program, other):
            return False
        if other.instance is not None and other.instance.table == own.table:
            if other.name in above or (other.end is not None and not all(map(_is_quiet, other.end.instructions()))):
                return False
    return True


def _reached(program: Program, layer: LayerProgram) -> set[str]:
    """The layers above a layer, itself only in a tunnel within itself."""
    return {name for above in layer.above for name in layers_above(program.layers, above)}


def _is_quiet(instruction: Instruction) -> bool:
    """Whether nothing comes of an instruction of an end graph but that the instance is gone, and counters."""
    return isinstance(instruction, DestroyInst) or instruction.WRITES <= {Resource.COUNTERS}


def _is_state(instruction: Instruction) -> bool:
    """Whether an instruction is about the layer's instances, and nothing else."""
    if isinstance(instruction, (Assign, Branch)):
        return any(map(_is_field, (*instruction.written(), *instruction.read_registers())))
    return isinstance(instruction, OF_INSTANCES)


def _is_field(reg: Reg) -> bool:
    return reg.space in ("perm", "inst")


class _Parted:
    """A layer's main graph in its two halves."""

    def __init__(self, layer: LayerProgram, main: Graph, lookup: Lookup, begin: str) -> None:
        self.layer = layer
        self.lookup = lookup
        self.behind = {begin, *behind(main, begin)}
        """The blocks behind the look-up, which `begin` begins with."""
        self.early = main
        self.turn = Graph(f"{layer.name}.turn", begin, (), {})
        self.carried: tuple[Reg, ...] = ()

    @classmethod
    def of(cls, layer: LayerProgram) -> _Parted | None:
        """None where the halves depend on each other."""
        main = copy_graph(layer.main)
        places = [(block, i) for block in main.blocks.values() for i in block.body if isinstance(i, Lookup)]
        if len(places) != 1:
            return None
        block, lookup = places[0]
        begin = f"{block.name} turn"
        at = block.instructions.index(lookup)
        if begin in main.blocks or block.name in behind(main, block.name):
            return None
        main.blocks[begin] = Block(begin, block.instructions[at:])
        block.instructions[at:] = [Goto(begin, where=lookup.where)]
        parted = cls(layer, main, lookup, begin)
        return parted if parted._is_bookkeeping() and parted._late() and parted._early() else None

    def _is_bookkeeping(self) -> bool:
        """Whether all state is of instances, behind the look-up and before layers above, who are told nothing of it."""
        before = {self.early.entry, *behind(self.early, self.early.entry, self.turn.entry)}
        for name, block in self.early.blocks.items():
            above = False
            for instruction in block.instructions:
                if type(instruction) is NextLayer:
                    above = True
                    if name in self.behind & before:
                        return False  # a way by the look-up, and one past it
                elif _is_state(instruction):
                    told = any(reg.space == "slot" for reg in instruction.written())
                    if told or above or name in before:
                        return False
                elif isinstance(instruction, (Pad, Again)) and name not in self.behind:
                    pass  # a header that was cut: the packet waits for the main graph
                elif not split_stateless.is_stateless(instruction):
                    return False
            if above and any(map(_is_state, self._instructions(behind(self.early, name)))):
                return False
        return True

    def _instructions(self, names: set[str]) -> Iterator[Instruction]:
        for name in names:
            yield from self.early.blocks[name].instructions

    # --- what the state does ---

    def _late(self) -> bool:
        """Make the turn graph: all from the look-up to the layers above, without what is done before the turn. False
        where it needs more than numbers of the packet.
        """
        self.turn.blocks = {name: Block(name, list(self._lazy_variables(name))) for name in sorted(self.behind)}
        remove_unreachable(self.turn)
        constants.change(self.layer, self.turn)
        dead_code.change(self.layer, self.turn)
        tails.change(self.layer, self.turn)
        dead_code.change(self.layer, self.turn)
        if not all(isinstance(instruction, IN_TURN) for instruction in self.turn.instructions()):
            return False
        needed = self._needed()
        written = {reg.name for i in self._instructions(self.behind) for reg in i.written()}
        if any(reg.is_bytes or reg.name in written for reg in needed):
            return False
        self.carried = tuple(sorted(needed, key=lambda reg: reg.name))
        taken: dict[Expr, Reg] = {reg: _carried(reg) for reg in self.carried}
        self.turn.parameters = tuple(taken.values())

        def from_carried(value: Expr) -> Expr:
            return rewrite(value, lambda part: taken.get(part, part))

        for block in self.turn.blocks.values():
            block.instructions = [with_expressions(i, from_carried) for i in block.instructions]
        return True

    def _lazy_variables(self, name: str) -> Iterator[Instruction]:
        for instruction in self.early.blocks[name].instructions:
            if isinstance(instruction, (NextLayer, End)):
                yield Return(ZERO, where=instruction.where)
                return
            if _is_state(instruction) or not leaves_trace(instruction):
                yield instruction

    def _needed(self) -> set[Reg]:
        """The registers of the packet that the turn graph reads and may not have set before."""
        nothing: frozenset[Reg] = frozenset()

        def flow(block: Block, known: frozenset[Reg]) -> Iterator[tuple[str, frozenset[Reg]]]:
            now = known.union(*(i.written() for i in block.instructions))
            for target in block.terminator.targets():
                yield target, now

        needed: set[Reg] = set()
        for name, known in forward(self.turn, nothing, flow, frozenset[Reg].__and__).items():
            now = set(known)
            for instruction in self.turn.blocks[name].instructions:
                of_packet = (reg for reg in instruction.read_registers() if not _is_field(reg))
                needed |= {reg for reg in of_packet if reg not in now}
                now |= set(instruction.written())
        return needed

    # --- what the way depends on ---

    def _early(self) -> bool:
        """Take the state out of the main graph. False where the packet's way, or what it leaves, depends on it."""
        untold: set[str] = set()
        size = -1
        while len(untold) > size:
            size = len(untold)
            for name in sorted(self.behind & self.early.blocks.keys()):
                block = self.early.blocks[name]
                kept: list[Instruction] = []
                for instruction in block.body:
                    if _is_state(instruction) or (_reads(instruction, untold) and _is_pure(instruction)):
                        untold |= {reg.name for reg in instruction.written()}
                    else:
                        kept.append(instruction)
                last = block.terminator
                if _is_state(last) or _reads(last, untold):
                    meeting = self._meeting(name)
                    if meeting is None:
                        return False
                    between = self._instructions(behind(self.early, name, meeting))
                    untold |= {reg.name for i in between for reg in i.written()}
                    last = Goto(meeting, where=last.where)
                block.instructions = [*kept, last]
            remove_unreachable(self.early)
            self.behind &= self.early.blocks.keys()
        return not any(_reads(instruction, untold) for instruction in self.early.instructions())

    def _meeting(self, name: str) -> str | None:
        """The first block that all ways from a block come to, none of which leaves anything but state before it."""
        ways = behind(self.early, name) - {name}
        for candidate in filter(ways.__contains__, self.early.order()):
            between = behind(self.early, name, candidate)
            ends = any(not self.early.blocks[other].terminator.targets() for other in between)
            if not ends and name not in between:
                return candidate if all(_is_state(i) or _is_pure(i) for i in self._instructions(between)) else None
        return None

    def stateless(self) -> Graph | None:
        """The stateless graph of what is left of the main graph."""
        return _Early(self).graph()


def _reads(instruction: Instruction, names: set[str]) -> bool:
    return any(reg.name in names for reg in instruction.read_registers())


def _is_pure(instruction: Instruction) -> bool:
    return split_stateless.is_stateless(instruction) and not leaves_trace(instruction)


def _carried(reg: Reg) -> Reg:
    """The parameter of the turn graph for a register. (By then slots are those of layers above.)"""
    return Reg(f"local.carried.{reg.name}", reg.bits)


class _Early(split_stateless.Stateless):
    """Makes the stateless graph: who passes the look-up goes on to a layer above, or waits."""

    def __init__(self, parted: _Parted) -> None:
        self.parted = parted
        super().__init__(parted.layer, parted.early)

    def may_do(self, name: str, instruction: Instruction) -> bool:
        ends = isinstance(instruction, End) and name in self.parted.behind
        return not ends and super().may_do(name, instruction)

    def lead_on(self, name: str, outcome: str, instruction: NextLayer) -> list[Instruction]:
        if name not in self.parted.behind:
            return super().lead_on(name, outcome, instruction)
        lookup, where = self.parted.lookup, instruction.where
        return [
            Prefetch(lookup.key, lookup.reverse, where=lookup.where),
            NextDeferring(outcome, instruction.layer, instruction.sdu, self.parted.carried, where=where),
        ]
