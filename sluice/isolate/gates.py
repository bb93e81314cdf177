"""Drops the packets of one container, at the place where a drop costs others least."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from sluice.isolate import classic
from sluice.isolate.build import compiled_drop
from sluice.isolate.errors import IsolateError
from sluice.isolate.interfaces import Interface, entered, host_end, interfaces, namespace_identifier
from sluice.isolate.libbpf import Object
from sluice.isolate.polling import Change, begin_polling
from sluice.isolate.restore import Record, undo_change

MODES = ("auto", "host-end", "xdp", "tc", "threads", "none")
"""Where packets are dropped: at the host's end of a veth, before the container's end schedules its softirq; by the
driver of the container's interface; after the driver; by the device, which a thread in the container's cgroup polls
(polling.py); or not. `auto` is the first of the first three that an interface has.
"""
_AUTO = MODES[1:4]
REASONS = ("spent", "early")
"""Why: the container has used its time; or it is nearly used, and most of it was used for packets."""
XDP, TCX_INGRESS, _TCX_EGRESS = 37, 46, 47
XDP_DRIVER = 1 << 2
DROPS = struct.Struct("=2Q2Q")


@dataclass(frozen=True)
class Dropped:
    """The drops for one reason."""

    packets: int = 0
    """Segments of a packet that a device would divide (GSO) count each."""
    bytes: int = 0

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(self.packets + other.packets, self.bytes + other.bytes)

    def __sub__(self, other: Dropped) -> Dropped:
        return Dropped(self.packets - other.packets, self.bytes - other.bytes)


class Gates:
    """The gates of one container: a program on each of its interfaces. Nothing is pinned: the kernel removes them when
    this process ends, or, without tcx, the watchdog (classic.py).

    mode: one of MODES. folder: of the container's cgroup. record: persistent state of the kernel is recorded there
    before it is changed. Raises IsolateError if the program cannot be built or loaded.
    """

    def __init__(
        self, mode: str, cpus: int, folder: Path = Path(), is_v1: bool = True, record: Record | None = None
    ) -> None:
        self.places: dict[tuple[int, int], str] = {}
        """By namespace and interface: where its packets are dropped."""
        self.refused: dict[tuple[int, int], str] = {}
        """By namespace and interface: why its packets are not dropped. The interface is 0 for all of a namespace, which
        is 0 for the host's.
        """
        self._tried: dict[tuple[int, int], int] = {}
        """Interfaces that were refused, by the host's end with which they were tried (0 without one)."""
        self._mode = mode
        self._folder = folder
        self._is_v1 = is_v1
        self._record = record
        self._changes: dict[tuple[int, int], Change | classic.Filter] = {}
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
        """Detach the programs from the kernel."""
        for key in list(self.places):
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
                        found |= self._attach_all(process, descriptor, inode, outside)
                    except IsolateError as error:
                        self.refused[inode, 0] = str(error)
        for inode in left:
            self.refused[inode, 0] = "no process was found by which its network namespace can be entered"
        for key in self.places.keys() - found:
            self._detach(key)
        for key in self._tried.keys() - found:
            del self._tried[key], self.refused[key]

    def _attach_all(self, process: int, namespace: int, inode: int, outside: list[Interface]) -> set[tuple[int, int]]:
        identifier = namespace_identifier(namespace)
        with entered(namespace):
            inside = [interface for interface in interfaces() if interface.is_up]
        for interface in inside:
            key = (inode, interface.index)
            if key in self.places:
                continue
            other = host_end(interface, outside, identifier)
            if self._tried.get(key) != (other.index if other else 0):
                if self._mode == "threads":
                    self._begin_polling(key, process, namespace, interface, other)
                else:
                    self._attach(key, namespace, interface, other)
        return {(inode, interface.index) for interface in inside}

    def _attach(self, key: tuple[int, int], namespace: int, interface: Interface, other: Interface | None) -> None:
        tried: list[str] = []
        for mode in _AUTO if self._mode == "auto" else (self._mode,):
            try:
                if mode == "host-end":
                    if other is None:
                        raise IsolateError("it has no end in the host's namespace")
                    self._attach_tc(key, other.index, _TCX_EGRESS, ("", 0))
                    self.places[key] = f"{mode} {other.name}"
                else:
                    with entered(namespace):
                        if mode == "tc":
                            self._attach_tc(key, interface.index, TCX_INGRESS, (str(self._folder), key[0]))
                        else:
                            link = self._object.attach_to_interface("drop_xdp", interface.index, XDP, XDP_DRIVER)
                            self._links[key] = link
                    self.places[key] = f"{mode} {interface.name}"
                self._tried.pop(key, None)
                self.refused.pop(key, None)
                return
            except IsolateError as error:
                self._undo(key)
                tried.append(f"{mode}: {str(error).splitlines()[0]}")
        self._tried[key] = other.index if other else 0
        self.refused[key] = "; ".join(tried)

    def _attach_tc(self, key: tuple[int, int], index: int, place: int, owner: tuple[str, int]) -> None:
        if classic.has_tcx():
            self._links[key] = self._object.attach_to_interface("drop_tc", index, place)
            return
        program = self._object.descriptor_of("drop_tc")
        classic.attach(program, index, place == _TCX_EGRESS, owner, lambda found: self._keep(key, found))

    def _keep(self, key: tuple[int, int], change: Change | classic.Filter) -> None:
        self._undo(key)
        self._changes[key] = change
        if self._record is not None:
            self._record.keep_change(change)

    def _begin_polling(
        self, key: tuple[int, int], process: int, namespace: int, interface: Interface, other: Interface | None
    ) -> None:
        ends = (namespace, key[0])
        try:
            begin_polling(
                self._folder, self._is_v1, process, ends, interface, other, lambda change: self._keep(key, change)
            )
        except IsolateError as error:
            self._undo(key)
            self._tried[key] = other.index if other else 0
            self.refused[key] = f"threads: {error}"
            return
        self.places[key] = f"threads {interface.name}"
        self._tried.pop(key, None)
        self.refused.pop(key, None)

    def _undo(self, key: tuple[int, int]) -> None:
        if change := self._changes.pop(key, None):
            undo_change(change)
            if self._record is not None:
                self._record.forget_change(change)

    def _detach(self, key: tuple[int, int]) -> None:
        self.places.pop(key, None)
        if key in self._links:
            os.close(self._links.pop(key))
        self._undo(key)


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
