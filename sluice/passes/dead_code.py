"""Dead code: what nobody reads is not computed, and blocks that do nothing are not visited.

An instruction goes when it has no effect and no register that it sets is read afterwards. Fields of instances
and slots are always read by somebody. Length checks stay: a header that is too short is malformed whoever
reads it. Empty blocks are skipped, a block with one predecessor that leads nowhere else becomes part of it.
"""

from __future__ import annotations

from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Branch, Goto, Instruction, Terminator
from sluice.passes.blocks import each_graph, remove_unreachable

KEPT = ("perm", "inst", "slot")


def run(program: Program) -> Program:
    """A copy of the program without dead code."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    """Take away what can go; says whether anything changed."""
    changed = [
        remove_unreachable(graph),
        join_branches(graph),
        skip_empty(graph),
        merge_chains(graph),
        remove_dead(graph),
    ]
    return any(changed)


# --- blocks
# -------------------------------------------------------------------------------------------------------


def join_branches(graph: Graph) -> bool:
    """A branch both of whose ways are one becomes a Goto."""
    changed = False
    for block in graph.blocks.values():
        last = block.terminator
        if isinstance(last, Branch) and last.yes == last.no:
            block.instructions[-1] = Goto(last.yes, where=last.where)
            changed = True
    return changed


def skip_empty(graph: Graph) -> bool:
    """Who leads to a block that only leads on, leads to where that leads."""
    changed = False
    for block in graph.blocks.values():
        last = block.terminator
        for target in dict.fromkeys(last.targets()):
            final = destination(graph, target)
            if final != target:
                last.retarget(target, final)
                changed = True
    return remove_unreachable(graph) or changed


def destination(graph: Graph, name: str) -> str:
    """The first block on the way from `name` that does something. A circle of empty blocks is left alone."""
    seen = {name}
    at = name
    while is_empty(graph.blocks[at]):
        at = graph.blocks[at].terminator.targets()[0]
        if at in seen:
            return name
        seen.add(at)
    return at


def is_empty(block: Block) -> bool:
    """Whether a block only leads on."""
    return len(block.instructions) == 1 and isinstance(block.terminator, Goto)


def merge_chains(graph: Graph) -> bool:
    """A block that is reached by the Goto of one other block only becomes part of that."""
    changed = False
    predecessors = graph.predecessors()
    for name in graph.order():
        block = graph.blocks.get(name)
        if block is None:
            continue
        while isinstance(block.terminator, Goto):
            follower = block.terminator.to
            if follower in (graph.entry, name) or len(predecessors[follower]) != 1:
                break
            block.instructions[-1:] = graph.blocks.pop(follower).instructions
            changed = True
    return changed


# --- instructions
# -------------------------------------------------------------------------------------------------


def remove_dead(graph: Graph) -> bool:
    """Take away instructions without effect whose results are not read afterwards."""
    changed = False
    ends = live_at_end(graph)
    for name, block in graph.blocks.items():
        live = set(ends[name])
        kept: list[Instruction] = []
        for instruction in reversed(block.instructions):
            if is_dead(instruction, live):
                changed = True
                continue
            kept.append(instruction)
            live_before(instruction, live)
        block.instructions = kept[::-1]
    return changed


def is_dead(instruction: Instruction, live: set[str]) -> bool:
    """Whether nothing is lost without the instruction, when the registers in `live` are read later."""
    if isinstance(instruction, Terminator) or instruction.has_effect():
        return False
    if isinstance(instruction, Assign) and instruction.value == instruction.target:
        return True
    return all(reg.space not in KEPT and reg.name not in live for reg in instruction.written())


def live_before(instruction: Instruction, live: set[str]) -> None:
    """Turns the registers that are read after the instruction into those that are read from it on."""
    live.difference_update(reg.name for reg in instruction.written())
    live.update(reg.name for reg in instruction.read_registers())


def live_at_end(graph: Graph) -> dict[str, set[str]]:
    """For every block the registers that may be read behind it before they are set."""
    starts: dict[str, set[str]] = {name: set() for name in graph.blocks}
    ends: dict[str, set[str]] = {name: set() for name in graph.blocks}
    predecessors = graph.predecessors()
    waiting = graph.order()
    while waiting:
        name = waiting.pop()
        block = graph.blocks[name]
        ends[name] = set[str]().union(*(starts[target] for target in block.terminator.targets()))
        live = set(ends[name])
        for instruction in reversed(block.instructions):
            live_before(instruction, live)
        if live != starts[name]:
            starts[name] = live
            waiting += predecessors[name]
    return ends
