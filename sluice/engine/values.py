"""The names that numbers in events stand for."""

from __future__ import annotations

from sluice.ir.graph import EventShape, LayerProgram
from sluice.lang.events import NAMED_VALUES


def value_names(layer: LayerProgram, shape: EventShape, value: str) -> tuple[str, ...] | None:
    """The names that a value of an event is a number of; None where it is a number as such, or bytes."""
    if shape.callback:
        return None
    if shape.name == "state":
        return tuple(state.name for state in layer.states)
    if value == "reason" and shape.reasons:
        return shape.reasons
    return NAMED_VALUES.get((shape.name, value))
