"""A subscription to an event of a program. Lowering emits only events that have a subscriber."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hook:
    """A subscription to event `event` of the layer or parser called `layer` (`*`: of every layer)."""

    layer: str
    event: str


def needs_name(event: str) -> bool:
    """Whether hooks of all layers do not mean this event of layers without instances. Those process packets in stage 1
    where nothing must see them in order; a hook that names such a layer gives that up.
    """
    return event == "packet"
