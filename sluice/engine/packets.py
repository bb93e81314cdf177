"""Iterates over the packets of a capture file in Python, with the runtime's reader and without a stack."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.codegen.stack import Generated
from sluice.engine.box import RunError
from sluice.engine.compiler import compile_library
from sluice.engine.inputs import Frame, InputError, Inputs, Source
from sluice.ir.graph import NativeModule
from sluice.ir.interpreter.native import CBytes

_TAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, CBytes)
_TOGETHER = 256
"""The maximum number of packets per call of receive."""
_WAIT = 100_000_000
"""Nanoseconds to wait for a packet before Python can handle signals again."""


@dataclass(frozen=True)
class Packet:
    """A packet: its number, counted from 1, its captured bytes, its length on the wire, its capture time in nanoseconds
    since 1970, and its link type.
    """

    number: int
    data: bytes
    length: int
    time: int
    link_type: int


def runtime_library(natives: tuple[NativeModule, ...] = ()) -> Path:
    """The runtime and native modules as a library without a stack; cached like compiled stacks."""
    name = "_".join(["runtime", *(module.name for module in natives)])
    empty = Generated(name, f"/* {name} */\n", "", [], [], [], [], [], [], natives)
    return compile_library(empty).path


def packets(path: str, library: Path, secrets: Callable[[bytes, int], object] | None = None) -> Iterator[Packet]:
    """The packets of a capture file. `secrets` is called with the secrets in the file and their kind.

    Raises RunError if the file cannot be opened, or, after the preceding packets, for an error in the file.
    """
    runtime = ctypes.CDLL(str(library))
    try:
        source = Source.open(runtime, Inputs.of(path))
    except InputError as error:
        raise RunError(str(error)) from error

    def take(_user: int, kind: int, given: CBytes) -> None:
        if secrets is not None:
            secrets(ctypes.string_at(given.at, given.captured), kind)

    callback, frames, number = _TAKE(take), (Frame * _TOGETHER)(), 0
    runtime.sl_source_on_secrets.argtypes = [ctypes.c_void_p, _TAKE, ctypes.c_void_p]
    runtime.sl_source_receive.argtypes = [ctypes.c_void_p, ctypes.POINTER(Frame), ctypes.c_uint32]
    runtime.sl_source_receive.restype = ctypes.c_int32
    runtime.sl_source_release.argtypes = [ctypes.c_void_p]
    runtime.sl_source_wait.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    runtime.sl_source_on_secrets(source.handle, callback, None)
    try:
        while (got := runtime.sl_source_receive(source.handle, frames, _TOGETHER)) >= 0:
            found: list[Packet] = []
            for frame in frames[:got]:
                number += 1
                found.append(Packet(number, _data(frame), frame.length, frame.time, frame.link_type))
            runtime.sl_source_release(source.handle)
            yield from found
            if not got:
                runtime.sl_source_wait(source.handle, _WAIT)
        fault = source.fault()
        if fault:
            raise RunError(f"{fault}; the packets before it were processed")
    finally:
        source.close()


def _data(frame: Frame) -> bytes:
    """The bytes of a frame. `frame.at` is a c_char_p, which would stop at the first zero byte, so read the pointer."""
    at = ctypes.cast(ctypes.byref(frame, Frame.at.offset), ctypes.POINTER(ctypes.c_void_p)).contents
    return ctypes.string_at(at.value, frame.captured) if at.value else b""
