"""Files that rotate: a log's rows go to numbered files, each of a bounded size or of a bounded span of packet time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.report.errors import OutputError
from sluice.report.formats.base import Writer
from sluice.report.formats.columnar import GROUP_BYTES
from sluice.report.formats.find import Format
from sluice.report.schema import Schema

_TIME = re.compile(rb'"(?:ts|last_ts)":"(\d+)\.')
_DIGITS = 5


@dataclass(frozen=True)
class Limits:
    """When a file is complete. bytes: its size. seconds: the span of packet time, from a multiple of it. 0: no limit.

    A row belongs to the file of the latest time among it and the rows before it.
    """

    bytes: int = 0
    seconds: int = 0

    def __bool__(self) -> bool:
        return bool(self.bytes or self.seconds)


def numbered(path: str, number: int) -> str:
    """The name of a file of a set: `flows.csv` becomes `flows.00001.csv`."""
    name = Path(path)
    stem, dot, rest = name.name.partition(".")
    return str(name.with_name(f"{stem}.{number:0{_DIGITS}d}{dot}{rest}"))


class Rotating:
    """Writes rows to one file or, with limits, to numbered files. An existing set's files are replaced one by one."""

    def __init__(self, path: str, schema: Schema, format: Format, limits: Limits) -> None:
        if limits and (path.startswith("/dev/") or path == "-"):
            raise OutputError("files that rotate need a name: give out=FILE, or -o FILE")
        self._path, self._schema, self._format, self._limits = path, schema, format, limits
        self._number = 0
        self._period = -1
        self._group = min(GROUP_BYTES, 2 * limits.bytes) if limits.bytes else GROUP_BYTES
        self.files: list[str] = []
        self._writer = self._open()

    def _open(self) -> Writer:
        self._number += 1
        path = numbered(self._path, self._number) if self._limits else self._path
        self.files.append(path)
        return self._format.open(path, self._schema, self._group)

    def _next(self) -> None:
        self._writer.close()
        self._writer = self._open()

    def write(self, lines: bytes) -> None:
        """Write rows: whole lines of JSON."""
        if not self._limits:
            self._writer.write(lines)
            return
        for part in self._by_period(lines) if self._limits.seconds else (lines,):
            self._write_bounded(part)

    def _by_period(self, lines: bytes) -> Iterator[bytes]:
        """Parts of which each belongs to one file. Opens the next file between them."""
        part: list[bytes] = []
        for line in lines.splitlines(keepends=True):
            times = [int(match) for match in _TIME.findall(line)]
            period = max(times, default=0) // self._limits.seconds
            if period > self._period:
                if part:
                    yield b"".join(part)
                    part = []
                if self._period >= 0:
                    self._next()
                self._period = period
            part.append(line)
        if part:
            yield b"".join(part)

    def _write_bounded(self, lines: bytes) -> None:
        """Write rows, and begin a file when the next ones would exceed the size. A file has at least one row."""
        if not self._limits.bytes:
            self._writer.write(lines)
            return
        empty = True
        rows = lines.splitlines(keepends=True)
        at = 0
        while at < len(rows):
            # rows that fit by the size of their JSON; other formats are compared after writing
            room, end = self._limits.bytes - self._writer.size(), at
            while end < len(rows) and len(rows[end]) <= room:
                room -= len(rows[end])
                end += 1
            if end == at and not empty:
                self._next()
                empty = True
                continue
            end = max(end, at + 1)
            self._writer.write(b"".join(rows[at:end]))
            at, empty = end, False

    def flush(self) -> None:
        """Write the buffered rows."""
        self._writer.flush()

    def close(self) -> None:
        """Complete the last file."""
        self._writer.close()
