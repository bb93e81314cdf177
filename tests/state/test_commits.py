"""Commits of instances: the store applies a batch once, whole, and only for the process that owns what it changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.state.chain_store import owner_key
from sluice.state.library import Library, load_library, make_library
from sluice.state.location import Location
from sluice.state.peer import Peer

OBJECT, MARKER = "sluice:{f}number#7:", "sluice-done:{f}0:1"
OWNER = owner_key("f", 7)


class Store:
    """What the clients of instances call."""

    def __init__(self, peer: Peer, library: Library) -> None:
        self.peer, self._library = peer, library

    def call(self, name: str, keys: list[str], *words: str | int, reads: bool = False) -> bytes:
        command = "FCALL_RO" if reads else "FCALL"
        found = self.peer.call(command, f"{self._library.prefix}_{name}", len(keys), *keys, *words)
        assert isinstance(found, bytes)
        return found

    def commit(self, process: str, clock: int, *updates: str | int, before: int = 0) -> bytes:
        """updates: the name and two arguments of each, of OBJECT."""
        keys = [MARKER, OWNER, *[OBJECT] * (len(updates) // 3)]
        return self.call("commit", keys, process, clock, before, 0, 1, *updates)

    def own(self, process: str, number: int = 0, version: int = 2) -> bytes:
        return self.call("own", [MARKER, OWNER], process, number, version)

    def release(self, process: str, to: int) -> None:
        self.call("release", [MARKER, OWNER], process, to)

    def value(self) -> bytes:
        return self.call("load", [OBJECT], reads=True)


@pytest.fixture
def opened(store: Location) -> Iterator[Store]:
    library = make_library()
    with Peer(store) as peer:
        load_library(peer, library)
        yield Store(peer, library)


def test_a_batch_is_applied_once(opened: Store) -> None:
    assert opened.own("one") == b"+1"
    assert opened.commit("one", 10, "add", 3, 0) == b"+10"
    assert opened.commit("one", 10, "add", 3, 0) == b"="  # transmitted again, or handled again
    assert opened.commit("one", 9, "add", 3, 0) == b"="
    assert opened.value() == b"+3"


def test_a_struct_that_was_dropped_does_not_come_back(opened: Store) -> None:
    """Another instance had put it, and does so again as it did not get the reply. A later put sets it."""
    opened.own("one")
    struct = [OBJECT, OBJECT.replace("sluice:", "sluice-log:")]
    ids = [bytes((0, 1, 0, 0, 0, 0, 0, number)).decode() for number in range(5)]
    assert opened.call("put", struct, ids[0], ids[1], "bytes") == b"+0"
    assert opened.call("get", [OBJECT], reads=True) == b"+bytes"
    assert opened.commit("one", 10, "drop_struct", ids[3], "") == b"+10"
    assert opened.call("put", struct, ids[0], ids[1], "bytes") == b"+0"
    assert opened.call("get", [OBJECT], reads=True) == b"-"
    assert 0 < int(opened.peer.call("TTL", OBJECT)) <= 600  # pyright: ignore[reportArgumentType]
    assert opened.call("put", struct, ids[0], ids[4], "later") == b"+0"
    assert opened.call("get", [OBJECT], reads=True) == b"+later"


def test_a_store_that_lost_a_commit_refuses_the_next_one(opened: Store) -> None:
    """As a replica that became master without it: the state would lack updates that were acknowledged."""
    opened.own("one")
    assert opened.commit("one", 10, "add", 3, 0) == b"+10"
    assert opened.commit("one", 30, "add", 3, 0, before=20) == b"<10"
    assert opened.value() == b"+3"
    assert opened.commit("one", 20, "add", 4, 0, before=10) == b"+20"
    assert opened.commit("one", 30, "add", 3, 0, before=20) == b"+30"


def test_a_stale_process_cannot_change_what_another_one_owns(opened: Store) -> None:
    assert opened.own("one") == b"+1"
    assert opened.call("inherit", [OWNER], "one", "two") == b"+0"
    assert opened.commit("one", 10, "add", 3, 0) == b"~" + OWNER.encode()
    assert opened.value() == b"-"
    assert opened.commit("two", 10, "add", 5, 0) == b"+10"
    assert opened.value() == b"+5"


def test_a_part_is_taken_only_when_it_was_given_up(opened: Store) -> None:
    assert opened.own("one") == b"+1"
    assert opened.own("two", 1) == b"+0"
    opened.release("two", 2)  # not its own
    assert opened.own("two", 1) == b"+0"
    opened.release("one", 1)
    assert opened.own("one", 0) == b"+0"  # although the other one has not taken it yet
    assert opened.own("two", 1) == b"+1"
    assert opened.call("owned", [MARKER, OWNER, owner_key("f", 8)], "two", reads=True) == b"+102"


@pytest.mark.parametrize(
    ("updates", "text"),
    [
        (("push", 4, 0, "push", 5, 0, "pop", 0, 0), b"+5,"),
        (("insert", 4, 0, "insert", 4, 0), b"+4,"),
        (("map_add", 1, 7, "map_add", 1, -2), b"+1=5,"),
        (("set", 9, 0, "maximum", 4, 0, "add", 1, 0, "compare", 10, 11), b"+11"),
    ],
    ids=["list", "set", "map", "number"],
)
def test_all_of_an_object_is_read_as_text(opened: Store, updates: tuple[str | int, ...], text: bytes) -> None:
    opened.own("one")
    opened.commit("one", 1, *updates)
    assert opened.value() == text


def test_a_read_that_is_repeated_has_the_result_that_it_had(opened: Store) -> None:
    log, first, other = "sluice-log:{f}n:", b"\0\1\0\0\0\0\0\1", b"\0\1\0\0\0\0\0\2"
    prefix = f"{make_library().prefix}_"

    def call(name: str, *words: str | bytes) -> object:
        return opened.peer.call("FCALL", prefix + name, 2, "sluice:{f}n:", log, b"\0" * 8, *words)

    assert call("read_once", first) == b"+0"
    assert call("set", other, "5") == b"+5"
    assert call("read_once", first) == b"+0"
