"""sluice flows --ray: many captures as tasks of a Ray cluster."""

import importlib
import shutil
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.common.jobs import Report, Work
from sluice.cli.common.ray_jobs import RayJobs
from sluice.engine.box import Outcome
from sluice.report.capture_sets import CaptureSet, capture_sets
from tests.cli.conftest import FIRST, Command

CAPTURE = FIRST / "capture.pcap"
SETS = 12


def test_a_missing_ray_is_named(sluice: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = sluice("flows", "--stack", "tcp_ip", "-r", CAPTURE, "--ray", "auto")
    assert done.status != 0 and "pip install 'sluice[cluster]'" in done.err


def test_options_that_do_not_go_together(sluice: Command) -> None:
    for more in (("--jobs", "2"), ("--workers", "2"), ("--metrics", "127.0.0.1:0")):
        done = sluice("flows", "--stack", "tcp_ip", "-r", CAPTURE, "--ray", "auto", *more)
        assert done.status == 2 and "--ray: " in done.err


def prepare_slowly(folder: Path) -> Work:
    """Work that notes the node of each attempt, and needs long enough for its node to be ended."""
    ray = importlib.import_module("ray")
    node = ray.get_runtime_context().get_node_id()

    def work(captures: CaptureSet, rows: str, report: Report) -> Outcome:
        (folder / f"{Path(captures.name).stem}-{node}").touch()
        time.sleep(1)
        shutil.copy(captures.name, rows)
        return Outcome(1, {}, {})

    return work


@pytest.mark.slow_matrix
def test_a_node_that_is_ended_costs_no_rows(sluice: Command, tmp_path: Path) -> None:
    """Three nodes on this machine. Rows are those of `--jobs`; after a node's end, its tasks run on the others."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    for number in range(SETS):
        shutil.copy(CAPTURE, tmp_path / f"x-{number:02}-.pcap")
    given = ("flows", "--stack", "tcp_ip", "-r", tmp_path / "*.pcap")
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        done = sluice(*given, "--ray", cluster.address, "-o", tmp_path / "ray.jsonl")
        assert (done.status, done.err) == (0, "")
        assert sluice(*given, "--jobs", "1", "-o", tmp_path / "jobs.jsonl").status == 0
        assert (tmp_path / "ray.jsonl").read_text() == (tmp_path / "jobs.jsonl").read_text()
        attempts, taken = tmp_path / "attempts", list[str]()
        attempts.mkdir()
        ending = threading.Thread(target=end_node, args=(cluster, nodes[0], attempts))
        ending.start()
        prepare: Callable[[], Work] = partial(prepare_slowly, attempts)
        sets = capture_sets([str(path) for path in sorted(tmp_path.glob("*.pcap"))])
        found = RayJobs(prepare, lambda captures, rows: taken.append(captures.name), cluster.address).run(sets)
        ending.join()
        assert [one.outcome.failure for one in found] == [None] * SETS
        assert taken == [captures.name for captures in sets]
        assert len(list(attempts.iterdir())) > SETS
    finally:
        cluster.shutdown()


def end_node(cluster: Any, node: Any, attempts: Path) -> None:
    """End a node when a task runs there."""
    end = time.monotonic() + 120
    while time.monotonic() < end and not list(attempts.glob(f"*-{node.node_id}")):
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)
