"""A Valkey Cluster on loopback for tests: three masters and three replicas, each of which can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sluice.state.cluster import SLOTS, slot_of
from sluice.state.embedded import find_server
from sluice.state.errors import StoreError
from sluice.state.location import Location
from sluice.state.peer import Peer, ReplyError

MASTERS = 3
NODE_TIMEOUT = 600
"""Milliseconds after which a node that does not reply is replaced."""


def _port() -> int:
    """A port that is free, as that of the cluster bus 10000 above it is."""
    for _ in range(1000):
        with socket.socket() as one, socket.socket() as bus:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port > 50000:
                continue
            with contextlib.suppress(OSError):
                bus.bind(("127.0.0.1", port + 10000))
                return port
    raise AssertionError("there is no free port")


class Nodes:
    """The processes of a cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes, self.ports = folder, dict[int, subprocess.Popen[bytes]](), list[int]()
        for _ in range(100 * MASTERS):
            if len(self.ports) < 2 * MASTERS and (port := _port()) not in self.ports:
                self.ports.append(port)
        for port in self.ports:
            self.start(port)
        for port in self.ports:
            self._await(lambda port=port: self.peer(port).__enter__().call("PING") is not None)
        self._meet()

    def location(self, **more: object) -> Location:
        """As valkey://A,B,C names it: the masters of the beginning."""
        nodes = tuple(("127.0.0.1", port) for port in self.ports[:MASTERS])
        return replace(Location("server", *nodes[0], nodes=nodes), **more)  # pyright: ignore[reportArgumentType]

    def start(self, port: int) -> None:
        """Start a node, which may have been killed before."""
        folder = self.folder / str(port)
        folder.mkdir(exist_ok=True)
        words = ["--port", port, "--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT, "--save", ""]
        words += ["--bind", "127.0.0.1", "--dir", folder, "--repl-diskless-sync-delay", 0, "--appendonly", "no"]
        with (folder / "log").open("ab") as log:
            self.processes[port] = subprocess.Popen([find_server(), *map(str, words)], stdout=log, stderr=log)

    def kill(self, port: int) -> None:
        """SIGKILL."""
        os.kill(self.processes[port].pid, signal.SIGKILL)
        self.processes[port].wait(timeout=60)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(timeout=60)

    def peer(self, port: int) -> Peer:
        """A connection with one node."""
        return Peer(Location("server", "127.0.0.1", port), 5.0)

    def master_of(self, function: str) -> int:
        """The port of the master that has the keys of a function."""
        slot = slot_of(f"{{{function}}}".encode())
        for port in self.ports:
            with contextlib.suppress(StoreError), self.peer(port) as peer:
                for row in _list(peer.call("CLUSTER", "SLOTS")):
                    first, last, master, *_ = _list(row)
                    if isinstance(first, int) and isinstance(last, int) and first <= slot <= last:
                        found = _list(master)[1]
                        assert isinstance(found, int)
                        return found
        raise AssertionError("no node knows the slot")

    def healthy(self) -> bool:
        """Whether all slots are served, and each master has a replica."""
        for port in self.ports:
            with self.peer(port) as peer:
                info = peer.call("CLUSTER", "INFO")
                role = _list(peer.call("ROLE"))
                if not isinstance(info, bytes) or b"cluster_state:ok" not in info:
                    return False
                if role[0] == b"slave" and role[3] != b"connected":
                    return False
        with self.peer(self.ports[0]) as peer:
            rows = _list(peer.call("CLUSTER", "SLOTS"))
        masters = {_list(_list(row)[2])[1] for row in rows}  # one may have slots that were moved, in rows of their own
        return len(masters) == MASTERS and all(len(_list(row)) == 4 for row in rows)

    def clear(self) -> None:
        """Remove all keys."""
        for port in self.ports:
            with self.peer(port) as peer, contextlib.suppress(ReplyError):  # of a replica
                peer.call("FLUSHALL")

    def migrate(self, function: str, pause: float) -> None:
        """Move the slot of a function to another master, key by key; halfway, wait for so many seconds."""
        slot, source = slot_of(function.encode()), self.master_of(function)
        with self.peer(source) as peer:
            nodes = _list(peer.call("CLUSTER", "SLOTS"))
        masters = {_list(_list(row)[2])[1]: _list(_list(row)[2])[2] for row in nodes}
        target = next(port for port in masters if port != source)
        assert isinstance(target, int)
        names = [name for name in (masters[source], masters[target]) if isinstance(name, bytes)]
        with self.peer(source) as old, self.peer(target) as new:
            new.call("CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
            old.call("CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
            for keys in iter(lambda: _list(old.call("CLUSTER", "GETKEYSINSLOT", slot, 20)), []):
                found = [key for key in keys if isinstance(key, bytes)]
                old.call("MIGRATE", "127.0.0.1", target, "", 0, 5000, "KEYS", *found)
                time.sleep(pause)
                pause = 0
            for peer in (new, old):
                peer.call("CLUSTER", "SETSLOT", slot, "NODE", names[1])

    def await_healthy(self) -> None:
        """Wait for that."""
        self._await(self.healthy)

    def _meet(self) -> None:
        each = SLOTS // MASTERS
        for number, port in enumerate(self.ports):
            with self.peer(port) as peer:
                if number < MASTERS:
                    last = SLOTS if number == MASTERS - 1 else each * (number + 1)
                    peer.call("CLUSTER", "ADDSLOTSRANGE", each * number, last - 1)
                peer.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                if number:
                    peer.call("CLUSTER", "MEET", "127.0.0.1", self.ports[0])
        for number, port in enumerate(self.ports[MASTERS:]):
            with self.peer(self.ports[number]) as peer:
                master = peer.call("CLUSTER", "MYID")
            assert isinstance(master, bytes)
            with self.peer(port) as peer:
                self._await(lambda peer=peer, master=master: peer.call("CLUSTER", "REPLICATE", master) is not None)
        self.await_healthy()

    def _await(self, done: object) -> None:
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(StoreError, AssertionError):
                if done():  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
                    return
            assert time.monotonic() < end, "the cluster is not ready in time"
            time.sleep(0.05)


def _list(reply: object) -> list[object]:
    assert isinstance(reply, list)
    return list(reply)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Nodes]:
    """A cluster while the context lasts."""
    nodes = Nodes(folder)
    try:
        yield nodes
    finally:
        nodes.close()
