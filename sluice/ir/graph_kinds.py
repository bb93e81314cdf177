"""The kinds of graphs that a layer may have, each described once: the verifier, the text form, passes and codegen use
this table (codegen/c/heads.py adds the C function of each).
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.ir.instruction import (
    Again,
    Assign,
    Branch,
    CloseMessages,
    CreateInst,
    DestroyInst,
    Dispatch,
    Drain,
    End,
    EndInst,
    Goto,
    InitPacketData,
    Instruction,
    LookAhead,
    Lookup,
    LoseMessages,
    Mark,
    NextDeferring,
    NextDispatch,
    NextLayer,
    NextOfSide,
    NextPath,
    NextStateless,
    PathKey,
    Prefetch,
    Resource,
    Return,
    SwapSides,
    Touch,
)


@dataclass(frozen=True)
class GraphKind:
    """A kind of graph.

    `purpose`: what it is for. `parameters`: the registers that its caller sets, in order; the deferred graph takes the
    numbers that a packet carries, and has None. `restricted`: the instructions of RESTRICTED that it may contain.
    `only`: if not empty, the only instructions that it may contain. `writes`: if not None, the resources that its
    instructions may write. `has_instance`: it starts with a current instance. `predicts`: it sets slots before stage 2,
    for prefetches or for the choice of the worker; layers above read none of them.
    """

    name: str
    purpose: str
    parameters: tuple[str, ...] | None
    restricted: tuple[type[Instruction], ...]
    only: tuple[type[Instruction], ...] = ()
    writes: frozenset[Resource] | None = None
    has_instance: bool = False
    predicts: bool = False


_UNIT, _SIDE, _CAUSE = "local.unit", "local.side", "local.cause"
_CONTEXT, _CACHE, _COUNTERS = Resource.CONTEXT, Resource.CACHE, Resource.COUNTERS

# An instance that ended itself while it ends, or drained itself while it drains, would recurse without end.
_KINDS = (
    GraphKind(
        "main",
        "the path of a packet",
        (_UNIT, _SIDE),
        (Again, End, EndInst, Drain, InitPacketData, NextLayer, NextOfSide, LoseMessages),
    ),
    GraphKind(
        "drain",
        "delivers held data, and gives up gaps",
        (_UNIT, _SIDE, _CAUSE, "local.all"),
        (Return, NextLayer, NextOfSide, LoseMessages),
        has_instance=True,
    ),
    GraphKind(
        "end",
        "ends an instance",
        (_UNIT, "local.reason", "local.stored"),
        (Return, DestroyInst, Drain, CloseMessages),
        has_instance=True,
    ),
    GraphKind("frame", "the length of the next message", (_UNIT, "local.searching"), (Return,)),
    GraphKind(
        "lost",
        "reports bytes that form no message",
        (_UNIT, _SIDE, "local.offset", "local.length", _CAUSE),
        (Return,),
    ),
    GraphKind(
        "stateless",
        "stage 1 of a packet: its path up to the layer whose state it needs",
        (_UNIT,),
        (End, Return, Prefetch, NextStateless, NextDeferring),
        writes=frozenset({_CACHE, _CONTEXT, _COUNTERS}),
    ),
    GraphKind(
        "template",
        "the most frequent path through `stateless`",
        (_UNIT,),
        (Return, Prefetch, NextStateless, NextDeferring),
        writes=frozenset({_CACHE, _CONTEXT}),
    ),
    GraphKind(
        "deferred",
        "the work that stage 1 defers to stage 2: updates the layer's instances",
        None,
        (Return, EndInst),
        only=(Assign, Mark, Lookup, CreateInst, EndInst, Touch, SwapSides, Branch, Goto, Return),
    ),
    GraphKind(
        "lookahead",
        "predicts look-ups",
        (_UNIT,),
        (Return, Prefetch, LookAhead),
        writes=frozenset({_CACHE, _CONTEXT}),
        predicts=True,
    ),
    GraphKind(
        "dispatch",
        "the choice of the packet's worker",
        (_UNIT,),
        (Return, Dispatch, NextDispatch),
        writes=frozenset({_CONTEXT}),
        predicts=True,
    ),
    GraphKind(
        "path",
        "the keys that the packet's path uses, for the choice of its worker",
        (_UNIT,),
        (Return, PathKey, NextPath),
        writes=frozenset({_CONTEXT, Resource.OUTSIDE}),
        predicts=True,
    ),
)

KINDS = {kind.name: kind for kind in _KINDS}
"""The kinds of graphs, in the order in which they are printed."""

MAIN, DRAIN, END, FRAME, LOST, STATELESS, TEMPLATE, DEFERRED, LOOKAHEAD, DISPATCH, PATH = KINDS

RESTRICTED = {cls for kind in _KINDS for cls in kind.restricted}
"""Instructions that belong to certain kinds of graphs. All others may be in any graph without `only`."""


def places(instruction: type[Instruction]) -> list[str]:
    """The kinds of graphs that an instruction of RESTRICTED belongs to."""
    return [kind.name for kind in _KINDS if instruction in kind.restricted]
