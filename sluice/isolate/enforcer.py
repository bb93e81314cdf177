"""The controller: charges containers by their quota, and drops their packets once it is used.

with Enforcer() as enforcer:
    while True:
        enforcer.wait(1.0)
        for state in enforcer.sample().states:
            print(state.container.name, state.ledger.balance, state.dropped)

A container has the kernel's own limit as long as the network costs it, and others for it, next to nothing. After that,
this process refills its quota every tick from its ledger, and opens and closes its gates.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from sluice.isolate.accounting import FIRST, MAX_CONTAINERS
from sluice.isolate.build import compiled_drop
from sluice.isolate.cgroups import Cgroup, Hierarchy, processes, require_cpu_controller
from sluice.isolate.containers import Container
from sluice.isolate.enforced import Enforced, State
from sluice.isolate.errors import IsolateError
from sluice.isolate.gates import Gates
from sluice.isolate.ledger import Gate
from sluice.isolate.nic import NicGate, Nics
from sluice.isolate.quota import GoneError, Quota
from sluice.isolate.restore import FOLDER, Record, Restored, Watchdog
from sluice.isolate.session import Sample, Session

TICK = 0.02
"""Seconds between two decisions, by default."""
EARLY = 10
"""Percent of its quota below which a container's packets are dropped early, by default."""
_OPEN_AFTER = 50
"""Ticks without a decision after which gates open."""
_PROCESSES = 32
"""Processes of a container by which its namespaces are entered."""
_PRIORITY = -20
"""Of the process while it enforces, where it may set it: containers that use all CPUs must not delay decisions."""


@dataclass(frozen=True)
class Enforcement:
    """A sample of all containers, and the states of those with a limit."""

    sample: Sample
    states: list[State]
    """Of containers with a limit, those that ended since the sample before among them."""
    unlimited: list[str]
    """Containers without a limit: they are accounted only."""
    failed: dict[str, str]
    """Containers that are not enforced because a limit cannot be written, and why."""
    missed: int
    """Periods that passed without a decision, since the start."""


class Enforcer:
    """Accounts as a Session does, and enforces. Use as a context: limits are restored at the end.

    mode: of MODES, where packets are dropped. dry_run: decide, and change nothing. early: see Gate. tick: seconds
    between decisions. state_folder: where ordinary limits are saved in case this process is killed. nics: interfaces of
    the host at which packets are dropped by destination, too.
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
        nics: Sequence[str] = (),
    ) -> None:
        self.mode = "none" if dry_run else mode
        self.dry_run = dry_run
        self.tick = tick
        self.found: Restored | None = None
        """State of an earlier controller that was restored at the start."""
        self.nics: Nics | None = None
        """The filters at interfaces of the host."""
        self._early = early
        self._record: Record | None = None
        self._watchdog: Watchdog | None = None
        self.enforced: dict[int, Enforced] = {}
        """By slot: containers with a limit."""
        self._unlimited: set[str] = set()
        self._failed: dict[Cgroup, str] = {}
        self.not_restored: dict[str, str] = {}
        """Containers whose ordinary limit could not be restored, and why: it stays in the record."""
        self._missed = 0
        self._ended: list[State] = []
        """Of containers that ended since the last sample."""
        self._closed = False
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        self.session = Session(patterns, max_containers, interrupt_ns, hierarchy)
        self.hierarchy = self.session.hierarchy
        try:
            _set_priority(_PRIORITY)
            require_cpu_controller(self.hierarchy)
            if self.mode != "none":
                compiled_drop()  # now, and not when traffic is there already
            if not dry_run:
                self._record = Record(state_folder)
                self.found = self._record.restore()
                self._watchdog = Watchdog(state_folder)
            if nics and self.mode != "none":
                self.nics = Nics(nics, self.session.accounting.cpus, FIRST + max_containers, self._record)
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
        """Restore all limits, and detach the programs from the kernel. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for slot in list(self.enforced):
            self._end(slot)
        if self.nics is not None:
            self.nics.close()
        self.session.close()
        self._end_record()
        _set_priority(self._priority)

    def _end_record(self) -> None:
        if self._watchdog is not None:
            self._watchdog.end()
            self._watchdog = None
        if self._record is not None:
            self._record.close()
            self._record = None

    def _follow(self) -> None:
        """Follow the containers of the session, and changes of their limits and interfaces."""
        current = self.session.containers.current
        cgroups = {container.cgroup for container in current.values()}
        names = {cgroup.name for cgroup in cgroups}
        for slot in [slot for slot, one in self.enforced.items() if current.get(slot) is not one.container]:
            self._end(slot)
        self._unlimited &= names
        self._failed = {cgroup: why for cgroup, why in self._failed.items() if cgroup in cgroups}
        for slot, container in list(current.items()):
            if slot not in self.enforced and container.cgroup not in self._failed:
                self._adopt(slot, container)
        places = Counter(chain.from_iterable(container.namespaces for container in current.values()))
        shared = frozenset(inode for inode, number in places.items() if number > 1)
        owners = Counter(chain.from_iterable(container.addresses for container in current.values()))
        for one in self.enforced.values():
            if one.nic:
                one.nic.addresses = frozenset(a for a in one.container.addresses if owners[a] == 1)
            if one.gates:
                found = islice(processes(one.quota.folder, below=True), _PROCESSES)
                one.gates.refresh(found, one.container.namespaces, shared)

    def _adopt(self, slot: int, container: Container) -> None:
        folder = self.hierarchy.folder / container.cgroup.path
        if self._record is not None and self._record.has(folder, container.cgroup.identifier):
            self._failed[container.cgroup] = (
                "its ordinary limit could not be restored; `sluice isolate restore` tries again"
            )
            return
        quota = None
        try:
            quota = Quota(folder, self.hierarchy.is_v1)
            limit = quota.read()
        except (GoneError, IsolateError) as error:
            if quota is not None:
                quota.close()
            if isinstance(error, IsolateError):
                self._failed[container.cgroup] = str(error)
            return
        if limit is None:
            quota.close()
            self._unlimited.add(container.name)
            return
        self._unlimited.discard(container.name)
        try:
            cpus = self.session.accounting.cpus
            gates = None if self.mode == "none" else Gates(self.mode, cpus, folder, self.hierarchy.is_v1, self._record)
        except IsolateError as error:
            quota.close()
            self._failed[container.cgroup] = str(error)
            return
        nic = None if self.nics is None else NicGate(self.nics, slot)
        one = Enforced(container, quota, limit, gates, Gate(self._early), self._record, nic)
        one.begin(self.session.accounting.read(slot), time.monotonic_ns())
        self.enforced[slot] = one

    def _begin(self) -> None:
        """Time begins now: the programs have been attached, which takes seconds on a machine under load."""
        self._last_tick = time.monotonic_ns()
        for slot, one in self.enforced.items():
            one.begin(self.session.accounting.read(slot), self._last_tick)

    def _end(self, slot: int) -> None:
        one = self.enforced.pop(slot)
        self._missed += one.missed
        cgroup = one.container.cgroup
        try:
            self._ended.append(one.state())
        except IsolateError as error:
            self._failed[cgroup] = str(error)
        finally:
            try:
                one.close()
            except IsolateError as error:
                self._failed[cgroup] = self.not_restored[cgroup.name] = str(error)

    def wait(self, seconds: float) -> None:
        """Decide every tick, until the next sample is due or the session is stopped."""
        end = time.monotonic() + seconds
        while not self.session.stopped and (left := end - time.monotonic()) > 0:
            before = set(self.session.containers.current)
            self.session.wait(min(left, self.tick))
            if set(self.session.containers.current) != before:
                self._follow()
            self.decide()

    def decide(self) -> None:
        """Charge and decide, from the accounts up to now."""
        now = time.monotonic_ns()
        if self._watchdog is not None:
            self._watchdog.beat()
        passed, self._last_tick = now - self._last_tick, now
        open_after = round(_OPEN_AFTER * self.tick * 1e9)
        for slot, one in list(self.enforced.items()):
            try:
                if not one.decide(self.session.accounting.read(slot), now, passed, open_after):
                    self._end(slot)
            except GoneError:
                self._end(slot)
            except IsolateError as error:
                self._failed[one.container.cgroup] = str(error)
                self._end(slot)

    def sample(self) -> Enforcement:
        """The cost of all and the drops since the last sample."""
        sample = self.session.sample()
        self._follow()
        states = [*self._ended, *(one.state() for one in self.enforced.values())]
        self._ended.clear()
        failed = {cgroup.name: why for cgroup, why in self._failed.items()}
        missed = self._missed + sum(one.missed for one in self.enforced.values())
        return Enforcement(sample, states, sorted(self._unlimited), failed, missed)


def _set_priority(nice: int) -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
