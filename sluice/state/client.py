"""The client in C: compiled once, cached, and opened for a store."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
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
        ("prefix", ctypes.c_char_p),
        ("instance", ctypes.c_char_p),
        ("epoch", ctypes.c_uint32),
        ("timeout", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("waits", ctypes.c_bool),
        ("caches", ctypes.c_bool),
        ("token", ctypes.c_char_p),
        ("function", ctypes.c_char_p),
        ("cached", ctypes.c_char_p),
        ("watched", ctypes.c_char_p),
        ("run", ctypes.c_uint32),
        ("strict", ctypes.c_bool),
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

    def make(path: Path) -> None:
        files = [*map(str, SOURCES), "-o", str(path), "-lhiredis"]
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
    """What the client of one instance among several of a function needs to know.

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


class Client:
    """An open client: `address` is that of its struct sl_store. Raises StoreError."""

    def __init__(self, location: Location, prefix: str, epoch: int, instance: str, place: Place | None = None) -> None:
        self._library = ctypes.CDLL(str(self._path()))
        self._library.sluice_client_open.restype = ctypes.c_void_p
        self._library.sluice_client_open.argtypes = [ctypes.POINTER(COptions), ctypes.c_char_p, ctypes.c_uint32]
        self._library.sluice_client_close.restype = None
        self._library.sluice_client_close.argtypes = [ctypes.c_void_p]

        def text(given: str) -> bytes | None:
            return given.encode() or None

        # the structure refers to these texts while the client is open
        self._options = COptions(
            text(location.path),
            text(location.host),
            str(location.port).encode(),
            text(location.user),
            text(location.password),
            prefix.encode(),
            instance.encode(),
            epoch,
            location.timeout,
            UNACKNOWLEDGED,
            location.wait,
            location.cache,
            place.token.encode() if place else None,
            place.function.encode() if place else None,
            _names(place.cached) if place else None,
            _names(place.watched) if place else None,
            place.run if place else 0,
            place.strict if place else False,
        )
        self._library.sluice_client_begin.restype = ctypes.c_bool
        self._library.sluice_client_begin.argtypes = [ctypes.c_void_p]
        why = ctypes.create_string_buffer(200)
        found = self._library.sluice_client_open(ctypes.byref(self._options), why, len(why))
        if not found:
            raise StoreError(f"{location.name} cannot be reached: {why.value.decode(errors='replace')}")
        self.address: int = found
        if place and not self._library.sluice_client_begin(found):
            raise StoreError(f"{location.name} does not say which traffic '{place.function}' {instance} has")

    def _path(self) -> Path:
        return client_library()

    def close(self) -> None:
        """Free it; the box that uses it is closed."""
        if self.address:
            self._library.sluice_client_close(self.address)
            self.address = 0


def _names(names: tuple[str, ...]) -> bytes:
    """struct sl_store.cached."""
    return f",{','.join(names)},".encode()
