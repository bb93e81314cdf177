"""A function gives the same output and the same final state with each store (CHC, R1)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.state.location import Location
from sluice.state.peer import Peer
from tests.state.boxes import LOCAL, READY, run
from tests.state.traffic import mixed, write
from tests.support.corpus import captures

OPTIONS = ("nat:inside=10.1.0.0/16", "balance", "portscan:wait=1", "trojan")
CORPUS = ("nat:inside=192.168.0.0/16,first_port=1024,last_port=1200", "balance:address=10.0.0.2", "portscan", "trojan")


@pytest.mark.parametrize("options", ["", "wait", "wait and no cache"])
def test_generated_traffic(store: Location, tmp_path: Path, options: str) -> None:
    location = replace(store, wait="wait" in options, cache="cache" not in options)
    capture = write(tmp_path / "in.pcap", mixed(1, 900))
    local, remote = (run(capture, OPTIONS, place, tmp_path / place.kind) for place in (LOCAL, location))
    assert local.outcome.failure is None and remote.outcome.failure is None
    assert (remote.left, remote.rows, remote.reports) == (local.left, local.rows, local.reports)
    assert remote.state == local.state
    assert all(f'"function": "{name}"' in local.state for name in READY)
    assert local.reports["trojans"] > 0 and local.reports["scanners"] > 0


def test_captures_of_the_corpus(store: Location, tmp_path: Path) -> None:
    """All four at once, on real traffic."""
    chosen = [path for path in captures() if path.stat().st_size < 400_000]
    seen = 0
    for number, path in enumerate(chosen):
        if number % 3:
            continue
        local, remote = (run(path, CORPUS, place, tmp_path / place.kind) for place in (LOCAL, store))
        assert (remote.left, remote.rows, remote.reports) == (local.left, local.rows, local.reports), path.name
        assert remote.state == local.state, path.name
        seen += len(local.state.splitlines()) > 2
        _empty(store)
    assert seen > 5


@pytest.mark.slow_matrix
def test_all_captures_of_the_corpus(store: Location, tmp_path: Path) -> None:
    for path in captures():
        local, remote = (run(path, CORPUS, place, tmp_path / place.kind) for place in (LOCAL, store))
        assert (remote.left, remote.rows, remote.reports) == (local.left, local.rows, local.reports), path.name
        assert remote.state == local.state, path.name
        _empty(store)


def _empty(store: Location) -> None:
    with Peer(store) as peer:
        peer.call("FLUSHALL")
