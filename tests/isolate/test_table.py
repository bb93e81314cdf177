"""Samples as text and JSON; the sums of counters."""

import re
from pathlib import Path

from sluice.isolate.accounting import Counters
from sluice.isolate.cgroups import Cgroup
from sluice.isolate.containers import Container
from sluice.isolate.session import Sample, Usage
from sluice.isolate.table import sample_json, sample_text

MS = 1_000_000
VICTIM = Counters(run=600 * MS, for_others=200 * MS)
RECEIVER = Counters(
    run=100 * MS, own_network=40 * MS, by_containers=200 * MS, by_host=30 * MS, by_idle=70 * MS, received=5000
)
HOST = Counters(run=300 * MS, for_others=30 * MS)
IDLE = Counters(run=1000 * MS, for_others=70 * MS)


def usage(name: str, counters: Counters, ended: bool = False) -> Usage:
    return Usage(Container(Cgroup(f"lab/{name}", 7, "plain", name), 2), counters, ended)


SAMPLE = Sample(3.0, 1.0, 2, [usage("victim", VICTIM), usage("receiver", RECEIVER, ended=True)], HOST, IDLE)


def test_what_is_transferred_cancels() -> None:
    assert VICTIM.charged == 400 * MS
    assert RECEIVER.charged == 400 * MS
    assert RECEIVER.network == 340 * MS
    assert SAMPLE.accounted == 1.0


def test_counters_are_added_and_subtracted_one_by_one() -> None:
    assert (VICTIM + RECEIVER) - RECEIVER == VICTIM
    assert sum([VICTIM, HOST], Counters()).run == 900 * MS


def test_the_table() -> None:
    assert sample_text(SAMPLE).splitlines() == [
        "container               CPU        ran    network for others  by others  packets/s",
        "victim               40.00%     60.00%      0.00%     20.00%      0.00%          0",
        "receiver (ended)     40.00%     10.00%     34.00%      0.00%     30.00%      5,000",
        "(host)               27.00%     30.00%      0.00%      3.00%      0.00%          0",
        "(idle)               93.00%    100.00%      0.00%      7.00%      0.00%          0",
        "2 CPUs, 1.00 s, 100.0% of their time accounted",
    ]


def test_a_table_that_does_not_fit_sums_the_rest() -> None:
    lines = sample_text(SAMPLE, rows=1).splitlines()
    assert lines[1].startswith("victim ")
    assert lines[2].split() == ["(1", "more)", "40.00%", "10.00%", "34.00%", "0.00%", "30.00%", "5,000"]


def test_a_long_name_keeps_its_end() -> None:
    name = "kubepods/" + "a" * 60 + "/end"
    (line,) = [
        line for line in sample_text(Sample(1, 1, 1, [usage(name, VICTIM)], HOST, IDLE)).splitlines() if "end" in line
    ]
    assert line.startswith("...aaa")
    assert len(line.split()[0]) == 40


def test_json_has_every_counter() -> None:
    found = sample_json(SAMPLE, "sample")
    victim, receiver = found["containers"]  # type: ignore[misc]
    assert (victim["name"], victim["cgroup"], victim["engine"], victim["ended"]) == (
        "victim",
        "lab/victim",
        "plain",
        False,
    )
    assert receiver["by_others_ns"] == receiver["by_containers_ns"] + receiver["by_host_ns"] + receiver["by_idle_ns"]
    assert receiver["ended"]
    assert "earlier" not in found


def test_layouts_are_those_of_the_programs() -> None:
    """The order of the counters is that of `struct account`."""
    text = (Path(__file__).parents[2] / "sluice" / "isolate" / "bpf" / "state.h").read_text()
    body = text[text.index("struct account {") : text.index("spare[4]")]
    assert re.findall(r"__u64 (\w+);", body) == [*Counters.__dataclass_fields__]
