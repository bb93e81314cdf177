"""Standard output: separates the output of functions from JSON and rows, and detects that a pipe's reader closed it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import sys
from collections.abc import Generator

from sluice.cli.common.errors import CommandError
from sluice.engine.new_file import create

STDOUT, STDERR = 1, 2
_real = [STDOUT]
"""The descriptor of the real standard output."""


@contextlib.contextmanager
def printed_apart(path: str | None, apart: bool) -> Generator[str | None]:
    """While the context is active, redirect the output of functions to the file `path`, else, if `apart`, to stderr.

    Functions in C and Python print to descriptor 1, so the descriptor is redirected. Yields a path that opens the real
    standard output, or None if nothing is redirected. Raises CommandError.
    """
    if path is None and not apart:
        yield None
        return
    sys.stdout.flush()
    try:
        target = os.dup(STDERR) if path is None else create(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    real = os.dup(STDOUT)
    os.dup2(target, STDOUT)
    os.close(target)
    before, _real[:] = list(_real), [real]
    # sys.stdout may have been replaced by a stream that does not use descriptor 1
    stream = open(os.dup(STDOUT), "w", errors="backslashreplace")
    try:
        with contextlib.redirect_stdout(stream):
            yield f"/dev/fd/{real}"
    finally:
        _real[:] = before
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).fflush(None)
            stream.close()
        os.dup2(real, STDOUT)
        os.close(real)


def reader_is_gone() -> bool:
    """Whether standard output is a pipe whose read end is closed, for example by `| head`."""
    poll = select.poll()
    poll.register(_real[0], 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))
