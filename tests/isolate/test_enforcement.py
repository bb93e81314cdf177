"""Enforcement in control groups and namespaces, against a real kernel."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path

import pytest

from sluice.isolate.accounting import Counters
from sluice.isolate.cgroups import Cgroup
from sluice.isolate.containers import Container
from sluice.isolate.enforced import Enforced, State
from sluice.isolate.enforcer import Enforcement, Enforcer
from sluice.isolate.errors import IsolateError
from sluice.isolate.gates import Dropped
from sluice.isolate.ledger import BOUND, Gate, Ledger
from sluice.isolate.quota import OUR_PERIOD, Limit, Quota
from sluice.isolate.restore import Record
from tests.isolate.lab import Lab

pytestmark = pytest.mark.root
CPU, OTHER_CPU = 0, 1
PORT = "5000"
PERCENT = 3
"""Of a CPU: a limit that is soon used, also where the machine's other load leaves a sender little time."""
ORDINARY = Limit(1000 * PERCENT, 100_000)
NEEDS = {"host-end": (4, 5), "xdp": (5, 9), "tc": (4, 5)}
"""The kernel that each mode needs: clsact, and XDP by a link."""
FLOOD = ("30000", "1400", "0")
"""Rate, bytes and number of packets of a sender: more than the limit lets pass, and without an end."""


@pytest.fixture
def make(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Enforcer]]:
    """Starts a controller on the lab's containers."""
    made: list[Enforcer] = []

    def start(mode: str = "auto", dry_run: bool = False) -> Enforcer:
        made.append(Enforcer([lab.pattern], mode, dry_run, interrupt_ns=0, state_folder=tmp_path / "state"))
        return made[-1]

    yield start
    for enforcer in made:
        enforcer.close()


def quota_of(lab: Lab, name: str) -> Limit | None:
    quota = Quota(lab.hierarchy.folder / lab.name / name, lab.hierarchy.is_v1)
    try:
        return quota.read()
    finally:
        quota.close()


def state_of(found: Enforcement, name: str) -> State:
    return next(state for state in found.states if state.container.name.split("/")[-1] == name)


def waited(enforcer: Enforcer, name: str, condition: Callable[[State], bool]) -> tuple[State, dict[str, Dropped]]:
    """Enforces until a container's state fulfils a condition; the state, and what was dropped until then."""
    dropped: dict[str, Dropped] = {}
    for _ in range(300):
        enforcer.wait(0.1)
        state = state_of(enforcer.sample(), name)
        for reason, one in state.dropped.items():
            before = dropped.get(reason, Dropped())
            dropped[reason] = Dropped(before.packets + one.packets, before.bytes + one.bytes)
        if condition(state):
            return state, dropped
    raise AssertionError(f"{name} never came to it: {state}")  # pyright: ignore[reportPossiblyUnboundVariable]


def flooded(lab: Lab) -> tuple[str, str]:
    """A container `i` with a limit, and a sender that would take all of a CPU for it; namespace and address."""
    namespace, address = lab.namespace(cpu=CPU)
    lab.start("receive", PORT, cgroup=lab.limited("i", PERCENT), namespace=namespace, cpu=CPU)
    lab.start("send", address, PORT, *FLOOD, cpu=OTHER_CPU)
    return namespace, address


def kernel() -> tuple[int, ...]:
    """The version of the kernel: major and minor."""
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def has_xdp(namespace: str) -> bool:
    show = ["ip", "-n", namespace, "link", "show", "link0"]
    return "prog/xdp" in subprocess.run(show, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.mark.parametrize("mode", ["host-end", "xdp", "tc"])
def test_a_container_that_has_used_its_share_gets_no_packets(
    lab: Lab, make: Callable[..., Enforcer], mode: str
) -> None:
    """They are dropped at the requested place, and counted; before and after, nothing remains."""
    namespace, _ = flooded(lab)
    with make(mode) as enforcer:
        state, dropped = waited(
            enforcer, "i", lambda state: bool(state.refused) or (state.taken and state.dropped["spent"].packets > 50)
        )
        if state.refused and kernel() < NEEDS[mode]:
            pytest.skip("; ".join(state.refused.values()))
        assert [place.split()[0] for place in state.places] == [mode]
        # the kernel's own small packets (neighbour discovery) may be among them
        assert dropped["spent"].bytes >= 1400 * (dropped["spent"].packets - 20)
        limit = quota_of(lab, "i")
        assert limit is not None
        assert limit.period_us == OUR_PERIOD
        assert limit.quota_us >= 1000
        assert has_xdp(namespace) == (mode == "xdp")
    assert quota_of(lab, "i") == ORDINARY
    assert not has_xdp(namespace)


def test_the_ledger_has_exactly_what_accounting_measured(lab: Lab, make: Callable[..., Enforcer]) -> None:
    """No charge is lost between two programs, the one that counts and the one that decides."""
    flooded(lab)
    lab.burn(lab.limited("v", 50), cpu=CPU)
    with make() as enforcer:
        for name in ("i", "v"):
            waited(enforcer, name, lambda state: state.taken)
        before = ledgers(enforcer)
        for _ in range(10):
            enforcer.wait(0.1)
        after = ledgers(enforcer)
    for name in ("i", "v"):
        (counters, ledger), (later, then) = before[name], after[name]
        assert then.charged - ledger.charged == (later - counters).charged > 0
        assert then.balance + then.lapsed == then.granted + then.forgiven - then.charged
    assert (after["v"][0] - before["v"][0]).for_others > 0
    assert (after["i"][0] - before["i"][0]).by_others > 0


def ledgers(enforcer: Enforcer) -> dict[str, tuple[Counters, Ledger]]:
    """What the last decisions were made of, and the ledgers after them."""
    return {one.container.name.split("/")[-1]: (one.counters, copy(one.ledger)) for one in enforcer.enforced.values()}


def test_a_container_without_traffic_keeps_the_kernels_own_limit(lab: Lab, make: Callable[..., Enforcer]) -> None:
    """One without a limit is named."""
    lab.burn(lab.limited("v", PERCENT), cpu=CPU)
    lab.burn(lab.cgroup("free"), cpu=CPU)
    with make() as enforcer:
        enforcer.wait(0.5)
        found = enforcer.sample()
        assert not state_of(found, "v").taken
        assert quota_of(lab, "v") == ORDINARY
        assert found.unlimited == [f"{lab.name}/free"]


def test_packets_pass_again_when_the_flood_has_ended(lab: Lab, make: Callable[..., Enforcer]) -> None:
    namespace, address = lab.namespace(cpu=CPU)
    lab.start("receive", PORT, cgroup=lab.limited("i", PERCENT), namespace=namespace, cpu=CPU)
    sender = lab.start("send", address, PORT, *FLOOD, cpu=OTHER_CPU)
    with make() as enforcer:
        waited(enforcer, "i", lambda state: state.taken and state.dropped["spent"].packets > 0)
        lab.stop(sender)
        waited(enforcer, "i", lambda state: not state.reason and state.ledger.runtime > 0)
        enforcer.sample()
        lab.start("send", address, PORT, "1000", "100", "24", cpu=OTHER_CPU).wait(timeout=60)
        found = enforcer.sample()
        received = next(one.counters.received for one in found.sample.containers if one.container.name.endswith("/i"))
        assert received >= 24
        assert not any(one.packets for one in state_of(found, "i").dropped.values())


def test_a_dry_run_decides_and_changes_nothing(lab: Lab, make: Callable[..., Enforcer], tmp_path: Path) -> None:
    flooded(lab)
    with make(dry_run=True) as enforcer:
        state, dropped = waited(enforcer, "i", lambda state: state.closed_ns.get("spent", 0) > 0)
        assert state.ledger.charged > 0
        assert (state.places, dropped) == ([], {})
        assert quota_of(lab, "i") == ORDINARY
    assert not (tmp_path / "state").exists()


def test_a_limit_that_is_set_meanwhile_is_the_new_one(lab: Lab, make: Callable[..., Enforcer]) -> None:
    """As by `docker update`: the controller adopts it, and restores it at the end."""
    flooded(lab)
    with make() as enforcer:
        waited(enforcer, "i", lambda state: state.taken)
        folder = lab.hierarchy.folder / lab.name / "i"
        if lab.hierarchy.is_v1:
            (folder / "cpu.cfs_quota_us").write_text("30000")
        else:
            (folder / "cpu.max").write_text("30000 100000")
        state, _ = waited(enforcer, "i", lambda state: state.limit.quota_us == 30_000)
        assert state.limit.period_us == 100_000
    assert quota_of(lab, "i") == Limit(30_000, 100_000)


def test_a_limit_that_is_removed_meanwhile_stays_removed(lab: Lab, make: Callable[..., Enforcer]) -> None:
    flooded(lab)
    with make() as enforcer:
        waited(enforcer, "i", lambda state: state.taken)
        folder = lab.hierarchy.folder / lab.name / "i"
        if lab.hierarchy.is_v1:
            (folder / "cpu.cfs_quota_us").write_text("-1")
        else:
            (folder / "cpu.max").write_text("max")
        for _ in range(100):
            enforcer.wait(0.1)
            found = enforcer.sample()
            if found.unlimited:
                break
        assert found.unlimited == [f"{lab.name}/i"]  # pyright: ignore[reportPossiblyUnboundVariable]
    assert quota_of(lab, "i") is None


def test_a_limit_that_cannot_be_read_is_named_and_its_files_are_closed(
    lab: Lab, make: Callable[..., Enforcer], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.start("hold", PORT, cgroup=lab.limited("i", PERCENT))
    made: list[Quota] = []
    closed: list[Quota] = []
    read, close = Quota.read, Quota.close

    def fails_the_second_time(self: Quota) -> Limit | None:
        if self in made:
            raise IsolateError("refused")
        made.append(self)
        return read(self)

    def noted(self: Quota) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(Quota, "read", fails_the_second_time)
    monkeypatch.setattr(Quota, "close", noted)
    with make("none") as enforcer:
        assert enforcer.sample().failed == {f"{lab.name}/i": "refused"}
    assert closed == made != []


def test_a_container_that_ends_in_the_flood_leaves_nothing(
    lab: Lab, make: Callable[..., Enforcer], tmp_path: Path
) -> None:
    flooded(lab)
    with make() as enforcer:
        waited(enforcer, "i", lambda state: state.taken)
        assert (tmp_path / "state" / "limits.json").exists()
        for process in list(lab._processes):  # pyright: ignore[reportPrivateUsage]
            lab.stop(process)
        lab.remove(lab.hierarchy.folder / lab.name / "i")
        for _ in range(100):
            enforcer.wait(0.1)
            if not enforcer.sample().states:
                break
        assert not (tmp_path / "state" / "limits.json").exists()


def test_a_container_that_is_started_again_is_enforced_again(lab: Lab, make: Callable[..., Enforcer]) -> None:
    """With the path of the removed one, as `docker restart` does; the controller sees both changes at once."""
    flooded(lab)
    with make() as enforcer:
        waited(enforcer, "i", lambda state: state.taken)
        for process in list(lab._processes):  # pyright: ignore[reportPrivateUsage]
            lab.stop(process)
        lab.remove(lab.hierarchy.folder / lab.name / "i")
        flooded(lab)
        state, _ = waited(enforcer, "i", lambda state: state.taken and state.dropped["spent"].packets > 50)
        assert state.limit == ORDINARY
        assert enforcer.sample().failed == {}
    assert quota_of(lab, "i") == ORDINARY


def test_a_shared_namespace_is_named_and_nothing_is_dropped_there(lab: Lab, make: Callable[..., Enforcer]) -> None:
    """Before its socket is found, it is not known whose a packet is."""
    namespace, _ = lab.namespace()
    for name, port in (("a", "5001"), ("b", "5002")):
        lab.start("hold", port, cgroup=lab.limited(name, PERCENT), namespace=namespace)
    enforcer = make()
    enforcer.wait(0.3)
    found = enforcer.sample()
    for name in ("a", "b"):
        assert state_of(found, name).places == []
        assert list(state_of(found, name).refused.values()) == ["it shares its network namespace with other containers"]


def test_credit_of_many_periods_stays_within_the_limit_of_a_pod(lab: Lab, tmp_path: Path) -> None:
    """cgroup v1 refuses a quota above that of a parent, in relation to their periods."""
    if not lab.hierarchy.is_v1:
        pytest.skip("cgroup v2 accepts a limit above that of a parent")
    lab.limited("pod", PERCENT)
    quota = Quota(lab.limited("pod/i", PERCENT), is_v1=True)
    container = Container(Cgroup(f"{lab.name}/pod/i", 1, "plain", "i"), 1)
    record = Record(tmp_path / "state")
    one = Enforced(container, quota, ORDINARY, None, Gate(), record)
    one.begin(Counters(), 0)
    assert one.decide(Counters(by_host=10**6), 1, 1, 1)
    assert one.taken
    one.ledger.runtime = (BOUND + 1) * one.ledger.quota
    assert one.decide(Counters(by_host=10**6), 2, 1, 1)
    limit = quota.read()
    assert limit is not None
    assert limit.cpus == ORDINARY.cpus
    one.close()
    assert quota_of(lab, "pod/i") == ORDINARY
    record.close()
