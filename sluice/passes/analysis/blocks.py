"""What several passes do with blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from sluice.ir.copy import copy_graph, map_graphs, with_targets
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Instruction, Load, LoadBytes, LoadVarint, Mark, Payload, Terminator
from sluice.passes.analysis.equivalent_layers import Changed

PURE = (Assign, Load, LoadBytes, LoadVarint, Mark, Payload)
"""Instructions that tell what is in a packet: what graphs that only look at it take over from main graphs."""


def each_graph(program: Program, change: Callable[[LayerProgram, Graph], bool]) -> Program:
    """The program with `change` applied to a copy of every graph; it says whether it changed anything.

    Graphs that it leaves as they are stay the same objects, so that nobody has to look at them again. Of those that
    differ in what keys are made of alone it sees one.
    """
    seen = Changed()

    def changed_copy(layer: LayerProgram, graph: Graph) -> Graph:
        after = seen.find(layer, graph)
        if after is None:
            copy = copy_graph(graph)
            after = copy if change(layer, copy) else graph
            seen.add(layer, graph, after)
        return after

    return map_graphs(program, changed_copy)


def what_it_does(instruction: Instruction) -> Hashable:
    """The same for instructions that do the same, whatever line they came from and wherever they lead."""
    return type(instruction), *(
        getattr(instruction, operand.name) for operand in instruction.SHAPE.operands if operand.role != "block"
    )


def remove_unreachable(graph: Graph) -> bool:
    """Remove blocks to which no path leads; says whether there were any."""
    reachable = {graph.entry, *behind(graph, graph.entry)}
    if len(reachable) == len(graph.blocks):
        return False
    gone = [name for name in graph.blocks if name not in reachable]
    for name in gone:
        del graph.blocks[name]
    return True


def fresh_names(graph: Graph) -> dict[str, Iterator[str]]:
    """For every block names that no other has, for what is made of it."""
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
    """Whether a block was made of another one, so that its name is none that the description led to."""
    return " #" in name


def behind(graph: Graph, start: str, end: str = "") -> set[str]:
    """The blocks that ways from a block lead to, itself only if one leads back. With `end`, on ways up to that."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph.blocks[waiting.pop()].terminator.targets():
            if target not in seen and target != end:
                seen.add(target)
                waiting.append(target)
    return seen


def loops(graph: Graph) -> dict[str, frozenset[str]]:
    """For every block in a loop all blocks of that: the strongly connected components (Tarjan 1972)."""
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
    """Write a block and all behind it a second time; the name of the block's twin."""
    names = fresh_names(graph)
    twins = {name: next(names[name]) for name in sorted({start} | behind(graph, start))}
    for name, other in twins.items():
        old = graph.blocks[name]
        last = with_targets(old.terminator, lambda target: twins[target])
        graph.blocks[other] = Block(other, [*old.body, last])
    return twins[start]


def is_told(instruction: Instruction, untold: set[str]) -> bool:
    """Whether a packet alone tells what an instruction sets or decides; of registers in `untold` it does not."""
    if not isinstance(instruction, (*PURE, Terminator)):
        return False
    return not any(reg.name in untold or reg.space in ("inst", "perm") for reg in instruction.read_registers())


def untold(graph: Graph) -> set[str]:
    """Registers that a packet alone, and what layers below said of it, does not tell."""
    found: set[str] = set()
    size = -1
    while len(found) > size:
        size = len(found)
        found |= {reg.name for i in graph.instructions() if not is_told(i, found) for reg in i.written()}
    return found


def drop_slots(graph: Graph, read: set[str]) -> None:
    """Leave out slots that none of the graphs that only look at packets reads."""
    for block in graph.blocks.values():
        block.instructions = [i for i in block.instructions if _slots(i) <= read]


def _slots(instruction: Instruction) -> set[str]:
    return {reg.name for reg in instruction.written() if reg.space == "slot"}
