"""Nodes of a cluster that reply late, or not: no command gets the reply to another one, and another node is found."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from sluice.state.cluster import Cluster
from sluice.state.errors import StoreError
from sluice.state.location import Location
from tests.state.peers import replying_node

PATIENCE = 1.0
"""Seconds for which the cluster's client tries."""


class Node:
    """A node that has a few commands. silent: it does not reply any more; slow: its replies after updates are late."""

    def __init__(self) -> None:
        self.port = self.owner = 0  # the owner is that of all slots, as it says
        self.silent = self.slow = False

    def reply(self, _: int, data: bytes) -> bytes:
        if self.silent:
            return b""
        commands = re.findall(rb"\*\d+\r\n\$\d+\r\n(\w+)", data)
        if self.slow and b"WAIT" in commands:
            time.sleep(1.5 * PATIENCE)
        return b"".join(map(self._reply_to, commands))

    def _reply_to(self, command: bytes) -> bytes:
        if command == b"CLUSTER":
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % self.owner
        if command == b"WAIT":
            return b":1\r\n"
        return b":77\r\n" if command == b"INCR" else b"$%d\r\n%d\r\n" % (len(str(self.port)), self.port)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    one, other = Node(), Node()
    with replying_node(one.reply) as one.port, replying_node(other.reply) as other.port:
        one.owner = other.owner = one.port
        yield one, other


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
    nodes[0].slow = True
    with pytest.raises(StoreError):
        cluster.call("INCR", "before")
    nodes[0].slow = False
    assert cluster.call("GET", "x") == b"%d" % nodes[0].port
    assert cluster.call("INCR", "x") == 77


def test_the_replica_of_a_silent_master_is_found(nodes: tuple[Node, Node]) -> None:
    cluster = client(nodes)
    assert cluster.call("GET", "x") == b"%d" % nodes[0].port
    nodes[0].silent = True
    nodes[1].owner = nodes[1].port
    with pytest.raises(StoreError):  # the silent node uses up the time of the command
        cluster.call("GET", "x")
    assert cluster.call("GET", "x") == b"%d" % nodes[1].port
