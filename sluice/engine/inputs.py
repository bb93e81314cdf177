"""Python bindings of packet sources, packet destinations and the driver.

The C declarations are in `runtime/io/source.h` and `runtime/driver/drive.h`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.engine.dpdk import DpdkError, dpdk_library

MESSAGE_SIZE = 512
"""SL_SOURCE_MESSAGE."""
INTERFACE = "af_packet:"
"""The URI prefix of interfaces."""
XDP = "xdp:"
"""The same by AF_XDP."""
TAP = "tap:"
"""The same for TAP devices."""
DPDK = "dpdk:"
"""The same for devices of DPDK."""
_DESTINATIONS = (XDP, TAP, DPDK)
STANDARD_INPUT = "-"

PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
STOPPED = 2
"""SL_DRIVEN_STOPPED."""


POLICIES = {"stop": 0, "open": 1, "closed": 2}
"""enum sl_drive_policy: the run ends, packets pass, packets are dropped."""


class InputError(Exception):
    """A source or destination of packets cannot be opened; the text begins with its name."""


def is_interface(uri: str) -> bool:
    """Whether a URI is that of an interface."""
    return uri.startswith((INTERFACE, *_DESTINATIONS))


def is_own_destination(uri: str) -> bool:
    """Whether the source of a URI is also the only destination that can use its queues."""
    return uri.startswith(_DESTINATIONS)


@dataclass(frozen=True)
class Inputs:
    """The sources whose packets a box processes, merged by time.

    uris: files, `-` for standard input, `af_packet:NAME`, `xdp:NAME`, `tap:NAME` or `dpdk:DEVICE`
    for interfaces. follow: files may still grow.
    promiscuous: interfaces also receive packets for other hosts. ring_bytes: the size of each interface's receive
    ring (0: 64 MiB). snap_length: the number of bytes captured from each packet of an interface (0: all).
    filter: in pcap syntax; only packets that it accepts are received (empty: all).
    forwarding: there are two interfaces; packets received on one are transmitted on the other.
    on_fault, on_overload: what happens to packets that the box cannot process when they are forwarded, as a function
    failed, or as they come faster than it can process them: keys of POLICIES.
    dpdk: options of DPDK's environment abstraction layer in place of the default ones, which need no hugepages (empty:
    these). awaits_removed: an interface that is removed is received from again once it is made again; else the run ends
    with that fault, as it does with network cards of DPDK.
    """

    uris: tuple[str, ...]
    follow: bool = False
    promiscuous: bool = True
    ring_bytes: int = 0
    snap_length: int = 0
    filter: str = ""
    forwarding: bool = False
    on_fault: str = "stop"
    on_overload: str = "closed"
    dpdk: str = ""
    awaits_removed: bool = False

    @property
    def live(self) -> bool:
        """Whether any source is an interface."""
        return any(is_interface(uri) for uri in self.uris)

    @property
    def endless(self) -> bool:
        """Whether the input may have no end, so that the user must stop it."""
        return self.live or self.follow or STANDARD_INPUT in self.uris

    @property
    def repeatable(self) -> bool:
        """Whether all packets can be read a second time: all sources are regular files that do not grow."""
        paths = [uri.removeprefix("file:") for uri in self.uris if uri.startswith("file:")]
        return len(paths) == len(self.uris) and not self.follow and all(map(os.path.isfile, paths))

    @classmethod
    def of(cls, given: str | os.PathLike[str] | Inputs) -> Inputs:
        """Convert a path to inputs; an Inputs object is returned unchanged."""
        return given if isinstance(given, Inputs) else cls((_file(given),))


def _file(path: str | os.PathLike[str]) -> str:
    """The URI of a path. The `file:` prefix prevents a path from being read as another scheme."""
    text = os.fsdecode(path)
    return text if text == STANDARD_INPUT else f"file:{text}"


@dataclass(frozen=True)
class Rotation:
    """When a capture file that is written is followed by the next one of a series. All 0: there is one file.

    size: bytes of a file, before compression. seconds: between its first and its last packet. files: how many are kept
    (0: all).
    """

    size: int = 0
    seconds: float = 0.0
    files: int = 0


class Frame(ctypes.Structure):
    """struct sl_frame."""

    _fields_ = (
        ("at", ctypes.c_char_p),
        ("captured", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
        ("time", ctypes.c_uint64),
        ("link_type", ctypes.c_uint16),
        ("port", ctypes.c_uint16),
        ("buffer", ctypes.c_uint16),
        ("queue", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("number", ctypes.c_uint64),
    )


class _Options(ctypes.Structure):
    """struct sl_source_options."""

    _fields_ = (
        ("follow", ctypes.c_bool),
        ("no_promiscuous", ctypes.c_bool),
        ("ring_bytes", ctypes.c_uint64),
        ("snap_length", ctypes.c_uint32),
        ("filter", ctypes.c_char_p),
        ("forwarding", ctypes.c_bool),
        ("rotate_bytes", ctypes.c_uint64),
        ("rotate_nanoseconds", ctypes.c_uint64),
        ("rotate_files", ctypes.c_uint32),
        ("dpdk_library", ctypes.c_char_p),
        ("dpdk_options", ctypes.c_char_p),
        ("fanout", ctypes.c_void_p),
        ("queues", ctypes.c_void_p),
        ("awaits_removed", ctypes.c_bool),
    )


_COUNTED = (
    "packets",
    "sent",
    "dropped_kernel",
    "dropped_interface",
    "refused",
    "vlan_restored",
    "filtered",
    "freezes",
    "link_downs",
    "removals",
    "returns",
)


class _Statistics(ctypes.Structure):
    """struct sl_source_statistics."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in _COUNTED)


class Drive(ctypes.Structure):
    """struct sl_drive."""

    _fields_ = (
        ("process", ctypes.c_void_p),
        ("tick", ctypes.c_void_p),
        ("finish_step", ctypes.c_void_p),
        ("box", ctypes.c_void_p),
        ("input", ctypes.c_void_p),
        ("ports", ctypes.POINTER(ctypes.c_void_p)),
        ("port_count", ctypes.c_uint32),
        ("peer", ctypes.c_void_p),
        ("progress", PROGRESS),
        ("user", ctypes.c_void_p),
        ("stop", ctypes.c_int),
        ("packets", ctypes.c_uint64),
        ("no_port", ctypes.c_uint64),
        ("no_checksum", ctypes.c_uint64),
        ("leaving", ctypes.c_void_p),
        ("workers", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("fault", ctypes.c_int),
        ("on_fault", ctypes.c_uint8),
        ("on_overload", ctypes.c_uint8),
        ("unseen_fault", ctypes.c_uint64),
        ("unseen_overload", ctypes.c_uint64),
        ("leaves_out", ctypes.c_bool),
        ("trial", ctypes.c_int),
        ("trial_left_out", ctypes.c_uint64),
        ("busy", ctypes.c_void_p),
    )


def _dpdk_library(inputs: Inputs) -> bytes | None:
    """The library that sources of DPDK need; None if there are none."""
    first = next((uri for uri in inputs.uris if uri.startswith(DPDK)), None)
    try:
        return None if first is None else os.fsencode(dpdk_library())
    except DpdkError as error:
        raise InputError(f"{first}: {error}") from error


class Source:
    """An open source or destination of packets, in the library of a stack. `close` closes it."""

    def __init__(self, library: Any, handle: ctypes.c_void_p) -> None:
        self._library = library
        self.handle = handle
        for name in ("fault", "statistics", "close"):
            getattr(library, f"sl_source_{name}").restype = {"fault": ctypes.c_char_p, "close": ctypes.c_int}.get(name)

    @classmethod
    def open(cls, library: Any, inputs: Inputs, fanout: int | None = None, queues: int | None = None) -> Source:
        """Open the sources of packets. fanout, queues: the address of a struct sl_fanout, or of a struct sl_queues, by
        which several sources divide the packets of interfaces among themselves. Raises InputError.
        """
        names: Sequence[bytes] = [os.fsencode(uri) for uri in inputs.uris]
        array = (ctypes.c_char_p * len(names))(*names)
        options = _Options(
            inputs.follow,
            not inputs.promiscuous,
            inputs.ring_bytes,
            inputs.snap_length,
            os.fsencode(inputs.filter) or None,
            inputs.forwarding,
            dpdk_library=_dpdk_library(inputs),
            dpdk_options=os.fsencode(inputs.dpdk) or None,
            fanout=fanout,
            queues=queues,
            awaits_removed=inputs.awaits_removed,
        )
        handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(MESSAGE_SIZE)
        size = ctypes.c_size_t(len(names))
        if library.sl_source_open_all(
            ctypes.byref(handle), array, size, ctypes.byref(options), message, ctypes.c_size_t(MESSAGE_SIZE)
        ):
            raise InputError(message.value.decode(errors="replace"))
        return cls(library, handle)

    @classmethod
    def create(cls, library: Any, path: str | os.PathLike[str], rotation: Rotation | None = None) -> Source:
        """Create a capture file for packets that leave a box. Raises InputError."""
        return cls.create_uri(library, b"file:" + os.fsencode(path), rotation)

    @classmethod
    def create_uri(cls, library: Any, uri: bytes, rotation: Rotation | None = None) -> Source:
        """The same for a file or an interface by its URI."""
        wanted = rotation or Rotation()
        options = _Options(
            rotate_bytes=wanted.size, rotate_nanoseconds=round(wanted.seconds * 1e9), rotate_files=wanted.files
        )
        handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(MESSAGE_SIZE)
        if library.sl_source_create(
            ctypes.byref(handle), uri, ctypes.byref(options), message, ctypes.c_size_t(MESSAGE_SIZE)
        ):
            raise InputError(message.value.decode(errors="replace"))
        return cls(library, handle)

    def part(self, number: int) -> Source:
        """The source of one of several inputs, as a destination. It is not to be closed."""
        find = self._library.sl_source_part
        find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]
        return Source(self._library, ctypes.c_void_p(find(self.handle, number)))

    def fault(self) -> str | None:
        """The error of the source, beginning with its name, or None."""
        text = self._library.sl_source_fault(self.handle)
        return text.decode(errors="replace") if text else None

    def statistics(self) -> dict[str, int]:
        """The counters of the source."""
        found = _Statistics()
        self._library.sl_source_statistics(self.handle, ctypes.byref(found))
        return {name: getattr(found, name) for name in _COUNTED}

    def statistics_of(self, number: int) -> dict[str, int]:
        """The counters of one of several inputs."""
        return self.part(number).statistics()

    def close(self) -> str | None:
        """Close it. Returns an error if closing lost data, else None."""
        message = ctypes.create_string_buffer(MESSAGE_SIZE)
        lost = self._library.sl_source_close(self.handle, message, ctypes.c_size_t(MESSAGE_SIZE))
        return message.value.decode(errors="replace") if lost else None
