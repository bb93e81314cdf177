"""Nodes of a cluster that reply late, or not: no command gets the reply to another one, and another node is found; and
a recovery that begins again counts what it missed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from typing import Any, BinaryIO, cast

import pytest

from sluice.state.cluster import Cluster
from sluice.state.errors import StoreError
from sluice.state.location import Location
from sluice.state.logs import entry_of
from sluice.state.recovery import Recovery

PATIENCE = 1.0
"""Seconds for which the cluster's client tries."""


class Node:
    """A node that knows a few commands. `silent`: it does not reply any more; `slow`: it replies too late."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.owner = self.port  # of all slots, as it says
        self.silent, self.ends = threading.Event(), threading.Event()
        self.slow = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self.ends.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                while words := _request(lines):
                    if self.silent.is_set():
                        self.ends.wait(10)
                        return
                    if words[0] == b"WAIT" and self.slow.is_set():
                        self.ends.wait(1.5 * PATIENCE)
                    connection.sendall(self._reply(words))
            except (OSError, ValueError):
                return

    def _reply(self, words: list[bytes]) -> bytes:
        if words[0] == b"CLUSTER":
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % self.owner
        if words[0] == b"WAIT":
            return b":1\r\n"
        return b":77\r\n" if words[0] == b"INCR" else b"$%d\r\n%d\r\n" % (len(str(self.port)), self.port)

    def end(self) -> None:
        self.ends.set()
        self.listener.close()


def _request(lines: BinaryIO) -> list[bytes]:
    head = lines.readline()
    words: list[bytes] = []
    for _ in range(int(head[1:]) if head else 0):
        size = int(lines.readline()[1:])
        words.append(lines.read(size))
        lines.read(2)
    return words


@pytest.fixture
def nodes() -> Generator[tuple[Node, Node]]:
    both = Node(), Node()
    both[1].owner = both[0].port
    yield both
    for node in both:
        node.end()


def client(nodes: tuple[Node, Node]) -> Cluster:
    found = Cluster(
        Location(
            "server",
            "127.0.0.1",
            nodes[0].port,
            nodes=tuple(("127.0.0.1", node.port) for node in nodes),
        ),
        10.0,
    )
    found.set_timeout(PATIENCE)
    return found


def test_a_late_reply_answers_no_other_command(nodes: tuple[Node, Node]) -> None:
    cluster = client(nodes)
    nodes[0].slow.set()
    with pytest.raises(StoreError):
        cluster.call("INCR", "before")
    nodes[0].slow.clear()
    assert cluster.call("GET", "x") == b"%d" % nodes[0].port
    assert cluster.call("INCR", "x") == 77


def test_the_replica_of_a_silent_master_is_found(nodes: tuple[Node, Node]) -> None:
    cluster = client(nodes)
    assert cluster.call("GET", "x") == b"%d" % nodes[0].port
    nodes[0].silent.set()
    nodes[1].owner = nodes[1].port
    with pytest.raises(StoreError):  # the silent node uses up the time of the command
        cluster.call("GET", "x")
    assert cluster.call("GET", "x") == b"%d" % nodes[1].port


class Log:
    """The log of a process from which the first calls are missing: its clocks begin with 4."""

    def entries(self) -> Generator[list[Any]]:
        words = (("FCALL", "p_logged", "1", "k", "a", str(clock), "x", "n") for clock in (4, 5))
        yield [entry_of([word.encode() for word in each]) for each in words]


class Store:
    """A store that performs a recovery's calls and loses the connection before the first reply."""

    name = "p"

    def __init__(self) -> None:
        self.tries = self.clock = 0

    def server_of(self, _: str) -> str:
        return "id"

    def call(self, *words: str) -> list[bytes] | None:
        if words[0] != "HGETALL":
            return None
        return [b"a", b"%d" % self.clock] if self.clock else []

    def calls(self, commands: list[list[Any]]) -> list[Any]:
        self.tries += 1
        if self.tries == 1:
            self.clock = 3
            raise StoreError("the connection is lost")
        return [1 if command[0] == "HSET" else b"+1" for command in commands]


def test_a_recovery_that_begins_again_counts_what_is_missing() -> None:
    said: list[str] = []
    recovery = Recovery(["f"], "p", 1, lambda _: None, lambda: ["a"], notify=said.append)
    recovery.logs["f"] = cast(Any, [Log()])
    store = cast(Any, Store())
    with pytest.raises(StoreError, match="the connection is lost"):
        list(recovery.recover(store))
    list(recovery.recover(store))
    assert recovery.missing == 3
