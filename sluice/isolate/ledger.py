"""The remaining time of a container: the thesis's runtime and gained (figures 2.7 and 2.8), in nanoseconds of CPU time.

All arithmetic is on integers, and nothing is dropped: at any time

    runtime + gained + lapsed = granted + forgiven - charged

where charged is the container's cost: `ran - for_others + by_others`, as accounting defines it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SLICE = 5_000_000
"""Credit that becomes runtime at a time: the kernel's sched_cfs_bandwidth_slice_us, by default."""
FLOOR = 1_000_000
"""The least quota that the kernel accepts."""
BOUND = 10
"""Periods of quota up to which debt, and credit, accumulate."""


@dataclass
class Ledger:
    """The runtime of one container.

    quota: nanoseconds that it may cost in each period. bound: periods of quota up to which it may be in debt, or
    accumulate what interference prevented it from using.
    """

    quota: int
    """It may change between two periods."""
    bound: int = BOUND
    gained: int = 0
    """Credit for work that was done for others while its tasks ran."""
    charged: int = 0
    """All that it cost."""
    lapsed: int = 0
    """Runtime that it had no use for, or that exceeds the bound."""
    forgiven: int = 0
    """Debt beyond the bound."""
    granted: int = field(init=False)
    """All quotas so far."""
    runtime: int = field(init=False)
    """The time for which it may run; negative when it is in debt."""

    def __post_init__(self) -> None:
        self.granted = self.runtime = self.quota

    @property
    def balance(self) -> int:
        """Its remaining time in this period."""
        return self.runtime + self.gained

    def use(self, ran: int, for_others: int, by_others: int) -> None:
        """It ran, and with others worked for each other, since the last call (figure 2.8)."""
        self.charged += ran - for_others + by_others
        self.runtime -= ran
        usage = by_others - for_others
        if usage > 0:
            paid = min(usage, self.gained)
            self.gained -= paid
            self.runtime -= usage - paid
        else:
            self.gained -= usage
        if self.runtime <= 0 < self.gained:
            refill = min(self.gained, SLICE - self.runtime)
            self.runtime += refill
            self.gained -= refill

    def end_period(self, idled: bool) -> None:
        """A period ends, and the next one begins (figure 2.7).

        idled: it did not use its runtime because it had nothing to run, and not because others ran. Such runtime
        lapses, as the kernel's does.
        """
        self.runtime += self.gained
        self.gained = 0
        if idled and self.runtime > 0:
            self._lapse(self.runtime)
        most = self.bound * self.quota
        if self.runtime > most:
            self._lapse(self.runtime - most)
        elif self.runtime < -most:
            self.forgiven += -most - self.runtime
            self.runtime = -most
        self.runtime += self.quota
        self.granted += self.quota

    def _lapse(self, ns: int) -> None:
        self.lapsed += ns
        self.runtime -= ns


@dataclass
class Pacer:
    """Decides when the kernel's quota is written. Every write refills the kernel's runtime at once, so that a quota for
    a long period, written again and again, is a scheduler's refill: a container that is not refilled stays throttled.
    """

    left: int = 0
    """The most that the kernel lets it run until the next write."""

    def decide(self, runtime: int, ran: int) -> int | None:
        """The quota to write now, in ns, never below FLOOR; None: write nothing.

        runtime: of the ledger. ran: since the last decision. The kernel takes its runtime in slices for each CPU and
        checks it at ticks, so that `left` is an estimate: a container's excess is in the ledger.
        """
        self.left = max(0, self.left - ran)
        if runtime >= FLOOR:
            if self.left == runtime:
                return None
            self.left = runtime
            return runtime
        if self.left <= FLOOR:
            return None
        self.left = FLOOR
        return FLOOR


@dataclass
class Gate:
    """Decides whether a container's packets are dropped.

    early: percent of the quota below which they are dropped before all is used, if most of its cost are packets. Its
    tasks have the rest.
    """

    early: int = 10

    def decide(self, ledger: Ledger, cost: int, network: int) -> str:
        """The reason for which packets are dropped until the next decision; empty if they are not.

        cost, network: since the last decision, all that it cost, and the part that is its packets in softirqs.
        """
        if ledger.balance <= 0:
            return "spent"
        if 100 * ledger.balance < self.early * ledger.quota and 2 * network > cost:
            return "early"
        return ""
