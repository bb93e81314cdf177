"""Clones of stragglers (thesis, 3.4.3): R5, duplicates are suppressed, and with that switched off they appear."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.clone import clone
from sluice.chain.processes.controller import Controller
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import (
    Action,
    Ran,
    Trigger,
    compiled,
    given_all,
    plan_of,
    process_of,
    run_ideal,
    run_instances,
)
from tests.state.peers import Hole
from tests.state.traffic import address, connection, mixed
from tests.support.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
COUNTS = Path(__file__).with_name("counts.c")
INSIDE, OUTSIDE = bytes([10, 1, 0, 0]), bytes([198, 51, 100, 0])
STRAGGLER = "counts#1"
REQUEST = 99


@pytest.fixture(scope="module")
def steady() -> list[bytes]:
    """Connections of a few hosts, all of which come at the beginning: later nothing waits for the store."""
    each = [connection(address(INSIDE, 1 + number % 8), address(OUTSIDE, 9), 4000 + number) for number in range(70)]
    return [packet for one in each for packet in one]


@pytest.fixture(scope="module")
def ideal(steady: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with unoptimised():
        return run_ideal(plan_of(function(str(COUNTS))), steady, tmp_path_factory.mktemp("ideal")).state


@pytest.fixture
def hole(store: Location) -> Iterator[Hole]:
    with Hole(store.path) as found:
        yield found


def cloned(packets: list[bytes], folder: Path, hole: Hole, *off: str) -> Ran:
    """The store performs what the straggler updates, which is not told so: its clone handles these packets again."""

    def begins(controller: Controller) -> None:
        for process in controller.processes:
            given_all(controller, process)
        time.sleep(0.3)  # the store has what they transmitted
        hole.swallow("replies")

    def stops(controller: Controller) -> None:
        given_all(controller, process_of(controller, STRAGGLER))
        time.sleep(0.3)
        os.kill(process_of(controller, STRAGGLER).pid, signal.SIGSTOP)

    def clones(controller: Controller) -> None:
        assert clone(controller, process_of(controller, STRAGGLER))
        hole.swallow("")

    with unoptimised():
        chain = compiled(plan_of(function(str(COUNTS))), {"counts": 2})
    location = Location("server", path=hole.path, timeout=1000)
    actions: dict[int, Action] = {3: begins, 5: stops, 7: clones}
    return run_instances(chain, packets, folder, location, actions, frozenset(off))


def test_r5_a_clone_continues_without_duplicates(
    steady: list[bytes], ideal: list[str], tmp_path: Path, hole: Hole
) -> None:
    found = cloned(steady, tmp_path, hole)
    assert found.state == ideal and found.failure is None
    assert found.reports["counts#1.clones"] == 1 and "counts#1.crashes" not in found.reports


def test_r5_a_clone_without_the_check_for_duplicates(
    steady: list[bytes], ideal: list[str], tmp_path: Path, hole: Hole
) -> None:
    assert packets_of(cloned(steady, tmp_path, hole, "repeated").state) > packets_of(ideal)


def test_r6_packets_leave_once_although_their_instance_is_cloned(tmp_path: Path, store: Location) -> None:
    """What the straggler decided about packets is not decided again: the output is that of the ideal chain."""
    packets, nat = mixed(3, 60), function("nat", inside="10.1.0.0/16")

    def stops(controller: Controller) -> None:
        """It stands still; soon the chain waits for what it decides, and a request to clone it comes."""
        os.kill(process_of(controller, "nat#1").pid, signal.SIGSTOP)
        assert isinstance(controller.requests, Trigger)
        threading.Timer(0.5, os.write, (controller.requests.files_[1], bytes([REQUEST]))).start()

    def clones(controller: Controller) -> None:
        assert clone(controller, process_of(controller, "nat#1"))

    with unoptimised():
        ideal = run_ideal(plan_of(nat), packets, tmp_path / "ideal")
        chain = compiled(plan_of(nat), {"nat": 2})
    found = run_instances(chain, packets, tmp_path, store, {2: stops, REQUEST: clones})
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert found.reports["nat#1.clones"] == 1


def packets_of(state: list[str]) -> int:
    (row,) = (row for row in state if '"object": "all"' in row)
    return int(row.rpartition(" ")[2].rstrip("}"))
