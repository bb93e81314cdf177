"""The start-up report: what is missing, and what remains without it."""

import re
from pathlib import Path

from sluice.isolate.accounting import tracepoint_of
from sluice.isolate.cgroups import Hierarchy
from sluice.isolate.interrupts import InterruptCost
from sluice.isolate.support import WITHOUT, limits

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
