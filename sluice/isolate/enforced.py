"""One container with a limit, while it is enforced."""

from __future__ import annotations

import contextlib
from copy import copy
from dataclasses import dataclass, field

from sluice.isolate.accounting import Counters
from sluice.isolate.containers import Container
from sluice.isolate.gates import Dropped, Gates
from sluice.isolate.ledger import BOUND, Gate, Ledger, Pacer
from sluice.isolate.nic import NicGate
from sluice.isolate.quota import OUR_PERIOD, GoneError, Limit, Quota
from sluice.isolate.restore import Record

_NEGLIGIBLE = 1000
"""A container is taken over once the network moves more than this part of its quota in a period."""
_QUIET = 100
"""Periods with less after which it has its ordinary limit again."""


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
    refused: dict[tuple[int, int], str]
    """Where they cannot be, by namespace and interface, and why."""
    dropped: dict[str, Dropped]
    """By reason, since the sample before."""
    closed_ns: dict[str, int]
    """Time for which the decision was to drop, by reason, since the sample before."""
    throttled_ns: int
    """Time for which the kernel throttled it since the sample before."""


@dataclass
class _Totals:
    dropped: dict[str, Dropped] = field(default_factory=dict[str, Dropped])
    closed_ns: dict[str, int] = field(default_factory=dict[str, int])
    throttled_ns: int = 0


class Enforced:
    """Charges one container, and decides.

    gates: None where packets are not dropped. record: None decides, and changes nothing. nic: its gate at interfaces of
    the host, if there is one.
    All methods raise GoneError if the cgroup is removed, and IsolateError if the kernel refuses a limit.
    """

    def __init__(
        self,
        container: Container,
        quota: Quota,
        limit: Limit,
        gates: Gates | None,
        gate: Gate,
        record: Record | None,
        nic: NicGate | None = None,
    ) -> None:
        self.container = container
        self.quota = quota
        self.limit = limit
        self.gates = gates
        self.nic = nic
        self.taken = False
        self.ledger = Ledger(limit.quota_us * 1000)
        self.missed = 0
        """Periods that passed without a decision: the controller did not run."""
        self._gate = gate
        self._record = record
        self._pacer = Pacer()
        self._reason = ""
        self.counters = Counters()
        """All that its slot had counted at the last decision."""
        self._period_end = 0
        self._preempted = 0
        self._moved = 0
        """Nanoseconds charged for the network in this period, in either direction."""
        self._quiet = 0
        self._closed: dict[str, int] = {}
        self._last = self._totals()

    def begin(self, counters: Counters, now: int) -> None:
        """Charge from here on."""
        self.counters = counters
        self._preempted = counters.preempted
        self._period_end = now + self.limit.period_us * 1000

    def close(self) -> None:
        """Restore the ordinary limit, and detach the programs from the kernel."""
        try:
            self.release()
        finally:
            for gate in self._gates():
                gate.close()
            self.quota.close()

    def decide(self, counters: Counters, now: int, passed: int, open_after: int) -> bool:
        """Charge the accounts up to now, refill, and open or close the gates.

        counters: all that its slot has counted. passed: ns since the last decision. open_after: ns after which gates
        open without another decision. Returns False if another program has removed the limit.
        """
        used, self.counters = counters - self.counters, counters
        self._moved += used.by_others + used.for_others
        if not self.taken and self._moved * _NEGLIGIBLE <= self.ledger.quota:
            if now >= self._period_end:
                self._end_periods(now)
            return True
        if not self._follow_limit():
            return False
        if not self.taken:
            self._take()
        self.ledger.use(used.run, used.for_others, used.by_others)
        self._end_periods(now)
        if self._quiet >= _QUIET and 0 <= self.ledger.balance <= self.ledger.quota:
            self.release()
            return True
        slice_ns = self._pacer.decide(self._slice(), used.run)
        if slice_ns is not None and self._record is not None:
            self.quota.refill(slice_ns // 1000)
        if self._reason:
            self._closed[self._reason] = self._closed.get(self._reason, 0) + passed
        self._reason = self._gate.decide(self.ledger, used.charged, used.network)
        for gate in self._gates():
            gate.set(self._reason, now + open_after)
        return True

    def _end_periods(self, now: int) -> None:
        period = self.limit.period_us * 1000
        ended = max(0, 1 + (now - self._period_end) // period)
        self._period_end += ended * period
        if not ended:
            return
        self.missed += ended - 1
        if self.taken:  # runtime of more periods than the bound would lapse
            for _ in range(min(ended, BOUND)):
                self.ledger.end_period(self.counters.preempted == self._preempted)
        self._preempted = self.counters.preempted
        self._quiet = self._quiet + ended if self._moved * _NEGLIGIBLE <= self.ledger.quota else 0
        self._moved = 0

    def _follow_limit(self) -> bool:
        """A limit that another program has set becomes the ordinary one; False if it was removed."""
        if self.taken and (self._record is None or self.quota.is_as_written()):
            return True
        limit = self.quota.set_by_others(self.limit)
        if limit is None:
            if self.taken and self._record is not None:
                self.quota.lift(self.limit)
                self._record.forget(self.quota.folder)
            self.taken = False
            return False
        self.limit = limit
        self.ledger.quota = limit.quota_us * 1000
        if self.taken:
            self._take_over()
        return True

    def _take(self) -> None:
        self.ledger = Ledger(self.limit.quota_us * 1000)
        self.taken = True
        self._quiet = 0
        self._take_over()

    def _take_over(self) -> None:
        """The container's quota is the controller's from now on; its ordinary limit is recorded first."""
        slice_ns = self._slice()
        self._pacer = Pacer(max(0, slice_ns))
        if self._record is not None:
            self._record.keep(self.quota, self.limit)
            self.quota.take_over(slice_ns // 1000)

    def _slice(self) -> int:
        """The time it may run until the next decision. With credit of many periods this is no more than its
        ordinary limit allows in ours: cgroup v1 refuses more than a parent, for instance a pod, has.
        """
        return min(self.ledger.runtime, 1000 * self.limit.quota_us * OUR_PERIOD // self.limit.period_us)

    def release(self) -> None:
        """The container has its ordinary limit again. If the kernel refuses it, it stays in the record."""
        for gate in self._gates():
            gate.set("", 0)
        self._reason = ""
        if self.taken and self._record is not None:
            with contextlib.suppress(GoneError):
                self.quota.restore(self.limit)
            self._record.forget(self.quota.folder)
        self.taken = False

    def _gates(self) -> list[Gates | NicGate]:
        return [gate for gate in (self.gates, self.nic) if gate is not None]

    def _totals(self) -> _Totals:
        dropped: dict[str, Dropped] = {}
        for gate in self._gates():
            for reason, one in gate.dropped().items():
                dropped[reason] = dropped.get(reason, Dropped()) + one
        return _Totals(dropped, dict(self._closed), self.quota.throttled())

    def state(self) -> State:
        """Its current state, and the changes since the last call."""
        before, self._last = self._last, self._totals()
        now = self._last
        return State(
            self.container,
            self.limit,
            self.taken,
            copy(self.ledger),
            self._reason,
            [*sorted(self.gates.places.values() if self.gates else ()), *(self.nic.places if self.nic else ())],
            dict(self.gates.refused) if self.gates else {},
            {reason: found - before.dropped.get(reason, Dropped()) for reason, found in now.dropped.items()},
            {reason: found - before.closed_ns.get(reason, 0) for reason, found in now.closed_ns.items()},
            max(0, now.throttled_ns - before.throttled_ns),  # 0 if the cgroup has been removed
        )
