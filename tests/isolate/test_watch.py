"""The command `sluice isolate watch`, as users run it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.isolate.capabilities import drop_capabilities
from tests.isolate.lab import Lab
from tests.support.bounded import killed_after
from tests.support.budget import thinned

COMMAND = (sys.executable, "-m", "sluice", "isolate", "watch")


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.root
def test_json_has_a_start_samples_and_a_summary(lab: Lab) -> None:
    lab.burn(lab.cgroup("v"), cpu=0)
    done = subprocess.run(
        [*COMMAND, "--cgroup", lab.pattern, "--json", "--count", "2", "--interval", "0.2"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    start, *samples, summary = objects(done.stdout)
    assert start["type"] == "start"
    assert start["interrupt"]["samples"] > 0  # type: ignore[index]
    assert isinstance(start["limits"], list)
    assert [sample["type"] for sample in samples] == ["sample", "sample"]
    assert summary["type"] == "summary"
    assert all(0.98 < found["accounted"] < 1.02 for found in (*samples, summary))  # type: ignore[operator]
    assert [one["name"] for one in summary["containers"]] == [f"{lab.name}/v"]  # type: ignore[union-attr]
    assert not any(summary["losses"].values())  # type: ignore[union-attr]


@contextlib.contextmanager
def started(command: list[str], stderr: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process whose output is read; it is killed if the test is not done with it in time."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process, killed_after(process):
        yield process


@pytest.mark.root
@pytest.mark.parametrize("number", thinned([signal.SIGTERM, signal.SIGINT], 2))
def test_a_signal_ends_it_with_a_summary(lab: Lab, number: int) -> None:
    lab.burn(lab.cgroup("v"), cpu=0)
    command = [*COMMAND, "--cgroup", lab.pattern, "--interrupt-ns", "0", "--interval", "0.2"]
    with started(command, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[:2] == ["container", "CPU"]
        process.send_signal(number)
        rest, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "since the start:\ncontainer" in rest
    assert f"{lab.name}/v" in rest
    assert errors.startswith("cgroups: version ")


@pytest.mark.root
def test_it_keeps_only_the_capabilities_that_it_needs(lab: Lab) -> None:
    command = [*COMMAND, "--cgroup", lab.pattern, "--interrupt-ns", "0", "--json", "--interval", "0.1"]
    with started(command) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        status = dict(line.split(":\t") for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        process.terminate()
        process.communicate(timeout=30)
    assert int(status["CapEff"], 16) == 1 << 12 | 1 << 19 | 1 << 38 | 1 << 39
    assert status["CapBnd"] == status["CapPrm"] == status["CapEff"]
    assert status["NoNewPrivs"] == "1"


@pytest.mark.root
def test_its_programs_are_held_by_descriptors_only(lab: Lab) -> None:
    """So that the kernel removes them when it is killed."""
    del lab
    command = [*COMMAND, "--interrupt-ns", "0", "--json", "--interval", "0.1"]
    with started(command) as process:
        assert process.stdout is not None
        process.stdout.readline()
        links = [name for name in os.listdir(f"/proc/{process.pid}/fd") if _is_link(process.pid, name)]
        assert len(links) > 5
        process.kill()


def _is_link(process: int, descriptor: str) -> bool:
    try:
        return os.readlink(f"/proc/{process}/fd/{descriptor}") == "anon_inode:bpf_link"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "1", "--count", "1"], "give one of them"),
        (["--interval", "0"], "'0' is not a number of seconds above 0"),
        (["--interval", "nan"], "'nan' is not a number of seconds"),
        (["--count", "0"], "'0' is not a number from 1"),
        (["--interrupt-ns", "-5"], "'-5' is not a number of nanoseconds"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main(["isolate", "watch", *arguments]) == 2
    except SystemExit as stopped:
        assert stopped.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.root
def test_without_capabilities_the_error_says_what_is_needed(lab: Lab) -> None:
    del lab

    def drop() -> None:
        drop_capabilities(keep=())

    done = subprocess.run(
        [*COMMAND, "--count", "1"], capture_output=True, text=True, check=False, preexec_fn=drop, timeout=300
    )
    assert done.returncode == 1
    assert done.stderr.startswith("sluice: ")
    assert "CAP_BPF" in done.stderr
    assert len(done.stderr.splitlines()) < 8
