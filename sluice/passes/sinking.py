"""Sinking of loads: a header field is read only on paths that use it.

A description reads the fields of a header at the header, but the fast path needs few of them. A load is moved down to
the first instruction that needs the register that it sets. At a branch it moves to the targets that read the register,
and disappears on the others (partial dead code elimination: Knoop, Ruething and Steffen 1994). It is moved past a loop,
such as a list of options, but not into one. The C compiler may not do this, because every store in between might be a
store into the packet.
"""

from __future__ import annotations

from collections.abc import Hashable

from sluice.ir.graph import Graph, LayerProgram, Program
from sluice.ir.instruction import Instruction, Load, LoadBytes, LoadVarint
from sluice.passes.analysis.blocks import each_graph, what_it_does
from sluice.passes.dead_code import Use, liveness, remove_dead, uses_of

LOADS = (Load, LoadBytes, LoadVarint)


def run(program: Program) -> Program:
    """The program with loads where they are needed."""
    return each_graph(program, _change)


def _change(_: LayerProgram, graph: Graph) -> bool:
    before = {name: block.instructions for name, block in graph.blocks.items()}
    _Sinking(graph).move()
    remove_dead(graph)
    return any(block.instructions != before[name] for name, block in graph.blocks.items())


class _Sinking:
    """Moves the loads of a graph. Identical loads in several places count as one. A set of loads is an integer with a
    bit for each.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order = graph.order()
        self.uses = uses_of(graph)
        self.loads: dict[Hashable, Use] = {}
        for uses in self.uses.values():
            for use in uses:
                if isinstance(use.instruction, LOADS) and not use.kept:
                    self.loads.setdefault(what_it_does(use.instruction), use)
        self.number = {what: number for number, what in enumerate(self.loads)}
        self.stopped: dict[tuple[int, int], int] = {}

    def move(self) -> None:
        """Move every load down as far as possible."""
        entering, leaving = self._delayed()
        for name in self.order:
            self.graph.blocks[name].instructions = self._placed(name, entering[name], leaving[name])

    def _delayed(self) -> tuple[dict[str, int], dict[str, int]]:
        """For every block, the loads that are still to be done at its beginning, and those at its end.

        A load is still to be done on all paths to a block, or on none. The iteration starts from the set of all loads,
        because a loop that a load can be moved past leads back to itself.
        """
        starts, _ = liveness(self.graph, self.uses)
        wanted = {name: self._setting(live) for name, live in starts.items()}
        everything = (1 << len(self.loads)) - 1
        entering = {name: everything if name != self.graph.entry else 0 for name in self.order}
        leaving = dict.fromkeys(self.order, everything)
        before = self.graph.predecessors()
        begun = {name: self._through(name, 0) for name in self.order}
        passing = {name: self._through(name, everything) for name in self.order}
        changed = True
        while changed:
            changed = False
            for name in self.order:
                into = entering[name]
                for other in before[name]:
                    into &= leaving[other]
                out = begun[name] | into & passing[name]
                for target in self.graph.blocks[name].terminator.targets():
                    out &= entering[target] | ~wanted[target]
                if (into, out) != (entering[name], leaving[name]):
                    entering[name], leaving[name] = into, out
                    changed = True
        return {name: into & wanted[name] for name, into in entering.items()}, leaving

    def _through(self, name: str, waiting: int) -> int:
        """The loads that are still to be done at the end of a block: from its beginning, and from the block itself."""
        for use in self.uses[name]:
            waiting = waiting & ~self._stopped(use) | self._begun(use)
        return waiting

    def _placed(self, name: str, waiting: int, leaving: int) -> list[Instruction]:
        """A block's instructions, with every load before the instruction that it cannot be moved past, or at the end of
        the block.
        """
        kept: list[Instruction] = []
        for use in self.uses[name]:
            last = use.instruction is self.graph.blocks[name].terminator
            done = waiting & (self._stopped(use) | (~leaving if last else 0))
            kept += [load.instruction for number, load in enumerate(self.loads.values()) if done >> number & 1]
            begun = self._begun(use)
            waiting = waiting & ~done | begun
            if not begun:
                kept.append(use.instruction)
        return kept

    def _begun(self, use: Use) -> int:
        number = self.number.get(what_it_does(use.instruction)) if isinstance(use.instruction, LOADS) else None
        return 0 if number is None else 1 << number

    def _stopped(self, use: Use) -> int:
        """The loads that cannot be moved past an instruction, because it accesses a register that they set, or sets one
        that they read.
        """
        key = use.sets, use.reads
        if key not in self.stopped:
            found = self._setting(use.sets | use.reads)
            for number, load in enumerate(self.loads.values()):
                if load.reads & use.sets:
                    found |= 1 << number
            self.stopped[key] = found
        return self.stopped[key]

    def _setting(self, registers: int) -> int:
        """The loads that set one of these registers."""
        return sum(1 << number for number, load in enumerate(self.loads.values()) if load.sets & registers)
