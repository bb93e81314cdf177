"""Which of several boxes of one stack processes a packet: the same one for all packets of an instance."""

from __future__ import annotations

import ctypes
import secrets

from sluice.engine.box import CompiledStack, Frame


class Dispatch:
    """Distributes packets to `workers` boxes of a stack.

    seed: of the hash, random when None. Packets that come to no instance, and without the pass
    `dispatch` all, are for one of them.
    """

    def __init__(self, stack: CompiledStack, workers: int, seed: int | None = None) -> None:
        self.workers = workers
        self.seed = secrets.randbits(64) if seed is None else seed
        self._worker = ctypes.CDLL(str(stack.compiled.path))[f"{stack.generated.name}_worker"]
        self._worker.restype = ctypes.c_uint
        self._worker.argtypes = [ctypes.POINTER(Frame), ctypes.c_uint, ctypes.c_uint64]

    def worker(self, data: bytes, link_type: int = 1, length: int | None = None) -> int:
        """The number of the worker for a packet, from 0 on; `length` is that on the wire, if not all was captured."""
        frame = Frame(data, len(data), len(data) if length is None else length, 0, link_type, 0)
        return self._worker(ctypes.byref(frame), self.workers, self.seed)
