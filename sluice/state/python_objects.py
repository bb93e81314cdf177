"""Shared objects of functions in Python: declared in a store, and operated on through the client in C."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import Any

from sluice.engine.events import PythonFunction
from sluice.hooks.shared import Shared, SharedError, read_scope
from sluice.state.client import Client
from sluice.state.errors import StoreError

_OPERATIONS = (
    "add", "read", "set", "minimum", "maximum", "compare", "custom", "put", "get", "fill", "push", "pop", "insert",
    "remove", "contains", "map_add", "map_read", "map_minimum", "map_maximum", "map_least", "drop", "forget",
)  # fmt: skip
"""enum sl_store_operation."""
BURST = 64
"""Operations after which those without a result are transmitted."""
_READS = ("read", "contains", "map_read")
_DONE, _ABSENT, _REFUSED = range(3)


class _Call(ctypes.Structure):
    """struct sl_store_call."""

    _fields_ = (
        ("operation", ctypes.c_int),
        ("recovered", ctypes.c_bool),
        ("key", ctypes.c_char_p),
        ("key_length", ctypes.c_uint32),
        ("id", ctypes.c_uint64),
        ("number", ctypes.c_int64),
        ("other", ctypes.c_int64),
        ("bytes", ctypes.c_void_p),
        ("length", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("open", ctypes.POINTER(ctypes.c_uint32)),
        ("part", ctypes.c_uint32),
    )


class _Result(ctypes.Structure):
    """struct sl_store_result."""

    _fields_ = (
        ("number", ctypes.c_int64),
        ("bytes", ctypes.c_void_p),
        ("length", ctypes.c_uint32),
        ("text", ctypes.c_void_p),
    )


_COUNTS = (
    "operations", "requests", "waits", "reconnections", "retransmitted", "lost_updates", "lost_updates_zero", "errors",
    "refused",
)  # fmt: skip


class _Counts(ctypes.Structure):
    """struct sl_store_counts."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in _COUNTS)


class _Store(ctypes.Structure):
    """struct sl_store, as far as it is called."""

    _fields_ = (
        ("call", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Call), ctypes.POINTER(_Result))),
        ("flush", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("finish", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("counts", ctypes.CFUNCTYPE(ctypes.POINTER(_Counts), ctypes.c_void_p)),
        ("fault", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
    )


def declarations(function: PythonFunction) -> list[Shared]:
    """The declarations of a file. Raises StoreError, with the name, for an invalid one."""
    found: list[Shared] = []
    for name, item in function.shared.items():
        kind, scope, access, loss, help = item.__sluice_shared__
        try:
            found.append(Shared(name, kind, read_scope(scope), access, loss, help))
        except SharedError as error:
            raise StoreError(f"{function.name}.py: {name}: {error}") from None
    return found


class PythonObjects:
    """The objects of all Python files of a run, with a client; `finish` acknowledges all updates."""

    def __init__(self, functions: Sequence[PythonFunction], client: Client) -> None:
        self._functions, self._client = functions, client
        self._store = _Store.from_address(client.address)
        self._last = self._calls = 0
        self._held: dict[tuple[str, str, str], tuple[bytes, ctypes.c_uint32, Any]] = {}
        """The key of each object, and the number by which the client finds its additions: the client refers to both."""
        for function in functions:
            for item, declared in zip(function.shared.values(), declarations(function), strict=True):
                item.remote = self._remote(function.name, declared)

    def _remote(self, function: str, declared: Shared) -> Any:
        instance = "@0" if declared.scope == "flow" else ""

        def call(target: Any, operation: str, number: int, other: int, wait: bool, packet: int) -> int | None:
            name = (function, declared.name, target.key)
            if name not in self._held:
                text = f"sluice:{{{function}}}{declared.name}{instance}:{target.key}".encode()
                self._held[name] = text, ctypes.c_uint32(0), target
            status, found = self._call(name, operation, number, other, wait, packet, declared.loss == "recover")
            if status == _REFUSED:
                target.of.refused += 1
            if status not in (_DONE, _ABSENT):
                what = "the value does not fit" if status == _REFUSED else "the store did not reply, or with an error"
                raise StoreError(f"{function}.py: {declared.name}: {operation}: {what}")
            return found if status == _DONE and wait else None

        return call

    def _call(
        self,
        name: tuple[str, str, str],
        operation: str,
        number: int,
        other: int,
        wait: bool,
        packet: int,
        recovered: bool,
    ) -> tuple[int, int]:
        if not all(-(1 << 63) <= each < 1 << 63 for each in (number, other)):
            return _REFUSED, 0
        key, combined, _ = self._held[name]
        reads = operation in _READS
        if not reads:
            self._last = max(packet << 8, self._last + 1)
        call = _Call(
            _OPERATIONS.index(operation), recovered, key, len(key), 0 if reads else self._last, number, other, None, 0,
            None, ctypes.pointer(combined),
        )  # fmt: skip
        result = _Result()
        status = self._store.call(self._client.address, ctypes.byref(call), ctypes.byref(result) if wait else None)
        self._calls += 1
        if self._calls % BURST == 0:
            self._store.flush(self._client.address)
        return status, result.number

    def finish(self) -> tuple[dict[str, int], str | None]:
        """Wait until all updates are acknowledged. Returns the counters, and why updates were lost."""
        self._store.finish(self._client.address)
        if not self._store.fault(self._client.address):
            for name in self._held:
                self._call(name, "forget", 0, 0, False, 0, False)
            self._store.finish(self._client.address)
        for function in self._functions:
            for item in function.shared.values():
                item.remote = None
        counts = self._store.counts(self._client.address).contents
        found = {f"store_{name}": int(getattr(counts, name)) for name in _COUNTS}
        found["state_refused"] = found.pop("store_refused")
        fault: bytes = self._store.fault(self._client.address)
        return found, f"store: {fault.decode(errors='replace')}" if fault else None


def python_rows(functions: Sequence[PythonFunction]) -> list[str]:
    """The rows of local objects (rows.py)."""
    rows: list[str] = []
    for function in functions:
        for name, item in function.shared.items():
            for target in item.objects.values():
                if target.exists():
                    value: Any = target.value
                    if item.type == "map":
                        value = {str(key): each for key, each in sorted(value.items())}
                    elif item.type in ("list", "set"):
                        value = list(value) if item.type == "list" else sorted(value)
                    rows.append(
                        json.dumps(
                            {
                                "function": function.name,
                                "object": name,
                                "key": target.key,
                                "type": item.type,
                                "value": value,
                            }
                        )
                    )
    return rows
