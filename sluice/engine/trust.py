"""Checks whether other users could change a file or a folder, before compiled code is loaded from it.

A user who may rename a folder on the path to a file can replace the file, so every folder on the path is checked. As
with sshd's StrictModes, each must belong to this user, to root, or to the owner of `/` (which is root with another
number in a user namespace), and must not be writable by others, unless it has the sticky bit, like /tmp.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_WRITABLE_BY_OTHERS = 0o022
_MAX_LINKS = 40
"""The maximum number of symbolic links on a path, as in Linux (MAXSYMLINKS)."""


class UntrustedError(Exception):
    """Other users could change the file or folder; the message names the part of the path that allows it."""


def check_folder(folder: Path) -> None:
    """Raise UntrustedError if others can change the folder, or if it is a link; OSError if it is missing.

    Links further up the path are followed if their owner is trusted, because home directories are often links.
    """
    path = Path(os.path.abspath(folder))
    _check_path(path.parent)
    _check_entry(path, path.lstat(), sticky=False)


def check_file(path: Path, descriptor: int) -> None:
    """The same for an open file, which must be a regular file. Its folder is checked separately, by `check_folder`."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise UntrustedError(f"{path} is not a regular file")
    _check_owner(path, found)
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise UntrustedError(f"{path} can be written by other users")


def open_trusted(path: Path) -> int:
    """Open a file that only this user can change, for reading. Follows no link, and does not block on a FIFO.

    Raises UntrustedError, or OSError if it cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if path.is_symlink():
            raise UntrustedError(f"{path} is a symbolic link") from error
        raise
    try:
        check_file(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_path(path: Path) -> None:
    """Check every folder on an absolute path, from the root down, and the path of every link in it."""
    at = Path("/")
    left = list(path.parts[1:])
    links = 0
    _check_entry(at, at.lstat(), sticky=True)
    while left:
        part = left.pop(0)
        if part == "..":
            at = at.parent
            continue
        entry = at / part
        found = entry.lstat()
        if not stat.S_ISLNK(found.st_mode):
            _check_entry(entry, found, sticky=True)
            at = entry
            continue
        _check_owner(entry, found)
        links += 1
        if links > _MAX_LINKS:
            raise UntrustedError(f"{path}: too many symbolic links")
        target = Path(os.readlink(entry))
        if target.is_absolute():
            at = Path("/")
        left = [part for part in target.parts if part != "/"] + left


def _check_entry(path: Path, found: os.stat_result, sticky: bool) -> None:
    """Check one folder. sticky: whether others may write to it if its sticky bit forbids them to rename entries."""
    if stat.S_ISLNK(found.st_mode):
        raise UntrustedError(f"{path} is a symbolic link")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(20, os.strerror(20), str(path))
    _check_owner(path, found)
    if found.st_mode & _WRITABLE_BY_OTHERS and not (sticky and found.st_mode & stat.S_ISVTX):
        raise UntrustedError(f"{path} can be written by other users (chmod go-w makes it yours alone)")


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in {0, os.geteuid(), os.lstat("/").st_uid}:
        raise UntrustedError(f"{path} belongs to another user (number {found.st_uid})")
