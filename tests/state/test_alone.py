"""An instance that has all of the traffic caches what instances share (CHC, table 3.5, last column; figure 3.14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import Arrangement, function
from sluice.chain.processes.controller import Controller
from sluice.state.location import Location
from sluice.state.peer import Peer
from sluice.state.rows import CLOCK_BYTES
from tests.state.boxes import missing
from tests.state.instances import Action, Ran, compiled, kill, move, plan_of, run_ideal, run_instances
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
CLAIMS = function(str(Path(__file__).with_name("claims.c")))
LEAVES, DROPS = (function(str(Path(__file__).with_name("leaves.c")), drops=drops) for drops in (0, 8))
NAT = function("nat", inside="10.1.0.0/16")


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return mixed(4, 120)


def ran(
    of: Arrangement, name: str, packets: list[bytes], folder: Path, store: Location, actions: dict[int, Action]
) -> Ran:
    """With two instances."""
    with unoptimised():
        chain = compiled(plan_of(of), {name: 2})
    found = run_instances(chain, packets, folder, store, actions)
    assert found.failure is None
    return found


def half(name: str) -> Action:
    """An action that assigns half of the traffic to the first instance."""

    def act(controller: Controller) -> None:
        assert controller.instances.assign(name, dict.fromkeys(range(512), 0)) > 0

    return act


def test_operations_do_not_wait_while_one_instance_has_all(
    packets: list[bytes], tmp_path: Path, store: Location
) -> None:
    """All of the traffic is one instance's, then of both, then the other one's: else only first operations wait."""
    with unoptimised():
        ideal = run_ideal(plan_of(CLAIMS), packets, tmp_path / "ideal").state
    moves: list[dict[int, Action]] = [{}, {1: move("claims", 1), 5: half("claims"), 8: move("claims", 0)}]
    waits: list[int] = []
    for actions in moves:
        with Peer(store) as peer:
            peer.call("FLUSHALL")
        found = ran(CLAIMS, "claims", packets, tmp_path, store, actions)
        assert found.state == ideal
        waits.append(found.reports["store_waits"])
    assert waits[1] < 0.7 * waits[0]


def test_what_was_left_to_the_store_needs_no_memory(packets: list[bytes], tmp_path: Path, store: Location) -> None:
    """Else objects of instances that had all of the traffic for a time fill their tables."""
    with unoptimised():
        ideal = run_ideal(plan_of(LEAVES), packets, tmp_path / "ideal")
    found = ran(LEAVES, "leaves", packets, tmp_path, store, {1: move("leaves", 1), 5: half("leaves")})
    assert found.state == ideal.state
    assert ideal.reports["leaves.remaining"] == len(ideal.state) > 0
    assert found.reports["leaves.remaining"] == 0


def test_what_was_dropped_cannot_be_put_again(packets: list[bytes], tmp_path: Path, store: Location) -> None:
    """The store knows for a time when it was: another instance may transmit again what it had put before."""
    with unoptimised():
        every = run_ideal(plan_of(LEAVES), packets, tmp_path / "every").state
        ideal = run_ideal(plan_of(DROPS), packets, tmp_path / "ideal").state
    with Peer(store) as peer:
        peer.call("FLUSHALL")
    assert ran(DROPS, "leaves", packets, tmp_path, store, {1: move("leaves", 1)}).state == ideal
    with Peer(store) as peer:
        keys = peer.call("KEYS", "sluice:{leaves}seen:*")
        assert isinstance(keys, list)
        dropped = [key for key in keys if isinstance(key, bytes) and peer.call("STRLEN", key) == CLOCK_BYTES]
        assert all(peer.call("TTL", key) != -1 for key in dropped)
    assert len(keys) == len(every)
    assert len(dropped) == len(every) - len(ideal) > 0


@pytest.mark.slow_matrix
def test_what_was_cached_outlives_its_process(packets: list[bytes], tmp_path: Path, store: Location) -> None:
    """It is killed while it has all of the traffic, which another one gets then."""
    with unoptimised():
        ideal = run_ideal(plan_of(NAT), packets, tmp_path / "ideal")
    actions = {1: move("nat", 1), 4: kill("nat#1"), 7: move("nat", 0), 10: kill("nat")}
    found = ran(NAT, "nat", packets, tmp_path, store, actions)
    assert (found.state, found.left) == (ideal.state, ideal.left)
    assert found.reports["nat#1.crashes"] == found.reports["nat.crashes"] == 1
