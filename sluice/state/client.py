"""The client in C: compiled once, cached, and opened for a store."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sluice.engine.cache import LIBRARY
from sluice.engine.compiler import RUNTIME, compiler, flags
from sluice.engine.made_once import made_once
from sluice.state.errors import StoreError
from sluice.state.location import Location

FOLDER = Path(__file__).resolve().parent / "runtime"
SOURCES = tuple(sorted(FOLDER.glob("*.c")))
HEADERS = (*sorted(FOLDER.glob("*.h")), RUNTIME / "function" / "store.h")
UNACKNOWLEDGED = 64 << 20
"""Bytes of calls that wait for their acknowledgement, at most."""


class COptions(ctypes.Structure):
    """struct sluice_client_options."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("host", ctypes.c_char_p),
        ("port", ctypes.c_char_p),
        ("user", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("nodes", ctypes.c_char_p),
        ("replicas", ctypes.c_uint32),
        ("disk", ctypes.c_bool),
        ("prefix", ctypes.c_char_p),
        ("instance", ctypes.c_char_p),
        ("epoch", ctypes.c_uint32),
        ("timeout", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("waits", ctypes.c_bool),
        ("caches", ctypes.c_bool),
        ("function", ctypes.c_char_p),
        ("token", ctypes.c_char_p),
        ("cached", ctypes.c_char_p),
        ("watched", ctypes.c_char_p),
        ("run", ctypes.c_uint32),
        ("strict", ctypes.c_bool),
        ("log", ctypes.c_int),
    )


@cache
def client_library() -> Path:
    """The compiled client. Raises StoreError where hiredis is missing, CompilerError, CacheError."""
    command, options = compiler(), flags()
    digest = hashlib.sha256()
    for text in (*command, *options):
        digest.update(text.encode() + b"\0")
    for path in (*SOURCES, *HEADERS):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")

    def make(made: Path) -> None:
        files = [*map(str, SOURCES), "-o", str(made), "-lhiredis"]
        words = [*command, *options, "-shared", f"-I{RUNTIME}", f"-I{FOLDER}", *files]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise StoreError(
                "the client of stores cannot be compiled; it needs hiredis (Debian: libhiredis-dev):\n"
                f"{done.stderr.strip()[:4000]}"
            )

    return made_once(f"store_client-{digest.hexdigest()[:32]}{LIBRARY}", make)


@dataclass(frozen=True)
class Place:
    """The parameters of the client of one instance among several of a function.

    function: its name. token: of the process. run: the epoch of the chain. cached, watched: names of objects that
    belong to parts of the traffic, and of those with callbacks. strict: operations with results are in the order of
    packets.
    """

    function: str
    token: str
    run: int
    cached: tuple[str, ...]
    watched: tuple[str, ...]
    strict: bool = True
    log: int = -1
    """The file of its write-ahead log, or -1."""


class Client:
    """An open client: `address` is that of its struct sl_store. Raises StoreError.

    functions: whose objects it stores, without a place. In a cluster each has a separate connection, as their keys
    are on several nodes.
    """

    def __init__(
        self,
        location: Location,
        prefix: str,
        epoch: int,
        instance: str,
        place: Place | None = None,
        functions: Sequence[str] = (),
    ) -> None:
        self._library = library = ctypes.CDLL(str(self._path()))
        library.sluice_client_open.restype = library.sluice_clients_join.restype = ctypes.c_void_p
        library.sluice_client_open.argtypes = [ctypes.POINTER(COptions), ctypes.c_char_p, ctypes.c_uint32]
        library.sluice_clients_join.argtypes = [
            ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_char_p), ctypes.c_uint32,
        ]  # fmt: skip
        library.sluice_client_begin.restype = ctypes.c_bool
        for name in ("sluice_client_begin", "sluice_client_close", "sluice_clients_part"):
            getattr(library, name).argtypes = [ctypes.c_void_p]
        self._options: list[COptions] = []  # the structures refer to their texts while the client is open
        self._opened: list[int] = []
        self._joined = 0
        several = functions if location.nodes and place is None else [place.function if place else ""]
        try:
            for function in several:
                options = _options(location, prefix, epoch, instance, function, place)
                self._open(location, options)
        except StoreError:
            self.close()
            raise
        self.address = self._opened[0]
        if len(several) > 1:
            stores = (ctypes.c_void_p * len(several))(*self._opened)
            self._names = (ctypes.c_char_p * len(several))(*(name.encode() for name in several))
            self.address = self._joined = library.sluice_clients_join(stores, self._names, len(several)) or 0
            if not self._joined:
                self.close()
                raise StoreError(f"{location.name}: no memory")
        if place and not library.sluice_client_begin(self.address):
            self.close()
            raise StoreError(f"{location.name} does not say which traffic '{place.function}' {instance} has")

    def _open(self, location: Location, options: COptions) -> None:
        why = ctypes.create_string_buffer(200)
        found = self._library.sluice_client_open(ctypes.byref(options), why, len(why))
        if not found:
            raise StoreError(f"{location.name} cannot be reached: {why.value.decode(errors='replace')}")
        self._options.append(options)
        self._opened.append(found)

    def _path(self) -> Path:
        return client_library()

    def close(self) -> None:
        """Free it; the box that uses it is closed."""
        if self._joined:
            self._library.sluice_clients_part(self._joined)
        for one in self._opened:
            self._library.sluice_client_close(one)
        self._opened.clear()
        self.address = self._joined = 0


def _options(
    location: Location, prefix: str, epoch: int, instance: str, function: str, place: Place | None
) -> COptions:
    def text(given: str) -> bytes | None:
        return given.encode() or None

    return COptions(
        text(location.path),
        text(location.host),
        str(location.port).encode(),
        text(location.user),
        text(location.password),
        text(",".join(f"{host}:{port}" for host, port in location.nodes)),
        location.replicas,
        location.waits_disk,
        prefix.encode(),
        instance.encode(),
        epoch,
        location.timeout,
        UNACKNOWLEDGED,
        location.wait,
        location.cache,
        function.encode(),
        place.token.encode() if place else None,
        _names(place.cached) if place else None,
        _names(place.watched) if place else None,
        place.run if place else 0,
        place.strict if place else False,
        place.log if place else -1,
    )


def _names(names: tuple[str, ...]) -> bytes:
    """struct sl_store.cached."""
    return f",{','.join(names)},".encode()
