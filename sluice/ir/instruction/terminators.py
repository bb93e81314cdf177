"""Terminators: the last instruction of a block."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.ir.expression import Expr, Reg
from sluice.ir.instruction.declaration import Instruction, R, effects, leads_to, read


@dataclass(slots=True)
class Terminator(Instruction):
    """Ends a block."""

    def targets(self) -> tuple[str, ...]:
        """Names of the blocks that may follow."""
        return self.SHAPE.targets(self)


@effects()
class Goto(Terminator):
    """Continue with block `to`."""

    to: str = leads_to()

    def targets(self) -> tuple[str, ...]:
        """As that of every terminator; so are most, and this is fast."""
        return (self.to,)


@effects()
class Branch(Terminator):
    """IfElse: `yes` when `condition` is not 0."""

    condition: Expr = read()
    yes: str = leads_to()
    no: str = leads_to()

    def targets(self) -> tuple[str, ...]:
        """As that of every terminator; so are most, and this is fast."""
        return self.yes, self.no


@effects(reads=(R.PACKET,))
class Check(Terminator):
    """Length check: `yes` when `size` bytes after `mark` were captured, `cut` when they were only on the wire, `short`
    when the unit is shorter.
    """

    mark: Reg = read()
    size: Expr = read()
    yes: str = leads_to()
    cut: str = leads_to()
    short: str = leads_to()


@effects(reads=(R.PACKET,))
class CheckWire(Terminator):
    """`yes` when the unit extends `size` bytes after `mark` on the wire, whether captured or not."""

    mark: Reg = read()
    size: Expr = read()
    yes: str = leads_to()
    short: str = leads_to()


@effects(writes=(R.COUNTERS,))
class End(Terminator):
    """The packet leaves the layer with `outcome`. Every packet has exactly one, so the counters conserve."""

    outcome: str


@effects(reads=(R.CONTEXT,), writes=(R.COUNTERS, R.CONTEXT, R.CACHE))
class NextStateless(Terminator):
    """The packet leaves the layer with `outcome`, and the stateless graph of `layer` runs on `sdu`. If that graph
    cannot forward the packet, or does not exist, the packet waits for the main graph of `layer`. Only in stateless
    graphs.
    """

    outcome: str
    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), writes=(R.COUNTERS, R.CONTEXT, R.CACHE))
class NextDeferring(NextStateless):
    """A NextStateless whose packet runs the deferred graph of this layer first in stage 2 (deferral). `carried` are the
    values of its parameters. Only in stateless graphs.
    """

    carried: tuple[Expr, ...] = read()


@effects()
class Dispatch(Terminator):
    """`key` selects the packet's worker. With `reverse`, `key` and `reverse` select the same worker in either order.
    Only in dispatch graphs.
    """

    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT,))
class NextDispatch(Terminator):
    """The dispatch graph of `layer` selects the packet's worker from `sdu`. Only in dispatch graphs."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT,))
class NextPath(Terminator):
    """The path graph of `layer` continues with `sdu`. Only in path graphs."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True)
class Again(Terminator):
    """The packet enters the layer again with `unit`, before it has left a trace; only its second pass is counted."""

    unit: Expr = read()


@effects()
class Return(Terminator):
    """The end of a graph that is not a main graph, with its result. A stateless graph returns only before it has had an
    effect.
    """

    result: Expr = read()
