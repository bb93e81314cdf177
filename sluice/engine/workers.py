"""Several boxes of one stack, each in a thread of its own: `--workers N`.

`runtime/driver/workers.h` passes packets to them. The parts of this file are the boxes, their share of the bounds, and
what they come to together: counters and figures of functions are sums, rows come to one output.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from mmap import mmap

from sluice.codegen.bpf.fanout import STATELESS
from sluice.engine.box import TLS_KEY_LOG, Box, Outcome, RunError, Settings
from sluice.engine.dispatch import Homes
from sluice.engine.fanout import WorkerSources, division
from sluice.engine.forwarding import Forwarding, WorkerForwarding
from sluice.engine.inputs import MESSAGE_SIZE, InputError, Inputs, Source
from sluice.engine.options import seed_of
from sluice.engine.reports import Busy

WORKERS_MOST = 64
"""SL_WORKERS_MOST."""
BOXES_MOST = 1024
"""SL_WORKER_BOXES_MOST."""
SCANNED_AT_ONCE = 1 << 18
"""Packets between two looks for a signal while the keys of files are found."""
MEMORY_LEAST = 1 << 16
"""Bytes of held data that a worker has at least."""


class _Workers(ctypes.Structure):
    """struct sl_workers."""

    _fields_ = (
        ("worker", ctypes.c_void_p),
        ("boxes", ctypes.POINTER(ctypes.c_void_p)),
        ("count", ctypes.c_uint32),
        ("thread_count", ctypes.c_uint32),
        ("drops", ctypes.c_bool),
        ("seed", ctypes.c_uint64),
        ("group", ctypes.c_void_p),
        ("dropped", ctypes.c_uint64),
        ("dropped_bytes", ctypes.c_uint64),
        ("message", ctypes.c_char * MESSAGE_SIZE),
        ("threads", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("clock", ctypes.c_uint64),
        ("passed", ctypes.c_uint64),
        ("keeps", ctypes.c_bool),
        ("memory_failed", ctypes.c_bool),
        ("finished", ctypes.c_bool),
        ("failed", ctypes.c_uint32),
        ("busy", ctypes.c_void_p),
        ("ports", ctypes.c_void_p),
        ("no_port", ctypes.c_uint64),
        ("no_checksum", ctypes.c_uint64),
        ("unseen_fault", ctypes.c_uint64),
        ("pauses", ctypes.c_uint32),
        ("isolation", ctypes.c_void_p),
        ("looked", ctypes.c_uint64),
        ("balanced", ctypes.c_uint64),
        ("moved", ctypes.c_uint64),
        ("by_thread", ctypes.c_uint64 * WORKERS_MOST),
        ("path", ctypes.c_void_p),
        ("homes", Homes),
        ("only", ctypes.c_uint32),
        ("sources", ctypes.c_void_p),
        ("reader", ctypes.c_void_p),
        ("received", ctypes.c_uint64),
        ("handed_over", ctypes.c_uint64),
        ("stopping", ctypes.c_uint32),
        ("all_hand_over", ctypes.c_bool),
        ("none_hands_over", ctypes.c_bool),
        ("choosing", ctypes.c_uint32),
        ("function_names", ctypes.c_void_p),
        ("function_count", ctypes.c_uint32),
    )


class _Isolation(ctypes.Structure):
    """struct sl_isolation."""

    _fields_ = (
        ("counters", ctypes.c_void_p),
        ("counter_count", ctypes.c_uint32),
        ("function_count", ctypes.c_uint32),
        ("function_counters", ctypes.POINTER(ctypes.c_uint32)),
        ("function_names", ctypes.POINTER(ctypes.c_char_p)),
        ("crashes", ctypes.c_uint64),
        ("packets_lost", ctypes.c_uint64),
        ("flows_lost", ctypes.c_uint64),
        ("message", ctypes.c_char * 512),
        ("states", ctypes.c_void_p),
        ("state_size", ctypes.c_size_t),
        ("counters_all", ctypes.c_size_t),
        ("workers", ctypes.c_uint32),
    )


class _Bytes(ctypes.Structure):
    """sl_bytes."""

    _fields_ = (("at", ctypes.c_char_p), ("captured", ctypes.c_uint32), ("length", ctypes.c_uint32))


def share(settings: Settings, workers: int) -> Settings:
    """What each of several boxes may have, so that all together have what one box may have."""
    return replace(
        settings,
        memory=max(settings.memory // workers, MEMORY_LEAST),
        max_instances=max(-(-settings.max_instances // workers), 1),
        seed=seed_of(settings),
    )


def refusal(
    workers: int,
    python: Sequence[object] = (),
    output: object = None,
    shared: Sequence[str] = (),
    isolated: bool = False,
    arriving: Sequence[str] = (),
) -> str | None:
    """Why a run with several workers is not possible, and what to do; None where it is.

    python: its functions in Python. output: the file that packets which leave are written to.
    shared: names of functions that declare shared objects, which belong to one box. isolated: workers are processes.
    arriving: names of functions that translate packets when they arrive. Workers are chosen by the ends before that,
    which differ in the two directions of a connection.
    """
    if workers <= 1 and not isolated:
        return None
    given = "--isolate" if isolated else f"--workers {workers}"
    if output is not None:
        return f"-w {output}: one worker writes what leaves the box, in its order: leave out {given}"
    if python:
        return (
            f"{given}: a function in Python runs in one thread, with state that no other thread may change:"
            " leave it out, or write the function in C"
        )
    if arriving and workers > 1:
        verb = "translates" if len(arriving) == 1 else "translate"
        return f"{given}: {', '.join(arriving)} {verb} packets when they arrive: give one worker"
    if shared:
        return f"{given}: the shared objects of {', '.join(shared)} belong to one worker: leave it out"
    return None


@dataclass
class WorkerBoxes(Box):
    """Boxes of several workers, used as one box. No functions in Python. Each worker transmits its packets itself.

    settings: of all together; each gets its share. ordered: rows are written at the end, in the order of the packets
    that they are about; else each when it is complete. drops: packets that a worker has no room for are dropped; else
    the input waits. isolated: workers are processes; one that crashes is started again. Their functions should be
    `traced`.

    groups: boxes of each worker, each with a part of the connections; one of a busy worker moves to another worker. Of
    isolated workers, and of a single one, each has one.

    only: the number of the one worker whose packets are processed, as other processes have the other workers, with the
    same settings.seed; None for all.

    dispatch: who divides the packets among workers: `box`, one thread that receives them; `kernel`, of interfaces, for
    which each worker has a socket of its own; `queues`, of interfaces by AF_XDP: each worker has receive queues of its
    own, and hands over packets of others; `auto`: the kernel or queues where it is possible, if each worker has one
    group.

    notes: what the user should know of a run, once its inputs are open.
    """

    workers: int = 2
    ordered: bool = True
    drops: bool = False
    isolated: bool = False
    groups: int = 1
    only: int | None = None
    dispatch: str = "box"
    notes: list[str] = field(default_factory=lambda: [], init=False)
    _handles: list[ctypes.c_void_p] = field(default_factory=lambda: [], init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= WORKERS_MOST:
            raise RunError(f"{self.workers} workers: give from 1 to {WORKERS_MOST}")
        shared = [function.name for function in self.stack.functions.c if function.shared]
        arriving = [name for _, name in self.stack.functions.arriving]
        if (why := refusal(self.workers, self.python, self.output, shared, arriving=arriving)) is not None:
            raise RunError(why)
        self._group = ctypes.c_void_p()
        if self.isolated or self.workers == 1:
            self.groups = 1
        self._count = self.workers * self.groups
        if not self.workers <= self._count <= BOXES_MOST:
            raise RunError(f"{self.groups} groups of each worker: give from 1 to {BOXES_MOST // self.workers}")
        self.settings = share(self.settings, self._count)
        super().__post_init__()

    def _open_box(self) -> ctypes.c_void_p:
        library = self._library
        library.sl_group_open.restype = ctypes.c_void_p
        self._group = ctypes.c_void_p(library.sl_group_open(ctypes.c_uint32(self._count), ctypes.c_bool(self.ordered)))
        if not self._group:
            raise RunError("not enough memory for the workers")
        self._options.group = self._group
        if self.isolated:
            library.sl_group_isolate(self._group)
        try:
            for number in range(self._count):
                self._options.worker = number
                self._handles.append(super()._open_box())
        except RunError:
            self._close_boxes()
            raise
        return self._handles[0]

    def _make_drive(self) -> None:
        super()._make_drive()
        worker = ctypes.cast(self._library[f"{self._prefix}_worker"], ctypes.c_void_p)
        self._array = (ctypes.c_void_p * self._count)(*self._handles)
        threads = self.workers if self.groups > 1 else 0
        self._shared = _Workers(worker, self._array, self._count, threads, self.drops, self._options.seed, self._group)
        if hasattr(self._library, f"{self._prefix}_path"):  # packets may have keys of several workers
            self._shared.path = ctypes.cast(self._library[f"{self._prefix}_path"], ctypes.c_void_p)
        self._shared.only = 0 if self.only is None else self.only + 1
        self._drive.workers = ctypes.cast(ctypes.byref(self._shared), ctypes.c_void_p)
        self._isolation = self._isolate()
        if self.isolated:
            self._shared.isolation = ctypes.addressof(self._isolation)
        else:
            self._shared.function_names = ctypes.cast(self._isolation.function_names, ctypes.c_void_p)
            self._shared.function_count = self._isolation.function_count

    def _isolate(self) -> _Isolation:
        """What isolated workers need of the stack and its functions."""
        functions, generated = self.stack.functions.c, self.stack.generated
        counts = (ctypes.c_uint32 * len(functions))(*(len(function.counters) for function in functions))
        names = (ctypes.c_char_p * len(functions))(*(function.name.encode() for function in functions))
        counters = ctypes.addressof(ctypes.c_char.in_dll(self._library, f"{self._prefix}_counters"))
        return _Isolation(counters, len(generated.counters), len(functions), counts, names)

    def _open_source(self, inputs: Inputs) -> Source:
        self._shared.sources = None
        self._shared.all_hand_over = self._shared.none_hands_over = False
        self.notes.clear()
        self._dispatched = ("box", "") if inputs.live and self.workers > 1 else None
        if self.workers == 1 or self.dispatch == "box":
            return super()._open_source(inputs)
        fanout = self.stack.generated.fanout
        by, why = division(self.dispatch, fanout, inputs, self.isolated)
        source = why or self._own_sources(inputs, by)
        if isinstance(source, WorkerSources):
            no_program = fanout if by == "kernel" and isinstance(fanout, str) else ""
            self._shared.sources = ctypes.addressof(source.handles)
            self._shared.none_hands_over = fanout == STATELESS
            self._shared.all_hand_over = fanout != STATELESS and (by == "queues" or no_program != "")
            self._dispatched = by, no_program
            if source.note:
                self.notes.append(f"both directions of a connection may come by different queues: {source.note}")
            return source
        if self.dispatch == by:
            raise InputError(f"--dispatch {by}: {source}")
        self._dispatched = ("box", source) if self._dispatched else None
        return super()._open_source(inputs)

    def _own_sources(self, inputs: Inputs, by: str) -> WorkerSources | str:
        """The sources of all workers, or why they cannot receive packets themselves."""
        if self._shared.threads:
            return "its workers have begun, as packets or secrets were handed to them before"
        if self.groups > 1:
            return "groups of connections do not move"
        fanout = self.stack.generated.fanout
        try:
            if by == "queues":
                return WorkerSources.of_queues(self._library, inputs, self.workers)
            program = None if isinstance(fanout, str) else fanout
            return WorkerSources.of_fanout(self._library, inputs, program, self.workers, self._options.seed)
        except InputError as error:
            return str(error)

    def _forward(self, inputs: Inputs, source: Source) -> Forwarding:
        forwarding = WorkerForwarding(self._library, inputs, source, self._drive, self.workers, self._shared)
        self._shared.ports = ctypes.cast(forwarding.array, ctypes.c_void_p) if inputs.forwarding else None
        return forwarding

    def _boxes(self) -> list[ctypes.c_void_p]:
        if self.isolated:
            self._library.sl_isolation_gather(ctypes.byref(self._shared))
        return self._handles

    @property
    def crashes(self) -> dict[str, int]:
        """Crashes of isolated workers, and what was lost by them; empty for threads."""
        if not self.isolated:
            return {}
        counted = self._isolation
        return {"crashes": counted.crashes, "packets": counted.packets_lost, "flows": counted.flows_lost}

    def tick(self, time_ns: int) -> int:
        """Not possible: the workers' time goes on by the packets, or by the clock of the interfaces."""
        raise RunError("several workers have no time of their own")

    def secrets(self, data: bytes, kind: int = TLS_KEY_LOG) -> None:
        """Hand secrets to the native modules of all workers, for the packets from now on."""
        reference = ctypes.byref(self._shared)
        if not self._library.sl_workers_start(reference, ctypes.byref(self._drive)):
            hand = self._library.sl_workers_secrets
            hand.restype, hand.argtypes = None, [ctypes.c_void_p, ctypes.c_uint32, _Bytes]
            if self._shared.sources:
                self.pause()  # they get them from this thread, as a worker writes to the rings
            hand(reference, kind, _Bytes(data, len(data), len(data)))
            if self._shared.sources:
                self.resume()

    def pause(self) -> None:
        """Wait until no worker does anything. For the thread that drives the box, between two bursts.

        Raises RunError for isolated workers.
        """
        self._library.sl_workers_pause.restype = ctypes.c_char_p
        if (why := self._library.sl_workers_pause(ctypes.byref(self._shared))) is not None:
            raise RunError(why.decode())

    def resume(self) -> None:
        """Let them go on."""
        self._library.sl_workers_resume(ctypes.byref(self._shared), ctypes.byref(self._drive))

    def failure(self) -> str | None:
        """What a function of some worker could not do."""
        return self._shared.message.decode(errors="replace") or super().failure()

    def run(
        self,
        given: str | os.PathLike[str] | Inputs,
        progress: Callable[[int, int, int], bool] | None = None,
        opened: Callable[[], None] | None = None,
    ) -> Outcome:
        """As Box.run. A function that fails in one worker ends the run; its text is the outcome's failure."""
        inputs = Inputs.of(given)
        with suppress(InputError):  # it is reported below
            self._scan(inputs, progress)
        try:
            outcome = super().run(inputs, progress, opened)
        finally:
            self._shared.sources = None  # they are closed
        if self.drops:
            outcome.received["dropped_workers"] = self.dropped
        first = self.stack.generated.counters.index(("box", "packets"))
        outcome.lost_by_crashes = self.crashes
        outcome.failure = outcome.failure or self._isolation.message.decode(errors="replace") or None
        outcome.dispatched = self._dispatched
        outcome.handed_over = self._shared.handed_over
        outcome.by_worker = [self._library.sl_box_counters(handle)[first] for handle in self._handles]
        if self.groups > 1:
            outcome.by_worker = self._shared.by_thread[: self.workers]
            outcome.groups_moved = self._shared.moved
        if self._shared.path:
            outcome.divided = self._shared.homes.divided
            outcome.unlearned = self._shared.homes.unlearned()
        if self._shared.failed and not self._stopped:  # it was no signal
            outcome.stopped = False
        return outcome

    def _scan(self, inputs: Inputs, progress: Callable[[int, int, int], bool] | None) -> None:
        """Find the worker of each key of plain files before they are processed, so that no connection is divided.

        Of others the workers are learned from the packets on the way: they cannot be read twice, or at twice the cost.
        """
        if not self._shared.path or self._count == 1 or not inputs.repeatable:
            return
        library, source = self._library, Source.open(self._library, inputs)
        library.sl_source_keeps.restype = library.sl_homes_scan_step.restype = ctypes.c_bool
        library.sl_homes_scan_open.restype = ctypes.c_void_p
        try:
            if not library.sl_source_keeps(source.handle):
                return
            seed = ctypes.c_uint64(self._shared.seed)
            paths = ctypes.c_void_p(self._shared.worker), ctypes.c_void_p(self._shared.path)
            scan = ctypes.c_void_p(library.sl_homes_scan_open(*paths, ctypes.c_uint(self._count), seed))
            if not scan:
                return
            try:
                while library.sl_homes_scan_step(scan, source.handle, ctypes.c_uint64(SCANNED_AT_ONCE)):
                    if progress is not None and progress(0, 0, 0):
                        break
            finally:
                library.sl_homes_scan_close(scan, ctypes.byref(self._shared.homes))
        finally:
            source.close()

    def measure(self) -> None:
        """Also of each worker."""
        super().measure()
        self._busy_memory = mmap(-1, ctypes.sizeof(Busy) * self.workers)  # processes share it
        self._busy_workers = (Busy * self.workers).from_buffer(self._busy_memory)
        self._shared.busy = ctypes.cast(self._busy_workers, ctypes.c_void_p)
        self.busy = [*self._busy_workers]

    @property
    def dropped(self) -> int:
        """Packets that a worker had no room for."""
        return self._shared.dropped

    def close(self) -> None:
        """Give the memory back."""
        if self._box.value:
            self._library.sl_drive_close(ctypes.byref(self._drive))
            self._box = ctypes.c_void_p()
            self._close_boxes()

    def _close_boxes(self) -> None:
        for handle in self._handles:
            self._close(handle)
        self._handles.clear()
        self._library.sl_group_close(self._group)
        if self.isolated:
            self._library.sl_isolation_close(ctypes.byref(self._isolation))
