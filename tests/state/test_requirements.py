"""CHC's requirements on a chain (thesis, 3.1.1), each with several instances, and with its mechanism switched off."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.chain.description import Function, function
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.scale import scale
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import (
    BURST,
    Action,
    Ran,
    compiled,
    given_all,
    kill,
    move,
    plan_of,
    process_of,
    run_ideal,
    run_instances,
    scope,
)
from tests.state.peers import Hole
from tests.state.traffic import address, connection, mixed, trojan
from tests.support.budget import thinned
from tests.support.unoptimised import unoptimised

COUNTS = Path(__file__).with_name("counts.c")
CLAIMS = Path(__file__).with_name("claims.c")
INSIDE, OUTSIDE = bytes([10, 1, 0, 0]), bytes([198, 51, 100, 0])

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def nat() -> Function:
    return function("nat", inside="10.1.0.0/16")


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return mixed(3, 150)


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What the NAT gives with one instance and local state."""
    with unoptimised():
        return run_ideal(plan_of(nat()), packets, tmp_path_factory.mktemp("ideal"))


def ran(packets: list[bytes], folder: Path, store: Location, actions: dict[int, Action], *off: str) -> Ran:
    """The NAT with two instances."""
    chain = compiled(plan_of(nat()), {"nat": 2})
    return run_instances(chain, packets, folder, store, actions, frozenset(off))


def same(one: Ran, other: Ran) -> bool:
    return one.left == other.left and one.state == other.state and one.failure is None


def each(*bursts: int) -> dict[int, Action]:
    """Kill the two instances in turns."""
    return {burst: kill("nat" if number % 2 else "nat#1") for number, burst in enumerate(bursts)}


def test_r1_state_is_available_after_a_failure(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """Connections keep their ports although both instances were killed."""
    found = ran(packets, tmp_path, store, each(3, 5))
    assert same(found, ideal)
    assert found.reports["nat.crashes"] == found.reports["nat#1.crashes"] == 1


def test_r1_without_the_stored_state(packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location) -> None:
    assert not same(ran(packets, tmp_path, store, each(3, 5), "state"), ideal)


def test_r2_connections_move_with_their_state(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """All connections move to one instance, then to the other one: nothing is lost, or out of order."""
    found = ran(
        packets, tmp_path, store, {2: move("nat", 1), 5: move("nat", 0), 8: lambda controller: _scaled(controller, 3)}
    )
    assert same(found, ideal)
    assert found.reports["nat.parts_moved"] > 1024


def _scaled(controller: Controller, instances: int) -> None:
    assert scale(controller, "nat", instances) > 0


def test_r2_without_marks(packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location) -> None:
    """The new instance does not wait until the old one has given the connections up: the store refuses it."""
    found = ran(packets, tmp_path, store, {2: move("nat", 1)}, "marks")
    assert not same(found, ideal)
    assert found.reports["store_not_owner"] > 0


def paused(label: str, number: signal.Signals) -> Action:
    def act(controller: Controller) -> None:
        os.kill(process_of(controller, label).pid, number)

    return act


PAUSE, RESUME = 0, 9
"""Bursts between which an instance stands still; fewer than the packet log has room for."""


def claimed(packets: list[bytes], folder: Path, store: Location, *off: str) -> Ran:
    """Two instances take numbers from one list, and read a number that both change; one stands still for a while."""
    chain = compiled(plan_of(function(str(CLAIMS))), {"claims": 2})
    pause, resume = paused("claims#1", signal.SIGSTOP), paused("claims#1", signal.SIGCONT)
    return run_instances(chain, packets, folder, store, {PAUSE: pause, RESUME: resume}, frozenset(off))


@pytest.fixture(scope="module")
def ideal_claims(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with unoptimised():
        return run_ideal(plan_of(function(str(CLAIMS))), packets, tmp_path_factory.mktemp("ideal_claims")).state


def test_r3_updates_of_shared_state_have_one_order(
    packets: list[bytes], ideal_claims: list[str], tmp_path: Path, store: Location
) -> None:
    found = claimed(packets, tmp_path, store)
    assert found.state == ideal_claims and found.failure is None


def test_r3_without_the_order(packets: list[bytes], ideal_claims: list[str], tmp_path: Path, store: Location) -> None:
    assert claimed(packets, tmp_path, store, "order").state != ideal_claims


SIGNATURES = 11
DELAYED = ("trojan#1", "trojan", "trojan#2")
"""Instances of which one stands still: three workloads."""


@pytest.fixture(scope="module")
def signatures() -> list[bytes]:
    """Trojans, one after the other, among other connections."""
    out: list[bytes] = []
    for host in range(1, SIGNATURES + 1):
        out += [packet for part in trojan(address(INSIDE, host), 20000) for packet in part]
        for port in range(2):
            out += connection(address(INSIDE, 100 + host), address(OUTSIDE, 9), 3000 + port)
    return out + [packet for port in range(60) for packet in connection(address(INSIDE, 99), OUTSIDE, 7000 + port)]


def trojans(packets: list[bytes], folder: Path, store: Location, label: str, *off: str) -> int:
    """Trojans that are found if one instance of three, of which each has some of the connections, stands still."""
    assert len(packets) > BURST * RESUME
    chain = compiled(plan_of(function("trojan", out=str(folder / "rows"))), {"trojan": 3})
    scope(chain, "trojan", "flow")
    pause, resume = paused(label, signal.SIGSTOP), paused(label, signal.SIGCONT)
    found = run_instances(chain, packets, folder, store, {PAUSE: pause, RESUME: resume}, frozenset(off))
    assert len((folder / "rows").read_text().splitlines()) == found.reports["trojan.trojans"]
    return found.reports["trojan.trojans"]


@pytest.mark.parametrize("label", thinned(DELAYED, 3))
def test_r4_packets_are_seen_in_the_order_of_the_chain(
    signatures: list[bytes], tmp_path: Path, store: Location, label: str
) -> None:
    """An instance that is slow does not hide what was before: all signatures are found."""
    assert trojans(signatures, tmp_path, store, label) == SIGNATURES


@pytest.mark.parametrize("label", thinned(DELAYED, 3))
def test_r4_without_the_order_of_the_chain(
    signatures: list[bytes], tmp_path: Path, store: Location, label: str
) -> None:
    assert trojans(signatures, tmp_path, store, label, "order") < SIGNATURES


@pytest.fixture(scope="module")
def steady() -> list[bytes]:
    """Connections of a few hosts, all of which come at the beginning: later nothing waits for the store."""
    each = [connection(address(INSIDE, 1 + number % 8), address(OUTSIDE, 9), 4000 + number) for number in range(70)]
    return [packet for one in each for packet in one]


@pytest.fixture
def hole(store: Location) -> Iterator[Hole]:
    with Hole(store.path) as found:
        yield found


def _settled(controller: Controller) -> None:
    """Wait until the instances have handled what they were given."""
    for process in controller.processes:
        given_all(controller, process)


def _begins(controller: Controller, hole: Hole, what: str) -> None:
    _settled(controller)
    time.sleep(0.3)  # the store has what they transmitted
    hole.swallow(what)


def _ends(controller: Controller, hole: Hole) -> None:
    """Kill an instance that has transmitted what it updated."""
    _settled(controller)
    time.sleep(0.3)  # the hole has it
    kill("counts#1")(controller)
    hole.swallow("")


def counted(packets: list[bytes], folder: Path, hole: Hole, what: str, *off: str) -> Ran:
    """Two instances that count packets, of which one is killed while the store's connections swallow something."""
    chain = compiled(plan_of(function(str(COUNTS))), {"counts": 2})
    actions: dict[int, Action] = {
        3: lambda controller: _begins(controller, hole, what),
        7: lambda controller: _ends(controller, hole),
    }
    return run_instances(
        chain, packets, folder, Location("server", path=hole.path, timeout=1000), actions, frozenset(off)
    )


@pytest.fixture(scope="module")
def ideal_counts(steady: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with unoptimised():
        return run_ideal(plan_of(function(str(COUNTS))), steady, tmp_path_factory.mktemp("ideal_counts")).state


def test_r5_duplicate_updates_are_suppressed(
    steady: list[bytes], ideal_counts: list[str], tmp_path: Path, hole: Hole
) -> None:
    """The store has applied what the instance was not told before it was killed: packets are handled again."""
    found = counted(steady, tmp_path, hole, "replies")
    assert found.state == ideal_counts and found.failure is None


def test_r5_without_the_check_for_duplicates(
    steady: list[bytes], ideal_counts: list[str], tmp_path: Path, hole: Hole
) -> None:
    found = counted(steady, tmp_path, hole, "replies", "repeated")
    assert packets_of(found.state) > packets_of(ideal_counts)


def test_r6_updates_that_were_lost_are_made_again(
    steady: list[bytes], ideal_counts: list[str], tmp_path: Path, hole: Hole
) -> None:
    """What the instance transmitted has not arrived when it is killed: the packet log has its packets."""
    found = counted(steady, tmp_path, hole, "requests")
    assert found.state == ideal_counts and found.failure is None
    assert found.reports["counts#1.crashes"] == 1


def test_r6_without_the_packet_log(steady: list[bytes], ideal_counts: list[str], tmp_path: Path, hole: Hole) -> None:
    found = counted(steady, tmp_path, hole, "requests", "log")
    assert packets_of(found.state) < packets_of(ideal_counts)


def packets_of(state: list[str]) -> int:
    (row,) = (row for row in state if '"object": "all"' in row)
    return int(row.rpartition(" ")[2].rstrip("}"))
