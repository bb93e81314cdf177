"""What a box counted and functions reported: the structs of runtime/driver/embed.h, for Python."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

REPORTS_MOST = 256
"""SL_REPORTS_MOST."""


class CounterInfo(ctypes.Structure):
    """struct sl_counter_info."""

    _fields_ = (("layer", ctypes.c_char_p), ("name", ctypes.c_char_p))


class Busy(ctypes.Structure):
    """struct sl_busy: the time that a thread spends with packets, in nanoseconds."""

    _fields_ = (("packets", ctypes.c_uint64), ("nanoseconds", ctypes.c_uint64), ("longest", ctypes.c_uint64))


class Report(ctypes.Structure):
    """struct sl_report: a number of a function's own."""

    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_uint64), ("function", ctypes.c_char_p))

    @property
    def full_name(self) -> str:
        """Its name, after that of its function in a chain."""
        name = self.name.decode()
        return f"{self.function.decode()}.{name}" if self.function else name


class Refused(ctypes.Structure):
    """struct sl_refused: a link type with which the stack does not begin, and how many packets of it came."""

    _fields_ = (("link_type", ctypes.c_uint32), ("packets", ctypes.c_uint64))


@dataclass
class Outcome:
    """The result of a run.

    counters: by layer ("box" for the whole box) and name. reports: figures that functions reported. failure: the error
    of a function, or None. fault: the error of an input, or None. stopped: whether the user stopped the run.
    interrupted: whether a signal aborted the run instead of ending an endless input. received: interface counters
    (struct sl_source_statistics), empty without an interface. refused: number of packets by link type, for link types
    that the stack does not accept. takes: the link types that the stack accepts. not_forwarded: why the last packet
    that could not be transmitted was refused, or None. by_worker: packets of each of several workers. lost_by_crashes:
    of isolated workers, the number of `crashes`, and of the `packets` and `flows` that were lost by them. groups_moved:
    how often a group of connections went to another worker; None if groups do not move. divided: packets whose keys
    several workers have; None if none can have several. unlearned: what was not learned of such keys, by reason
    (struct sl_homes): keys that were `forgotten` or `left_out`, and packets of files that were `not_scanned`.
    dispatched: who divided the packets of interfaces among workers (`kernel`, `queues` or `box`), and why the box did,
    or why the kernel did so by a hash of its own, or "".
    handed_over: packets that a worker received, and passed to others.
    """

    packets: int
    counters: dict[str, dict[str, int]]
    reports: dict[str, int]
    fault: str | None = None
    failure: str | None = None
    stopped: bool = False
    seconds: float = 0.0
    interrupted: bool = False
    received: dict[str, int] = field(default_factory=lambda: {})
    refused: dict[int, int] = field(default_factory=lambda: {})
    takes: list[int] = field(default_factory=lambda: [])
    not_forwarded: str | None = None
    by_worker: list[int] = field(default_factory=lambda: [])
    groups_moved: int | None = None
    divided: int | None = None
    unlearned: dict[str, int] = field(default_factory=lambda: {})
    dispatched: tuple[str, str] | None = None
    handed_over: int = 0
    lost_by_crashes: dict[str, int] = field(default_factory=lambda: {})
