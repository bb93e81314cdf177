"""Dispatch: selects one of several workers for a packet, so that every instance lives on one worker.

Every worker has a box of its own and shares nothing with the others. The receiver of packets calls NAME_worker, which
looks at one packet alone, as the receive-side scaling of a network card does. But the hash covers what the selectors of
the stack need: the parts of keys that all instances on the packet's path have in common (see `common_key`).

NAME_worker runs a layer's dispatch graph, which this pass makes from the main graph. A dispatch graph ends where the
packet would reach an instance, or continues with the dispatch graph of the layer above. It must give the same result
for all packets of an instance, so it never guesses which branch a packet takes. For packets that are refused before
they reach an instance, any result will do, so it omits tests that only refuse packets. If the layers above the first
one with instances share no key with it, as in a tunnel, the first one decides: the contents of a tunnel go to the
worker of the tunnel.
"""

from __future__ import annotations

from sluice.ir.expression import ZERO
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import (
    Branch,
    CreateInst,
    Dispatch,
    FindAlias,
    FreshInst,
    Goto,
    Instruction,
    Lookup,
    NextDispatch,
    NextLayer,
    Return,
)
from sluice.passes.analysis.blocks import blocks_after, is_determined, undetermined, what_it_does
from sluice.passes.analysis.common_key import Keys, common_keys
from sluice.passes.derived_graphs import add_graphs

COMES_TO_INSTANCE = (Lookup, FindAlias, FreshInst, CreateInst)
DECIDED = (Dispatch, NextDispatch)


def run(program: Program) -> Program:
    """The program with dispatch graphs in the layers through which packets reach instances."""
    if any(layer.dispatch is not None for layer in program.layers.values()):
        return program
    keys = common_keys(program)
    leading = _leading(program, keys)
    graphs = {name: _graph(program.layers[name], keys.get(name), leading) for name in leading}
    return add_graphs(program, "dispatch", graphs) if leading else program


def _leading(program: Program, keys: dict[str, Keys]) -> list[str]:
    """The layers through which packets reach instances, from the first layer to the first one with instances."""
    above = {
        name: {i.layer for i in layer.main.instructions() if type(i) is NextLayer}
        if layer.frame is None
        else set[str]()
        for name, layer in program.layers.items()
    }
    leading = {name for name in keys if program.layers[name].frame is None}
    while more := {name for name, others in above.items() if name not in leading and not leading.isdisjoint(others)}:
        leading |= more
    found: dict[str, None] = {}
    waiting = [name for _, name in reversed(program.roots) if name in leading]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += sorted(above[name] & leading) if name not in keys else []
    return list(found)


def _graph(layer: LayerProgram, keys: Keys | None, leading: list[str]) -> Graph:
    """The dispatch graph of a layer."""
    blocks: dict[str, Block] = {}
    waiting = [layer.main.entry]
    while waiting:
        name = waiting.pop()
        if name not in blocks:
            blocks[name] = Block(name, _to_decision(layer.main.blocks[name], keys, leading))
            waiting += blocks[name].terminator.targets()
    graph = Graph(f"{layer.name}.dispatch", layer.main.entry, layer.main.parameters, blocks)
    _drop_undetermined(graph)
    _drop_refusals(graph)
    _decide_early(graph)
    return graph


def _to_decision(block: Block, keys: Keys | None, leading: list[str]) -> list[Instruction]:
    """The instructions of a block up to the decision."""
    for place, instruction in enumerate(block.instructions):
        where = instruction.where
        if keys is not None and isinstance(instruction, COMES_TO_INSTANCE):
            return [*block.instructions[:place], Dispatch(*keys, where=where)]
        if type(instruction) is NextLayer and instruction.layer in leading:
            return [*block.instructions[:place], NextDispatch(instruction.layer, instruction.sdu, where=where)]
    last = block.terminator
    return [*block.body, last if last.targets() else Return(ZERO, where=last.where)]


def _drop_undetermined(graph: Graph) -> None:
    """Remove what the packet alone does not determine. If a branch needs it, return: any worker will do."""
    unknown = undetermined(graph)
    for block in graph.blocks.values():
        last = block.terminator
        kept = [
            i for i in block.body if is_determined(i, unknown) and unknown.isdisjoint(reg.name for reg in i.written())
        ]
        block.instructions = [*kept, last if is_determined(last, unknown) else Return(ZERO, where=last.where)]


def _drop_refusals(graph: Graph) -> None:
    """Omit the branch if only one target leads to a decision: packets that take the other one reach no instance."""
    decided = _decided(graph)
    for block in graph.blocks.values():
        last = block.terminator
        paths = [target for target in last.targets() if target in decided]
        if isinstance(last, Branch) and len(paths) == 1:
            block.instructions[-1] = Goto(paths[0], where=last.where)


def _decide_early(graph: Graph) -> None:
    """If all paths lead to the same decision, decide as soon as the registers that it reads are known."""
    seen: set[str] = set()
    waiting = [graph.entry]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        block, others = graph.blocks[name], [graph.blocks[other] for other in blocks_after(graph, name)]
        ends = [other.terminator for other in (block, *others) if isinstance(other.terminator, DECIDED)]
        if len({what_it_does(end) for end in ends}) == 1:
            asked = set(ends[0].read_registers())
            if not any(asked.intersection(i.written()) for other in others for i in other.instructions):
                sets = [place for place, i in enumerate(block.body, 1) if asked.intersection(i.written())]
                block.instructions[max(sets, default=0) :] = [ends[0]]
        waiting += block.terminator.targets()


def _decided(graph: Graph) -> set[str]:
    """The blocks from which a path leads to a decision."""
    before = graph.predecessors()
    waiting = [name for name, block in graph.blocks.items() if isinstance(block.terminator, DECIDED)]
    found = set(waiting)
    while waiting:
        more = [name for name in before[waiting.pop()] if name not in found]
        found.update(more)
        waiting += more
    return found
