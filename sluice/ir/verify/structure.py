"""Rule: a block has one terminator, at its end; targets exist; instructions occur only in graphs where they may."""

from __future__ import annotations

from sluice.ir.expression import width
from sluice.ir.graph import Block, layers_above
from sluice.ir.graph_kinds import KINDS, RESTRICTED, places
from sluice.ir.instruction import (
    CloseMessages,
    CutMessages,
    LookAhead,
    NextDeferring,
    NextDispatch,
    NextLayer,
    NextMessages,
    NextPath,
    NextStateless,
    Terminator,
)
from sluice.ir.verify.subject import Subject

RULE = "structure"


def check(subject: Subject) -> None:
    """Every block is complete, and every instruction is in a graph where it may be."""
    graph = subject.graph
    if graph.entry not in graph.blocks:
        subject.fail(RULE, f"the entry block '{graph.entry}' does not exist")
    for name, block in graph.blocks.items():
        if name != block.name:
            subject.fail(RULE, f"the block is listed as '{name}'", block)
        _check_block(subject, block)


def _check_block(subject: Subject, block: Block) -> None:
    if not block.instructions or not isinstance(block.instructions[-1], Terminator):
        subject.fail(RULE, "the block does not end with a terminator", block)
    for instruction in block.body:
        if isinstance(instruction, Terminator):
            subject.fail(RULE, "a terminator before the end of the block", block, instruction)
    for target in block.terminator.targets():
        if target not in subject.graph.blocks:
            subject.fail(RULE, f"leads to block '{target}', which does not exist", block, block.terminator)
    for instruction in block.instructions:
        cls = type(instruction)
        if cls in RESTRICTED and cls not in KINDS[subject.kind].restricted:
            subject.fail(
                RULE,
                f"{cls.__name__} in the {subject.kind} graph, it belongs in {' or '.join(places(cls))}",
                block,
                instruction,
            )
        if isinstance(instruction, (NextLayer, CloseMessages, LookAhead, NextStateless, NextDispatch, NextPath)):
            _check_layer(subject, block, instruction)
        if isinstance(instruction, NextDeferring):
            _check_deferred(subject, block, instruction)


def _check_layer(
    subject: Subject,
    block: Block,
    instruction: NextLayer | CloseMessages | LookAhead | NextStateless | NextDispatch | NextPath,
) -> None:
    layer = subject.whole.program.layers.get(instruction.layer)
    if layer is None:
        subject.fail(RULE, f"layer '{instruction.layer}' does not exist", block, instruction)
    if isinstance(instruction, LookAhead) and layer.lookahead is None:
        subject.fail(RULE, f"layer '{instruction.layer}' has no lookahead graph", block, instruction)
    if isinstance(instruction, NextDispatch) and layer.dispatch is None:
        subject.fail(RULE, f"layer '{instruction.layer}' has no dispatch graph", block, instruction)
    if isinstance(instruction, NextPath) and layer.path is None:
        subject.fail(RULE, f"layer '{instruction.layer}' has no path graph", block, instruction)
    if isinstance(instruction, (NextMessages, CutMessages, CloseMessages)) and layer.frame is None:
        subject.fail(RULE, f"layer '{instruction.layer}' does not take messages", block, instruction)


def _check_deferred(subject: Subject, block: Block, instruction: NextDeferring) -> None:
    """The carried values match the parameters of the deferred graph, and no layer further up defers work too."""
    deferred, layers = subject.layer.deferred, subject.whole.program.layers
    if deferred is None:
        subject.fail(RULE, "the layer has no deferred graph", block, instruction)
    wanted, given = [reg.bits for reg in deferred.parameters], [width(value) for value in instruction.carried]
    if len(wanted) != len(given) or any(most < bits for most, bits in zip(wanted, given, strict=True)):
        subject.fail(RULE, f"carries numbers of {given} bits, the deferred graph takes {wanted}", block, instruction)
    for name in layers_above(layers, instruction.layer):
        if layers[name].deferred is not None:
            subject.fail(RULE, f"a packet that goes on to '{name}' has work deferred there, too", block, instruction)
