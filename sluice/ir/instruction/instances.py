"""Instructions on tables and instances."""

from __future__ import annotations

from sluice.ir.expression import Expr, Reg
from sluice.ir.instruction.declaration import Instruction, R, effects, read, write


@effects(reads=(R.TABLE, R.TIMER), writes=(R.INSTANCE, R.TABLE, R.SEQUENCE, R.TIMER, R.COUNTERS, R.OUTSIDE))
class Lookup(Instruction):
    """Contain(key): find the instance by `key` or, if there is `reverse`, by `reverse`, and make it current.

    `found`: there is one. `expired`: its deadline has passed, so that it must be ended. `side`: 0 when the active side
    sent the packet, else 1. If none was found, `expired` and `side` are 0.

    Expired instances of the same table may end during the lookup. The slots that layers below filled for this packet
    are preserved.
    """

    found: Reg = write()
    expired: Reg = write()
    side: Reg = write()
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.TABLE,), writes=(R.CACHE,))
class Prefetch(Instruction):
    """Prefetch the memory that a Lookup of `key` and `reverse` will use. Only before stage 2."""

    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(reads=(R.CONTEXT,))
class LayerPath(Instruction):
    """A number that identifies the packet's path of layers, from the first to this one. Distinct paths have distinct
    numbers.
    """

    target: Reg = write()


@effects(reads=(R.CLOCK,))
class Time(Instruction):
    """Packet time: the largest timestamp of a packet so far, in nanoseconds since 1970."""

    target: Reg = write()


@effects(reads=(R.TABLE, R.TIMER), writes=(R.INSTANCE,))
class FindAlias(Instruction):
    """Find the instance that got `key` from AddAlias in the table `aliases`, if it still exists, and make it current.

    `found`, `expired` and `side` are as for Lookup.
    """

    found: Reg = write()
    expired: Reg = write()
    side: Reg = write()
    aliases: str
    key: tuple[Expr, ...] = read()


@effects(writes=(R.TABLE,))
class AddAlias(Instruction):
    """Give the instance with `number` at `place` of its table the further key `key` in the table `aliases`.

    `side` is the side of packets that are found by this key. If another instance had the key, it loses it. `evicted`:
    the oldest further key was removed to make room for this one. Nothing happens for `number` 0, which is an instance
    that is not stored.
    """

    evicted: Reg = write()
    aliases: str
    number: Expr = read()
    place: Expr = read()
    side: Expr = read()
    key: tuple[Expr, ...] = read()


@effects(reads=(R.TABLE,), runs=True, keeps_slots=True)
class CreateInst(Instruction):
    """Create an instance under `key`. Its fields start from their initial values.

    If the table is full, another instance is evicted, which runs its end graph. `made` is 0 when no instance can be
    created: either all are in use by packets that enclose this one, or a layer above took the key while an ended
    instance delivered its data. In that case an empty instance, which is never stored, is current.
    """

    made: Reg = write()
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()


@effects(writes=(R.INSTANCE, R.SEQUENCE, R.TIMER))
class FreshInst(Instruction):
    """Make a new instance current that is for this packet alone and is never stored."""


@effects(writes=(R.TABLE, R.INSTANCE, R.SEQUENCE, R.TIMER), instance=True)
class DestroyInst(Instruction):
    """Remove the current instance and free what its sequences hold. Only in end graphs."""


@effects(instance=True, runs=True, keeps_slots=True)
class EndInst(Instruction):
    """End the current instance for `reason` (its number in END_REASONS): runs the layer's end graph."""

    reason: int


@effects(writes=(R.TIMER,), instance=True)
class Touch(Instruction):
    """Set the deadline of the instance to now plus timeout number `timeout` of its layer."""

    timeout: Expr = read()


@effects(reads=(R.INSTANCE,), writes=(R.INSTANCE,), instance=True)
class SwapSides(Instruction):
    """Swap the active and the passive side of the instance. `target` is the packet's side afterwards."""

    target: Reg = write()
    side: Expr = read()


@effects(instance=True)
class RecallKey(Instruction):
    """Part number `part` of the instance's key, as packets of `side` have it in the selector's first list.

    An instance that is not stored has no key: the register keeps its value.
    """

    target: Reg = write()
    side: Expr = read()
    part: int


@effects(writes=(R.OUTSIDE,))
class PathKey(Instruction):
    """A key that the packet's path uses, in the name space `space`; with `reverse`, in either order. `use` is "stored"
    for one that finds instances, "passing" for one of a packet that stores none, "further" for a further key that may
    find an instance, and "added" for one that an instance gets. Only in path graphs.
    """

    use: str
    space: str
    key: tuple[Expr, ...] = read()
    reverse: tuple[Expr, ...] = read()
