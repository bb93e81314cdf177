"""`sluice isolate report`, `unit`, and the page of metrics."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sluice.cli.common.container_metrics import Exposed, exposing
from sluice.cli.main import main
from sluice.isolate.accounting import Counters
from sluice.isolate.capabilities import drop_capabilities
from sluice.isolate.enforcement_table import enforcement_json
from sluice.isolate.errors import IsolateError
from sluice.isolate.recorded import read_report, report_text
from sluice.isolate.session import Sample
from sluice.isolate.table import sample_json
from sluice.isolate.unit import AT_START, notify, unit_text
from tests.isolate.lab import Lab
from tests.isolate.test_run import enforcement


def recording() -> list[str]:
    found = enforcement()
    start = {"type": "start", "limits": [{"what": "no X", "remains": "Y"}]}
    summary = {**sample_json(found.sample, "summary"), "losses": {"lost": 2, "none": 0}}
    return [json.dumps(one) for one in (start, *[enforcement_json(found, "sample")] * 2, summary)]


def test_a_report_adds_samples_up() -> None:
    assert report_text(read_report(recording(), "f")).splitlines() == [
        "container         CPU         ran     network  for others   by others most stolen     packets",
        "batch          25.00%      40.00%       0.00%      15.00%       0.00%      15.00%           0",
        "web            25.00%      10.00%      15.00%       0.00%      15.00%       0.00%           0",
        "(host)          0.00%       0.00%       0.00%       0.00%       0.00%       0.00%           0",
        "(idle)          0.00%       0.00%       0.00%       0.00%       0.00%       0.00%           0",
        "2 samples, 2.0 s; times in percent of one CPU",
        "most stolen from batch: 15.0% of a CPU, at 5.0 s",
        "throttled: web: 0.40 s",
        "dropped, spent: 5,000 packets of web",
        "dropped, early: 100 packets of web",
        "lost: 2",
        "not possible there: no X: Y",
    ]


@pytest.mark.parametrize("bad", ["{", "[]", '{"type": "sample"}', '{"type": "sample", "seconds": "x", "time": 0}', "7"])
def test_a_line_that_is_none_of_a_recording_is_named(bad: str) -> None:
    with pytest.raises(IsolateError, match=r"^f:2: this is no line"):
        read_report([recording()[0], bad], "f")


def test_a_recording_without_its_end_is_reported_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "usage.jsonl"
    path.write_text("\n".join(recording()[:2]))
    assert main(["isolate", "report", str(path)]) == 0
    assert "the recording has no summary" in capsys.readouterr().out
    assert main(["isolate", "report", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["complete"] is False
    path.write_text("")
    assert main(["isolate", "report", str(path)]) == 1
    assert "it has no samples" in capsys.readouterr().err


def test_metrics_are_counters_by_container() -> None:
    found, exposed = enforcement(), Exposed()
    for _ in range(2):
        exposed.update(found.sample, {"lost": 3}, found)
    lines = exposed.text.splitlines()
    web = 'container="web",cgroup="docker/web",engine="docker"'
    assert f"sluice_isolate_network_seconds_total{{{web}}} 0.15" in lines
    assert f'sluice_isolate_dropped_packets_total{{{web},reason="spent"}} 5000' in lines
    assert f"sluice_isolate_throttled_seconds_total{{{web}}} 0.4" in lines
    assert f"sluice_isolate_balance_seconds{{{web}}} -0.025" in lines
    assert 'sluice_isolate_losses_total{reason="lost"} 3' in lines
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    exposed.update(Sample(1, 1, 2, [], Counters(), Counters()), {})
    assert "web" not in exposed.text


def test_the_page_is_served_while_it_runs() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    with exposing(("127.0.0.1", port)) as exposed:
        assert exposed is not None
        exposed.text = "a 1\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.read() == b"a 1\n"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")


def test_a_unit_runs_with_the_given_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isolate", "unit", "--", "--tick", "10", "--cgroup", "a b%", "--state", "/run/x"]) == 0
    text = capsys.readouterr().out
    assert f"ExecStart={sys.executable} -P -m sluice isolate run --tick 10 --cgroup 'a b%%' --state /run/x\n" in text
    assert f"ExecStopPost={sys.executable} -P -m sluice isolate restore --state /run/x\n" in text
    with pytest.raises(SystemExit):
        main(["isolate", "unit", "--", "--ticks", "10"])
    if shutil.which("systemd-analyze"):
        path = tmp_path / "sluice-isolate.service"
        path.write_text(unit_text(["--tick", "10"]))
        done = subprocess.run(
            ["systemd-analyze", "verify", path], capture_output=True, text=True, check=False, timeout=300
        )
        assert "sluice-isolate.service:" not in done.stderr


def test_systemd_is_notified_where_it_started_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        assert end.recv(100) == b"READY=1"
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


@pytest.mark.root
def test_the_units_capabilities_are_enough(lab: Lab, tmp_path: Path) -> None:
    lab.start("hold", "5000", cgroup=lab.limited("i", 20), namespace=lab.namespace()[0])

    def drop() -> None:
        drop_capabilities(keep=AT_START)

    command = [sys.executable, "-m", "sluice", "isolate", "run", "--json", "--count", "1", "--interval", "0.2"]
    command += ["--cgroup", lab.pattern, "--state", str(tmp_path / "state"), "--interrupt-ns", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=drop, timeout=300)
    sample = json.loads(done.stdout.splitlines()[1])
    assert (sample["failed"], [one["cgroup"] for one in sample["enforcement"]]) == ({}, [f"{lab.name}/i"])
