"""The folder in which compiled stacks are kept: where it is, who uses what of it, and what is thrown away.

What was not used for the longest goes first when all of it is larger than LIMIT, but nothing that a running process
has asked for: each process lists that in a file of its own, which it keeps locked while it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO

LIMIT = 1 << 30
"""Bytes of all that is kept."""
ABANDONED = 24 * 3600
"""Seconds after which a folder in which somebody compiled is nobody's any more."""
LIBRARY, OBJECT, KEPT, PROGRAM = ".so", ".o", ".stack", ".service"
"""How the names of what is kept end: libraries, the runtime's part of them, what descriptions came to, services."""
WORK = ".compiling-"
_USER = ".user-"  # no name of a library begins so
_LOCK = ".lock"


class CacheError(Exception):
    """There is no folder for compiled stacks; the message says what to do."""


def cache_folder() -> Path:
    """Where compiled stacks are kept: $SLUICE_CACHE, else below the user's cache folder, else, where that cannot be
    written, a folder of the user's among the temporary files. It is there when this returns. Raises CacheError.
    """
    if os.environ.get("SLUICE_CACHE"):
        given = Path(os.environ["SLUICE_CACHE"])
        try:
            given.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CacheError(
                f"SLUICE_CACHE={given}: {error.strerror}; set it to a folder that can be written"
            ) from error
        return given
    with contextlib.suppress(OSError, RuntimeError):  # no home at all is a RuntimeError
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return _temporary()


def _temporary() -> Path:
    """A folder among the temporary files that nobody else can write to: libraries in it are executed."""
    folder = Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise CacheError(
            f"{folder}: {error.strerror}; set SLUICE_CACHE to a folder in which compiled stacks can be kept"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise CacheError(f"{folder}: is not yours alone; set SLUICE_CACHE to a folder for compiled stacks")
    return folder


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Generator[None]:
    with open(folder / _LOCK, "a") as file:
        fcntl.flock(file, how)
        yield


@functools.cache
def _uses(folder: Path) -> IO[str]:
    """This process's list of what it uses, locked until it ends."""
    file = tempfile.NamedTemporaryFile("w", dir=folder, prefix=_USER)
    fcntl.flock(file, fcntl.LOCK_SH)
    return file  # type: ignore[return-value]


def kept(path: Path) -> bool:
    """Whether a library is there; from now on it is in use by this process, whether it is there or comes later."""
    with contextlib.suppress(OSError):  # a folder that can be read only: nobody throws anything away there
        with _locked(path.parent, fcntl.LOCK_SH):
            file = _uses(path.parent)
            file.write(f"{path.name}\n")
            file.flush()
            if path.exists():
                os.utime(path)
    return path.exists()


def trim(folder: Path, limit: int | None = None) -> None:
    """Throw away what was not used for the longest and is not in use, until what is left is not above the limit."""
    with contextlib.suppress(OSError), _locked(folder, fcntl.LOCK_EX):
        _remove_abandoned(folder)
        found = sorted(
            (entry.stat().st_mtime, entry.stat().st_size, entry)
            for entry in folder.iterdir()
            if entry.suffix in (LIBRARY, OBJECT, KEPT, PROGRAM)
        )
        total = sum(size for _, size, _ in found) - (LIMIT if limit is None else limit)
        used = _in_use(folder)
        for _, size, path in found:
            if total > 0 and path.name not in used:
                path.unlink(missing_ok=True)
                total -= size


def _remove_abandoned(folder: Path) -> None:
    """Folders and files in which a process that was killed worked."""
    for work in folder.glob(f"{WORK}*"):
        if time.time() - work.stat().st_mtime > ABANDONED:
            if work.is_dir():
                shutil.rmtree(work, ignore_errors=True)
            else:
                work.unlink(missing_ok=True)


def _in_use(folder: Path) -> set[str]:
    """Names of all that living processes use; lists of those that were killed are removed."""
    names: set[str] = set()
    for path in folder.glob(f"{_USER}*"):
        with contextlib.suppress(FileNotFoundError), open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                names.update(file.read().split("\n"))
            else:
                path.unlink()
    return names
