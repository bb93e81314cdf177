"""Where packets of a container cannot be dropped, and how often this is tried."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.isolate.gates import Gates
from tests.isolate.lab import Lab

pytestmark = pytest.mark.root
NONE: frozenset[int] = frozenset()


@pytest.fixture
def gates(lab: Lab) -> Iterator[Gates]:
    del lab
    made = Gates("host-end", os.cpu_count() or 1)
    yield made
    made.close()


@pytest.fixture
def tried(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The interfaces to which a program was to be attached."""
    found: list[tuple[int, int]] = []
    attach = Gates._attach  # pyright: ignore[reportPrivateUsage]

    def counted(self: Gates, key: tuple[int, int], *rest: object) -> None:
        found.append(key)
        attach(self, key, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Gates, "_attach", counted)
    return found


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=300)


def hold(lab: Lab, namespace: str) -> tuple[int, int]:
    """A process in a namespace, and the namespace's inode."""
    process = lab.start("hold", "5000", namespace=namespace).pid
    inode = Path(f"/run/netns/{namespace}").stat().st_ino
    end = time.monotonic() + 60
    while Path(f"/proc/{process}/ns/net").stat().st_ino != inode:  # `ip netns exec` enters it
        assert time.monotonic() < end, "the process does not enter its namespace"
        time.sleep(0.005)
    return process, inode


def test_interfaces_of_the_same_name_are_refused_once_each(
    lab: Lab, gates: Gates, tried: list[tuple[int, int]]
) -> None:
    *names, other = (lab.namespace()[0] for _ in range(3))
    for name in names:
        ip("link", "set", lab.host_end(name), "netns", other)
    processes, inodes = zip(*(hold(lab, name) for name in names), strict=True)
    for _ in range(3):
        gates.refresh(processes, frozenset(inodes), NONE)
        assert {inode for inode, _ in gates.refused} == set(inodes)
        assert set(gates.refused.values()) == {"host-end: it has no end in the host's namespace"}
        assert (len(tried), gates.places) == (2, {})
    ip("-n", names[0], "link", "delete", "link0")
    gates.refresh(processes, frozenset(inodes), NONE)
    assert [inode for inode, _ in gates.refused] == [inodes[1]]


def test_an_interface_whose_end_comes_to_the_host_is_tried_again(
    lab: Lab, gates: Gates, tried: list[tuple[int, int]]
) -> None:
    (name, _), (other, _) = lab.namespace(), lab.namespace()
    process, inode = hold(lab, name)
    outer = lab.host_end(name)
    ip("link", "set", outer, "netns", other)
    gates.refresh([process], frozenset({inode}), NONE)
    assert len(gates.refused) == 1
    ip("-n", other, "link", "set", outer, "netns", str(os.getpid()))
    gates.refresh([process], frozenset({inode}), NONE)
    assert len(tried) == 2
    if list(gates.places.values()) == [f"host-end {outer}"]:
        assert gates.refused == {}
    else:  # without tcx
        assert list(gates.refused) == [tried[0]]


def test_an_interface_that_is_down_has_no_gate_until_it_is_up(lab: Lab, gates: Gates) -> None:
    name, _ = lab.namespace()
    process, inode = hold(lab, name)
    ip("-n", name, "link", "add", "spare0", "type", "veth", "peer", "name", "spare1")
    gates.refresh([process], frozenset({inode}), NONE)
    assert len(gates.places) + len(gates.refused) == 1
    ip("-n", name, "link", "set", "spare0", "up")
    gates.refresh([process], frozenset({inode}), NONE)
    assert len(gates.places) + len(gates.refused) == 2


def test_a_namespace_without_a_process_to_enter_it_is_named(gates: Gates) -> None:
    gates.refresh([], frozenset({1, 2}), frozenset({2}))
    assert gates.refused == {
        (1, 0): "no process was found by which its network namespace can be entered",
        (2, 0): "it shares its network namespace with other containers",
    }
