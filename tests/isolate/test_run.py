"""The command `sluice isolate run`: what it prints, and what it says where it cannot work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.isolate.accounting import Counters
from sluice.isolate.capabilities import drop_capabilities
from sluice.isolate.cgroups import Cgroup, Hierarchy, find_hierarchy, require_cpu_controller
from sluice.isolate.containers import Container
from sluice.isolate.enforced import State
from sluice.isolate.enforcement_table import Totals, enforcement_json, enforcement_text, restored_text
from sluice.isolate.enforcer import Enforcement
from sluice.isolate.errors import IsolateError
from sluice.isolate.gates import Dropped
from sluice.isolate.ledger import Ledger
from sluice.isolate.quota import Limit
from sluice.isolate.restore import Restored
from sluice.isolate.session import Sample, Usage
from tests.isolate.lab import Lab, why_no_limit, why_not

COMMAND = (sys.executable, "-m", "sluice", "isolate", "run")


def container(name: str, slot: int) -> Container:
    return Container(Cgroup(f"docker/{name}", 100 + slot, "docker", name), slot)


def enforcement() -> Enforcement:
    """Two containers with a limit, one of them in debt; one without, one that failed."""
    web, batch = container("web", 2), container("batch", 3)
    usages = [
        Usage(web, Counters(run=100_000_000, by_containers=150_000_000), False),
        Usage(batch, Counters(run=400_000_000, for_others=150_000_000), False),
    ]
    debt = Ledger(50_000_000)
    debt.use(60_000_000, 0, 15_000_000)
    states = [
        State(
            web, Limit(50_000, 100_000), True, debt, "spent", ["host-end veth1"], {},
            {"spent": Dropped(2500, 3_500_000), "early": Dropped(50, 70_000)}, {"spent": 400_000_000}, 200_000_000,
        ),
        State(
            batch, Limit(50_000, 100_000), False, Ledger(50_000_000), "", [], {(0, 0): "it has no network namespace"},
            {"spent": Dropped(), "early": Dropped()}, {}, 0,
        ),
    ]  # fmt: skip
    sample = Sample(5.0, 1.0, 2, usages, Counters(), Counters())
    return Enforcement(sample, states, ["cache"], {"old": "the kernel refuses the value"}, 3)


def test_a_table_of_what_is_enforced() -> None:
    assert enforcement_text(enforcement()).splitlines() == [
        "container      limit       cost    network    balance  throttled    spent/s    early/s  where",
        "web            50.0%     25.00%     15.00%   -25.0 ms      20.0%      2,500         50  host-end veth1",
        "batch          50.0%     25.00%      0.00%          -       0.0%          0          0  -",
        "packets are not dropped, as it has no network namespace: batch",
        "not enforced: old: the kernel refuses the value",
        "without a limit, and only accounted: cache",
    ]
    assert "(1 more)" in enforcement_text(enforcement(), rows=1)


def test_json_has_the_ledger_and_drops_by_reason() -> None:
    found = json.loads(json.dumps(enforcement_json(enforcement(), "sample")))
    assert (found["unlimited"], found["failed"]) == (["cache"], {"old": "the kernel refuses the value"})
    web = found["enforcement"][0]
    assert web["runtime_ns"] == -25_000_000
    assert web["dropped"] == {"spent": {"packets": 2500, "bytes": 3_500_000}, "early": {"packets": 50, "bytes": 70_000}}
    assert web["limit"] == {"quota_us": 50_000, "period_us": 100_000}
    assert web["closed_ns"] == {"spent": 400_000_000, "early": 0}


def test_drops_are_summed_by_container_and_reason() -> None:
    total = Totals()
    for _ in range(3):
        total.add(enforcement())
    assert total.text().splitlines() == [
        "dropped, spent: 7,500 packets, 10,500,000 bytes of web",
        "dropped, early: 150 packets, 210,000 bytes of web",
    ]


def test_what_was_restored_is_said_by_outcome() -> None:
    assert restored_text(Restored([], [], [], [])) == ""
    assert restored_text(Restored(["a"], ["b"], ["c"], ["d: no"])).splitlines() == [
        "restored: a",
        "left, as another program has set the limit since: b",
        "gone: c",
        "not restored: d: no",
    ]


@pytest.mark.root
def test_a_dry_run_prints_tables_and_a_summary(lab: Lab) -> None:
    lab.burn(lab.limited("v", 20), cpu=0)
    lab.burn(lab.cgroup("free"), cpu=0)
    done = subprocess.run(
        [*COMMAND, "--dry-run", "--cgroup", lab.pattern, "--interrupt-ns", "0", "--count", "1", "--interval", "0.2"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert "dry run: nothing is changed" in done.stderr
    head, row, rest, *_ = done.stdout.splitlines()
    assert head.split()[:3] == ["container", "limit", "cost"]
    assert row.split()[:2] == [f"{lab.name}/v", "20.0%"]
    assert rest == f"without a limit, and only accounted: {lab.name}/free"
    assert "since the start:" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--seconds", "1", "--count", "1"], "give one of them"),
        (["run", "--tick", "0.5"], "'0.5' is not a number of milliseconds from 1 to 1000"),
        (["run", "--tick", "nan"], "'nan' is not a number of milliseconds"),
        (["run", "--early", "101"], "'101' is not a percentage"),
        (["run", "--drop", "never"], "invalid choice: 'never'"),
        (["restore", "--state", "/proc/none"], "give another folder by --state"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main(["isolate", *arguments]) in (1, 2)
    except SystemExit as stopped:
        assert stopped.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.root
def test_without_capabilities_the_error_says_what_is_needed(lab: Lab, tmp_path: Path) -> None:
    del lab

    def drop() -> None:
        drop_capabilities(keep=())

    command = [*COMMAND, "--count", "1", "--state", str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=drop, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("sluice: ")
    assert "CAP_BPF" in done.stderr
    assert not (tmp_path / "state").exists()


def test_without_the_cpu_controller_nothing_can_be_enforced(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("hugetlb memory\n")
    with pytest.raises(IsolateError, match="`sluice isolate watch` accounts without it"):
        require_cpu_controller(Hierarchy(tmp_path, False, tmp_path))
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io\n")
    require_cpu_controller(Hierarchy(tmp_path, False, tmp_path))


@pytest.mark.root
def test_limits_of_cgroup_v2() -> None:
    """Its one file has quota and period."""
    if why_not():
        pytest.skip(why_not())
    folder = find_hierarchy().v2_folder
    if folder is None:
        pytest.skip("cgroup v2 is not mounted here")
    hierarchy = Hierarchy(folder, False, folder)
    if reason := why_no_limit(hierarchy):
        pytest.skip(reason)
    with Lab(hierarchy) as lab:
        assert (lab.limited("i", 20) / "cpu.max").read_text() == "20000 100000\n"
