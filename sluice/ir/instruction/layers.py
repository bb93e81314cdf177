"""Instructions that lead out of a layer: events, other layers, native functions, counters."""

from __future__ import annotations

from sluice.ir.expression import Expr, Reg
from sluice.ir.instruction.declaration import Instruction, R, effects, read, write


@effects(writes=(R.OUTSIDE,), reads=(R.CONTEXT,))
class Call(Instruction):
    """Emit `event` to its subscribers with `values`, its fields in order. `side` is the sender's."""

    event: str
    side: Expr = read()
    values: tuple[Expr, ...] = read()


@effects(reads=(R.OUTSIDE,))
class Dropped(Instruction):
    """Whether a function has dropped the packet so far."""

    target: Reg = write()


@effects(reads=(R.CONTEXT, R.COUNTERS))
class TooDeep(Instruction):
    """Whether the maximum number of layers is nested for one of `layer`. A packet for it is then counted and goes no
    further.
    """

    target: Reg = write()
    layer: str


@effects(writes=(R.COUNTERS,))
class SpendRecord(Instruction):
    """Count a record, and `parts` of lists in it, towards what packets may have on average."""

    parts: Expr = read()


@effects(reads=(R.PACKET, R.CONTEXT))
class Pad(Instruction):
    """A copy of what was captured of `data`, filled up with ones to `size` captured bytes.

    It lasts as long as the packet's turn; where there is no memory for it, `data` itself.
    """

    target: Reg = write()
    data: Expr = read()
    size: int


@effects(reads=(R.CONTEXT,), runs=True)
class NextLayer(Instruction):
    """Run the graph of `layer` on `sdu`."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True, instance=True, sequence=True)
class NextOfSide(NextLayer):
    """Run the graph of `layer`, which has no instances of its own, on `sdu`, bytes of `side` of the instance."""

    side: Expr = read()


@effects(reads=(R.CONTEXT,), writes=(R.CONTEXT, R.CACHE))
class LookAhead(Instruction):
    """Run the lookahead graph of `layer` on `sdu`. Only in lookahead graphs."""

    layer: str
    sdu: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True, instance=True, sequence=True)
class NextMessages(NextLayer):
    """Add `sdu`, at `offset` of the side's stream, to the layer's messages, and run the graph of `layer` on each
    complete message.

    If too many layers are nested, the bytes are a gap in the stream.
    """

    side: Expr = read()
    offset: Expr = read()


@effects(reads=(R.CONTEXT,), runs=True)
class CutMessages(NextLayer):
    """Split `sdu` into consecutive messages, and run the graph of `layer` on each. The `lost` graph of `layer` runs for
    a rest that forms no message. `side` is that of the packet.
    """

    side: Expr = read()


@effects(writes=(R.SEQUENCE,), instance=True, sequence=True)
class LoseMessages(Instruction):
    """The side's stream has a gap up to stream offset `end`: a partial message is discarded, and the start of the next
    message is unknown.
    """

    side: Expr = read()
    end: Expr = read()


@effects(runs=True, instance=True, sequence=True)
class CloseMessages(Instruction):
    """The side's stream ends. Runs the `lost` graph of `layer` if this layer took the side's last messages and a
    partial message, or a loss without an event so far, remains.
    """

    layer: str
    side: Expr = read()


@effects(reads=(R.NATIVE,), writes=(R.NATIVE,))
class CallNative(Instruction):
    """Call `function` of the native module `module` with `inputs`. It sets `outputs` and `sdu`.

    The function gets the module's state for the instance with number `context`; with `begins`, the state is created,
    zeroed, if there is none. `reason` is 0 or, when the function refused, 1 + the index of its reason. In that case the
    outputs are 0 and there is no SDU.
    """

    reason: Reg = write()
    sdu: Reg = write()
    outputs: tuple[Reg, ...] = write()
    module: str
    function: str
    begins: int
    context: Expr = read()
    inputs: tuple[Expr, ...] = read()


@effects(reads=(R.NATIVE,), writes=(R.NATIVE,))
class EndNative(Instruction):
    """Free the state of the native module `module` for the instance with number `context`. Only in end graphs."""

    module: str
    context: Expr = read()


@effects(writes=(R.COUNTERS,))
class Count(Instruction):
    """Add one to a counter of the layer."""

    counter: str
