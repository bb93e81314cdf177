"""Drops the packets of one container, at the place where a drop costs others least."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from sluice.isolate.build import compiled_drop
from sluice.isolate.errors import IsolateError
from sluice.isolate.interfaces import Interface, entered, host_end, interfaces, namespace_identifier
from sluice.isolate.libbpf import Object

MODES = ("auto", "host-end", "xdp", "tc", "none")
"""Where packets are dropped: at the host's end of a veth, before the container's end schedules its softirq; by the
driver of the container's interface; after the driver; or not. `auto` is the first of them that an interface has.
"""
REASONS = ("spent", "early")
"""Why: the container has used its time; or it is nearly used, and most of it was used for packets."""
XDP, TCX_INGRESS, _TCX_EGRESS = 37, 46, 47
XDP_DRIVER = 1 << 2
DROPS = struct.Struct("=2Q2Q")


@dataclass(frozen=True)
class Dropped:
    """What was dropped for one reason."""

    packets: int = 0
    """Segments of a packet that a device would divide (GSO) count each."""
    bytes: int = 0

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(self.packets + other.packets, self.bytes + other.bytes)

    def __sub__(self, other: Dropped) -> Dropped:
        return Dropped(self.packets - other.packets, self.bytes - other.bytes)


class Gates:
    """The gates of one container: a program on each of its interfaces. Nothing is pinned: the kernel removes them when
    this process ends.

    mode: one of MODES. Raises IsolateError if the program cannot be built or loaded.
    """

    def __init__(self, mode: str, cpus: int) -> None:
        self.places: dict[tuple[int, int], str] = {}
        """By namespace and interface: where its packets are dropped."""
        self.refused: dict[tuple[int, int], str] = {}
        """By namespace and interface: why its packets are not dropped. The interface is 0 for all of a namespace, which
        is 0 for the host's.
        """
        self._tried: dict[tuple[int, int], int] = {}
        """Interfaces that were refused, by the host's end with which they were tried (0 without one)."""
        self._mode = mode
        self._cpus = cpus
        self._links: dict[tuple[int, int], int] = {}
        self._object = Object(compiled_drop())
        try:
            self._object.load()
            self._memory = mmap.mmap(self._object.map(".bss").descriptor, mmap.PAGESIZE)
            self._drops = self._object.map("drops")
        except BaseException:
            self._object.close()
            raise

    def close(self) -> None:
        """Take the programs out of the kernel."""
        for key in list(self._links):
            self._detach(key)
        self._memory.close()
        self._object.close()

    def set(self, reason: str, until: int) -> None:
        """Drop packets up to a time of the monotonic clock, in ns; pass all if there is no reason."""
        if reason:
            struct.pack_into("=I", self._memory, 8, REASONS.index(reason))
        struct.pack_into("=Q", self._memory, 0, until if reason else 0)

    def dropped(self) -> dict[str, Dropped]:
        """All that was dropped so far, by reason."""
        rows = [DROPS.unpack(row) for row in self._drops.lookup_per_cpu(bytes(4), self._cpus)]
        return {
            reason: Dropped(sum(row[i] for row in rows), sum(row[len(REASONS) + i] for row in rows))
            for i, reason in enumerate(REASONS)
        }

    def refresh(self, processes: Iterable[int], namespaces: frozenset[int], shared: frozenset[int]) -> None:
        """Attach to all interfaces of the container's network namespaces, and detach from those that it has no longer.
        One that was refused is tried again only if its end in the host's namespace has changed.

        processes: of the container. namespaces: their inodes, without the host's. shared: those that other containers
        have, too, where nothing is dropped, as it is not known before a socket is found whose packet it is.
        """
        self.refused = {key: why for key, why in self.refused.items() if key in self._tried}
        if self._mode == "none":
            return
        for inode in namespaces & shared:
            self.refused[inode, 0] = "it shares its network namespace with other containers"
        if not namespaces:
            self.refused[0, 0] = "it has no network namespace of its own"
        found: set[tuple[int, int]] = set()
        left = set(namespaces - shared)
        outside = interfaces() if left else []
        for process in processes:
            if not left:
                break
            with _namespace_of(process) as (descriptor, inode):
                if inode in left:
                    left.discard(inode)
                    try:
                        found |= self._attach_all(descriptor, inode, outside)
                    except IsolateError as error:
                        self.refused[inode, 0] = str(error)
        for inode in left:
            self.refused[inode, 0] = "no process was found by which its network namespace can be entered"
        for key in self._links.keys() - found:
            self._detach(key)
        for key in self._tried.keys() - found:
            del self._tried[key], self.refused[key]

    def _attach_all(self, namespace: int, inode: int, outside: list[Interface]) -> set[tuple[int, int]]:
        identifier = namespace_identifier(namespace)
        with entered(namespace):
            inside = interfaces()
        for interface in inside:
            key = (inode, interface.index)
            if key in self._links:
                continue
            other = host_end(interface, outside, identifier)
            if self._tried.get(key) != (other.index if other else 0):
                self._attach(key, namespace, interface, other)
        return {(inode, interface.index) for interface in inside}

    def _attach(self, key: tuple[int, int], namespace: int, interface: Interface, other: Interface | None) -> None:
        tried: list[str] = []
        for mode in MODES[1:-1] if self._mode == "auto" else (self._mode,):
            try:
                if mode == "host-end":
                    if other is None:
                        raise IsolateError("it has no end in the host's namespace")
                    self._links[key] = self._object.attach_to_interface("drop_tc", other.index, _TCX_EGRESS)
                    self.places[key] = f"{mode} {other.name}"
                else:
                    program, place, flags = (
                        ("drop_xdp", XDP, XDP_DRIVER) if mode == "xdp" else ("drop_tc", TCX_INGRESS, 0)
                    )
                    with entered(namespace):
                        self._links[key] = self._object.attach_to_interface(program, interface.index, place, flags)
                    self.places[key] = f"{mode} {interface.name}"
                self._tried.pop(key, None)
                self.refused.pop(key, None)
                return
            except IsolateError as error:
                tried.append(f"{mode}: {str(error).splitlines()[0]}")
        self._tried[key] = other.index if other else 0
        self.refused[key] = "; ".join(tried)

    def _detach(self, key: tuple[int, int]) -> None:
        os.close(self._links.pop(key))
        self.places.pop(key, None)


@contextlib.contextmanager
def _namespace_of(process: int) -> Generator[tuple[int, int]]:
    """A descriptor of the network namespace of a process, and its inode; (-1, 0) if the process has ended."""
    try:
        descriptor = os.open(Path(f"/proc/{process}/ns/net"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield -1, 0
        return
    try:
        yield descriptor, os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
