"""The C of a layer: all its functions. Importing this module registers the writers of all instructions."""

from __future__ import annotations

from sluice.codegen.c.writer import LayerWriter
from sluice.codegen.layer import effects, header, instance, sequence
from sluice.codegen.layer.messages import messages_functions
from sluice.codegen.stack_names import Counters, StackNames

INSTRUCTIONS = (header, instance, sequence, effects)
"""The modules that write instructions. Importing them registers their writers."""


def layer_text(writer: LayerWriter) -> list[str]:
    """All functions of a layer."""
    out = writer.functions()
    return out + messages_functions(writer) if writer.layer.frame is not None else out


__all__ = ["INSTRUCTIONS", "Counters", "LayerWriter", "StackNames", "layer_text"]
