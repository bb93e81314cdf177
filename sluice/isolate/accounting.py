"""The loaded programs: settings, slots of containers, snapshots of the counters."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import mmap
import os
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from sluice.isolate.build import compiled
from sluice.isolate.errors import IsolateError
from sluice.isolate.libbpf import Object, known_tracepoints

HOST, IDLE, FIRST = 0, 1, 2
"""Slots: all that is in no container; idle CPUs; the first of a container."""
MAX_CONTAINERS = 1024
"""Containers that have a slot at the same time, by default."""
V1, V2 = 0, 1
"""Hierarchies of a cgroup, as in `struct cgroup_key`."""
_WORDS = 16
_TRIES = 100
"""Snapshots of a CPU that is in one of our programs each time; each lasts a microsecond or so."""
_REQUIRED = ("on_switch", "on_softirq_entry", "on_softirq_exit", "on_receive")
_TRACEPOINT = "tp_btf/"


class _Settings(ctypes.Structure):
    _fields_ = (
        ("cpus", ctypes.c_uint32),
        ("host_namespace", ctypes.c_uint32),
        ("cpu_is_v1", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
    )


class Control(ctypes.Structure):
    """Data that is set and read while the programs run: `struct control` of bpf/state.h."""

    interrupt_ns: int
    addresses: int
    new_cgroups: int
    crowded: int
    unfinished: int
    cgroups_full: int
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("interrupt_ns", "addresses", "new_cgroups", "crowded", "unfinished", "cgroups_full")
    )


@dataclass(frozen=True)
class Counters:
    """Time of a container, of the host, or of idle CPUs, in nanoseconds of CPU time: `struct account` of bpf/state.h,
    summed over CPUs.
    """

    run: int = 0
    """In the context of its tasks: the time that the kernel accounts to its cgroup."""
    own_network: int = 0
    """Of this, its own packets in softirqs."""
    for_others: int = 0
    """Of this, packets of others: stolen from it."""
    by_containers: int = 0
    """Its packets, in the context of other containers: stolen by it."""
    by_host: int = 0
    """Its packets, in the context of tasks in no container, as ksoftirqd."""
    by_idle: int = 0
    """Its packets, on idle CPUs."""
    interrupts_ns: int = 0
    """Part of its network time that is interrupts."""
    received: int = 0
    """Packets that a device received; one that crosses several devices counts at each."""
    transmitted: int = 0
    """Packets that a softirq transmitted."""
    interrupts: int = 0
    """Of the host only: all interrupts that were measured."""
    measured_ns: int = 0
    """Of the host only: the measured part of these interrupts."""
    preempted: int = 0
    """Times that a task of it was switched out although it could run on."""

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(self.values(), other.values(), strict=True)))

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(self.values(), other.values(), strict=True)))

    def values(self) -> tuple[int, ...]:
        """All counters in their order."""
        return tuple(getattr(self, name) for name in _NAMES)

    @property
    def by_others(self) -> int:
        """Its packets, in any context that is not its own."""
        return self.by_containers + self.by_host + self.by_idle

    @property
    def network(self) -> int:
        """All time of its packets in softirqs and interrupts."""
        return self.own_network + self.by_others

    @property
    def charged(self) -> int:
        """Its cost: its own time, without work for others, with the work of others for it. Summed over all
        containers, the host and idle, this is the time that passed on all CPUs.
        """
        return self.run - self.for_others + self.by_others


_NAMES = tuple(field.name for field in fields(Counters))


@dataclass(frozen=True)
class Snapshot:
    """All counters at one time."""

    time: float
    """Seconds of the monotonic clock."""
    slots: dict[int, Counters]
    """By slot; those without a container are not in it."""
    skipped: int
    """CPUs that could not be read to the current time: offline, or in one of our programs each time."""


def tracepoint_of(section: str) -> str | None:
    """The tracepoint in the name of a section."""
    return section.removeprefix(_TRACEPOINT) if section.startswith(_TRACEPOINT) else None


class Accounting:
    """The BPF programs while they run. Use as a context; nothing stays in the kernel afterwards.

    cpu_is_v1: the cpu controller is in a hierarchy of cgroup v1.
    Raises IsolateError if the programs cannot be built, loaded or attached.
    """

    def __init__(self, cpu_is_v1: bool, max_containers: int = MAX_CONTAINERS) -> None:
        self.cpus = _possible_cpus()
        self.missing: list[str] = []
        self._free = list(range(FIRST + max_containers - 1, FIRST - 1, -1))
        self._used: set[int] = {HOST, IDLE}
        self._base: dict[int, Counters] = {}
        self._sockets: int | None = None
        self._object = Object(compiled())
        try:
            self._load(cpu_is_v1, FIRST + max_containers)
            self._map_memory(FIRST + max_containers)
            self.snapshot()
        except BaseException:
            self._object.close()
            raise

    def _load(self, cpu_is_v1: bool, slots: int) -> None:
        bpf = self._object
        accounts = bpf.map("accounts")
        if accounts.value_size != _WORDS * 8:
            raise IsolateError("the BPF object and its loader do not belong together: remove the cached object")
        accounts.resize(slots * self.cpus)
        settings = _Settings.from_address(_memory_of(bpf, ".rodata", ctypes.sizeof(_Settings)))
        settings.cpus, settings.cpu_is_v1 = self.cpus, int(cpu_is_v1)
        settings.host_namespace = os.stat("/proc/self/ns/net").st_ino
        tracepoints = {
            name: point for name, section in bpf.programs().items() if (point := tracepoint_of(section)) is not None
        }
        known = known_tracepoints(tracepoints.values())
        for name, point in list(tracepoints.items()):
            if point in known:
                continue
            if name in _REQUIRED:
                raise IsolateError(f"the kernel has no tracepoint {point}, without which nothing can be accounted")
            bpf.leave_out(name)
            self.missing.append(point)
            del tracepoints[name]
        bpf.load()
        for name in tracepoints:
            bpf.attach(name)

    def _map_memory(self, slots: int) -> None:
        self._globals = mmap.mmap(self._object.map(".bss").descriptor, mmap.PAGESIZE)
        self.control = Control.from_buffer(self._globals)
        size = slots * self.cpus * _WORDS * 8
        size += -size % mmap.PAGESIZE
        self._memory = mmap.mmap(self._object.map("accounts").descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
        self._words = memoryview(self._memory).cast("Q")
        self._cgroups = self._object.map("cgroups")
        self._namespaces = self._object.map("namespaces")
        self._addresses = self._object.map("addresses")

    def __enter__(self) -> Accounting:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach and unload."""
        self._words.release()
        self._memory.close()
        del self.control
        with contextlib.suppress(BufferError):  # the caller has a reference to `control`
            self._globals.close()
        self._object.close()

    # slots

    def take_slot(self) -> int | None:
        """A slot whose counters start at 0; None when all are taken."""
        if not self._free:
            return None
        slot = self._free.pop()
        self._used.add(slot)
        self._base[slot] = self._read(slot)
        return slot

    def give_back(self, slot: int) -> None:
        """The slot may be used again. Its counters must have been read."""
        self._used.discard(slot)
        self._free.insert(0, slot)

    def set_cgroup(self, identifier: int, hierarchy: int, slot: int | None) -> None:
        """The tasks (hierarchy of the cpu controller) and sockets (cgroup v2) of a cgroup and its descendants belong to
        a slot; None removes it. forget() makes it known to descendants that have run already.
        """
        key = struct.pack("=QQ", identifier, hierarchy)
        if slot is None:
            self._cgroups.delete(key)
        else:
            self._cgroups.update(key, struct.pack("=II", slot, 0))

    def ask_sockets(self, v2_folder: Path, wanted: bool) -> None:
        """Whether a received packet is its socket's, by cgroup v2, if that is a container's. Costs time per packet.
        Raises IsolateError if the program cannot be attached to the root of cgroup v2.
        """
        if wanted and self._sockets is None:
            folder = os.open(v2_folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._sockets = self._object.attach_to_cgroup("on_socket", folder)
            finally:
                os.close(folder)
        elif not wanted and self._sockets is not None:
            self._object.detach(self._sockets)
            self._sockets = None

    def forget(self) -> None:
        """Clear the programs' cache of cgroups, which is wrong once a container was added or removed. Every CPU looks
        up its current task again: one that runs alone may not be switched out for long.
        """
        for key in list(self._cgroups.keys()):
            value = self._cgroups.lookup(key)
            if value is not None and struct.unpack("=II", value)[1]:
                self._cgroups.delete(key)
        self._charge_all()

    def set_namespace(self, inode: int, slot: int | None) -> None:
        """Packets in a network namespace belong to a slot; None removes it."""
        key = struct.pack("=I", inode)
        if slot is None:
            self._namespaces.delete(key)
        else:
            self._namespaces.update(key, struct.pack("=I", slot))

    def set_addresses(self, addresses: dict[str, int], before: Iterable[str] = ()) -> None:
        """Packets in the host's namespace belong to slots by IP address. before: the addresses of the last call."""
        for address in before:
            if address not in addresses:
                self._addresses.delete(packed_address(address))
        for address, slot in addresses.items():
            self._addresses.update(packed_address(address), struct.pack("=I", slot))
        self.control.addresses = len(addresses)

    def entries(self) -> dict[str, int]:
        """The number of entries of each table."""
        tables = {"cgroups": self._cgroups, "namespaces": self._namespaces, "addresses": self._addresses}
        return {name: sum(1 for _ in table.keys()) for name, table in tables.items()}

    def cached(self) -> int:
        """The number of cgroups that the programs cached themselves."""
        values = (self._cgroups.lookup(key) for key in self._cgroups.keys())
        return sum(1 for value in values if value is not None and struct.unpack("=II", value)[1])

    # counters

    def interrupt(self, cpu: int) -> int:
        """Interrupt a CPU and charge the time that has passed on it. Returns 0, or 1 if it was in one of our programs.
        Raises OSError if it is offline.
        """
        return self._object.run_on("snapshot", cpu)

    def snapshot(self) -> Snapshot:
        """All counters, with the time up to now on every CPU."""
        skipped = self._charge_all()
        return Snapshot(time.monotonic(), {slot: self.read(slot) for slot in sorted(self._used)}, skipped)

    def _charge_all(self) -> int:
        """Charge the time that has passed on every CPU. Returns the number of CPUs where this was not possible."""
        skipped = 0
        for cpu in range(self.cpus):
            with contextlib.suppress(OSError):
                if any(self.interrupt(cpu) == 0 for _ in range(_TRIES)):
                    continue
            skipped += 1
        return skipped

    def read(self, slot: int) -> Counters:
        """The counters of one slot, without the time since its CPUs' last events."""
        return self._read(slot) - self._base.get(slot, Counters())

    def read_cpu(self, slot: int, cpu: int) -> Counters:
        """The same on one CPU, since the programs were loaded."""
        start = (slot * self.cpus + cpu) * _WORDS
        return Counters(*self._words[start : start + len(_NAMES)])

    def _read(self, slot: int) -> Counters:
        row = self.cpus * _WORDS
        words = self._words[slot * row : (slot + 1) * row].tolist()
        return Counters(*(sum(words[column::_WORDS]) for column in range(len(_NAMES))))


def _memory_of(bpf: Object, name: str, size: int) -> int:
    address, length = bpf.map(name).memory()
    if not address or length < size:
        raise IsolateError(f"the BPF object and its loader do not belong together: {name} has {length} bytes")
    return address


def packed_address(address: str) -> bytes:
    """An IP address as the programs have it: 16 bytes, an IPv4 address as ::ffff:a.b.c.d."""
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


def _possible_cpus() -> int:
    """One more than the highest number of a CPU that this machine can have."""
    return int(Path("/sys/devices/system/cpu/possible").read_text().strip().replace(",", "-").split("-")[-1]) + 1
