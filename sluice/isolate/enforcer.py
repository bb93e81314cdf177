"""The controller: charges containers by their quota, and drops their packets once it is used.

with Enforcer() as enforcer:
    while True:
        enforcer.wait(1.0)
        for state in enforcer.sample().states:
            print(state.name, state.balance, state.dropped)

A container has the kernel's own limit as long as the network costs it, and others for it, next to nothing. After that,
this process refills its quota every tick from its ledger, and opens and closes its gates.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from sluice.isolate.accounting import MAX_CONTAINERS, Counters
from sluice.isolate.build import compiled_drop
from sluice.isolate.cgroups import Hierarchy, processes
from sluice.isolate.containers import Container
from sluice.isolate.errors import IsolateError
from sluice.isolate.gates import Dropped, Gates
from sluice.isolate.ledger import BOUND, Gate, Ledger, Pacer
from sluice.isolate.quota import GoneError, Limit, Quota
from sluice.isolate.restore import FOLDER, Record, Restored, Watchdog, restore
from sluice.isolate.session import Sample, Session

TICK = 0.02
"""Seconds between two decisions, by default."""
EARLY = 10
"""Percent of its quota below which a container's packets are dropped early, by default."""
_NEGLIGIBLE = 1000
"""A container is taken over once the network moves more than this part of its quota in a period."""
_QUIET = 100
"""Periods with less after which its ordinary limit is restored."""
_OPEN_AFTER = 10
"""Ticks without a decision after which gates open."""
_PROCESSES = 32
_PRIORITY = -20
"""Of the controller, where it may set it: containers that use all of the CPUs must not delay its decisions."""


@dataclass(frozen=True)
class State:
    """A container with a limit, at the time of a sample."""

    container: Container
    limit: Limit
    taken: bool
    """Its quota is refilled by the controller; else the kernel's own limit holds."""
    ledger: Ledger
    reason: str
    """Why its packets are dropped now; empty if they are not."""
    places: list[str]
    """Where they are."""
    refused: dict[str, str]
    """Where they cannot be, and why."""
    dropped: dict[str, Dropped]
    """By reason, since the sample before."""
    closed_ns: dict[str, int]
    """Time in which the decision was to drop, by reason."""
    throttled_ns: int
    """Time in which the kernel throttled it."""


@dataclass(frozen=True)
class Enforcement:
    """A sample of all containers, and the states of those with a limit."""

    sample: Sample
    states: list[State]
    unlimited: list[str]
    """Containers without a limit: they are accounted only."""
    failed: dict[str, str]
    """Containers whose limit cannot be written, and why."""


@dataclass
class _Totals:
    dropped: dict[str, Dropped] = field(default_factory=dict[str, Dropped])
    closed_ns: dict[str, int] = field(default_factory=dict[str, int])
    throttled_ns: int = 0


class _Enforced:
    """One container with a limit."""

    def __init__(self, container: Container, quota: Quota, limit: Limit, gates: Gates | None, now: int) -> None:
        self.container = container
        self.quota = quota
        self.limit = limit
        self.gates = gates
        self.gate = Gate()
        self.ledger = Ledger(limit.quota_us * 1000)
        self.pacer = Pacer()
        self.taken = False
        self.reason = ""
        self.counters: Counters | None = None
        self.period_end = now + limit.period_us * 1000
        self.preempted = 0
        self.moved = 0
        """What the network moved in this period, in either direction."""
        self.quiet = 0
        self.closed: dict[str, int] = {}
        self.last = _Totals()

    def totals(self) -> _Totals:
        dropped = self.gates.dropped() if self.gates else {}
        return _Totals(dropped, dict(self.closed), self.quota.throttled())


class Enforcer:
    """Accounts as a Session does, and enforces. Use as a context: limits are restored at the end.

    dry_run: decide, and change nothing. mode: of MODES, where packets are dropped. early: see Gate. tick: seconds
    between decisions. state_folder: where ordinary limits are kept for the case that this process is killed.
    Raises IsolateError if accounting is not possible here, or if another controller uses the folder.
    """

    def __init__(
        self,
        patterns: Sequence[str] = (),
        mode: str = "auto",
        dry_run: bool = False,
        early: int = EARLY,
        tick: float = TICK,
        max_containers: int = MAX_CONTAINERS,
        interrupt_ns: int | None = None,
        hierarchy: Hierarchy | None = None,
        state_folder: Path = FOLDER,
    ) -> None:
        self.mode = mode
        self.dry_run = dry_run
        self.tick_seconds = tick
        self.late = 0
        """Periods that passed without a decision."""
        self.found: Restored | None = None
        """What an earlier controller left, and was restored at the start."""
        self._early = early
        self._record: Record | None = None
        self._watchdog: Watchdog | None = None
        self._enforced: dict[int, _Enforced] = {}
        self._unlimited: set[str] = set()
        self._failed: dict[str, str] = {}
        self._known: set[tuple[int, str]] = set()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        try:
            if not dry_run:
                self._record = Record(state_folder)
                self.found = restore(state_folder)
                self._watchdog = Watchdog(state_folder)
            if mode != "none":
                compiled_drop()  # now, and not when traffic is there already
            self.session = Session(patterns, max_containers, interrupt_ns, hierarchy)
        except BaseException:
            self._end_record()
            raise
        try:
            self.hierarchy = self.session.hierarchy
            self._follow()
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Enforcer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Restore all limits, and take the programs out of the kernel."""
        for one in list(self._enforced.values()):
            self._drop(one)
        self._enforced.clear()
        self.session.close()
        self._end_record()

    def _end_record(self) -> None:
        if self._watchdog is not None:
            self._watchdog.end()
            self._watchdog = None
        if self._record is not None:
            self._record.close()
            self._record = None

    # containers

    def _follow(self) -> None:
        """Follow the containers of the session, and changes of their limits and interfaces."""
        current = self.session.containers.current
        for slot in [slot for slot, one in self._enforced.items() if current.get(slot) is not one.container]:
            self._drop(self._enforced.pop(slot))
        self._unlimited &= {container.name for container in current.values()}
        for name in self._failed.keys() - {container.name for container in current.values()}:
            del self._failed[name]
        for slot, container in current.items():
            if slot not in self._enforced and container.name not in self._failed:
                self._adopt(slot, container)
        self._refresh_gates()

    def _adopt(self, slot: int, container: Container) -> None:
        try:
            quota = Quota(self.hierarchy.folder / container.cgroup.path, self.hierarchy.is_v1)
        except GoneError:
            return
        except IsolateError as error:
            self._failed[container.name] = str(error)
            return
        limit = quota.read()
        if limit is None:
            quota.close()
            self._unlimited.add(container.name)
            return
        self._unlimited.discard(container.name)
        gates = None if self.dry_run or self.mode == "none" else Gates(self.mode, self.session.accounting.cpus)
        one = _Enforced(container, quota, limit, gates, time.monotonic_ns())
        one.gate = Gate(self._early)
        one.counters = self.session.accounting.read(slot)
        one.preempted = one.counters.preempted
        one.last = one.totals()
        self._enforced[slot] = one

    def _begin(self) -> None:
        """Time begins now: the programs have been attached, which takes seconds on a machine under load."""
        self._last_tick = time.monotonic_ns()
        for slot, one in self._enforced.items():
            one.counters = self.session.accounting.read(slot)
            one.preempted = one.counters.preempted
            one.period_end = self._last_tick + one.limit.period_us * 1000

    def _drop(self, one: _Enforced) -> None:
        self._release(one)
        if one.gates:
            one.gates.close()
        one.quota.close()

    def _refresh_gates(self) -> None:
        places = [one.namespaces for one in self.session.containers.current.values()]
        shared = frozenset(
            inode for inodes in places for inode in inodes if sum(inode in other for other in places) > 1
        )
        for one in self._enforced.values():
            if one.gates:
                found = islice(processes(one.quota.folder, below=True), _PROCESSES)
                one.gates.refresh(found, one.container.namespaces, shared)

    def _take(self, one: _Enforced) -> None:
        """The container's quota is the controller's from now on."""
        one.ledger = Ledger(one.limit.quota_us * 1000)
        one.pacer = Pacer(one.ledger.runtime)
        one.taken = True
        one.quiet = 0
        if self._record is None:
            return
        try:
            self._record.keep(one.quota, one.limit)
            one.quota.take_over(one.ledger.runtime // 1000)
        except IsolateError as error:
            self._failed[one.container.name] = str(error)
            self._release(one)

    def _release(self, one: _Enforced) -> None:
        """The container has its ordinary limit again."""
        if one.gates:
            one.gates.set("", 0)
        one.reason = ""
        if one.taken and self._record is not None:
            try:
                one.quota.restore(one.limit)
            except GoneError:
                pass
            except IsolateError as error:
                self._failed[one.container.name] = str(error)
                return  # it stays in the record: the next start tries again
            self._record.forget(one.quota.folder)
        one.taken = False

    # time

    def wait(self, seconds: float) -> None:
        """Decide every tick, until the next sample is due or the session is stopped."""
        end = time.monotonic() + seconds
        while not self.session.stopped and (left := end - time.monotonic()) > 0:
            before = set(self.session.containers.current)
            self.session.wait(min(left, self.tick_seconds))
            if set(self.session.containers.current) != before:
                self._follow()
            self.tick()

    def tick(self) -> None:
        """Charge and decide, from what was accounted up to now."""
        now = time.monotonic_ns()
        if self._watchdog is not None:
            self._watchdog.beat()
        passed, self._last_tick = now - self._last_tick, now
        for slot, one in list(self._enforced.items()):
            try:
                self._decide(slot, one, now, passed)
            except GoneError:
                one.taken = False
                if self._record is not None:
                    self._record.forget(one.quota.folder)
                self._drop(self._enforced.pop(slot))
            except IsolateError as error:
                self._failed[one.container.name] = str(error)
                self._drop(self._enforced.pop(slot))

    def _decide(self, slot: int, one: _Enforced, now: int, passed: int) -> None:
        counters = self.session.accounting.read(slot)
        assert one.counters is not None
        used, one.counters = counters - one.counters, counters
        one.moved += used.by_others + used.for_others
        if not one.taken:
            if one.moved * _NEGLIGIBLE <= one.ledger.quota:
                self._end_quiet_period(one, now)
                return
            if not self._still_ours(one):
                return
            self._take(one)
        one.ledger.use(used.run, used.for_others, used.by_others)
        self._end_periods(one, now)
        if one.quiet >= _QUIET and 0 <= one.ledger.balance <= one.ledger.quota:
            self._release(one)
            return
        if self._record is not None:
            if not self._still_ours(one):
                return
            slice_ns = one.pacer.decide(one.ledger.runtime, used.run)
            if slice_ns is not None:
                one.quota.refill(slice_ns // 1000)
        if one.reason:
            one.closed[one.reason] = one.closed.get(one.reason, 0) + passed
        one.reason = one.gate.decide(one.ledger, used.charged, used.network)
        if one.gates:
            one.gates.set(one.reason, now + round(_OPEN_AFTER * self.tick_seconds * 1e9))

    def _end_quiet_period(self, one: _Enforced, now: int) -> None:
        if now >= one.period_end:
            one.period_end = now + one.limit.period_us * 1000
            one.moved = 0

    def _end_periods(self, one: _Enforced, now: int) -> None:
        assert one.counters is not None
        period = one.limit.period_us * 1000
        ended = 0
        while now >= one.period_end:
            if ended == BOUND:
                missed = 1 + (now - one.period_end) // period
                self.late += missed
                one.period_end += missed * period
                break
            one.ledger.end_period(one.counters.preempted == one.preempted)
            one.period_end += period
            ended += 1
        if ended:
            one.preempted = one.counters.preempted
            one.quiet = one.quiet + ended if one.moved * _NEGLIGIBLE <= one.ledger.quota else 0
            one.moved = 0
            self.late += ended - 1

    def _still_ours(self, one: _Enforced) -> bool:
        """Whether the limit is what it was. One that another program has set becomes the ordinary limit."""
        limit = one.quota.changed(one.limit) if one.taken else one.quota.read()
        if limit == one.limit:
            return True
        one.taken = False
        if self._record is not None:
            self._record.forget(one.quota.folder)
        if limit is None:
            self._drop(self._enforced.pop(one.container.slot))
            self._unlimited.add(one.container.name)
            return False
        one.limit = limit
        one.ledger.change_quota(limit.quota_us * 1000)
        one.quota.restore(limit)
        return False

    # samples

    def sample(self) -> Enforcement:
        """What all cost and what was dropped since the last sample."""
        states = [self._state(one) for one in self._enforced.values()]
        sample = self.session.sample()
        self._follow()
        return Enforcement(sample, states, sorted(self._unlimited), dict(self._failed))

    def _state(self, one: _Enforced) -> State:
        totals = one.totals()
        before, one.last = one.last, totals
        return State(
            one.container,
            one.limit,
            one.taken,
            one.ledger,
            one.reason,
            sorted(one.gates.places.values()) if one.gates else [],
            dict(one.gates.refused) if one.gates else {},
            {reason: found - before.dropped.get(reason, Dropped()) for reason, found in totals.dropped.items()},
            {reason: found - before.closed_ns.get(reason, 0) for reason, found in totals.closed_ns.items()},
            totals.throttled_ns - before.throttled_ns,
        )
