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
        return self._choose(Frame(data, len(data), len(data) if length is None else length, 0, link_type, 0))

    def _choose(self, frame: Frame) -> int:
        return self._worker(ctypes.byref(frame), self.workers, self.seed)


class PathKeys(ctypes.Structure):
    """struct sl_path_keys."""

    _fields_ = (
        ("hash", ctypes.c_uint64 * 16),
        ("use", ctypes.c_uint8 * 16),
        ("count", ctypes.c_uint),
        ("left_out", ctypes.c_uint),
    )


class Homes(ctypes.Structure):
    """struct sl_homes."""

    _fields_ = (
        ("lines", ctypes.c_void_p),
        ("divided", ctypes.c_uint64),
        ("forgotten", ctypes.c_uint64),
        ("left_out", ctypes.c_uint64),
        ("not_scanned", ctypes.c_uint64),
    )

    def unlearned(self) -> dict[str, int]:
        """What was not learned, by reason."""
        return {name: getattr(self, name) for name in ("forgotten", "left_out", "not_scanned")}


class LearningDispatch(Dispatch):
    """The same for stacks in which a packet may have keys of several workers: it learns which worker has each key, as
    the thread does that receives packets for several workers. Close it.

    `divided`: packets so far with keys that different workers have.
    """

    def __init__(self, stack: CompiledStack, workers: int, seed: int | None = None) -> None:
        super().__init__(stack, workers, seed)
        self._library = ctypes.CDLL(str(stack.compiled.path))
        self._path = getattr(self._library, f"{stack.generated.name}_path", None)
        self._homes = Homes()
        self._library.sl_homes_open.restype = ctypes.c_bool
        if not self._library.sl_homes_open(ctypes.byref(self._homes)):
            raise MemoryError("no memory for the keys of packets")

    def _choose(self, frame: Frame) -> int:
        chosen, keys = super()._choose(frame), PathKeys()
        if self._path is None:
            return chosen
        self._path(ctypes.byref(frame), ctypes.c_uint64(self.seed), ctypes.byref(keys))
        return self._library.sl_homes_choose(ctypes.byref(self._homes), ctypes.byref(keys), ctypes.c_uint(chosen))

    @property
    def divided(self) -> int:
        return self._homes.divided

    @property
    def unlearned(self) -> dict[str, int]:
        """What was not learned so far, by reason."""
        return self._homes.unlearned()

    def close(self) -> None:
        """Give the memory back."""
        self._library.sl_homes_close(ctypes.byref(self._homes))
