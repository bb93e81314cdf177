"""Packets of interfaces that workers receive themselves: runtime/io/fanout.h and runtime/io/queues.h, for Python.

By AF_PACKET, the kernel divides them by their keys. By AF_XDP, workers have receive queues of their own, and hand over
packets of other workers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from sluice.codegen.bpf.fanout import STATELESS, Fanout
from sluice.engine.inputs import INTERFACE, MESSAGE_SIZE, XDP, InputError, Inputs, Source

_INTERFACES_MOST = 64
"""SL_FANOUT_INTERFACES."""
_MASK = (1 << 64) - 1
_OF_INTERFACE = {"dropped_interface": max, "link_downs": max, "removals": max, "returns": min}
"""Counters of an interface, which each of its sources has, and which of these is that of all. An interface has returned
once each worker receives from it again: until then, packets are lost. Not each may see that a link is down.
"""


class _Group(ctypes.Structure):
    """struct sl_fanout_group."""

    _fields_ = (
        ("interface", ctypes.c_uint),
        ("id", ctypes.c_uint16),
        ("joined", ctypes.c_uint32),
        ("generation", ctypes.c_uint32),
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

    def close(self) -> None:
        """Close the program."""
        if self.program >= 0:
            os.close(self.program)


class _Queues(ctypes.Structure):
    """struct sl_queues."""

    _fields_ = (
        ("member", ctypes.c_uint32),
        ("members", ctypes.c_uint32),
        ("note", ctypes.c_char * MESSAGE_SIZE),
    )


def _all_by(scheme: str, inputs: Inputs) -> bool:
    return all(uri.startswith(scheme) for uri in inputs.uris)


def secret_of(seed: int) -> int:
    """sl_dispatch_secret."""
    mixed = ((seed ^ _MASK) + 0x9E3779B97F4A7C15) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


def division(dispatch: str, fanout: Fanout | str, inputs: Inputs, isolated: bool) -> tuple[str, str | None]:
    """What divides the packets of inputs, so that workers receive them themselves: `kernel` or `queues`; and why it
    cannot, or None if it can, unless the kernel refuses.

    dispatch: as the user wants it; fanout: of the stack. Where that is no program, the kernel divides packets by a hash
    of its own only if the user wants it: workers then hand over packets of others, as with queues. In stacks without
    instances, each processes those that it gets.
    """
    by = dispatch if dispatch != "auto" else "queues" if _all_by(XDP, inputs) else "kernel"
    if isolated:
        return by, "workers that are processes get their packets from the box"
    if by == "queues":
        return by, None if _all_by(XDP, inputs) else "queues are received from by AF_XDP, as in -i xdp:eth0"
    if not _all_by(INTERFACE, inputs):
        return by, "it divides packets of interfaces by AF_PACKET only"
    return by, fanout if dispatch == "auto" and isinstance(fanout, str) and fanout != STATELESS else None


def _sums(counted: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(one[name] for one in counted) for name in counted[0]}


class WorkerSources(Source):
    """The sources of all workers, as one: its counters are those of all together.

    each: by worker. handles: the same as an array for C. note: which cards divide the directions of a connection among
    queues, and why; empty if none does.
    """

    def __init__(
        self, library: Any, sources: list[Source], inputs: Inputs, note: str = "", shared: _Fanout | None = None
    ) -> None:
        """inputs: of each of the sources. shared: what they refer to as long as they are open."""
        super().__init__(library, sources[0].handle)
        self._inputs = len(inputs.uris)
        self._shared = shared
        self.each = sources
        self.handles = (ctypes.c_void_p * len(sources))(*(source.handle for source in sources))
        self.note = note

    @classmethod
    def of_queues(cls, library: Any, inputs: Inputs, workers: int) -> WorkerSources:
        """Open the receive queues of each worker. Raises InputError, also if there are fewer queues than workers."""
        shared = _Queues(0, workers)

        def open_of(worker: int) -> Source:
            shared.member = worker
            return Source.open(library, inputs, queues=ctypes.addressof(shared))

        sources = cls._opened(workers, open_of)
        return cls(library, sources, inputs, shared.note.decode(errors="replace"))

    @classmethod
    def of_fanout(cls, library: Any, inputs: Inputs, fanout: Fanout | None, workers: int, seed: int) -> WorkerSources:
        """Open a socket for each worker, among which the kernel divides packets; without a program, by its own hash.

        Raises InputError, also where the kernel refuses.
        """
        program = -1 if fanout is None else cls._load(library, inputs, fanout.program(secret_of(seed), workers))
        shared = _Fanout(program, workers)
        try:
            opened = cls._opened(workers, lambda _: Source.open(library, inputs, ctypes.addressof(shared)))
        except InputError:
            shared.close()
            raise
        return cls(library, opened, inputs, shared=shared)

    @staticmethod
    def _opened(workers: int, open_of: Callable[[int], Source]) -> list[Source]:
        """What `open_of` opens for each worker. Where it raises InputError, none stays open."""
        sources: list[Source] = []
        try:
            for worker in range(workers):
                sources.append(open_of(worker))
        except InputError:
            for source in sources:
                source.close()
            raise
        return sources

    @staticmethod
    def _load(library: Any, inputs: Inputs, code: bytes) -> int:
        """The descriptor of a program in the kernel. Raises InputError."""
        message = ctypes.create_string_buffer(MESSAGE_SIZE)
        program = library.sl_fanout_load(code, ctypes.c_uint32(len(code) // 8), message, ctypes.c_size_t(MESSAGE_SIZE))
        if program < 0:
            raise InputError(f"{inputs.uris[0].partition(':')[2]}: {message.value.decode(errors='replace')}")
        return program

    def fault(self) -> str | None:
        """The first error of any, or None."""
        return next((fault for source in self.each if (fault := source.fault())), None)

    def statistics(self) -> dict[str, int]:
        """The counters of all; each of them has counted what is of an interface."""
        of_inputs = [self.statistics_of(number) for number in range(self._inputs)]
        found = _sums([source.statistics() for source in self.each])
        return found | {name: sum(one[name] for one in of_inputs) for name in _OF_INTERFACE}

    def statistics_of(self, number: int) -> dict[str, int]:
        counted = [source.statistics_of(number) for source in self.each]
        return _sums(counted) | {name: of(one[name] for one in counted) for name, of in _OF_INTERFACE.items()}

    def close(self) -> str | None:
        """Close all."""
        lost = [source.close() for source in self.each]
        if self._shared is not None:
            self._shared.close()
        return next(filter(None, lost), None)
