"""Dead code: removes instructions whose results are not read, and blocks that do nothing.

For the generated code this changes nothing, as C compilers do the same. Passes use it to clean up their output, so that
the next pass has less to analyse, and the IR is easier to read.

An instruction is removed if it has no effect and no register that it sets is read later. Fields of instances and slots
count as read after the graph. The exception is the fields of an instance that is in no table: only the current packet
sees it, and if nothing needs it, it is not created. Length checks stay: a header that is too short is malformed,
whether or not it is read. Empty blocks are skipped. A block whose only predecessor has no other target is merged into
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

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
"""Instructions that expose the identity of the current instance, whatever its fields are."""


def change(layer: LayerProgram, graph: Graph) -> bool:
    """Remove dead code until nothing changes; returns whether anything did."""
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
    """Replace a branch with two equal targets by a Goto."""
    changed = False
    for block in graph.blocks.values():
        last = block.terminator
        if isinstance(last, Branch) and last.yes == last.no:
            block.instructions[-1] = Goto(last.yes, where=last.where)
            changed = True
    return changed


def skip_empty(graph: Graph) -> bool:
    """Redirect jumps to empty blocks to the targets of these."""
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
    """The first block from `name` on that is not empty. In a cycle of empty blocks, this is `name`."""
    seen = {name}
    at = name
    while is_empty(graph.blocks[at]):
        at = graph.blocks[at].terminator.targets()[0]
        if at in seen:
            return name
        seen.add(at)
    return at


def is_empty(block: Block) -> bool:
    """Whether a block consists of a Goto only."""
    return len(block.instructions) == 1 and isinstance(block.terminator, Goto)


def merge_chains(graph: Graph) -> bool:
    """Merge a block into its predecessor if that is the only one and ends in a Goto."""
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
    """An instruction, and the registers that it sets and reads, as bits of an integer.

    kept: the instruction stays, whether or not what it sets is read in this graph.
    """

    instruction: Instruction
    sets: int
    reads: int
    kept: bool


def remove_dead(graph: Graph) -> bool:
    """Remove instructions without effect whose results are not read later."""
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
"""Represents the current instance as a whole among the registers."""


def uses_of(graph: Graph) -> dict[str, list[Use]]:
    """The registers that the instructions of every block use. Assignments of a register to itself are omitted."""
    bits: dict[str, int] = {}
    touched: list[tuple[Instruction, int, int]] = []
    for block in graph.blocks.values():
        for instruction in block.instructions:
            sets = reads = 0
            for reg in instruction.written():
                sets |= bits.get(reg.name) or bits.setdefault(reg.name, 1 << len(bits))
            for reg in instruction.read_registers():
                reads |= bits.get(reg.name) or bits.setdefault(reg.name, 1 << len(bits))
            touched.append((instruction, sets, reads))
    presence = 1 << len(bits)
    fields = sum(bit for name, bit in bits.items() if name.startswith(FIELDS)) | presence
    slots = sum(bit for name, bit in bits.items() if name.startswith("slot."))
    alone = unstored_at_start(graph)
    found: dict[str, list[Use]] = {}
    following = iter(touched)
    for name, block in graph.blocks.items():
        uses = found[name] = list[Use]()
        unstored = alone.get(name, False)
        for instruction, sets, reads in islice(following, len(block.instructions)):
            if alone:
                unstored = is_unstored(instruction, unstored)
            if isinstance(instruction, Assign) and instruction.value == instruction.target:
                continue
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
    """For every block, whether the current instance is in no table on every path to the block."""

    def flow(block: Block, unstored: bool) -> Iterator[tuple[str, bool]]:
        for instruction in block.instructions:
            unstored = is_unstored(instruction, unstored)
        for target in block.terminator.targets():
            yield target, unstored

    if not any(isinstance(instruction, FreshInst) for instruction in graph.instructions()):
        return {}
    return forward(graph, False, flow, lambda left, right: left and right)


def is_unstored(instruction: Instruction, before: bool) -> bool:
    """Whether the current instance is in no table after an instruction."""
    if isinstance(instruction, FreshInst):
        return True
    return before and not isinstance(instruction, Lookup | FindAlias | CreateInst)


def liveness(graph: Graph, uses: dict[str, list[Use]]) -> tuple[dict[str, int], dict[str, int]]:
    """For every block, the registers that are live at its beginning, and those that are live at its end.

    Reads by dead instructions do not count, so that all dead code is found in one step (faint variables: Giegerich,
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
