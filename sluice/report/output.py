"""The path of a log's rows from a box to files of any format.

A function in C writes JSON lines to a pipe. A thread reads whole lines and passes them to a writer. When the writer
fails, the pipe is closed, so that the box fails at its next row and does not process the rest of its input in vain.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable
from typing import Protocol

from sluice.report.errors import OutputError

_CHUNK = 1 << 20
_F_SETPIPE_SZ = 1031
"""fcntl's number on Linux; the module has a name for it since Python 3.10 where the C library has it."""


class Sink(Protocol):
    """A consumer of rows."""

    def write(self, lines: bytes) -> None:
        """Accept whole lines of JSON. Raises OSError or OutputError."""
        ...

    def close(self) -> None:
        """The last row was taken."""
        ...


class Rows:
    """A pipe from a function in C to a sink. Use `path` as the function's output, then call `finish`.

    begins: the thread starts now; else with `begin`, with the rights that the process has then.
    """

    def __init__(self, sink: Sink, failed: Callable[[], object] = lambda: None, begins: bool = True) -> None:
        self._sink, self._on_failure = sink, failed
        self._read, self._write = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._write, _F_SETPIPE_SZ, _CHUNK)
        self.path = f"/proc/self/fd/{self._write}"
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._carry, name="sluice rows", daemon=True)
        if begins:
            self.begin()

    def begin(self) -> None:
        """Start to accept rows. May be called again."""
        if self._thread.ident is None:
            self._thread.start()

    def _carry(self) -> None:
        try:
            try:
                self._read_all()
            finally:
                self._sink.close()
        except (OSError, OutputError) as error:
            self._fail(_reason(error))
        except Exception as error:  # a row that its format cannot express must not stop the box without a reason
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            os.close(self._read)

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why
        self._on_failure()

    def _read_all(self) -> None:
        rest = b""
        while chunk := os.read(self._read, _CHUNK):
            end = chunk.rfind(b"\n") + 1
            if not end:
                rest += chunk
                continue
            self._sink.write(rest + chunk[:end])
            rest = chunk[end:]

    def finish(self) -> None:
        """After the function has closed its output: wait until the sink has taken all rows. May be called again."""
        self.begin()
        if self._write >= 0:
            os.close(self._write)
            self._write = -1
        self._thread.join()


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        why = error.strerror or os.strerror(error.errno or errno.EIO)
        return f"{error.filename}: the rows could not all be written: {why}" if error.filename else why
    return str(error)
