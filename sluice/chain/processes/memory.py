"""The memory that the processes of an isolated chain share: runtime/isolated/memory.h, in Python."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass, field

# The bounds of memory.h, by the same names with SL_ISO_, which has their meaning.
FUNCTIONS = 64
SLOTS = 16
TYPES = 1024
QUEUE = 32
FLOWS = 256
VERTICES = 16
PARTS = 1024
SCOPE = 4
LAYERS = 256
PACKETS = 256
SLOT_BYTES = 128 << 20
LOG_BYTES = 4 << 20
_REFERENCES = 1 << 18
_HEAD = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FIXED, _MAP_FIXED_NOREPLACE = 0x10, 0x100000
_PLACE = 1 << 45
"""Where the memory is, if there is room: an address that processes of other hosts have not used for something else."""
_FAILED = ctypes.c_void_p(-1).value


class Flow(ctypes.Structure):
    """struct sl_iso_flow."""

    _fields_ = (
        ("number", ctypes.c_uint64),
        ("function", ctypes.c_uint64),
        ("type", ctypes.c_uint32),
        ("subscribed", ctypes.c_uint32),
    )


class Vertex(ctypes.Structure):
    """struct sl_iso_vertex."""

    _fields_ = (
        ("instances", ctypes.c_uint64),
        ("version", ctypes.c_uint32),
        ("fields", ctypes.c_uint32),
        ("field", ctypes.c_char * 16 * SCOPE),
        ("owner", ctypes.c_uint8 * PARTS),
    )


class Control(ctypes.Structure):
    """struct sl_iso_control."""

    _fields_ = (
        ("absent", ctypes.c_uint64),
        ("closed", ctypes.c_uint64),
        ("lossy", ctypes.c_uint64),
        ("decide", ctypes.c_uint64),
        ("always", ctypes.c_uint64),
        ("before", ctypes.c_uint64 * FUNCTIONS),
        ("drops", ctypes.c_uint64 * FUNCTIONS),
        ("subscribed", ctypes.c_uint64 * TYPES),
        ("resume", ctypes.c_uint64 * FUNCTIONS),
        ("lost_before", ctypes.c_uint64 * FUNCTIONS),
        ("unseen", ctypes.c_uint64),
        ("unseen_to", ctypes.c_uint32 * FUNCTIONS),
        ("leave", ctypes.c_uint64),
        ("routed", ctypes.c_uint64),
        ("stateful", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("clock_limit", ctypes.c_uint64),
        ("log_waits", ctypes.c_uint64),
        ("off", ctypes.c_uint64),
        ("roots", ctypes.c_uint64),
        ("replays", ctypes.c_uint64),
        ("polls", ctypes.c_uint64),
        ("samples", ctypes.c_uint64),
        ("poison", ctypes.c_uint64 * FUNCTIONS),
        ("committed", ctypes.c_uint64 * FUNCTIONS),
        ("row_file", ctypes.c_uint32 * FUNCTIONS),
        ("rank", ctypes.c_uint32 * FUNCTIONS),
        ("vertex", ctypes.c_uint8 * FUNCTIONS),
        ("vertex_count", ctypes.c_uint32),
        ("ending", ctypes.c_uint32),
        ("flow_count", ctypes.c_uint32),
        ("flows", Flow * FLOWS),
        ("vertices", Vertex * VERTICES),
        ("changes", ctypes.c_uint32),
        ("changed", ctypes.c_uint32 * FUNCTIONS),
        ("reads", ctypes.c_uint8 * TYPES),
        ("publishes", ctypes.c_uint8 * FUNCTIONS),
        ("fields", ctypes.c_uint64 * LAYERS),
    )


class Queue(ctypes.Structure):
    """struct sl_iso_queue."""

    _fields_ = (
        ("count", ctypes.c_uint32),
        ("batch", ctypes.c_uint32),
        ("entry", ctypes.c_uint32 * QUEUE),
        ("_rest", ctypes.c_uint32 * 14),
    )


class StackSide(ctypes.Structure):
    """struct sl_iso_stack."""

    _fields_ = (
        ("sleeping", ctypes.c_uint32),
        ("batches", ctypes.c_uint32),
        ("lost", ctypes.c_uint64 * FUNCTIONS),
        ("no_room", ctypes.c_uint64 * FUNCTIONS),
        ("closed_drops", ctypes.c_uint64),
        ("invalid", ctypes.c_uint64),
        ("uncommitted", ctypes.c_uint64),
        ("clock", ctypes.c_uint64),
        ("log_drops", ctypes.c_uint64),
        ("messages", ctypes.c_uint64),
        ("message_bytes", ctypes.c_uint64),
        ("packets", ctypes.c_uint64 * PARTS * VERTICES),
        ("queue", Queue * FUNCTIONS),
        ("read", ctypes.c_uint64),
        ("decided", ctypes.c_uint64),
        ("left", ctypes.c_uint64),
        ("drops", ctypes.c_uint64),
        ("changes", ctypes.c_uint64),
        ("sends", ctypes.c_uint64),
        ("root_lost", ctypes.c_uint64),
        ("roots", ctypes.c_uint64),
    )


class Slot(ctypes.Structure):
    """The beginning of struct sl_iso_slot."""

    _fields_ = (
        ("batch", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("functions", ctypes.c_uint64),
        ("now", ctypes.c_uint64),
        ("last", ctypes.c_uint64),
        ("created", ctypes.c_uint64),
        ("created_before", ctypes.c_uint64),
        ("before", ctypes.c_uint64),
        ("version", ctypes.c_uint32 * VERTICES),
        ("owner", ctypes.c_uint8 * PARTS * VERTICES),
        ("unseen", ctypes.c_uint64),
        ("input", ctypes.c_uint64),
        ("input_before", ctypes.c_uint64),
        ("packets", ctypes.c_uint32),
        ("used", ctypes.c_uint32),
        ("frame_order", ctypes.c_uint64 * PACKETS),
        ("references", ctypes.c_uint32 * FUNCTIONS),
    )


class FunctionSide(ctypes.Structure):
    """struct sl_iso_function."""

    _fields_ = (
        ("done_batch", ctypes.c_uint32),
        ("done", ctypes.c_uint32),
        ("sleeping", ctypes.c_uint32),
        ("running", ctypes.c_uint32),
        ("begun", ctypes.c_uint64),
        ("skipped", ctypes.c_uint64),
        ("flows", ctypes.c_uint64),
        ("flows_lost", ctypes.c_uint64),
        ("not_published", ctypes.c_uint64),
        ("not_decided", ctypes.c_uint64),
        ("settled_batch", ctypes.c_uint32),
        ("settled", ctypes.c_uint32),
        ("progress", ctypes.c_uint64),
        ("watched", ctypes.c_uint64),
        ("waits", ctypes.c_uint32),
    )


class Mapping(ctypes.Structure):
    """struct sl_iso."""

    _fields_ = (
        ("control", ctypes.c_void_p),
        ("stack", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("references", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * FUNCTIONS),
        ("count", ctypes.c_uint32),
        ("self", ctypes.c_uint32),
    )


@dataclass
class Region:
    """Memory with one writer, at the same address in all processes. given: the address; 0: any, `hint` if it is
    free.
    """

    name: str
    size: int
    given: int = 0
    hint: int = 0
    at: int = 0
    writable: int = -1
    """The file, open for writing; a process that may only read has `readable`."""
    readable: int = -1

    def __post_init__(self) -> None:
        self.writable = os.memfd_create(f"sluice-{self.name}")
        os.ftruncate(self.writable, self.size)
        self.readable = os.open(f"/proc/self/fd/{self.writable}", os.O_RDONLY | os.O_CLOEXEC)
        flags = mmap.MAP_SHARED | (_MAP_FIXED_NOREPLACE if self.given else 0)
        self.at = self._map(self.given or self.hint or None, self.writable, mmap.PROT_READ | mmap.PROT_WRITE, flags)

    def _map(self, at: int | None, file: int, protection: int, flags: int) -> int:
        found = _libc.mmap(at, self.size, protection, flags, file, 0)
        if found == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), f"shared memory '{self.name}' of {self.size} bytes")
        return found

    def protect(self) -> None:
        """From now on this process may only read it. A file that is open for reading cannot be mapped otherwise."""
        self._map(self.at, self.readable, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED)

    def close_files(self) -> None:
        """Close the files; the mapping stays."""
        os.close(self.writable)
        os.close(self.readable)

    def close(self) -> None:
        """Free it."""
        self.close_files()
        _libc.munmap(self.at, self.size)


@dataclass
class Memory:
    """The memory of a chain with places for `count` functions. given: the addresses of its regions on another host,
    where this is a copy of it. Raises OSError.
    """

    count: int
    given: tuple[int, ...] = ()
    regions: list[Region] = field(default_factory=lambda: [])

    def __post_init__(self) -> None:
        references = SLOTS * self.count * _REFERENCES * 4
        self._control = self._region("control", _HEAD)
        self._stack = self._region("stack", _HEAD + references + SLOTS * SLOT_BYTES)
        self._references = self._stack.at + _HEAD
        self._slots = self._references + references
        self._functions = [self._region(f"function{i}", 4096 + SLOTS * LOG_BYTES) for i in range(self.count)]
        self.control = Control.from_address(self._control.at)
        self.stack = StackSide.from_address(self._stack.at)
        self.functions = [FunctionSide.from_address(region.at) for region in self._functions]

    def _region(self, name: str, size: int) -> Region:
        number = len(self.regions)
        hint = self.regions[-1].at + self.regions[-1].size if self.regions else _PLACE
        region = Region(name, size, self.given[number] if self.given else 0, hint)
        self.regions.append(region)
        return region

    @property
    def addresses(self) -> tuple[int, ...]:
        """Those of its regions: the `given` of a copy."""
        return tuple(region.at for region in self.regions)

    def log(self, function: int, place: int) -> int:
        """The address of a function's log of the batch in a slot (sl_iso_log_of)."""
        return self._functions[function].at + 4096 + place % SLOTS * LOG_BYTES

    def references(self, place: int, function: int) -> int:
        """The address of the references to messages of the batch in a slot, for a function (sl_iso_references)."""
        return self._references + (place % SLOTS * self.count + function) * _REFERENCES * 4

    def own(self, function: int) -> tuple[int, int]:
        """Where the memory that a function writes begins and ends."""
        region = self._functions[function]
        return region.at, region.at + region.size

    def slot(self, place: int) -> Slot:
        """A slot of a batch."""
        return Slot.from_address(self._slots + place % SLOTS * SLOT_BYTES)

    def mapping(self, function: int | None) -> Mapping:
        """The struct for C, of a function or of the stack."""
        at = (ctypes.c_void_p * FUNCTIONS)(*(region.at for region in self._functions))
        own = 0 if function is None else function
        return Mapping(self._control.at, self._stack.at, self._slots, self._references, at, self.count, own)

    def restrict(self, function: int | None) -> None:
        """In a new process: it may write the memory of a function, or that of the stack if None, and read the rest."""
        own = self._stack if function is None else self._functions[function]
        for region in self.regions:
            if region is not own:
                region.protect()
            region.close_files()

    def close(self) -> None:
        """Free all of it."""
        for region in self.regions:
            region.close()
