"""Accounting while it runs: samples of each container's cost, for programs and for `sluice isolate watch`.

with Session() as session:
    while True:
        session.wait(1.0)
        for usage in session.sample().containers:
            print(usage.container.name, usage.counters.charged)
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sluice.isolate.accounting import HOST, IDLE, MAX_CONTAINERS, Accounting, Counters, Snapshot
from sluice.isolate.cgroups import Hierarchy, find_hierarchy
from sluice.isolate.containers import Container, Containers
from sluice.isolate.interrupts import MILLISECONDS, InterruptCost, measure
from sluice.isolate.support import Limit, limits

_STEP = 0.1
"""Seconds after which a container that appeared is noticed, as soon as it runs."""
_LONGER = (3, 9)
"""Factors of time by which the cost of an interrupt is measured again, when too few could be measured."""
_CACHED = 4096
"""Cgroups that the programs may have cached before their table is cleared of them: a quarter of it."""
_LISTED = 256
"""Containers that have ended and are still listed one by one."""


@dataclass(frozen=True)
class Usage:
    """The cost of a container."""

    container: Container
    counters: Counters
    ended: bool
    """It was removed: this is its last sample."""


@dataclass(frozen=True)
class Sample:
    """The cost of all since the sample before, or since the start of the session."""

    time: float
    """Seconds since the start of the session."""
    seconds: float
    """How long it covers."""
    cpus: int
    """CPUs that were accounted."""
    containers: list[Usage]
    host: Counters
    """All that is in no container: system services, ksoftirqd, network work of no container."""
    idle: Counters
    earlier: Counters = field(default_factory=Counters)
    """Of a total: containers that ended long ago, of which only the sum is known."""

    @property
    def accounted(self) -> float:
        """The sum of all charges, as a share of the time that passed on all CPUs: 1 but for errors of reading."""
        rows = [*(usage.counters for usage in self.containers), self.host, self.idle, self.earlier]
        return sum(row.charged for row in rows) / 1e9 / max(self.seconds * self.cpus, 1e-9)


def _measured(accounting: Accounting) -> InterruptCost:
    """The cost of an interrupt; on a machine under load more time passes until enough of them were measured."""
    cost = measure(accounting)
    for factor in _LONGER:
        if not cost.why_not or cost.samples == 0:
            break
        cost = measure(accounting, factor * MILLISECONDS)
    return cost


class Session:
    """Loads the programs, finds containers, and samples. Use as a context: nothing stays in the kernel afterwards.

    patterns: paths of cgroups that are containers, as of a shell; without, those that container engines make, and
    others with tasks outside of systemd's own.
    interrupt_ns: the hidden cost of an interrupt; None measures it, which uses most of a second of one CPU.
    hierarchy: in which cgroups are looked for; by default, where the cpu controller is.
    Raises IsolateError if accounting is not possible here.
    """

    def __init__(
        self,
        patterns: Sequence[str] = (),
        max_containers: int = MAX_CONTAINERS,
        interrupt_ns: int | None = None,
        hierarchy: Hierarchy | None = None,
    ) -> None:
        self.hierarchy = hierarchy or find_hierarchy()
        self.accounting = Accounting(self.hierarchy.is_v1, max_containers)
        try:
            given = interrupt_ns is not None
            self.interrupt_cost = InterruptCost(interrupt_ns, 0, 1) if given else _measured(self.accounting)
            self.accounting.control.interrupt_ns = self.interrupt_cost.hidden_ns
            self.containers = Containers(self.accounting, self.hierarchy, patterns)
            self.stopped = False
            self._gone: list[Container] = []
            self._ended: deque[Usage] = deque()
            self._earlier = Counters()
            self._seen_cgroups = -1
            self._forgotten = 0
            self.look()
            self._first = self._last = self.accounting.snapshot()
        except BaseException:
            self.accounting.close()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach the programs from the kernel."""
        self.accounting.close()

    @property
    def limits(self) -> list[Limit]:
        """Limitations of the machine, and the remaining functions."""
        found = limits(self.hierarchy, self.accounting.missing, self.interrupt_cost)
        if self.containers.sockets_refused:
            remains = "in a shared network namespace received packets are its first container's, or the host's"
            found.append(Limit(self.containers.sockets_refused, remains))
        return found

    @property
    def losses(self) -> dict[str, int]:
        """Why figures may be less exact than they can be, by reason: 0 in normal operation."""
        control = self.accounting.control
        return {
            "containers without a slot (--max-containers)": len(self.containers.untracked),
            "cgroups that did not fit into the table": control.cgroups_full,
            "softirqs whose end was not seen": control.unfinished,
            "packets of a poll with too many containers": control.crowded,
            "CPUs that could not be read to the last sample's time": self._last.skipped - self._first.skipped,
        }

    def stop(self) -> None:
        """Make wait() return; may be called from a signal handler."""
        self.stopped = True

    def look(self) -> None:
        """Find containers that were added and removed."""
        self._seen_cgroups = self.accounting.control.new_cgroups
        if self._seen_cgroups - self._forgotten > _CACHED:  # of services that came and went, with no container
            self._forgotten = self._seen_cgroups
            self.accounting.forget()
        self._gone += self.containers.refresh()

    def wait(self, seconds: float) -> None:
        """Wait until the next sample is due, or stop() is called. A container that appears meanwhile is found when its
        first task runs.
        """
        end = time.monotonic() + seconds
        while not self.stopped and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _STEP))
            if self.accounting.control.new_cgroups != self._seen_cgroups:
                self.look()

    def sample(self) -> Sample:
        """The cost of all since the last sample."""
        self.look()
        before, now = self._last, self.accounting.snapshot()
        sample = self._between(before, now, self._gone)
        self._ended.extend(self._usages(Snapshot(0, {}, 0), now, self._gone, ended=True))
        while len(self._ended) > _LISTED:
            self._earlier += self._ended.popleft().counters
        self.containers.release(self._gone)
        self._gone = []
        self._last = Snapshot(
            now.time, {slot: now.slots[slot] for slot in (HOST, IDLE, *self.containers.current)}, now.skipped
        )
        return sample

    def total(self) -> Sample:
        """The cost of all since the start, up to the last sample, ended containers among them."""
        start = self._first
        # containers began to count at their first sight, some of them in a slot that another one had at the start
        begin = Snapshot(start.time, {slot: start.slots[slot] for slot in (HOST, IDLE)}, start.skipped)
        whole = self._between(begin, self._last, [])
        return replace(whole, containers=[*whole.containers, *self._ended], earlier=self._earlier)

    def _between(self, before: Snapshot, now: Snapshot, gone: Sequence[Container]) -> Sample:
        current = self._usages(before, now, list(self.containers.current.values()), ended=False)
        return Sample(
            now.time - self._first.time,
            now.time - before.time,
            self.accounting.cpus - now.skipped,
            current + self._usages(before, now, gone, ended=True),
            now.slots[HOST] - before.slots[HOST],
            now.slots[IDLE] - before.slots[IDLE],
        )

    @staticmethod
    def _usages(before: Snapshot, now: Snapshot, containers: Sequence[Container], ended: bool) -> list[Usage]:
        return [
            Usage(one, now.slots[one.slot] - before.slots.get(one.slot, Counters()), ended)
            for one in containers
            if one.slot in now.slots
        ]
