"""Path keys: the keys that a packet's path uses, for the choice of its worker where `dispatch` alone does not suffice.

The hash of `dispatch` covers what all instances on a packet's path have in common. It ends at a tunnel, whose contents
have keys of their own, and does not know further keys. So a connection that is in two tunnels, or in one and outside,
or that changes its addresses, would be divided. In stacks where this is possible, the receiver of packets learns for
each key which worker has it (runtime/driver/homes.h), and calls NAME_path for the keys of a packet.

NAME_path runs a layer's path graph, which this pass makes from the main graph. It reads nothing but the packet. A
Lookup becomes a PathKey, and so do the instructions for further keys; a NextLayer becomes a NextPath. Where a branch
depends on an instance, the graph follows the path that is nearest to a key or to a layer above: it predicts the path of
a packet that is passed on. Other branches remain, so that what is refused in a layer has no keys above it.
"""

from __future__ import annotations

from collections import deque

from sluice.ir.copy import with_targets
from sluice.ir.expression import ZERO, Expr, registers
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import (
    AddAlias,
    Branch,
    Check,
    CheckWire,
    CutMessages,
    FindAlias,
    Goto,
    Instruction,
    Lookup,
    NextLayer,
    NextPath,
    PathKey,
    Return,
    Terminator,
)
from sluice.passes.analysis.blocks import PURE, loops, remove_unreachable, undetermined
from sluice.passes.analysis.common_key import Keys, spaces_of_keys
from sluice.passes.derived_graphs import add_graphs

FORWARDS = (NextLayer, CutMessages)
"""Instructions that pass on what is in the packet. Of the messages that a packet is cut into, the first is followed,
without knowing its end.
"""

Names = frozenset[str]
"""Names of registers."""

Node = tuple[str, Names]
"""A block of a main graph, and what is not known there of what the layers above get."""

Spaces = dict[str, tuple[str, Keys]]
"""By layer, the name of the set of layers that share its key, and the parts of this key."""


def run(program: Program) -> Program:
    """The program with path graphs, if a packet may have keys that `dispatch` does not cover."""
    if any(layer.path is not None for layer in program.layers.values()):
        return program
    unknown = _unknown_slots(program)
    spaces: Spaces = {
        name: (space, keys)
        for name, (space, keys) in spaces_of_keys(program).items()
        if keys[0] and not unknown & _slots(*keys[0], *keys[1])
    }
    leading = _leading(program, spaces)
    if not _is_needed(program, spaces, leading):
        return program
    graphs = {name: _Path(program.layers[name], spaces, leading, unknown).graph() for name in leading}
    return add_graphs(program, "path", graphs)


def _unknown_slots(program: Program) -> Names:
    """Slots that some layer sets from its instance: keys with them belong to the instance below."""
    found: set[str] = set()
    size = -1
    while len(found) > size:
        size = len(found)
        for layer in program.layers.values():
            found |= {name for name in undetermined(layer.main, found) if name.startswith("slot.")}
    return frozenset(found)


def _slots(*parts: Expr) -> set[str]:
    return {reg.name for part in parts for reg in registers(part) if reg.space == "slot"}


def _above(layer: LayerProgram) -> set[str]:
    return {i.layer for i in layer.main.instructions() if isinstance(i, FORWARDS) and type(i) in FORWARDS}


def _leading(program: Program, spaces: Spaces) -> list[str]:
    """The layers that a packet may reach without a stream, in which it has a key or from which it reaches one."""
    useful = {
        name
        for name, layer in program.layers.items()
        if name in spaces or any(isinstance(i, FindAlias) for i in layer.main.instructions())
    }
    above = {name: _above(layer) for name, layer in program.layers.items()}
    while more := {name for name, others in above.items() if name not in useful and not useful.isdisjoint(others)}:
        useful |= more
    found: dict[str, None] = {}
    waiting = [name for _, name in reversed(program.roots) if name in useful]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += sorted(above[name] & useful)
    return list(found)


def _is_needed(program: Program, spaces: Spaces, leading: list[str]) -> bool:
    """Whether a packet may have further keys, or one of its own in a layer above one that has a key."""
    if any(isinstance(i, FindAlias) for name in leading for i in program.layers[name].main.instructions()):
        return True
    reached: set[str] = set()
    waiting = [other for name in leading if name in spaces for other in _above(program.layers[name])]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in leading:
            continue
        reached.add(name)
        waiting += _above(program.layers[name])
    return any(name in spaces and _is_own(spaces[name][1]) for name in reached)


def _is_own(keys: Keys) -> bool:
    """Whether a key is made from the layer's own header."""
    return any(reg.space != "slot" for part in (*keys[0], *keys[1]) for reg in registers(part))


class _Path:
    """Makes the path graph of a layer."""

    def __init__(self, layer: LayerProgram, spaces: Spaces, leading: list[str], unknown: Names) -> None:
        self.layer = layer
        self.main = layer.main
        self.spaces = spaces
        self.space = spaces.get(layer.name)
        self.is_early = self.space is not None and not _is_own(self.space[1])
        """The layers below have set its key, so that it is known where the graph begins."""
        self.leading = set(leading)
        self.unknown = unknown
        self.passed_on = frozenset(
            reg.name
            for i in self.main.instructions()
            if self._forwards(i) or isinstance(i, FindAlias)
            for reg in i.read_registers()
        )
        """Registers that paths are kept apart by, where some know them and others do not."""
        self.nodes: dict[str, dict[Names, str]] = {}
        self.loops = loops(self.main)
        self.distance = self._distances()
        self.done = "done"
        while self.done in self.main.blocks:
            self.done += "."

    def graph(self) -> Graph:
        """The path graph."""
        known = self._known()
        where = self.main.blocks[self.main.entry].instructions[0].where
        blocks = {self.done: Block(self.done, [Return(ZERO, where=where)])}
        predicted: set[str] = set()
        for node, facts in known.items():
            kept, there = self._keep(node[0], facts)
            if self.space is not None and self.is_early and node[0] == self.main.entry:
                kept.insert(0, PathKey("stored", *self._named_key(), where=where))
            if not kept or not isinstance(kept[-1], NextPath):
                last = self._lead_on(node[0], there)
                names = {to: to if to == self.done else self._name((to, self._missing(there))) for to in last.targets()}
                kept.append(with_targets(last, names.__getitem__))
                if isinstance(last, Goto) and isinstance(self.main.blocks[node[0]].terminator, Branch):
                    predicted.add(self._name(node))
            blocks[self._name(node)] = Block(self._name(node), kept)
        self._end_loops(blocks, predicted)
        remove_unreachable(graph := Graph(f"{self.layer.name}.path", self.main.entry, self.main.parameters, blocks))
        return graph

    def _end_loops(self, blocks: dict[str, Block], predicted: set[str]) -> None:
        """Where the predictions of a loop never leave it, the path ends with its first round."""
        before: dict[str, set[str]] = {name: set() for name in blocks}
        for name, block in blocks.items():
            for to in block.terminator.targets():
                before[to].add(name)
        ending = {name for name, block in blocks.items() if not block.terminator.targets()}
        waiting = list(ending)
        while waiting:
            found = before[waiting.pop()] - ending
            ending |= found
            waiting += found
        for name in predicted - ending:
            last = blocks[name].terminator
            blocks[name].instructions[-1] = Goto(self.done, where=last.where)

    def _known(self) -> dict[Node, Names]:
        """For every reachable node, the registers that are known there on every path."""
        first = frozenset(reg.name for reg in self.main.parameters)
        known = {(self.main.entry, self._missing(first)): first}
        waiting = deque(known)
        while waiting:
            node = waiting.popleft()
            kept, there = self._keep(node[0], known[node])
            if kept and isinstance(kept[-1], NextPath):
                continue
            for to in self._lead_on(node[0], there).targets():
                after = to, self._missing(there)
                facts = there & known.get(after, there)
                if to != self.done and known.get(after) != facts:
                    known[after] = facts
                    waiting.append(after)
        return known

    def _missing(self, known: Names) -> Names:
        return self.passed_on - known

    def _name(self, node: Node) -> str:
        """The name of a node's block: that of the main graph's, where there is one node of it, or the first."""
        name, missing = node
        nodes = self.nodes.setdefault(name, {})
        return nodes.setdefault(missing, name if not nodes else f"{name}, {len(nodes) + 1}")

    def _named_key(self) -> tuple[str, tuple[Expr, ...], tuple[Expr, ...]]:
        assert self.space is not None
        return self.space[0], *self.space[1]

    def _keep(self, name: str, known: Names) -> tuple[list[Instruction], Names]:
        """The instructions of a block's body that remain, and the registers that are known after it."""
        kept: list[Instruction] = []
        now = set(known)
        for instruction in self.main.blocks[name].body:
            written = instruction.written()
            readable = self._is_readable(instruction, now)
            if isinstance(instruction, PURE) and readable and not any(reg.space in ("perm", "inst") for reg in written):
                kept.append(instruction)
                now |= {reg.name for reg in written}
                continue
            now -= {reg.name for reg in written}
            if (key := self._key(instruction)) is not None and self._is_readable(key, now):
                kept.append(key)
            if self._forwards(instruction) and isinstance(instruction, FORWARDS) and readable:
                return [*kept, NextPath(instruction.layer, instruction.sdu, where=instruction.where)], frozenset(now)
        return kept, frozenset(now)

    def _key(self, instruction: Instruction) -> PathKey | None:
        """The key that an instruction uses. A packet that is passed on has passed the layer's instances; there is no
        need to say so where the layer above has the same key.
        """
        where = instruction.where
        match instruction:
            case Lookup() if self.space is not None and not self.is_early:
                return PathKey("stored", *self._named_key(), where=where)
            case NextLayer(layer=name) | CutMessages(layer=name) if self.space is not None and not self.is_early:
                same = self.spaces.get(name, ("",))[0] == self.space[0]
                return None if same else PathKey("passing", *self._named_key(), where=where)
            case FindAlias(aliases=aliases, key=key):
                return PathKey("further", aliases, key, (), where=where)
            case AddAlias(aliases=aliases, key=key):
                return PathKey("added", aliases, key, (), where=where)
            case _:
                return None

    def _is_readable(self, instruction: Instruction, known: set[str] | Names) -> bool:
        """Whether the packet determines all registers that an instruction reads."""
        return all(
            reg.name not in self.unknown if reg.space == "slot" else reg.name in known
            for reg in instruction.read_registers()
        )

    def _lead_on(self, name: str, known: Names) -> Terminator:
        """The terminator of the path graph for that of a block."""
        last = self.main.blocks[name].terminator
        there = {target: target if target in self.distance else self.done for target in last.targets()}
        match last:
            case Check(mark, size, yes) if self._is_readable(last, known):
                return Check(mark, size, there[yes], self.done, self.done, where=last.where)
            case CheckWire(mark, size, yes) if self._is_readable(last, known):
                return CheckWire(mark, size, there[yes], self.done, where=last.where)
            case Branch(condition, yes, no) if self._is_readable(last, known):
                return Branch(condition, there[yes], there[no], where=last.where)
            case Branch() | Goto() if nearer := [target for target in there.values() if target != self.done]:
                loop = self.loops.get(name, frozenset())
                # out of a loop whose end is not known, which might have none
                return Goto(min(nearer, key=lambda target: (target in loop, self.distance[target])), where=last.where)
            case _:
                return Return(ZERO, where=last.where)

    def _is_target(self, instruction: Instruction) -> bool:
        if isinstance(instruction, (FindAlias, AddAlias)):
            return True
        if isinstance(instruction, Lookup):
            return self.space is not None and not self.is_early
        return self._forwards(instruction)

    def _forwards(self, instruction: Instruction) -> bool:
        return isinstance(instruction, FORWARDS) and type(instruction) in FORWARDS and instruction.layer in self.leading

    def _distances(self) -> dict[str, int]:
        """The number of blocks before the next target. Blocks from which no path leads to one are omitted."""
        found = {name: 0 for name, block in self.main.blocks.items() if any(map(self._is_target, block.instructions))}
        before = self.main.predecessors()
        waiting = deque(found)
        while waiting:
            name = waiting.popleft()
            for other in before[name]:
                if other not in found:
                    found[other] = found[name] + 1
                    waiting.append(other)
        return found
