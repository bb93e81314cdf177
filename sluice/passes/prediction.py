"""Header prediction (Jacobson, 4BSD Header Prediction, CCR 1990) for any protocol: packets without flags of rare cases
get a path of their own.

A protocol's flags announce rare cases: a connection begins, ends or breaks. Descriptions test each flag many times, and
a packet without any of them takes the same branches every time. This pass therefore tests all flags together where the
first of them is tested, and duplicates the code that follows. In one copy all flags are 0, so that nearly all of its
branches are decided. The other copy is for packets with a flag.

A flag is a one-bit field of the header that many instructions test. A bit that is tested once or twice is not one:
nothing would be gained, for example, by ACK, which nearly every segment has.
"""

from __future__ import annotations

from collections import Counter

from sluice.ir.copy import copy_graph
from sluice.ir.dataflow import immediate_dominators
from sluice.ir.expression import ZERO, Binary, Const, Reg, chain
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Branch, Instruction, Load
from sluice.ir.verify.instance import is_present
from sluice.passes import constants, dead_code
from sluice.passes.analysis.blocks import behind, each_graph, fresh_names, twin, what_it_does

RARE = Reg("local.rare", 1)
"""Whether a packet has one of the flags set."""

MANY = 6
"""The number of instructions that must read a bit for it to count as a flag."""


def run(program: Program) -> Program:
    """The program with a path of its own for packets that have no flag set."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    if graph.name != layer.main.name or any(RARE in i.written() for i in graph.instructions()):
        return False
    flags = _flags(layer, graph)
    if len(flags) < 2:
        return False
    # First what makes packets go the way of another layer's bit: the other flags are then asked for on the common path
    # alone.
    also = _asked_with(graph, flags)
    entry = graph.entry
    if also:
        begun = _fork(graph, [flag for flag in flags if flag in also.values()], list(also), entry)
        if begun is not None:
            flags, entry = [flag for flag in flags if flag not in also.values()], begun
    if flags and _fork(graph, flags, [], entry) is None and entry == graph.entry:
        return False
    constants.change(layer, graph)
    dead_code.change(layer, graph)
    return True


def _flags(layer: LayerProgram, graph: Graph) -> list[Reg]:
    """The flags of the header: bits that many instructions read, even when all flags found before are 0."""
    bits = {i.target for i in graph.instructions() if isinstance(i, Load) and i.target.bits == 1}
    without = copy_graph(graph)
    found: list[Reg] = []
    while True:
        asked = Counter[Reg]()
        for i in without.instructions():
            asked.update(bits.intersection(i.read_registers()))
        flag = max(asked, key=lambda reg: (asked[reg], reg.name), default=None)
        if flag is None or asked[flag] < MANY:
            return found
        found.append(flag)
        for block in without.blocks.values():
            block.instructions = [
                Assign(flag, ZERO, where=i.where) if flag in i.written() else i for i in block.instructions
            ]
        constants.change(layer, without)
        dead_code.change(layer, without)


def _fork(graph: Graph, flags: list[Reg], also: list[Reg], entry: str) -> str | None:
    """Write twice what follows the first question for a flag beyond `entry`, for packets with none of the flags, nor
    of the
    bits of the instance in `also`, and for the others. The block where the former begins; None where there is no one
    place.
    """
    place = _place(graph, {flag.name for flag in flags}, entry)
    if place is None:
        return None
    block, first = place
    where = block.instructions[first].where
    rest = Block(next(fresh_names(graph)[block.name]), block.instructions[first:])
    graph.blocks[rest.name] = rest
    plain = graph.blocks[twin(graph, rest.name)]
    plain.instructions[:0] = [Assign(flag, ZERO, where=where) for flag in flags]
    common = plain.name
    for bit in also if is_present(graph, block.name, first) else []:
        without = Block(next(fresh_names(graph)[block.name]), [Branch(bit, rest.name, common, where=where)])
        graph.blocks[without.name] = without
        common = without.name
    block.instructions[first:] = [
        *_any(graph, flags, block.instructions[first]),
        Branch(RARE, rest.name, common, where=where),
    ]
    return plain.name


def _asked_with(graph: Graph, flags: list[Reg]) -> dict[Reg, Reg]:
    """Bits of the instance that the description asks for together with a flag (`perm.doubt | header.syn`), and
    which."""
    found: dict[Reg, Reg] = {}
    for block in graph.blocks.values():
        match block.terminator:
            case Branch(Reg() as condition, yes, no) if condition in flags and yes != no:
                # as lifting splits it
                match graph.blocks[no].instructions:
                    case [Branch(Reg(bits=1) as also, same, _)] if same == yes and also.space == "perm":
                        found[also] = condition
                    case _:
                        pass
            case _:
                pass
    return found


def _any(graph: Graph, flags: list[Reg], asked: Instruction) -> list[Instruction]:
    """Instructions that compute RARE. If all flags lie in one word, it is loaded and tested under a mask."""
    loads = {what_it_does(i): i for i in graph.instructions() if isinstance(i, Load) and i.target in flags}
    mark, *others = {load.mark for load in loads.values()}
    places = [load.at for load in loads.values()]
    first, behind = min(places) // 8 * 8, (max(places) // 8 + 1) * 8
    apart = bool(others) or len(loads) > len(flags) or behind - first not in (8, 16, 32, 64)
    if apart or sum(mark in i.written() for i in graph.instructions()) > 1:
        return [Assign(RARE, chain("|", list(flags)), where=asked.where)]
    mask = sum(1 << (behind - 1 - place) for place in places)
    together = Reg("local.flags", behind - first)
    return [
        Load(together, mark, first, behind - first, "big", where=asked.where),
        Assign(RARE, Binary("!=", Binary("&", together, Const(mask)), ZERO), where=asked.where),
    ]


def _place(graph: Graph, names: set[str], entry: str) -> tuple[Block, int] | None:
    """The block, and the place in it, after which every question for a flag beyond `entry` comes; None where there is
    no such. A packet that starts again (a restart) may come to it twice.
    """
    within = {entry, *behind(graph, entry)}
    users = [
        name
        for name in graph.blocks
        if name in within and any(_asks(i, names) for i in graph.blocks[name].instructions)
    ]
    if not users:
        return None
    makers = [block.name for block in graph.blocks.values() if any(_sets(i, names) for i in block.instructions)]
    dominator = immediate_dominators(graph, graph.order())

    def above(name: str) -> list[str]:
        found = [name]
        while found[-1] != graph.entry:
            found.append(dominator[found[-1]])
        return found

    common = set(above(users[0])).intersection(*map(above, users))
    name = next(name for name in above(users[0]) if name in common)
    if name not in within:
        return None
    if not set(makers) <= set(above(name)):
        return None
    block = graph.blocks[name]
    first = 1 + max((n for n, i in enumerate(block.instructions) if _sets(i, names)), default=-1)
    while first + 1 < len(block.instructions) and not _asks(block.instructions[first], names):
        first += 1
    return block, first


def _asks(instruction: Instruction, names: set[str]) -> bool:
    return any(reg.name in names for reg in instruction.read_registers())


def _sets(instruction: Instruction, names: set[str]) -> bool:
    return any(reg.name in names for reg in instruction.written())
