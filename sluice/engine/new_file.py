"""Creates the files that a user names for output, without following links that another user may have planted."""

from __future__ import annotations

import os

STDOUT = "-"
"""The name of standard output."""
OF_THE_KERNEL = ("/dev/stdout", "/dev/stderr", "/dev/fd/")
"""Links that the kernel provides, which an output may follow: /dev/stdout, >(command) of a shell. As sl_create."""


def create(path: str) -> int:
    """A descriptor of a new or emptied file, or the duplicate of one such as /dev/fd/3.

    Raises OSError, also (ELOOP) where the path is a symbolic link.
    """
    named = {STDOUT: 1, "/dev/stdout": 1, "/dev/stderr": 2}.get(path)
    if path.startswith("/dev/fd/") and path.removeprefix("/dev/fd/").isdecimal():
        named = int(path.removeprefix("/dev/fd/"))
    if named is not None:
        return os.dup(named)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
