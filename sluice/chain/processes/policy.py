"""Policies: when the instances of a function become more or fewer, and which of them is a straggler (CHC, 3.3.2).

The vertex manager of a function calls its policy again and again, with its instances' activity since the last call. A
policy is a function of the user's, or one of READY. It decides; the manager moves traffic, and clones stragglers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from sluice.chain.processes.clone import clone
from sluice.chain.processes.instances import StateError
from sluice.chain.processes.memory import SLOTS
from sluice.chain.processes.process import Process
from sluice.chain.processes.running import Running
from sluice.chain.processes.scale import scale
from sluice.engine.box import RunError
from sluice.lang.userfile import execute

INTERVAL = 1.0
"""Seconds between calls of a policy."""
UNEVEN = 1.5
"""Traffic is divided again if an instance has more than so many times the mean load."""
PER_SECOND = 100_000.0
"""Packets a second that one instance gets, at most, by the policy `load`."""
WAITING = SLOTS // 2
"""Batches that wait for an instance which lags, by the policy `lag`."""


@dataclass(frozen=True)
class Instance:
    """The activity of one instance since the last call.

    number: from 0. packets: that it got. parts: of 1024, of the traffic that is its own. waiting: batches of packets
    that it has not handled. handled: batches. flows: that it has now.
    """

    number: int
    packets: int
    parts: int
    waiting: int
    handled: int
    flows: int


@dataclass(frozen=True)
class Statistics:
    """A function's data for its vertex manager. seconds: since the last call. most: instances that there can be."""

    function: str
    seconds: float
    instances: tuple[Instance, ...]
    most: int

    @property
    def active(self) -> tuple[Instance, ...]:
        """Those that have traffic."""
        return tuple(one for one in self.instances if one.parts)


@dataclass(frozen=True)
class Decision:
    """A policy's decision. instances: share the traffic, which is divided again by the load so far; None: no change.
    stragglers: instances to be cloned.
    """

    instances: int | None = None
    stragglers: tuple[int, ...] = ()


Policy = Callable[[Statistics], Decision | None]


def load(per_second: float = PER_SECOND) -> Policy:
    """As many instances as are needed so that each gets at most so many packets a second; and divided evenly."""

    def decide(known: Statistics) -> Decision | None:
        packets = [one.packets for one in known.active]
        needed = max(1, min(known.most, -(-sum(packets) // max(1, round(per_second * known.seconds)))))
        fewer = needed < len(packets) and sum(packets) <= 0.8 * (len(packets) - 1) * per_second * known.seconds
        if needed > len(packets) or fewer:
            return Decision(needed)
        uneven = len(packets) > 1 and max(packets) * len(packets) > UNEVEN * sum(packets)
        return Decision(len(packets)) if uneven else None

    return decide


def lag(batches: float = WAITING) -> Policy:
    """An instance for which so many batches wait is a straggler if the others have less than half; if all of them lag,
    there is one more.
    """

    def decide(known: Statistics) -> Decision | None:
        slow = [one for one in known.active if one.waiting >= batches]
        others = [one for one in known.active if one.waiting < batches / 2]
        if slow and others and len(slow) < len(known.active):
            return Decision(stragglers=tuple(one.number for one in slow))
        return Decision(len(slow) + 1) if slow and len(slow) == len(known.active) < known.most else None

    return decide


def find_policy(text: str) -> Policy:
    """The policy that a text names: load, lag, load:PACKETS, lag:BATCHES, or FILE.py:FUNCTION. Raises ValueError, and
    exceptions of the file.
    """
    name, _, rest = text.rpartition(":")
    if name.endswith(".py"):
        found = vars(execute(Path(name))).get(rest) if Path(name).is_file() else None
        if not callable(found):
            raise ValueError(f"'{text}': there is no such file, or it has no function '{rest}'")
        return cast(Policy, found)
    name, _, number = text.partition(":")
    if name not in READY:
        raise ValueError(f"'{text}' is no policy: write {', '.join(READY)}, or FILE.py:FUNCTION")
    if not number:
        return READY[name]()
    if not number.isascii() or not number.isdigit() or not 0 < int(number) < 1 << 40:
        raise ValueError(f"'{text}': '{number}' is no number above 0")
    return READY[name](float(number))


READY: Mapping[str, Callable[..., Policy]] = {"load": load, "lag": lag}
"""By name; each takes a number."""


@dataclass
class Manager:
    """The vertex managers of a chain. policies: by function."""

    policies: Mapping[str, Policy]
    interval: float = INTERVAL
    clock: Callable[[], float] = time.monotonic
    decisions: int = 0
    _last: float | None = None
    _packets: dict[str, list[int]] = field(default_factory=lambda: {})
    _done: dict[int, int] = field(default_factory=lambda: {})
    _cloned: set[tuple[str, int | None]] = field(default_factory=lambda: set())
    """Stragglers whose clones have not caught up."""

    def advance(self, controller: Running) -> None:
        """Called again and again while the chain runs."""
        now = self.clock()
        if self._last is not None and now - self._last < self.interval:
            return
        first, seconds = self._last is None, now - (self._last or now)
        self._last = now
        for name, policy in self.policies.items():
            known = self.statistics(controller, name, seconds)
            if not first and seconds > 0:
                self._decide(controller, policy, known)

    def statistics(self, controller: Running, name: str, seconds: float) -> Statistics:
        """The activity of a function's instances since the last call."""
        packets = controller.instances.load(name)
        before = self._packets.get(name, [0] * len(packets))
        self._packets[name] = packets
        owned = controller.instances.owned(name)
        found = [self._instance(controller, process, owned, packets, before) for process in _of(controller, name)]
        free = controller.memory.count - sum(not process.removed for process in controller.processes)
        return Statistics(name, seconds, tuple(found), len(found) + free)

    def _instance(
        self,
        controller: Running,
        process: Process,
        owned: Mapping[int, list[int]],
        packets: list[int],
        before: list[int],
    ) -> Instance:
        number = process.part.number
        side, queue = controller.memory.functions[number], controller.memory.stack.queue[number]
        done, self._done[number] = self._done.get(number, 0), side.done
        parts = owned.get(process.part.instance or 0, [])
        return Instance(
            process.part.instance or 0,
            sum(packets[part] - before[part] for part in parts),
            len(parts),
            (queue.count - side.done) % (1 << 32),
            (side.done - done) % (1 << 32),
            side.flows,
        )

    def _decide(self, controller: Running, policy: Policy, known: Statistics) -> None:
        name = known.function
        try:
            decision = policy(known)
            stragglers = decision.stragglers if decision is not None else ()
            self._cloned -= {one for one in self._cloned if one[0] == name and one[1] not in stragglers}
            if decision is None:
                return
            if decision.instances is not None:
                wanted = max(1, min(known.most, int(decision.instances)))
                moved = scale(controller, name, wanted)
                self.decisions += moved > 0
                if moved:
                    controller.notify(
                        f"'{name}' has {wanted} instances by its policy; {moved} parts of its traffic move"
                    )
            for process in _of(controller, name):
                place = name, process.part.instance
                if process.part.instance not in stragglers or place in self._cloned:
                    continue
                if process.pid and process.clone is None and clone(controller, process):
                    self.decisions += 1
                    self._cloned.add(place)
        except (RunError, StateError, OSError) as error:
            controller.notify(f"warning: what the policy of '{name}' decided cannot be done: {error}")
        except Exception as error:  # of the user's function; the chain continues
            controller.notify(f"warning: the policy of '{name}' failed: {type(error).__name__}: {error}")


def _of(controller: Running, name: str) -> list[Process]:
    return [one for one in controller.processes if one.part.name == name and not one.removed and not one.ended]
