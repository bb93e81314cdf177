"""What a running box has done so far, as plain data: for metrics, `sluice top`, and a summary before the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from sluice.engine.box import Box, Outcome

VERSION = 1
"""Of the form of a snapshot."""


@dataclass
class Snapshot:
    """Numbers since the run began, but for `time`, in seconds since 1970.

    received: of the interfaces, as in Outcome. layers: counters by layer ("box" for the whole box). workers: of each
    thread `packets`, `busy` and `longest` (seconds with packets, and the longest time without a look for new ones).
    functions: what they count, by function.
    """

    time: float
    seconds: float
    stack: str
    packets: int
    received: dict[str, int]
    layers: dict[str, dict[str, int]]
    workers: list[dict[str, float]]
    functions: dict[str, dict[str, int]]

    def as_json(self) -> dict[str, Any]:
        """The form that a box answers requests with."""
        return {"version": VERSION, **vars(self)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Snapshot:
        """The reverse. Raises ValueError for another version."""
        if given.get("version") != VERSION:
            raise ValueError(f"version {given.get('version')}: this sluice reads {VERSION}")
        return cls(**{name: value for name, value in given.items() if name != "version"})

    def outcome(self) -> Outcome:
        """The same in the form of a run's result, for a summary."""
        reports = {name: value for counted in self.functions.values() for name, value in counted.items()}
        workers = [int(one["packets"]) for one in self.workers] if len(self.workers) > 1 else []
        return Outcome(
            self.packets, self.layers, reports, seconds=self.seconds, received=self.received, by_worker=workers
        )


@dataclass
class Observed:
    """A box that is observed. `take` is called by the thread that drives it."""

    box: Box
    begin: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.box.measure()

    def take(self) -> Snapshot:
        """Its numbers so far."""
        box = self.box
        received = box.source.statistics() if box.source is not None else {}
        if box.forwarding is not None:
            received |= box.forwarding.counted()
        workers = [
            {"packets": one.packets, "busy": one.nanoseconds / 1e9, "longest": one.longest / 1e9} for one in box.busy
        ]
        return Snapshot(
            time.time(),
            time.monotonic() - self.begin,
            box.stack.program.name,
            box.packets,
            received,
            box.counters(),
            workers,
            box.function_counters(),
        )
