"""A store from Python: one server, or the nodes of a Valkey Cluster, each of which has some of the keys."""

from __future__ import annotations

import binascii
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from sluice.state.errors import StoreError
from sluice.state.location import Location
from sluice.state.peer import Peer, Reply, ReplyError, info_fields, run_id

SLOTS = 16384
LATER = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY")
"""Errors of a node that does not have the keys, or not yet: the command was not performed."""
PAUSE = 0.05
REPLICATION = 200
"""Milliseconds within which a replica has an update."""
REPLICATION_PAUSE = 1.0
"""Seconds for which it is not waited for when it had not."""
FSYNC = 3000
"""Milliseconds within which it is in the append-only files, which may be synchronized each second."""
NODE = 5.0
"""Seconds within which a node replies, at most."""
_SINGLE = ("FUNCTION", "INFO", "CONFIG", "PING")
"""Commands without keys, which each master performs."""
_COUNTED = ("FCALL", "FCALL_RO")
"""Commands whose first key follows the number of keys."""
_COUNTED_BYTES = tuple(name.encode() for name in _COUNTED)

Command = tuple[str | bytes | int, ...]
T = TypeVar("T")


class Cluster:
    """Connections to the masters of a cluster, with the methods of `Peer`. Raises StoreError.

    What a node does not perform, as it fails or has not the key any more, is tried again for the time-out; a command
    whose reply was lost may be performed twice.
    """

    def __init__(self, location: Location, timeout: float) -> None:
        self.name, self.location, self._timeout = location.name, location, timeout
        self._peers: dict[tuple[str, int], Peer] = {}
        self._owners: list[tuple[str, int]] = []
        self._alone = 0.0
        """Until when it does not wait for replicas, which did not have an update in time."""
        self._again(self._discover)

    def call(self, *words: str | bytes | int) -> Reply:
        """The reply to a command; of one without keys, that of the last master."""
        if words[0] in _SINGLE:
            replies = [self._again(lambda node=node: self._peer(node).call(*words)) for node in self.masters()]
            return replies[-1]
        return self.calls([words])[0]

    def calls(self, commands: list[Command]) -> list[Reply]:
        """The replies to several commands."""
        replies: list[Reply] = [None] * len(commands)
        by_slot: dict[int, list[int]] = {}
        for place, command in enumerate(commands):
            by_slot.setdefault(_slot(command), []).append(place)
        for slot, places in by_slot.items():
            found = self._again(lambda slot=slot, places=places: self._at(slot, [commands[one] for one in places]))
            for place, reply in zip(places, found, strict=True):
                replies[place] = reply
        return replies

    def each(self) -> list[Peer]:
        """A connection with each master."""
        return [self._peer(node) for node in self.masters()]

    def every(self) -> Iterator[Peer]:
        """A connection with each node that replies: masters and replicas."""
        for node in self.location.nodes:
            with contextlib.suppress(StoreError):
                yield self._peer(node)

    def set_timeout(self, seconds: float) -> None:
        """How long it waits for a reply from now on, and tries again."""
        self._timeout = seconds
        for peer in self._peers.values():
            peer.set_timeout(self._of_node())

    def keys(self, pattern: str) -> Iterator[bytes]:
        """The keys that match a pattern, of all masters, in no order."""
        return iter(self._again(lambda: [key for node in self.masters() for key in self._peer(node).keys(pattern)]))

    def server_of(self, key: str) -> str:
        """The identity of the running server that has a key; it changes with the server."""
        slot = slot_of(key.encode())

        def attempt() -> str:
            self._at(slot, [("GET", key)])
            return run_id(self._peer(self._owners[slot]).call("INFO", "server"))

        return self._again(attempt)

    def is_lost(self) -> bool:
        """Whether a node that has slots has closed its connection."""
        return any(self._peers[node].is_lost() for node in self.masters() if node in self._peers)

    def masters(self) -> list[tuple[str, int]]:
        """The nodes that have slots."""
        return sorted(set(self._owners))

    def close(self) -> None:
        """End the connections."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, slot: int, commands: list[Command]) -> list[Reply]:
        more: list[Command] = [("WAIT", 1, REPLICATION)] if self.location.replicas else []
        if self.location.waits_disk:
            more = [("WAITAOF", 1, 1, FSYNC)]
        if time.monotonic() < self._alone:
            more = []
        replies = self._peer(self._owners[slot]).calls([*commands, *more])
        if more and not _is_safe(replies[-1]):  # none is left, maybe for long
            self._alone = time.monotonic() + REPLICATION_PAUSE
        return replies[: len(commands)]

    def _of_node(self) -> float:
        """Seconds for which it waits for one node, which may take FSYNC for its disk."""
        return NODE if self.location.waits_disk else min(self._timeout, NODE)

    def _peer(self, node: tuple[str, int]) -> Peer:
        if node not in self._peers:
            self._peers[node] = Peer(replace(self.location, host=node[0], port=node[1]), self._of_node())
        return self._peers[node]

    def _discover(self) -> None:
        """Find out which nodes have the slots, from those that are known."""
        why: StoreError | None = None
        for node in self.location.nodes:
            try:
                found = self._peer(node).call("CLUSTER", "SLOTS")
                owners, nodes = _owners(found, node[0])
            except StoreError as error:
                self._forget(node)
                why = error
                continue
            if len(owners) == SLOTS:
                self._owners = [owners[slot] for slot in range(SLOTS)]
                known = [*nodes, *(one for one in self.location.nodes if one not in nodes)]
                self.location = replace(self.location, nodes=tuple(known))
                return
            why = StoreError(f"{self.name}: nodes of the cluster serve {len(owners)} of {SLOTS} slots")
        raise why or StoreError(f"{self.name}: no node of the cluster is known")

    def _forget(self, node: tuple[str, int]) -> None:
        if (peer := self._peers.pop(node, None)) is not None:
            peer.close()

    def _again(self, attempt: Callable[[], T]) -> T:
        """The result of an attempt, which is made again while nodes fail."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                return attempt()
            except StoreError as error:
                for node in list(self._peers):  # replies may be under way
                    self._forget(node)
                if isinstance(error, ReplyError) and not error.code.startswith(LATER):
                    raise
                over = time.monotonic() > end
                if not over:
                    time.sleep(PAUSE)
                with contextlib.suppress(StoreError):  # also at the end: a silent node may have used up all of the time
                    self._discover()
                if over:
                    raise


def open_store(location: Location, timeout: float | None = None) -> Peer | Cluster:
    """A connection with a server, or with the cluster that it is a node of. Raises StoreError."""
    seconds = timeout if timeout is not None else location.timeout / 1000
    if location.nodes:
        return Cluster(location, seconds)
    peer = Peer(location, timeout)
    if location.path:
        return peer
    try:
        fields = info_fields(peer.call("INFO", "cluster"))
    except StoreError:
        peer.close()
        raise
    if fields.get("cluster_enabled") != "1":
        return peer
    peer.close()
    return Cluster(replace(location, nodes=((location.host, location.port),)), seconds)


def _is_safe(reply: Reply) -> bool:
    """Whether a replica has the updates, and so do disks, by the reply to WAIT or WAITAOF."""
    counts = reply if isinstance(reply, list) else [reply]
    return all(isinstance(count, int) and count >= 1 for count in counts)


def slot_of(key: bytes) -> int:
    """The slot of a key: that of its hash tag, if it has one."""
    begin = key.find(b"{")
    end = key.find(b"}", begin + 1)
    tag = key[begin + 1 : end] if 0 <= begin < end - 1 else key
    return binascii.crc_hqx(tag, 0) % SLOTS


def _slot(command: Command) -> int:
    key = command[3] if command[0] in _COUNTED or command[0] in _COUNTED_BYTES else command[1]
    return slot_of(key if isinstance(key, bytes) else str(key).encode())


def _owners(reply: Reply, host: str) -> tuple[dict[int, tuple[str, int]], list[tuple[str, int]]]:
    """The master of each slot, and all nodes, of a reply to CLUSTER SLOTS. host: of the node that replied."""
    owners: dict[int, tuple[str, int]] = {}
    nodes: list[tuple[str, int]] = []
    for row in reply if isinstance(reply, list) else []:
        match row:
            case [int(first), int(last), list(master), *others] if 0 <= first <= last < SLOTS:
                found = [_address(one, host) for one in [master, *others]]
                owners |= dict.fromkeys(range(first, last + 1), found[0])
                nodes += [one for one in found if one not in nodes]
            case _:
                raise StoreError("a node's reply to CLUSTER SLOTS has an unknown form")
    return owners, nodes


def _address(row: Reply, host: str) -> tuple[str, int]:
    match row:
        case [bytes(name), int(port), *_]:
            return name.decode(errors="replace") or host, port
        case [None, int(port), *_]:
            return host, port
        case _:
            raise StoreError("a node's reply to CLUSTER SLOTS has an unknown form")
