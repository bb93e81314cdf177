"""Header prediction (Jacobson, 4BSD Header Prediction, CCR 1990) for any protocol: packets without flags of rare cases
get a path of their own.

A protocol's flags announce rare cases: a connection begins, ends or breaks. Descriptions test each flag many times, and
a packet without any of them takes the same branches every time. This pass therefore tests all flags together where the
first of them is tested, and duplicates the code that follows. In one copy all flags are 0, so that nearly all of its
branches are decided. The other copy is for packets with a flag.

A flag is a one-bit field of the header that many instructions test. A bit that is tested once or twice is not one:
nothing would be gained, for example, by ACK, which nearly every segment has.

A description may also store in a bit of the instance that the next packets are a rare case. If it tests such a bit
together with a flag (`perm.doubt | header.syn`), the path for packets without flags is for packets without that bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sluice.ir.copy import copy_graph
from sluice.ir.dataflow import immediate_dominators
from sluice.ir.expression import ZERO, Binary, Const, Reg, chain
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Branch, Goto, Instruction, Load
from sluice.ir.verify.instance import is_present
from sluice.passes import constants, dead_code
from sluice.passes.analysis.blocks import blocks_after, each_graph, fresh_names, twin, what_it_does

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
    if len(flags) < 2 or not _fork(graph, flags):
        return False
    constants.change(layer, graph)
    dead_code.change(layer, graph)
    return True


def _flags(layer: LayerProgram, graph: Graph) -> list[Reg]:
    """The flags of the header: bits that many instructions read, even when all flags found before are 0, and the bits
    that are tested together with them.
    """
    bits = {i.target for i in graph.instructions() if isinstance(i, Load) and i.target.bits == 1}
    without = copy_graph(graph)
    found: list[Reg] = []
    for flag, block, test in _tested_with(without, bits):
        block.instructions[-1] = Goto(test.no, where=test.where)
        found += [flag] if flag not in found else []
    _clear(layer, without, found)
    while True:
        asked = Counter[Reg]()
        for i in without.instructions():
            asked.update(bits.intersection(i.read_registers()))
        flag = max(asked, key=lambda reg: (asked[reg], reg.name), default=None)
        if flag is None or asked[flag] < MANY:
            return found
        found.append(flag)
        _clear(layer, without, [flag])


def _clear(layer: LayerProgram, graph: Graph, flags: list[Reg]) -> None:
    """Remove what a graph does for packets with these flags."""
    if not flags:
        return
    for block in graph.blocks.values():
        block.instructions = [
            Assign(i.target, ZERO, where=i.where) if isinstance(i, Load) and i.target in flags else i
            for i in block.instructions
        ]
    constants.change(layer, graph)
    dead_code.change(layer, graph)


def _fork(graph: Graph, flags: list[Reg]) -> bool:
    """Duplicate the code that follows the first test of a flag. False if there is no single place where to do this."""
    place = _place(graph, {flag.name for flag in flags})
    if place is None:
        return False
    block, first = place
    tests = _tested_with(graph, flags) if is_present(graph, block.name, first) else []
    where = block.instructions[first].where
    rest = Block(next(fresh_names(graph)[block.name]), block.instructions[first:])
    graph.blocks[rest.name] = rest
    plain = graph.blocks[twin(graph, rest.name)]
    plain.instructions[:0] = [Assign(flag, ZERO, where=where) for flag in flags]
    common = plain.name
    for test in {test.condition: test for _, _, test in tests}.values():
        fork = Block(
            next(fresh_names(graph)[block.name]), [Branch(test.condition, rest.name, common, where=test.where)]
        )
        graph.blocks[fork.name] = fork
        common = fork.name
    for _, tested, test in tests:  # packets with another flag, but without the bit, have a path of their own, too
        tested.instructions[-1] = Branch(test.condition, test.yes, twin(graph, test.no), where=test.where)
    block.instructions[first:] = [
        *_any(graph, flags, block.instructions[first]),
        Branch(RARE, rest.name, common, where=where),
    ]
    return True


def _tested_with(graph: Graph, flags: Collection[Reg]) -> list[tuple[Reg, Block, Branch]]:
    """The tests of bits of the instance together with a flag, each with the flag and its block: `lifting` turns
    `flag | bit` into two branches to the same block.
    """
    found: list[tuple[Reg, Block, Branch]] = []
    for block in graph.blocks.values():
        match block.terminator:
            case Branch(Reg() as flag, yes, no) if flag in flags:
                match graph.blocks[no].instructions:
                    case [Branch(Reg(bits=1) as bit, same, _) as test] if same == yes and bit.space == "perm":
                        found.append((flag, graph.blocks[no], test))
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
    first, beyond = min(places) // 8 * 8, (max(places) // 8 + 1) * 8
    apart = bool(others) or len(loads) > len(flags) or beyond - first not in (8, 16, 32, 64)
    if apart or sum(mark in i.written() for i in graph.instructions()) > 1:
        return [Assign(RARE, chain("|", list(flags)), where=asked.where)]
    mask = sum(1 << (beyond - 1 - place) for place in places)
    together = Reg("local.flags", beyond - first)
    return [
        Load(together, mark, first, beyond - first, "big", where=asked.where),
        Assign(RARE, Binary("!=", Binary("&", together, Const(mask)), ZERO), where=asked.where),
    ]


def _place(graph: Graph, names: set[str]) -> tuple[Block, int] | None:
    """The block, and the index in it, that comes before every use of a flag, and that runs only once; None if there is
    no such place.
    """
    users = [block.name for block in graph.blocks.values() if any(_asks(i, names) for i in block.instructions)]
    makers = [block.name for block in graph.blocks.values() if any(_sets(i, names) for i in block.instructions)]
    dominator = immediate_dominators(graph, graph.order())

    def above(name: str) -> list[str]:
        found = [name]
        while found[-1] != graph.entry:
            found.append(dominator[found[-1]])
        return found

    common = set(above(users[0])).intersection(*map(above, users))
    name = next(name for name in above(users[0]) if name in common)
    if not set(makers) <= set(above(name)) or name in blocks_after(graph, name):
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
