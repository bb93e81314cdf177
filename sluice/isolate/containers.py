"""Adding and removing containers: each has a slot in the programs' tables, by its cgroup, namespaces and addresses."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.isolate.accounting import V1, V2, Accounting
from sluice.isolate.cgroups import Cgroup, Hierarchy, find_containers, processes, v2_path_of
from sluice.isolate.errors import IsolateError

_PROCESSES = 32
"""Processes of a container whose namespaces are read; more would rarely have others."""
_LOCAL = re.compile(r"^(127\.|::1$|fe80:)")


@dataclass
class Container:
    """A container while it is there."""

    cgroup: Cgroup
    slot: int
    namespaces: frozenset[int] = frozenset()
    """Inodes of its network namespaces, without the host's."""
    addresses: frozenset[str] = frozenset()
    """Its IP addresses, without those of every namespace."""
    v2_identifier: int | None = None
    """Of its cgroup v2, by which its sockets are identified; None without one."""

    @property
    def name(self) -> str:
        """For people."""
        return self.cgroup.name


@dataclass
class Places:
    """Where a container's packets are, as of now."""

    namespaces: set[int] = field(default_factory=set[int])
    addresses: set[str] = field(default_factory=set[str])
    v2_path: str | None = None
    on_host: bool = False
    """A process of it is in the host's network namespace."""


class Containers:
    """All containers, and their entries in the programs' tables."""

    def __init__(self, accounting: Accounting, hierarchy: Hierarchy, patterns: Sequence[str] = ()) -> None:
        self.current: dict[int, Container] = {}
        """By slot."""
        self.untracked: set[str] = set()
        """Paths of containers for which there was no slot: they are accounted as host."""
        self.sockets_refused = ""
        """Why the sockets of received packets cannot be seen; empty if they can, or need not be."""
        self._accounting = accounting
        self._hierarchy = hierarchy
        self._patterns = patterns
        self._host = os.stat("/proc/self/ns/net").st_ino
        self._namespaces: dict[int, int] = {}
        self._addresses: dict[str, int] = {}
        self._sockets: dict[int, int] = {}

    def refresh(self) -> list[Container]:
        """Find containers that were added and removed, and changes of their namespaces and addresses.

        Returns the removed ones. Their counters stay readable until release().
        """
        found = {
            (cgroup.path, cgroup.identifier): cgroup for cgroup in find_containers(self._hierarchy, self._patterns)
        }
        known = {(container.cgroup.path, container.cgroup.identifier): container for container in self.current.values()}
        # A plain cgroup is found by its tasks; it stays a container while it has none, until its folder is removed.
        gone = [known[key] for key in known.keys() - found.keys() if not self._is_there(known[key].cgroup)]
        for container in gone:
            self._remove(container)
        self.untracked &= {path for path, _ in found}
        for key in sorted(found.keys() - known.keys()):
            self._add(found[key])
        if gone or found.keys() - known.keys():
            self._accounting.forget()
        self._place()
        return gone

    def release(self, gone: Iterable[Container]) -> None:
        """Removed containers have been read for the last time."""
        for container in gone:
            self._accounting.give_back(container.slot)

    def _is_there(self, cgroup: Cgroup) -> bool:
        with contextlib.suppress(OSError):
            return (self._hierarchy.folder / cgroup.path).stat().st_ino == cgroup.identifier
        return False

    @property
    def _cpu_hierarchy(self) -> int:
        return V1 if self._hierarchy.is_v1 else V2

    def _add(self, cgroup: Cgroup) -> None:
        slot = self._accounting.take_slot()
        if slot is None:
            self.untracked.add(cgroup.path)
            return
        self.untracked.discard(cgroup.path)
        self.current[slot] = Container(cgroup, slot)
        self._accounting.set_cgroup(cgroup.identifier, self._cpu_hierarchy, slot)

    def _remove(self, container: Container) -> None:
        del self.current[container.slot]
        self._accounting.set_cgroup(container.cgroup.identifier, self._cpu_hierarchy, None)

    def _place(self) -> None:
        """Enter namespaces, addresses and sockets' cgroups. What two containers share is not entered for either, except
        a namespace, which has the first one.
        """
        places = {slot: self._places(container) for slot, container in self.current.items()}
        shared = Counter(place.v2_path for place in places.values() if place.v2_path)
        namespaces: dict[int, int] = {}
        sockets: dict[int, int] = {}
        for slot, place in places.items():
            container = self.current[slot]
            container.namespaces = frozenset(place.namespaces)
            container.addresses = frozenset(place.addresses)
            container.v2_identifier = None
            for inode in place.namespaces:
                namespaces.setdefault(inode, slot)
            if self._hierarchy.is_v1 and place.v2_path and shared[place.v2_path] == 1 and self._hierarchy.v2_folder:
                with contextlib.suppress(OSError):
                    container.v2_identifier = (self._hierarchy.v2_folder / place.v2_path).stat().st_ino
                    sockets[container.v2_identifier] = slot
        owners = Counter(itertools.chain.from_iterable(place.addresses for place in places.values()))
        addresses = {
            address: slot for slot, place in places.items() for address in place.addresses if owners[address] == 1
        }
        self._enter(namespaces, sockets, addresses)
        self._ask_sockets(places)

    def _ask_sockets(self, places: dict[int, Places]) -> None:
        """Where a namespace is not one container's alone, the socket decides whose a received packet is, if it is known
        by its cgroup v2.
        """
        if self._hierarchy.v2_folder is None or self.sockets_refused:
            return
        users = Counter(itertools.chain.from_iterable(place.namespaces for place in places.values()))
        known = [
            places[slot]
            for slot, container in self.current.items()
            if container.v2_identifier is not None or not self._hierarchy.is_v1
        ]
        wanted = any(place.on_host or any(users[inode] > 1 for inode in place.namespaces) for place in known)
        try:
            self._accounting.ask_sockets(self._hierarchy.v2_folder, wanted)
        except IsolateError as error:
            self.sockets_refused = str(error)

    def _enter(self, namespaces: dict[int, int], sockets: dict[int, int], addresses: dict[str, int]) -> None:
        accounting = self._accounting
        for inode in self._namespaces.keys() - namespaces.keys():
            accounting.set_namespace(inode, None)
        for inode, slot in namespaces.items() - self._namespaces.items():
            accounting.set_namespace(inode, slot)
        for identifier in self._sockets.keys() - sockets.keys():
            accounting.set_cgroup(identifier, V2, None)
        for identifier, slot in sockets.items() - self._sockets.items():
            accounting.set_cgroup(identifier, V2, slot)
        if addresses != self._addresses:
            accounting.set_addresses(addresses, before=self._addresses)
        if sockets != self._sockets:
            accounting.forget()
        self._namespaces, self._sockets, self._addresses = namespaces, sockets, addresses

    def _places(self, container: Container) -> Places:
        found = Places()
        paths: set[str | None] = set()
        for process in itertools.islice(processes(self._hierarchy.folder / container.cgroup.path, True), _PROCESSES):
            paths.add(v2_path_of(process))
            with contextlib.suppress(OSError):
                inode = os.stat(f"/proc/{process}/ns/net").st_ino
                found.on_host |= inode == self._host
                if inode != self._host and inode not in found.namespaces:
                    found.namespaces.add(inode)
                    found.addresses |= addresses_of(process)
        if len(paths) == 1:
            found.v2_path = next(iter(paths))
        if not found.namespaces and not paths:  # it has no processes for now
            found.namespaces, found.addresses = set(container.namespaces), set(container.addresses)
        return found


def addresses_of(process: int) -> set[str]:
    """IP addresses of the network namespace of a process, without loopback and link-local ones."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        found |= local_addresses(Path(f"/proc/{process}/net/fib_trie").read_text())
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/net/if_inet6").read_text().splitlines():
            digits = line.split()[0]
            found.add(str(ipaddress.IPv6Address(int(digits, 16))))
    return {address for address in found if not _LOCAL.match(address)}


def local_addresses(fib_trie: str) -> set[str]:
    """IPv4 addresses in the text of /proc/PID/net/fib_trie: each precedes a line `/32 host LOCAL`."""
    found: set[str] = set()
    address = ""
    for line in fib_trie.splitlines():
        words = line.split()
        if "|--" in words:
            address = words[-1]
        elif words[:3] == ["/32", "host", "LOCAL"]:
            found.add(address)
    return found
