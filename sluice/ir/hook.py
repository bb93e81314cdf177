"""A subscription to an event of a program. Lowering emits only events that have a subscriber."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hook:
    """A subscription to event `event` of the layer or parser called `layer` (`*`: of every layer)."""

    layer: str
    event: str
