"""A Valkey Cluster of three masters and three replicas on loopback, of which a master is killed under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.state.cluster import open_store, slot_of
from tests.state.boxes import missing, run_one
from tests.state.clusters import Nodes, cluster
from tests.state.instances import Ran, compiled, plan_of, run_ideal, run_instances
from tests.state.traffic import mixed, write
from tests.support.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NAT = function("nat", inside="10.1.0.0/16")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def healthy(nodes: Nodes) -> Nodes:
    """All nodes run, and have nothing."""
    for port in nodes.ports:
        if nodes.processes[port].poll() is not None:
            nodes.start(port)
    nodes.await_healthy()
    nodes.clear()
    return nodes


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return mixed(3, 150)


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    with unoptimised():
        return run_ideal(plan_of(NAT), packets, tmp_path_factory.mktemp("ideal"))


def test_slots_are_those_of_hash_tags() -> None:
    """The examples of the cluster specification: CRC16 (XMODEM) of the tag, else of the whole key."""
    assert slot_of(b"123456789") == 0x31C3
    assert slot_of(b"sluice:{nat}ports:") == slot_of(b"sluice-owner:{nat}7") == slot_of(b"nat")
    assert slot_of(b"a{}b") != slot_of(b"")


def killed_master(nodes: Nodes, packets: list[bytes], folder: Path, safety: str) -> Ran:
    """Two instances of the NAT, over a cluster of which the master that has their state is killed."""
    with unoptimised():
        chain = compiled(plan_of(NAT), {"nat": 2})

    def kill(_: Controller) -> None:
        nodes.kill(nodes.master_of("nat"))

    return run_instances(chain, packets, folder, nodes.location(safety=safety), {4: kill})


def test_a_master_is_killed_under_load(healthy: Nodes, packets: list[bytes], ideal: Ran, tmp_path: Path) -> None:
    """What left and the final state are those of the ideal chain: what counts as stored, the replica has."""
    found = killed_master(healthy, packets, tmp_path, "replica")
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert found.reports["store_reconnections"] >= 2


@pytest.mark.slow_matrix
def test_r6_without_replicas_logs_have_what_was_lost(
    healthy: Nodes, packets: list[bytes], ideal: Ran, tmp_path: Path
) -> None:
    """Replication is asynchronous: what only the master had comes from the write-ahead logs."""
    found = killed_master(healthy, packets, tmp_path, "memory")
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert found.reports["store_recoveries"] >= 1


@pytest.mark.slow_matrix
def test_functions_of_one_box_lie_on_several_nodes(healthy: Nodes, packets: list[bytes], tmp_path: Path) -> None:
    """Each has a connection of its own with the node that has its slot."""
    capture = write(tmp_path / "in.pcap", packets)
    local = run_one(capture, "nat:inside=10.1.0.0/16", tmp_path / "local")
    found = run_one(capture, "nat:inside=10.1.0.0/16", tmp_path / "cluster", healthy.location())
    assert (found.left, found.state) == (local.left, local.state)
    with open_store(healthy.location()) as peer:
        assert {slot_of(key) for key in peer.keys("sluice:{nat}*")} == {slot_of(b"nat")}


@pytest.mark.slow_matrix
def test_a_slot_moves_to_another_node_under_load(
    healthy: Nodes, packets: list[bytes], ideal: Ran, tmp_path: Path
) -> None:
    """The slot is migrated key by key; updates wait until all keys are at one node, and follow them."""
    with unoptimised():
        chain = compiled(plan_of(NAT), {"nat": 2})
    found = run_instances(
        chain, packets, tmp_path, healthy.location(), {4: lambda _: healthy.migrate("nat", pause=0.2)}
    )
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
