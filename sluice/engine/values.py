"""Names for numeric values of events (states, reasons)."""

from __future__ import annotations

from sluice.ir.graph import EventShape, LayerProgram
from sluice.lang.events import NAMED_VALUES


def value_names(layer: LayerProgram, shape: EventShape, value: str) -> tuple[str, ...] | None:
    """The names that a value of an event indexes; None if the value is a plain number or bytes."""
    if shape.callback:
        return None
    if shape.name == "state":
        return tuple(state.name for state in layer.states)
    if value == "reason" and shape.reasons:
        return shape.reasons
    return NAMED_VALUES.get((shape.name, value))
