"""Which events a drop withholds from the functions after it in a chain: those of the packet, not those of its stream.

Bytes of a dropped packet remain part of the stream, unless it was dropped at `sent`. They may be delivered with a later
packet, and bytes of packets that passed may be delivered with the dropped one. Their event comes once: a function from
which it was withheld would have a hole, which a sender can cause on purpose.
"""

from __future__ import annotations

from sluice.ir.graph import LayerProgram, Program, layers_above

_OF_SEQUENCE = ("data", "gap", "lost", "unplaced")
"""Events of a sequence, which may be of the bytes of several packets."""


def stream_layers(program: Program) -> frozenset[str]:
    """The layers whose messages are cut from streams, and those above them."""
    of_streams = [name for name, layer in program.layers.items() if layer.of_streams]
    return frozenset(above for name in of_streams for above in layers_above(program.layers, name))


def is_withheld(layer: LayerProgram, root: str, streams: frozenset[str]) -> bool:
    """Whether a drop withholds an event of the stack. Ends of instances are no packet's. streams: stream_layers()."""
    if root == "end" or layer.name in streams:
        return False
    return not (layer.rules is not None and root in _OF_SEQUENCE)
