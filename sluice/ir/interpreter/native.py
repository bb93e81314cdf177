"""Functions in C as the interpreter calls them: the very functions of a compiled library, through ctypes.

What they keep for instances and for the worker is here, as the runtime has it in natives.h.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

from sluice.ir.graph import NativeModule
from sluice.ir.interpreter.holders import Holders
from sluice.ir.interpreter.value import EMPTY, Bytes, InterpreterError


class CBytes(ctypes.Structure):
    """sl_bytes."""

    _fields_ = (("at", ctypes.c_void_p), ("captured", ctypes.c_uint32), ("length", ctypes.c_uint32))


class CCall(ctypes.Structure):
    """struct sl_native_call."""

    _fields_ = (
        ("worker", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("time", ctypes.c_uint64),
        ("numbers", ctypes.POINTER(ctypes.c_uint64)),
        ("bytes", ctypes.POINTER(CBytes)),
        ("outputs", ctypes.POINTER(ctypes.c_uint64)),
        ("sdu", ctypes.c_void_p),
        ("room", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
    )


_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_END = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_CLOSE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_SECRETS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, CBytes)


class CModule(ctypes.Structure):
    """struct sl_native_module."""

    _fields_ = (
        ("context_bytes", ctypes.c_uint32),
        ("worker_bytes", ctypes.c_uint32),
        ("open", _OPEN),
        ("end", _END),
        ("close", _CLOSE),
        ("secrets", _SECRETS),
    )


@dataclass(frozen=True, slots=True)
class Given:
    """What a call gave: why it refused (0: it did not), its bytes, its numbers."""

    reason: int
    sdu: Bytes
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OfContext:
    """What a module stores for an instance, as a holder of memory."""

    module: str
    instance: int


class NativeWorker:
    """A module at work: what it keeps for the worker and for each instance."""

    def __init__(self, library: ctypes.CDLL, module: NativeModule, option: str) -> None:
        self._library = library
        self._name = module.name
        self.holders = Holders()
        self._shapes = dict(module.functions)
        self._module = CModule.in_dll(library, module.name)
        self._worker = ctypes.create_string_buffer(self._module.worker_bytes + 1)
        self._contexts: dict[int, ctypes.Array[ctypes.c_char]] = {}
        if self._module.open and self._module.open(ctypes.addressof(self._worker), option.encode()):
            raise InterpreterError(f"native module '{module.name}' refuses to run")

    def call(self, function: str, number: int, begins: bool, inputs: tuple[int | Bytes, ...], time: int) -> Given:
        """Call a function for the instance `number`, 0 for none."""
        shape = self._shapes[function]
        if number and begins and self._module.context_bytes and number not in self._contexts:
            self._contexts[number] = ctypes.create_string_buffer(self._module.context_bytes)
        context = self._contexts.get(number)
        if context is not None:
            self.holders.renew(OfContext(self._name, number))
        numbers = [item for item in inputs if isinstance(item, int)]
        pieces = [item for item in inputs if not isinstance(item, int)]
        held = [ctypes.create_string_buffer(data, len(data)) if data else None for data, _ in pieces]
        slices = (CBytes * (len(pieces) + 1))()
        for number_of, ((data, length), buffer) in enumerate(zip(pieces, held, strict=True)):
            slices[number_of] = CBytes(ctypes.addressof(buffer) if buffer is not None else None, len(data), length)
        outputs = (ctypes.c_uint64 * (shape.outputs + 1))()
        room = ctypes.create_string_buffer(shape.limit + 1)
        call = CCall(
            ctypes.addressof(self._worker),
            ctypes.addressof(context) if context is not None else None,
            time,
            (ctypes.c_uint64 * (len(numbers) + 1))(*numbers),
            slices,
            outputs,
            ctypes.addressof(room),
            shape.limit,
            0,
        )
        reason = self._library[function](ctypes.byref(call))
        if reason:
            return Given(min(reason, len(shape.reasons)), EMPTY, (0,) * shape.outputs)
        data = room.raw[: min(call.length, shape.limit)]
        return Given(0, (data, len(data)), tuple(outputs)[: shape.outputs])

    def secrets(self, kind: int, data: bytes) -> None:
        """Secrets have come with the packets."""
        if self._module.secrets:
            held = ctypes.create_string_buffer(data, len(data)) if data else None
            at = ctypes.addressof(held) if held is not None else None
            self._module.secrets(ctypes.addressof(self._worker), kind, CBytes(at, len(data), len(data)))

    def end(self, number: int) -> None:
        """The instance ends."""
        context = self._contexts.pop(number, None)
        self.holders.leave(OfContext(self._name, number))
        if context is not None and self._module.end:
            self._module.end(ctypes.addressof(self._worker), ctypes.addressof(context))

    def close(self) -> None:
        """The box closes."""
        for number in list(self._contexts):
            self.end(number)
        if self._module.close:
            self._module.close(ctypes.addressof(self._worker))


def native_workers(
    modules: tuple[NativeModule, ...], library: Path | None, options: dict[str, str]
) -> dict[str, NativeWorker]:
    """The modules of a program, out of the library that was compiled from it."""
    if not modules:
        return {}
    if library is None:
        raise InterpreterError("a program with native modules needs the library that was compiled from it")
    loaded = ctypes.CDLL(str(library))
    return {module.name: NativeWorker(loaded, module, options.get(module.option, "")) for module in modules}
