"""Threaded NAPI in the control group of a container: set, and as before however the controller ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.isolate.enforcer import Enforcer
from tests.isolate.lab import Lab
from tests.support.bounded import killed_after

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("ethtool") is None, reason="there is no ethtool (scripts/setup.sh --isolate)"),
]


TSO = "tx-tcp-segmentation"


def flooded(lab: Lab) -> str:
    namespace, address = lab.namespace(cpu=0)
    lab.start("receive", "5000", cgroup=lab.limited("i", 3), namespace=namespace, cpu=0)
    lab.start("send", address, "5000", "30000", "1400", "0", cpu=1)
    return namespace


def is_threaded(namespace: str) -> bool:
    command = ["ip", "netns", "exec", namespace, "cat", "/sys/class/net/link0/threaded"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.strip() == "1"


def offloads(name: str, inside: tuple[str, ...] = ()) -> dict[str, str]:
    text = subprocess.run(
        [*inside, "ethtool", "-k", name], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    lines = (line.strip().partition(": ") for line in text.splitlines())
    return {key: value.split()[0] for key, _, value in lines if key in ("generic-receive-offload", TSO)}


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to it")


def test_a_thread_in_the_containers_cgroup_polls_and_is_gone_afterwards(lab: Lab, tmp_path: Path) -> None:
    """Its time is the container's own: the kernel charges it, and throttles it."""
    namespace = flooded(lab)
    inside, outer = ("ip", "netns", "exec", namespace), lab.host_end(namespace)
    before = offloads(outer), offloads("link0", inside)
    with Enforcer([lab.pattern], "threads", interrupt_ns=0, state_folder=tmp_path / "state") as enforcer:
        for _ in range(100):
            enforcer.wait(0.1)
            found = enforcer.sample()
            cost = found.sample.containers[0].counters
            if cost.own_network > cost.by_others and found.states[0].throttled_ns:
                break
        assert cost.own_network > cost.by_others  # pyright: ignore[reportPossiblyUnboundVariable]
        assert found.states[0].places == ["threads link0"]  # pyright: ignore[reportPossiblyUnboundVariable]
        assert is_threaded(namespace)
        assert offloads(outer)[TSO] == "off"
    assert not is_threaded(namespace)
    assert (offloads(outer), offloads("link0", inside)) == before
    assert os.listdir(tmp_path / "state") == ["lock"]


def test_a_killed_controller_leaves_no_thread(lab: Lab, tmp_path: Path) -> None:
    namespace, state = flooded(lab), tmp_path / "state"
    options = ["--drop", "threads", "--cgroup", lab.pattern, "--interrupt-ns", "0", "--state", str(state), "--json"]
    command = [sys.executable, "-m", "sluice", "isolate", "run", "--interval", "0.1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with killed_after(process):
            for line in process.stdout:
                if (json.loads(line).get("enforcement") or [{"taken_over": False}])[0]["taken_over"]:
                    break
        assert is_threaded(namespace)
        process.send_signal(signal.SIGKILL)
    eventually(lambda: not is_threaded(namespace))
    eventually(lambda: not (state / "interfaces.json").exists())
    assert offloads(lab.host_end(namespace))[TSO] == "on"
