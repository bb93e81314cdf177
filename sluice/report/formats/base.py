"""The interface of a format's writer, files of whole rows, and optional packages."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import stat
from typing import Any, Protocol

from sluice.engine.new_file import STDOUT, create
from sluice.report.errors import OutputError
from sluice.report.schema import Schema

Row = dict[str, Any]


class Writer(Protocol):
    """Writes the rows of one log to one file. Every method raises OSError or OutputError."""

    def write(self, lines: bytes) -> None:
        """Write rows: whole lines of JSON."""
        ...

    def size(self) -> int:
        """The bytes of the file, buffered rows included as far as their size is known."""
        ...

    def flush(self) -> None:
        """Write the buffered rows that can be written now."""
        ...

    def close(self) -> None:
        """Complete the file. After a failed `write`, it completes the rows written before."""
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


class TextFile:
    """A file of lines. A write that fails leaves the complete lines that were written."""

    def __init__(self, path: str) -> None:
        self.descriptor = create(path)
        # a descriptor of another program's file may have any position in it
        own = path != STDOUT and not path.startswith("/dev/")
        self._regular = own and stat.S_ISREG(os.fstat(self.descriptor).st_mode)
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
