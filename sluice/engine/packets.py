"""The packets of a capture file, one by one, for what runs in Python: the runtime's reader, without a stack."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.codegen.stack import Generated
from sluice.engine.box import MESSAGE_SIZE, Frame, RunError
from sluice.engine.compiler import compile_library
from sluice.ir.graph import NativeModule
from sluice.ir.interpreter.native import CBytes

_TAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, CBytes)


@dataclass(frozen=True)
class Packet:
    """A packet: its number from 1, its bytes as far as captured, its length on the wire, and when it was captured, in
    nanoseconds since 1970.
    """

    number: int
    data: bytes
    length: int
    time: int
    link_type: int


def runtime_library(natives: tuple[NativeModule, ...] = ()) -> Path:
    """The runtime as a library of its own, with native modules; it is cached as compiled stacks are."""
    name = "_".join(["runtime", *(module.name for module in natives)])
    empty = Generated(name, f"/* {name} */\n", "", [], [], [], [], [], [], natives)
    return compile_library(empty).path


def packets(path: str, library: Path, secrets: Callable[[bytes, int], object] | None = None) -> Iterator[Packet]:
    """The packets of a capture file. `secrets` is called with those that the file carries, and of which kind they are.

    Raises RunError when the file cannot be read, or, after the packets before it, for a fault.
    """
    runtime = ctypes.CDLL(str(library))
    capture, message = ctypes.c_void_p(), ctypes.create_string_buffer(MESSAGE_SIZE)
    runtime.sl_capture_open.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    runtime.sl_capture_next.argtypes = [ctypes.c_void_p, ctypes.POINTER(Frame)]
    runtime.sl_capture_on_secrets.argtypes = [ctypes.c_void_p, _TAKE, ctypes.c_void_p]
    runtime.sl_capture_fault.restype = ctypes.c_char_p
    runtime.sl_capture_fault.argtypes = runtime.sl_capture_close.argtypes = [ctypes.c_void_p]
    if runtime.sl_capture_open(ctypes.byref(capture), os.fsencode(path), message, MESSAGE_SIZE):
        raise RunError(message.value.decode(errors="replace"))

    def take(_user: int, kind: int, given: CBytes) -> None:
        if secrets is not None:
            secrets(ctypes.string_at(given.at, given.captured), kind)

    callback, frame, number = _TAKE(take), Frame(), 0
    runtime.sl_capture_on_secrets(capture, callback, None)
    try:
        while runtime.sl_capture_next(capture, ctypes.byref(frame)) == 1:
            number += 1
            at = ctypes.cast(ctypes.byref(frame, Frame.at.offset), ctypes.POINTER(ctypes.c_void_p)).contents
            data = ctypes.string_at(at.value, frame.captured) if at.value else b""
            yield Packet(number, data, frame.length, frame.time, frame.link_type)
        fault = runtime.sl_capture_fault(capture)
        if fault:
            raise RunError(f"{path}: {fault.decode(errors='replace')}; the packets before it were processed")
    finally:
        runtime.sl_capture_close(capture)
