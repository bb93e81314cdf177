"""A server for the tests of a file, empty at the beginning of each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.state.embedded import embedded
from sluice.state.location import Location
from sluice.state.peer import Peer
from tests.state.boxes import missing


@pytest.fixture(scope="module")
def server() -> Iterator[Location]:
    """A private server, as --store embedded starts it."""
    if why := missing():
        pytest.skip(why)
    with embedded(Location("embedded")) as location:
        yield location


@pytest.fixture
def store(server: Location) -> Location:
    """The same, empty."""
    with Peer(server) as peer:
        peer.call("FLUSHALL")
    return server
