"""On a kernel without tcx, packets are dropped by classifiers, which do not remain when the controller ends or crashes.

This kernel may have tcx: that it is not used is the only thing which differs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.isolate import classic
from sluice.isolate.gates import Gates
from sluice.isolate.restore import Record, restore
from tests.isolate.lab import Lab
from tests.isolate.test_gates import NONE, hold, ip

pytestmark = pytest.mark.root
FOREVER = 1 << 62


@pytest.fixture(autouse=True)
def without_tcx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic, "has_tcx", lambda: False)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    made = Record(tmp_path / "state")
    yield made
    made.close()


def filters(namespace: str, interface: str) -> str:
    """All filters and the queue discipline of clsact at an interface; the host's if the namespace is empty."""
    tc = ["tc", *(["-n", namespace] if namespace else [])]
    words = (
        f"filter show dev {interface} ingress",
        f"filter show dev {interface} egress",
        f"qdisc show dev {interface}",
    )
    shown = [
        subprocess.run([*tc, *one.split()], capture_output=True, text=True, check=True, timeout=300).stdout
        for one in words
    ]
    return "".join(line for line in "".join(shown).splitlines(True) if "clsact" in line or "bpf" in line)


@pytest.mark.parametrize("mode", ["host-end", "tc"])
def test_packets_are_dropped_and_nothing_remains(lab: Lab, record: Record, mode: str) -> None:
    name, address = lab.namespace()
    process, inode = hold(lab, name)
    where = ("", lab.host_end(name)) if mode == "host-end" else (name, "link0")
    gates = Gates(mode, os.cpu_count() or 1, record=record, folder=folder(lab, process))
    try:
        gates.refresh([process], frozenset({inode}), NONE)
        assert gates.refused == {} and [place.split()[0] for place in gates.places.values()] == [mode]
        assert "clsact" in filters(*where) and "bpf" in filters(*where)
        # The link address is known from now on.
        lab.start("send", address, "5000", "20000", "100", "10").wait(timeout=60)
        assert gates.dropped()["spent"].packets == 0
        gates.set("spent", FOREVER)
        lab.start("send", address, "5000", "20000", "100", "80").wait(timeout=60)
        assert gates.dropped()["spent"].packets >= 80
        assert (record.folder / "interfaces.json").exists(), "a crash leaves what removes it"
    finally:
        gates.close()
    assert filters(*where) == "" and not (record.folder / "interfaces.json").exists()


@pytest.mark.parametrize("mode", ["host-end", "tc"])
def test_what_a_crash_left_is_removed_and_no_more(lab: Lab, record: Record, mode: str) -> None:
    """A filter of another program, and with it the queue discipline, is left."""
    (name, _), (other, _) = lab.namespace(), lab.namespace()
    made: list[Gates] = []
    places: list[tuple[str, str]] = []
    process = inode = 0
    for one in (name, other):
        process, inode = hold(lab, one)
        gates = Gates(mode, os.cpu_count() or 1, record=record, folder=folder(lab, process))
        gates.refresh([process], frozenset({inode}), NONE)
        made.append(gates)
        places.append(("", lab.host_end(one)) if mode == "host-end" else (one, "link0"))
    other_program = Gates(mode, os.cpu_count() or 1)
    other_program.refresh([process], frozenset({inode}), NONE)
    made.append(other_program)
    restore(record.folder)
    assert filters(*places[0]) == ""
    assert filters(*places[1]).count("handle 0x510") == 1 and "clsact" in filters(*places[1])
    for gates in made:  # they would have ended with the process
        gates.close()


def test_a_handle_that_is_taken_is_not_used(lab: Lab, record: Record) -> None:
    name, _ = lab.namespace()
    outer = lab.host_end(name)
    process, inode = hold(lab, name)
    first, second = (Gates("host-end", os.cpu_count() or 1, record=record) for _ in range(2))
    first.refresh([process], frozenset({inode}), NONE)
    second.refresh([process], frozenset({inode}), NONE)
    assert filters("", outer).count("handle 0x510") == 2
    first.close()
    assert filters("", outer).count("handle 0x510") == 1, "the other's is left"
    second.close()
    ip("link", "show", outer)


def folder(lab: Lab, process: int) -> Path:
    """A control group with that process."""
    made = lab.limited("i", 50)
    (made / "cgroup.procs").write_text(str(process))
    return made
