"""An output folder of a command, in which no symbolic link is ever followed.

A link planted by another user could redirect a write to another file of this user. So the folders on a path are opened
one by one with O_NOFOLLOW, and a file is written under a new name and then renamed, which replaces a link itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path
from types import TracebackType

from sluice.cli.common.errors import CommandError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputFolder:
    """An open folder, created if it is missing. Use it in a `with`. Raises CommandError with the advice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_symlink():
            raise CommandError(f"{path}: is a symbolic link; give the folder that it leads to ({os.readlink(path)})")
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _FOLDER)
        except OSError as error:
            raise CommandError(f"{error.filename or path}: {error.strerror}") from error
        if not os.access(path, os.W_OK):
            os.close(self._descriptor)
            raise CommandError(f"{path}: cannot be written")

    def __enter__(self) -> OutputFolder:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, name: str, of_this_user: bool = False) -> bytes | None:
        """The contents of a regular file in the folder; None if it is missing or not a regular file.

        of_this_user: also None for a file that other users own or can write.
        """
        try:
            with self._parent(name, create=False) as (parent, last):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                with open(os.open(last, flags, dir_fd=parent), "rb") as file:
                    found = os.fstat(file.fileno())
                    foreign = found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022
                    if not stat.S_ISREG(found.st_mode) or (of_this_user and foreign):
                        return None
                    return file.read()
        except OSError:
            return None

    def exists(self, name: str) -> bool:
        """Whether the name exists (a dangling link counts), or its parent's path contains a link or a file."""
        try:
            with self._parent(name, create=False) as (parent, last):
                os.stat(last, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def write(self, name: str, contents: bytes) -> None:
        """Write a file, replacing an existing one. Raises CommandError."""
        try:
            with self._parent(name, create=True) as (parent, last):
                work = f".{last[:64]}.{secrets.token_hex(8)}"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                try:
                    with open(os.open(work, flags, 0o666, dir_fd=parent), "wb") as file:
                        file.write(contents)
                    os.replace(work, last, src_dir_fd=parent, dst_dir_fd=parent)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(work, dir_fd=parent)
                    raise
        except OSError as error:
            raise CommandError(f"{self.path / name}: {error.strerror}") from error

    @contextlib.contextmanager
    def _parent(self, name: str, create: bool) -> Generator[tuple[int, str]]:
        """Open the folder of a file; yields its descriptor and the file's name in it. Raises OSError, also for a link
        on the path.
        """
        *folders, last = Path(name).parts
        parent = os.dup(self._descriptor)
        try:
            for folder in folders:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=parent)
                parent, before = os.open(folder, _FOLDER, dir_fd=parent), parent
                os.close(before)
            yield parent, last
        finally:
            os.close(parent)
