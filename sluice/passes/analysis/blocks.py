"""Operations on blocks that several passes share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Set
from weakref import WeakKeyDictionary

from sluice.ir.copy import copy_graph, map_graphs, with_targets
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Instruction, Load, LoadBytes, LoadVarint, Mark, Payload, Terminator
from sluice.passes.analysis.equivalent_layers import Changed

PURE = (Assign, Load, LoadBytes, LoadVarint, Mark, Payload)
"""Instructions that read only the packet and set registers. Graphs that only inspect packets copy them from main
graphs.
"""


Change = Callable[[LayerProgram, Graph], bool]

_seen: WeakKeyDictionary[Change, Changed] = WeakKeyDictionary()
"""The results of each pass, for all programs of the process."""


def each_graph(program: Program, change: Change) -> Program:
    """The program with `change` applied to a copy of every graph; `change` returns whether it changed anything. What it
    does may depend only on the graph, and on the layer's fields, sequence and end.

    Graphs that it does not change remain the same objects, so that later steps need not process them again. Of graphs
    that differ only in the parts of keys, also of other programs, it gets one.
    """
    seen = _seen.setdefault(change, Changed())

    def changed_copy(layer: LayerProgram, graph: Graph) -> Graph:
        after = seen.find(layer, graph)
        if after is None:
            copy = copy_graph(graph)
            after = copy if change(layer, copy) else graph
            seen.add(layer, graph, after)
        return after

    return map_graphs(program, changed_copy)


def what_it_does(instruction: Instruction) -> Hashable:
    """A value that is equal for instructions that do the same, without their source lines and targets."""
    return type(instruction), *(
        getattr(instruction, operand.name) for operand in instruction.SHAPE.operands if operand.role != "block"
    )


def remove_unreachable(graph: Graph) -> bool:
    """Remove unreachable blocks; returns whether there were any."""
    reachable = {graph.entry, *blocks_after(graph, graph.entry)}
    if len(reachable) == len(graph.blocks):
        return False
    gone = [name for name in graph.blocks if name not in reachable]
    for name in gone:
        del graph.blocks[name]
    return True


def fresh_names(graph: Graph) -> dict[str, Iterator[str]]:
    """For every block, unused names for blocks that are derived from it."""
    taken = set(graph.blocks)

    def more(name: str) -> Iterator[str]:
        base = name.split(" #")[0]
        number = 2
        while True:
            candidate = f"{base} #{number}"
            if candidate not in taken:
                taken.add(candidate)
                yield candidate
            number += 1

    return {name: more(name) for name in graph.blocks}


def is_copy(name: str) -> bool:
    """Whether a block is derived from another one, so that its name does not come from the description."""
    return " #" in name


def blocks_after(graph: Graph, start: str, end: str = "") -> set[str]:
    """The blocks that paths from a block reach; the block itself only if a path returns to it. With `end`, only blocks
    on paths up to that one.
    """
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph.blocks[waiting.pop()].terminator.targets():
            if target not in seen and target != end:
                seen.add(target)
                waiting.append(target)
    return seen


def loops(graph: Graph) -> dict[str, frozenset[str]]:
    """For every block in a loop, all blocks of this loop: the strongly connected components (Tarjan 1972)."""
    found: dict[str, frozenset[str]] = {}
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_blocks: list[str] = []
    steps: list[tuple[str, Iterator[str]]] = []

    def enter(name: str) -> None:
        number[name] = low[name] = len(number)
        open_blocks.append(name)
        steps.append((name, iter(graph.blocks[name].terminator.targets())))

    enter(graph.entry)
    while steps:
        name, targets = steps[-1]
        for target in targets:
            if target not in number:
                enter(target)
                break
            if target in open_blocks:
                low[name] = min(low[name], number[target])
        else:
            steps.pop()
            if steps:
                low[steps[-1][0]] = min(low[steps[-1][0]], low[name])
            if low[name] == number[name]:
                at = open_blocks.index(name)
                members = frozenset(open_blocks[at:])
                del open_blocks[at:]
                if len(members) > 1 or name in graph.blocks[name].terminator.targets():
                    found.update(dict.fromkeys(members, members))
    return found


def twin(graph: Graph, start: str) -> str:
    """Duplicate a block and all that are reachable from it; returns the name of the block's copy."""
    names = fresh_names(graph)
    twins = {name: next(names[name]) for name in sorted({start} | blocks_after(graph, start))}
    for name, other in twins.items():
        old = graph.blocks[name]
        last = with_targets(old.terminator, lambda target: twins[target])
        graph.blocks[other] = Block(other, [*old.body, last])
    return twins[start]


def is_determined(instruction: Instruction, undetermined: set[str]) -> bool:
    """Whether the packet alone determines what an instruction sets or decides. It does not determine registers in
    `undetermined`.
    """
    if not isinstance(instruction, (*PURE, Terminator)):
        return False
    for reg in instruction.read_registers():
        if reg.name in undetermined or reg.space in ("inst", "perm"):
            return False
    return True


def undetermined(graph: Graph, slots: Set[str] = frozenset()) -> set[str]:
    """The registers that the packet, with what layers below have set, does not determine. slots: those that are known
    not to be determined.
    """
    found = set(slots)
    size = -1
    while len(found) > size:
        size = len(found)
        found |= {reg.name for i in graph.instructions() if not is_determined(i, found) for reg in i.written()}
    return found


def drop_slots(graph: Graph, read: set[str]) -> None:
    """Remove instructions that set slots outside `read`, which no graph of this kind reads."""
    for block in graph.blocks.values():
        block.instructions = [i for i in block.instructions if _slots(i) <= read]


def _slots(instruction: Instruction) -> set[str]:
    return {reg.name for reg in instruction.written() if reg.space == "slot"}
