"""The start-up report: what is missing, and what remains without it."""

import re
from pathlib import Path

import pytest

from sluice.isolate.accounting import tracepoint_of
from sluice.isolate.cgroups import Hierarchy
from sluice.isolate.interrupts import InterruptCost
from sluice.isolate.support import WITHOUT, enforcement_limits, limits

SOURCE = Path(__file__).parents[2] / "sluice" / "isolate" / "bpf" / "account.bpf.c"
MEASURED = InterruptCost(8000, 400, 1000)
BOTH = Hierarchy(Path("/sys/fs/cgroup/cpu"), True, Path("/sys/fs/cgroup/unified"))
REQUIRED = {"sched_switch", "softirq_entry", "softirq_exit", "netif_receive_skb"}


def test_every_tracepoint_that_may_be_missing_has_a_consequence() -> None:
    used = {tracepoint_of(section) for section in re.findall(r'SEC\("(.*)"\)', SOURCE.read_text())} - {None}
    assert used - REQUIRED == WITHOUT.keys()


def test_a_missing_tracepoint_is_reported() -> None:
    (limit,) = [one for one in limits(BOTH, ["napi_poll"], MEASURED) if "napi_poll" in one.what]
    assert "threaded NAPI" in limit.remains


def test_interrupts_that_could_not_be_measured_are_reported_with_the_reason() -> None:
    cost = InterruptCost(0, 0, 0, "one CPU cannot interrupt itself")
    assert any("one CPU cannot interrupt itself" in one.what for one in limits(BOTH, [], cost))


def test_without_cgroup_v2_sockets_are_not_known() -> None:
    without = Hierarchy(BOTH.folder, True, None)
    assert any("not by socket" in one.remains for one in limits(without, [], MEASURED))
    assert not any("not by socket" in one.remains for one in limits(BOTH, [], MEASURED))


@pytest.mark.parametrize(("mode", "reported"), [("auto", True), ("host-end", True), ("xdp", False), ("none", False)])
def test_a_kernel_without_tcx_is_reported_where_tc_drops(
    mode: str, reported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 6.6."""
    monkeypatch.setattr("sluice.isolate.support.has_type", lambda _: False)
    assert any("tcx" in one.what for one in enforcement_limits(mode)) == reported


def test_what_this_kernel_has_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.isolate.support.has_type", lambda name: name == "tcx_link")
    assert enforcement_limits("auto") == []
