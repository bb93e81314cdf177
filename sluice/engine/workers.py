"""Several boxes of one stack, each in a thread of its own: `--workers N`.

`runtime/driver/workers.h` passes packets to them. The parts of this file are the boxes, their share of the bounds, and
what they come to together: counters and figures of functions are sums, rows come to one output.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.engine.box import Box, RunError, Settings
from sluice.engine.inputs import MESSAGE_SIZE, Inputs

WORKERS_MOST = 64
"""SL_WORKERS_MOST."""
MEMORY_LEAST = 1 << 16
"""Bytes of held data that a worker has at least."""


class _Workers(ctypes.Structure):
    """struct sl_workers."""

    _fields_ = (
        ("worker", ctypes.c_void_p),
        ("boxes", ctypes.POINTER(ctypes.c_void_p)),
        ("count", ctypes.c_uint32),
        ("drops", ctypes.c_bool),
        ("seed", ctypes.c_uint64),
        ("group", ctypes.c_void_p),
        ("dropped", ctypes.c_uint64),
        ("dropped_bytes", ctypes.c_uint64),
        ("message", ctypes.c_char * MESSAGE_SIZE),
        ("threads", ctypes.c_void_p),
        ("clock", ctypes.c_uint64),
        ("passed", ctypes.c_uint64),
        ("keeps", ctypes.c_bool),
        ("memory_failed", ctypes.c_bool),
        ("failed", ctypes.c_uint32),
    )


class _Bytes(ctypes.Structure):
    """sl_bytes."""

    _fields_ = (("at", ctypes.c_char_p), ("captured", ctypes.c_uint32), ("length", ctypes.c_uint32))


def share(settings: Settings, workers: int) -> Settings:
    """What each of several workers may have, so that all together have what one box may have."""
    return replace(
        settings,
        memory=max(settings.memory // workers, MEMORY_LEAST),
        max_instances=max(-(-settings.max_instances // workers), 1),
        seed=secrets.randbits(64) if settings.seed is None else settings.seed,
    )


def refuse_workers(workers: int, python: Sequence[Any], inline: bool, forwards: bool, output: object) -> str | None:
    """Why a run with several workers is not possible; None where it is.

    python: the functions in Python. inline: functions decide on packets, which is only possible without an output.
    """
    if workers <= 1:
        return None
    if forwards:
        return "--forward: packets are forwarded by one worker: leave --workers out"
    if output is not None:
        return "-w: what leaves the box is written by one worker: leave --workers out"
    if python:
        return (
            "functions in Python run in one thread, one event after the other: leave --workers out, or write the "
            "function in C"
        )
    return None


@dataclass
class WorkerBoxes(Box):
    """Boxes of several workers, used as one box. No functions in Python, nothing leaves.

    settings: of all together; each gets its share. live: rows are written when they are complete, and packets that a
    worker has no room for are dropped; else rows are written at the end, in the order of the packets that they are
    about, and the input waits.
    """

    workers: int = 2
    live: bool = False
    _handles: list[ctypes.c_void_p] = field(default_factory=lambda: [], init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= WORKERS_MOST:
            raise RunError(f"{self.workers} workers: give from 1 to {WORKERS_MOST}")
        if (why := refuse_workers(2, self.python, False, self.forwards, self.output)) is not None:
            raise RunError(why)
        self._group = ctypes.c_void_p()
        self.settings = share(self.settings, self.workers)
        super().__post_init__()

    def _open_box(self) -> ctypes.c_void_p:
        library = self._library
        library.sl_group_open.restype = ctypes.c_void_p
        self._group = ctypes.c_void_p(library.sl_group_open(ctypes.c_uint32(self.workers), ctypes.c_bool(not self.live)))
        if not self._group:
            raise RunError("not enough memory for the workers")
        self._options.group = self._group
        try:
            for number in range(self.workers):
                self._options.worker = number
                self._handles.append(super()._open_box())
        except RunError:
            self._close_boxes()
            raise
        return self._handles[0]

    def _make_drive(self) -> None:
        super()._make_drive()
        worker = ctypes.cast(self._library[f"{self._prefix}_worker"], ctypes.c_void_p)
        self._array = (ctypes.c_void_p * self.workers)(*self._handles)
        self._shared = _Workers(
            worker, self._array, self.workers, self.live, self._options.seed, self._group
        )
        self._drive.workers = ctypes.cast(ctypes.byref(self._shared), ctypes.c_void_p)

    def _boxes(self) -> list[ctypes.c_void_p]:
        return self._handles

    def tick(self, time_ns: int) -> int:
        """Not possible: the workers' time goes on by the packets, or by the clock of the interfaces."""
        raise RunError("several workers have no time of their own")

    def secrets(self, data: bytes, kind: int = 0x544C534B) -> None:
        """Hand secrets to the native modules of all workers, for the packets from now on."""
        reference = ctypes.byref(self._shared)
        if not self._library.sl_workers_start(reference, ctypes.byref(self._drive)):
            hand = self._library.sl_workers_secrets
            hand.restype, hand.argtypes = None, [ctypes.c_void_p, ctypes.c_uint32, _Bytes]
            hand(reference, kind, _Bytes(data, len(data), len(data)))

    def failure(self) -> str | None:
        """What a function of some worker could not do."""
        return self._shared.message.decode(errors="replace") or super().failure()

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


def open_workers(
    stack: Any, settings: Settings, functions: Sequence[Any], workers: int, inputs: Inputs
) -> WorkerBoxes:
    """The boxes for a run over inputs."""
    return WorkerBoxes(stack, settings, [], functions, workers=workers, live=inputs.endless)
