"""Rule: a block has one terminator, at its end; targets exist; instructions occur only in graphs where they may."""

from __future__ import annotations

from sluice.ir.expression import width
from sluice.ir.graph import Block, layers_above
from sluice.ir.instruction import (
    Again,
    CloseMessages,
    CutMessages,
    DestroyInst,
    Dispatch,
    Drain,
    End,
    EndInst,
    Instruction,
    LookAhead,
    LoseMessages,
    NextDeferring,
    NextDispatch,
    NextLayer,
    NextMessages,
    NextOfSide,
    NextStateless,
    Prefetch,
    Return,
    Terminator,
)
from sluice.ir.verify.subject import AHEAD, DISPATCH, DRAIN, END, FRAME, LOST, MAIN, STATELESS, TEMPLATE, TURN, Subject

RULE = "structure"

# Instructions that belong to certain graphs. An instance that ended itself while it ends, or drained itself while it
# drains, would recurse without end.
PLACES: dict[type[Instruction], tuple[str, ...]] = {
    Again: (MAIN,),
    End: (MAIN, STATELESS),
    Return: (DRAIN, END, FRAME, LOST, STATELESS, TEMPLATE, TURN, AHEAD, DISPATCH),
    DestroyInst: (END,),
    EndInst: (MAIN, TURN),
    Drain: (MAIN, END),
    NextLayer: (MAIN, DRAIN),
    NextOfSide: (MAIN, DRAIN),
    LoseMessages: (MAIN, DRAIN),
    CloseMessages: (END,),
    Prefetch: (STATELESS, TEMPLATE, AHEAD),
    LookAhead: (AHEAD,),
    NextStateless: (STATELESS, TEMPLATE),
    NextDeferring: (STATELESS, TEMPLATE),
    Dispatch: (DISPATCH,),
    NextDispatch: (DISPATCH,),
}


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
        places = PLACES.get(type(instruction))
        if places is not None and subject.kind not in places:
            name = instruction.__class__.__name__
            subject.fail(
                RULE,
                f"{name} in the {subject.kind} graph, it belongs in {' or '.join(places)}",
                block,
                instruction,
            )
        if isinstance(instruction, (NextLayer, CloseMessages, LookAhead, NextStateless, NextDispatch)):
            _check_layer(subject, block, instruction)
        if isinstance(instruction, NextDeferring):
            _check_turn(subject, block, instruction)


def _check_layer(
    subject: Subject, block: Block, instruction: NextLayer | CloseMessages | LookAhead | NextStateless | NextDispatch
) -> None:
    layer = subject.whole.program.layers.get(instruction.layer)
    if layer is None:
        subject.fail(RULE, f"layer '{instruction.layer}' does not exist", block, instruction)
    if isinstance(instruction, LookAhead) and layer.ahead is None:
        subject.fail(RULE, f"layer '{instruction.layer}' has no ahead graph", block, instruction)
    if isinstance(instruction, NextDispatch) and layer.dispatch is None:
        subject.fail(RULE, f"layer '{instruction.layer}' has no dispatch graph", block, instruction)
    if isinstance(instruction, (NextMessages, CutMessages, CloseMessages)) and layer.frame is None:
        subject.fail(RULE, f"layer '{instruction.layer}' does not take messages", block, instruction)


def _check_turn(subject: Subject, block: Block, instruction: NextDeferring) -> None:
    """The carried values match the parameters of the turn graph, and no layer further up defers work too."""
    turn, layers = subject.layer.turn, subject.whole.program.layers
    if turn is None:
        subject.fail(RULE, "the layer has no turn graph", block, instruction)
    wanted, given = [reg.bits for reg in turn.parameters], [width(value) for value in instruction.carried]
    if len(wanted) != len(given) or any(most < bits for most, bits in zip(wanted, given, strict=True)):
        subject.fail(RULE, f"carries numbers of {given} bits, the turn graph takes {wanted}", block, instruction)
    for name in layers_above(layers, instruction.layer):
        if layers[name].turn is not None:
            subject.fail(RULE, f"a packet that goes on to '{name}' owes that a turn, too", block, instruction)
