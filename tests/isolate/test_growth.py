"""Containers that come and go leave nothing in the controller or in its tables."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sluice.isolate.enforcer import Enforcer
from tests.isolate.lab import Lab

pytestmark = pytest.mark.root
PAGE = os.sysconf("SC_PAGE_SIZE")


def size(enforcer: Enforcer) -> dict[str, int]:
    """What must not grow: descriptors, entries of tables, containers that are followed."""
    tables = enforcer.session.accounting
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "containers": len(enforcer.session.containers.current),
        "enforced": len(enforcer.enforced),
        **{name: entries for name, entries in tables.entries().items() if name != "cgroups"},
        "containers' cgroups": tables.entries()["cgroups"] - tables.cached(),
    }


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def come_and_go(lab: Lab, enforcer: Enforcer, number: int) -> None:
    """A container with a limit, a namespace, an address and traffic, for a moment."""
    name = f"c{number % 7}"
    namespace, address = lab.namespace(cpu=0)
    cgroup = lab.limited(name, 3)
    process = lab.start("hold", "5000", cgroup=cgroup, namespace=namespace, cpu=0)
    enforcer.wait(0.12)
    lab.start("send", address, "5000", "30000", "100", "800", cpu=1).wait(timeout=60)
    enforcer.wait(0.04)
    lab.stop(process)
    lab.remove_namespace(namespace)
    lab.remove(cgroup)
    enforcer.sample()


def settled(enforcer: Enforcer, expected: dict[str, int]) -> dict[str, int]:
    """The size, once the kernel has removed what was deleted."""
    for _ in range(100):
        enforcer.sample()
        if size(enforcer) == expected:
            break
        time.sleep(0.02)
    return size(enforcer)


@pytest.mark.parametrize(
    "seconds", [2.0, pytest.param(3600.0, marks=[pytest.mark.slow_matrix(whole=True), pytest.mark.timeout(4500)])]
)
def test_containers_that_come_and_go_leave_nothing(lab: Lab, tmp_path: Path, seconds: float) -> None:
    state = tmp_path / "state"
    with Enforcer([lab.pattern], interrupt_ns=0, state_folder=state) as enforcer:
        enforcer.sample()
        before = size(enforcer)
        end, middle, number, memory = time.monotonic() + seconds, time.monotonic() + seconds / 2, 0, 0
        while time.monotonic() < end:
            come_and_go(lab, enforcer, number)
            number += 1
            if not memory and time.monotonic() > middle:
                memory = resident()  # by then, what is allocated once has been
        assert number >= 2
        assert settled(enforcer, before) == before
        assert resident() < memory + (8 << 20)
        assert not (state / "limits.json").exists()
        assert not any(enforcer.session.losses.values())
        assert len(enforcer.session.total().containers) <= 256 + len(enforcer.enforced)
    assert os.listdir(state) == ["lock"]
