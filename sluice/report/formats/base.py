"""What a writer of a format does, files of whole rows, and optional packages."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import stat
from typing import Any, Protocol

from sluice.report.errors import OutputError
from sluice.report.schema import Schema

Row = dict[str, Any]
STDOUT = "-"
"""The name of standard output."""


class Writer(Protocol):
    """Writes the rows of one log to one file. Every method raises OSError or OutputError."""

    def write(self, lines: bytes) -> None:
        """Write rows: whole lines of JSON."""
        ...

    def size(self) -> int:
        """The bytes of the file, buffered rows included as far as their size is known."""
        ...

    def flush(self) -> None:
        """Write what is buffered and can be written now."""
        ...

    def close(self) -> None:
        """Complete the file. After a failed `write`, it completes what was written before."""
        ...


def needed(package: str, extra: str) -> Any:
    """An optional package. Raises OutputError, which names the extra that installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise OutputError(f"this needs the package {package}: pip install 'sluice[{extra}]' installs it") from error


def rows_of(lines: bytes) -> list[Row]:
    """The rows of whole lines."""
    return [json.loads(line) for line in lines.splitlines()]


def create(path: str) -> int:
    """Create a file, or duplicate a descriptor such as /dev/fd/3. Symbolic links are refused, as in sl_create."""
    named = {STDOUT: 1, "/dev/stdout": 1, "/dev/stderr": 2}.get(path)
    if path.startswith("/dev/fd/") and path.removeprefix("/dev/fd/").isdecimal():
        named = int(path.removeprefix("/dev/fd/"))
    if named is not None:
        return os.dup(named)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)


class TextFile:
    """A file of lines. A write that fails leaves the complete lines that were written."""

    def __init__(self, path: str) -> None:
        self.descriptor = create(path)
        # a descriptor of another program's file may stand anywhere in it
        self._regular = stat.S_ISREG(os.fstat(self.descriptor).st_mode) and not path.startswith(("/dev/", STDOUT))
        self.path = path
        self.written = 0

    def write(self, lines: bytes) -> None:
        """Write whole lines at once."""
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self.descriptor, left) :]
        except OSError as error:
            done = len(lines) - len(left)
            whole = lines.rfind(b"\n", 0, done) + 1
            if self._regular:
                with contextlib.suppress(OSError):
                    os.ftruncate(self.descriptor, self.written + whole)
                    os.lseek(self.descriptor, 0, os.SEEK_END)
            self.written += whole
            raise OSError(error.errno, error.strerror, self.path) from error
        self.written += len(lines)

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


class TextWriter:
    """A writer whose rows are lines. A subclass converts rows."""

    def __init__(self, path: str, schema: Schema) -> None:
        self.schema = schema
        self.file = TextFile(path)
        if head := self.head():
            self.file.write(head)

    def head(self) -> bytes:
        """The lines before the first row."""
        return b""

    def convert(self, lines: bytes) -> bytes:
        """Rows as lines of the format."""
        raise NotImplementedError

    def tail(self) -> bytes:
        """The lines after the last row."""
        return b""

    def write(self, lines: bytes) -> None:
        """Write rows."""
        self.file.write(self.convert(lines))

    def size(self) -> int:
        """The bytes written."""
        return self.file.written

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Write the last lines, and close the file."""
        try:
            if tail := self.tail():
                self.file.write(tail)
        finally:
            self.file.close()
