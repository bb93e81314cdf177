"""Selects which of several boxes of one stack processes a packet. All packets of an instance go to the same box."""

from __future__ import annotations

import ctypes
import secrets

from sluice.engine.box import CompiledStack, Frame


class Dispatch:
    """Distributes packets to `workers` boxes of a stack.

    seed: the seed of the hash, random if None. Packets without an instance go to one fixed box, as do all packets if
    the pass `dispatch` is off.
    """

    def __init__(self, stack: CompiledStack, workers: int, seed: int | None = None) -> None:
        self.workers = workers
        self.seed = secrets.randbits(64) if seed is None else seed
        self._worker = ctypes.CDLL(str(stack.compiled.path))[f"{stack.generated.name}_worker"]
        self._worker.restype = ctypes.c_uint
        self._worker.argtypes = [ctypes.POINTER(Frame), ctypes.c_uint, ctypes.c_uint64]

    def worker(self, data: bytes, link_type: int = 1, length: int | None = None) -> int:
        """The worker for a packet, counted from 0. `length`: see `Box.packet`."""
        frame = Frame(data, len(data), len(data) if length is None else length, 0, link_type, 0)
        return self._worker(ctypes.byref(frame), self.workers, self.seed)
