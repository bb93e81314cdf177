"""Dead code: what nobody reads is not computed, and blocks that do nothing are not visited.

By itself it would buy nothing, as C compilers do the same; passes clean up behind themselves with it, so that the next
one has less to look at, and whoever reads the IR, too.

An instruction goes when it has no effect and no register that it sets is read afterwards. Fields of instances
and slots are always read by somebody, but for those of an instance that is in no table: only this packet sees it, and
where nothing asks for it, it is not made. Length checks stay: a header that is too short is malformed whoever
reads it. Empty blocks are skipped, a block with one predecessor that leads nowhere else becomes part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sluice.ir.copy import with_targets
from sluice.ir.dataflow import backward, forward
from sluice.ir.graph import Block, Graph, LayerProgram
from sluice.ir.instruction import (
    Assign,
    Branch,
    Call,
    CreateInst,
    CutMessages,
    FindAlias,
    FreshInst,
    Goto,
    Instruction,
    Lookup,
    Terminator,
)
from sluice.passes.analysis.blocks import remove_unreachable

FIELDS = ("perm.", "inst.")
SHOWS_INSTANCE = (Call, CutMessages)
"""Instructions that tell others which instance is the current one, whatever it holds."""


def change(layer: LayerProgram, graph: Graph) -> bool:
    """Take away what can go, until nothing can; says whether anything could."""
    changed = _change_blocks(graph)
    while remove_dead(graph):
        changed = True
        if not _change_blocks(graph):
            break
    return changed


# --- blocks -------------------------------------------------------------------------------------------------


def _change_blocks(graph: Graph) -> bool:
    changed = remove_unreachable(graph)
    while join_branches(graph) or skip_empty(graph):
        changed = True
    return merge_chains(graph) or changed


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
    empty = {name for name, block in graph.blocks.items() if is_empty(block)}
    if not empty:
        return False
    changed = False
    for block in graph.blocks.values():
        last = block.terminator
        if not empty.isdisjoint(last.targets()):
            new = with_targets(last, lambda name: destination(graph, name))
            if new is not last:
                block.instructions[-1] = new
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
        while isinstance(last := block.terminator, Goto):
            if last.to in (graph.entry, name) or len(predecessors[last.to]) != 1:
                break
            block.instructions[-1:] = graph.blocks.pop(last.to).instructions
            changed = True
    return changed


# --- instructions -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Use:
    """An instruction, and the registers that it sets and reads, as bits of a number.

    kept: it stays, whether or not what it sets is read in this graph.
    """

    instruction: Instruction
    sets: int
    reads: int
    kept: bool


def remove_dead(graph: Graph) -> bool:
    """Take away instructions without effect whose results are not read afterwards."""
    uses = uses_of(graph)
    _, ends = liveness(graph, uses)
    changed = False
    for name, block in graph.blocks.items():
        live = ends[name]
        kept: list[Instruction] = []
        for use in reversed(uses[name]):
            if use.kept or use.sets & live:
                kept.append(use.instruction)
                live = live & ~use.sets | use.reads
        if len(kept) < len(block.instructions):
            block.instructions = kept[::-1]
            changed = True
    return changed


PRESENCE = "instance"
"""Stands among the registers for the current instance itself."""


def uses_of(graph: Graph) -> dict[str, list[Use]]:
    """What the instructions of every block use; those that assign a register to itself are left out."""
    bits: dict[str, int] = {}
    for name in graph.registers():
        bits[name] = 1 << len(bits)
    presence = 1 << len(bits)
    fields = sum(bit for name, bit in bits.items() if name.startswith(FIELDS)) | presence
    slots = sum(bit for name, bit in bits.items() if name.startswith("slot."))
    alone = unstored_at_start(graph)
    found: dict[str, list[Use]] = {}
    for name, block in graph.blocks.items():
        uses = found[name] = list[Use]()
        unstored = alone.get(name, False)
        for instruction in block.instructions:
            unstored = is_unstored(instruction, unstored)
            if isinstance(instruction, Assign) and instruction.value == instruction.target:
                continue
            sets = reads = 0
            for reg in instruction.written():
                sets |= bits[reg.name]
            for reg in instruction.read_registers():
                reads |= bits[reg.name]
            if isinstance(instruction, FreshInst):
                uses.append(Use(instruction, fields, 0, False))
                continue
            if instruction.NEEDS_INSTANCE:
                reads |= fields
            elif isinstance(instruction, SHOWS_INSTANCE) or (sets | reads) & fields:
                reads |= presence
            kept = instruction.has_effect() or bool(sets & (slots if unstored else slots | fields))
            uses.append(Use(instruction, sets, reads, kept or isinstance(instruction, Terminator)))
    return found


def unstored_at_start(graph: Graph) -> dict[str, bool]:
    """For every block whether the current instance is in no table, however it was reached."""

    def flow(block: Block, unstored: bool) -> Iterator[tuple[str, bool]]:
        for instruction in block.instructions:
            unstored = is_unstored(instruction, unstored)
        for target in block.terminator.targets():
            yield target, unstored

    if not any(isinstance(instruction, FreshInst) for instruction in graph.instructions()):
        return {}
    return forward(graph, False, flow, lambda left, right: left and right)


def is_unstored(instruction: Instruction, before: bool) -> bool:
    """Whether the current instance is in no table behind an instruction."""
    if isinstance(instruction, FreshInst):
        return True
    return before and not isinstance(instruction, Lookup | FindAlias | CreateInst)


def liveness(graph: Graph, uses: dict[str, list[Use]]) -> tuple[dict[str, int], dict[str, int]]:
    """For every block the registers that are read from its beginning, and from its end on, before they are set.

    What a dead instruction reads is not, so that all that is dead is found at once (faint variables: Giegerich,
    Moencke and Wilhelm 1981).
    """
    ends: dict[str, int] = {}

    def flow(name: str, live: int) -> int:
        ends[name] = live
        for use in reversed(uses[name]):
            if use.kept or use.sets & live:
                live = live & ~use.sets | use.reads
        return live

    return backward(graph, 0, flow, int.__or__), ends
