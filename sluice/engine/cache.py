"""The cache folder of compiled stacks: its location, which process uses which file, and eviction.

Libraries in the folder are executed. So a folder that other users could change is refused (trust.py), and a file whose
contents are not those that were written is not used (sealed_file.py).

If the folder is larger than LIMIT, the least recently used files are removed, except those that a running process
uses. Each process lists the files that it uses in a file of its own, and holds a lock on that file until it ends.
"""

from __future__ import annotations

import atexit
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

from sluice.engine.sealed_file import read_sealed
from sluice.engine.trust import UntrustedError, check_folder, open_trusted

LIMIT = 1 << 30
"""The limit of the total size of the cached files, in bytes."""
ABANDONED = 24 * 3600
"""The age in seconds from which a working folder is assumed to belong to a process that was killed."""
LIBRARY, OBJECT, PROGRAM, SERVICE, RULES = ".so", ".o", ".stack", ".service", ".rules"
"""Suffixes of cached files: libraries, the object files of the runtime, generated programs, services, rule tables."""
WORK = ".compiling-"
_USER = ".user-"  # no library name has this prefix
_LOCK = ".lock"


class CacheError(Exception):
    """No usable cache folder exists; the message says what to do."""


def cache_folder() -> Path:
    """The cache folder: $SLUICE_CACHE if set, else a folder in $XDG_CACHE_HOME or $HOME/.cache. If that is not
    writable, or other users could change it, a folder in the directory for temporary files.

    The folder exists on return, and only this user (or root) can change its contents. Raises CacheError.
    """
    if os.environ.get("SLUICE_CACHE"):
        given = Path(os.environ["SLUICE_CACHE"])
        try:
            _make(given)
        except OSError as error:
            raise CacheError(
                f"SLUICE_CACHE={given}: {error.strerror}; set it to a folder that can be written"
            ) from error
        except UntrustedError as error:
            raise CacheError(
                f"SLUICE_CACHE={given}: {error}; compiled code is loaded from there, so set it to a folder that only "
                "you can change"
            ) from error
        return given
    with contextlib.suppress(OSError, RuntimeError, UntrustedError):  # RuntimeError: there is no home directory
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
        _make(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return _temporary()


def _make(folder: Path) -> None:
    """Create a folder and each missing parent with mode 0700, and check the folder."""
    missing = [folder]
    while not os.path.lexists(missing[-1]) and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    for part in reversed(missing):
        with contextlib.suppress(FileExistsError):
            part.mkdir(mode=0o700)
    check_folder(folder)


def _temporary() -> Path:
    folder = Path(tempfile.gettempdir()) / f"sluice-{os.geteuid()}"
    try:
        _make(folder)
    except OSError as error:
        raise CacheError(
            f"{folder}: {error.strerror}; set SLUICE_CACHE to a folder for compiled stacks that can be written"
        ) from error
    except UntrustedError as error:
        raise CacheError(
            f"{error}; set SLUICE_CACHE to a folder for compiled stacks that only you can change"
        ) from error
    return folder


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Generator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(folder / _LOCK, "a", opener=lambda path, _: os.open(path, flags, 0o600)) as file:
        fcntl.flock(file, how)
        yield


@functools.cache
def _uses(folder: Path) -> IO[str]:
    """The file that lists what this process uses; it stays locked until the process ends.

    A process that has given up its rights cannot remove it: `trim` of another one does.
    """
    number, path = tempfile.mkstemp(dir=folder, prefix=_USER)
    file = open(number, "w")
    fcntl.flock(file, fcntl.LOCK_SH)
    atexit.register(_remove, path)
    return file


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def use(path: Path) -> bytes | None:
    """The contents of a cached file; None if it is missing or invalid.

    Registers the file as used by this process, whether it exists now or is created later.
    """
    with contextlib.suppress(OSError):  # a read-only folder: nothing is removed from it
        with _locked(path.parent, fcntl.LOCK_SH):
            file = _uses(path.parent)
            file.write(f"{path.name}\n")
            file.flush()
            os.utime(path, follow_symlinks=False)
    return read_sealed(path)


def trim(folder: Path, limit: int | None = None) -> None:
    """Remove the least recently used files that no process uses until the total size is within the limit."""
    with contextlib.suppress(OSError), _locked(folder, fcntl.LOCK_EX):
        _remove_abandoned(folder)
        entries = [entry for entry in folder.iterdir() if entry.suffix in (LIBRARY, OBJECT, PROGRAM, SERVICE, RULES)]
        states = [(entry.lstat(), entry) for entry in entries]
        found = sorted((state.st_mtime, state.st_size, entry) for state, entry in states)
        total = sum(size for _, size, _ in found) - (LIMIT if limit is None else limit)
        used = _in_use(folder)
        for _, size, path in found:
            if total > 0 and path.name not in used:
                path.unlink(missing_ok=True)
                total -= size


def _remove_abandoned(folder: Path) -> None:
    """Remove working folders and files that killed processes left."""
    for work in folder.glob(f"{WORK}*"):
        state = work.lstat()
        if time.time() - state.st_mtime > ABANDONED:
            if stat.S_ISDIR(state.st_mode):
                shutil.rmtree(work, ignore_errors=True)
            else:
                work.unlink(missing_ok=True)


def _in_use(folder: Path) -> set[str]:
    """The names of all files that running processes use. Removes the lists of processes that have ended."""
    names: set[str] = set()
    for path in folder.glob(f"{_USER}*"):
        with contextlib.suppress(FileNotFoundError, UntrustedError), open(open_trusted(path)) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                names.update(file.read().split("\n"))
            else:
                path.unlink()
    return names
