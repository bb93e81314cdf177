"""The boxes of an isolated chain: that of the stack, and that of a function."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from sluice.chain.processes.memory import Mapping
from sluice.chain.processes.program import BYTES_MOST, IsolatedChain
from sluice.engine.box import Box
from sluice.engine.inputs import Drive


class _Events(ctypes.Structure):
    """struct sl_iso_events."""

    _fields_ = (
        ("types", ctypes.c_void_p),
        ("bytes", ctypes.c_void_p),
        ("layers", ctypes.c_uint32),
        ("paths", ctypes.c_uint32),
    )


def attach(box: Box, drive: Drive, chain: IsolatedChain, mapping: Mapping) -> list[Any]:
    """Connect the box of a stack with the functions. The result must live as long as the box."""
    assert chain.stack is not None and chain.events is not None
    library = ctypes.CDLL(str(chain.stack.compiled.path))
    types, places = chain.types(), chain.bytes()
    kept_types = (ctypes.c_uint16 * max(1, len(types)))(*types)
    kept_places = (ctypes.c_uint16 * max(BYTES_MOST, len(places)))(*places)
    events = _Events(
        ctypes.cast(kept_types, ctypes.c_void_p),
        ctypes.cast(kept_places, ctypes.c_void_p),
        len(chain.stack.program.layers),
        chain.events.paths,
    )
    parts = [ctypes.c_void_p(at) for at in (drive.process, drive.tick, drive.finish_step)]
    library.sl_iso_attach.restype = None
    library.sl_iso_attach(ctypes.byref(mapping), ctypes.byref(events), *parts)
    for name in ("process", "tick", "step"):
        at = ctypes.cast(library[f"sl_iso_{name}"], ctypes.c_void_p)
        setattr(drive, "finish_step" if name == "step" else name, at)
    return [mapping, kept_types, kept_places]


class StackBox(Box):
    """The box of the stack: it sends events to the functions."""

    chain: IsolatedChain
    mapping: Mapping
    part: str | None = None
    """Where it writes transmitted packets instead of its output, if it has replaced another process."""

    def _open_output(self, path: str | os.PathLike[str]) -> None:
        super()._open_output(self.part or path)

    def _make_drive(self) -> None:
        super()._make_drive()
        self._attached = attach(self, self._drive, self.chain, self.mapping)


def stack_box(chain: IsolatedChain, mapping: Mapping, part: str | None = None) -> type[StackBox]:
    """The class of the stack's box for a chain."""
    return type("StackBox", (StackBox,), {"chain": chain, "mapping": mapping, "part": part})


class FunctionBox(Box):
    """The box of a function: it receives events until the input ends."""

    def _make_drive(self) -> None:
        self._drive = Drive()

    def receive(self, mapping: Mapping) -> bool:
        """Handle events. False if the chain ends before its input does."""
        call = self._library[f"{self._prefix}_receive"]
        call.restype, call.argtypes = ctypes.c_bool, [ctypes.c_void_p, ctypes.c_void_p]
        ended = bool(call(self._box, ctypes.byref(mapping)))
        self._raise()
        ctypes.CDLL(None).fflush(None)
        for function in self.python if ended else ():
            for ending in function.endings:
                ending()
        return ended
