"""safety=disk: updates count as stored when they are in the append-only file of the server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.state.errors import StoreError
from sluice.state.library import check_version
from sluice.state.location import Location, LocationError, read_location
from sluice.state.peer import Peer
from sluice.state.safety import WAITAOF, with_safety
from tests.state.boxes import needs_store
from tests.state.instances import Ran, compiled, plan_of, run_ideal, run_instances
from tests.state.servers import Server
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

NAT = function("nat", inside="10.1.0.0/16")


def has_waitaof(peer: Peer) -> bool:
    version = check_version(peer).split()[1]
    return tuple(int(part) for part in version.split(".")[:2]) >= WAITAOF


def synchronizes(server: Server, mode: str) -> Location:
    """An append-only file, and when it is written to the disk."""
    with server.peer() as peer:
        peer.call("CONFIG", "SET", "appendfsync", mode)
        peer.call("CONFIG", "SET", "appendonly", "yes")
    return replace(server.location, safety="disk")


def ran(location: Location, folder: Path, connections: int) -> tuple[Ran, Ran]:
    """What the ideal chain does, and one over the store."""
    packets = mixed(3, connections)
    with unoptimised():
        ideal = run_ideal(plan_of(NAT), packets, folder / "ideal")
        chain = compiled(plan_of(NAT), {"nat": 2})
    return ideal, run_instances(chain, packets, folder, location)


def waits(server: Server) -> bool:
    with server.peer() as peer:
        found = peer.call("INFO", "commandstats")
    return isinstance(found, bytes) and b"cmdstat_waitaof:" in found


def test_a_server_without_a_file_is_refused(own_server: Server) -> None:
    location = replace(own_server.location, safety="disk")
    with own_server.peer() as peer, pytest.raises(StoreError, match=r"no append-only file.*--appendonly yes"):
        with_safety(peer, location)


def test_an_embedded_store_is_refused() -> None:
    with pytest.raises(LocationError, match="nothing on disk"):
        read_location("embedded?safety=disk")
    assert read_location("valkey://a,b?safety=disk").replicas == 1
    assert read_location("valkey://a?safety=disk").replicas == 0


@needs_store
def test_packets_wait_until_a_file_that_is_synchronized_always_has_their_updates(
    own_server: Server, tmp_path: Path
) -> None:
    """A server that has WAITAOF says so; an older one replies when the file has them."""
    ideal, found = ran(synchronizes(own_server, "always"), tmp_path, 20)
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert "nat.store_unreplicated" not in found.reports
    with own_server.peer() as peer:
        assert waits(own_server) == has_waitaof(peer)


@needs_store
def test_a_server_that_cannot_say_when_a_file_is_synchronized_is_refused(own_server: Server) -> None:
    location = synchronizes(own_server, "everysec")
    with own_server.peer() as peer:
        if has_waitaof(peer):
            assert with_safety(peer, location).waits_disk
            return
        with pytest.raises(StoreError, match=r"before 7\.2.*appendfsync is everysec: set it to always"):
            with_safety(peer, location)


@needs_store
@pytest.mark.slow_matrix
def test_updates_that_a_disk_does_not_have_are_counted(own_server: Server, tmp_path: Path) -> None:
    """Without a synchronization packets go on after a while, and the chain says so."""
    location = synchronizes(own_server, "no")
    with own_server.peer() as peer:
        if not has_waitaof(peer):
            pytest.skip("the server has no WAITAOF")
    ideal, found = ran(location, tmp_path, 4)
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert sum(value for name, value in found.reports.items() if name.endswith("store_unreplicated")) > 0
