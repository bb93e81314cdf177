"""Packets of interfaces that the kernel divides among workers: runtime/io/fanout.h, for Python."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from sluice.codegen.bpf.fanout import Fanout
from sluice.engine.inputs import INTERFACE, MESSAGE_SIZE, InputError, Inputs, Source

_INTERFACES_MOST = 64
"""SL_FANOUT_INTERFACES."""
_MASK = (1 << 64) - 1


class _Group(ctypes.Structure):
    """struct sl_fanout_group."""

    _fields_ = (
        ("interface", ctypes.c_uint),
        ("id", ctypes.c_uint16),
        ("joined", ctypes.c_uint32),
        ("first", ctypes.c_int),
    )


class _Fanout(ctypes.Structure):
    """struct sl_fanout."""

    _fields_ = (
        ("program", ctypes.c_int),
        ("members", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("groups", _Group * _INTERFACES_MOST),
    )


def secret_of(seed: int) -> int:
    """sl_dispatch_secret."""
    mixed = ((seed ^ _MASK) + 0x9E3779B97F4A7C15) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


def why_not(fanout: Fanout | str, inputs: Inputs, isolated: bool) -> str | None:
    """Why the kernel cannot divide the packets of inputs among workers; None if it can, unless it refuses."""
    if isolated:
        return "workers that are processes get their packets from the box"
    if not all(uri.startswith(INTERFACE) for uri in inputs.uris):
        return "it divides packets of interfaces by AF_PACKET only"
    return fanout if isinstance(fanout, str) else None


class FanoutSource(Source):
    """The sources of all workers, as one: its counters are those of all together.

    handles: of each worker, as an array for C.
    """

    def __init__(self, library: Any, sources: list[Source]) -> None:
        super().__init__(library, sources[0].handle)
        self._sources = sources
        self.handles = (ctypes.c_void_p * len(sources))(*(source.handle for source in sources))

    @classmethod
    def of_workers(cls, library: Any, inputs: Inputs, fanout: Fanout, workers: int, seed: int) -> FanoutSource:
        """Open a source for each worker. Raises InputError, also where the kernel refuses."""
        code = fanout.program(secret_of(seed), workers)
        message = ctypes.create_string_buffer(MESSAGE_SIZE)
        program = library.sl_fanout_load(code, ctypes.c_uint32(len(code) // 8), message, ctypes.c_size_t(MESSAGE_SIZE))
        if program < 0:
            raise InputError(f"{inputs.uris[0].partition(':')[2]}: {message.value.decode(errors='replace')}")
        shared = _Fanout(program, workers)
        sources: list[Source] = []
        try:
            for _ in range(workers):
                sources.append(Source.open(library, inputs, ctypes.addressof(shared)))
        except InputError:
            for source in sources:
                source.close()
            raise
        finally:
            os.close(program)  # the sockets have it
        return cls(library, sources)

    def fault(self) -> str | None:
        """The first error of any, or None."""
        return next((fault for source in self._sources if (fault := source.fault())), None)

    def statistics(self) -> dict[str, int]:
        """The counters of all; what an interface dropped, each of them has counted."""
        counted = [source.statistics() for source in self._sources]
        found = {name: sum(one[name] for one in counted) for name in counted[0]}
        return found | {"dropped_interface": max(one["dropped_interface"] for one in counted)}

    def close(self) -> str | None:
        """Close all."""
        lost = [source.close() for source in self._sources]
        return next(filter(None, lost), None)
