"""Parquet, and Arrow's file format (also called Feather), by pyarrow.

Times are timestamps in nanoseconds (UTC), durations are seconds as floating-point numbers. Both formats have their
table of contents at the end of the file. Before each group of rows, the writer reserves the space of the group and of
this table in the file system, so that a full disk is noticed before the group, and the file can be completed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
from abc import ABC, abstractmethod
from typing import Any

from sluice.engine.new_file import create
from sluice.report.errors import OutputError
from sluice.report.formats.base import needed, rows_of
from sluice.report.schema import ListOf, Record, Scalar, Schema, Type

EXTRA = "arrow"
GROUP_BYTES = 1 << 25
"""Bytes of JSON that make a group of rows."""
_TIME_MOST = (1 << 63) - 2
"""Nanoseconds since 1970: the last time that Arrow and DuckDB express."""
_CONTENTS_LEAST, _CONTENTS_GROUP = 1 << 15, 200
"""Reserved bytes of the table of contents: in total, and for each column of a group."""


def arrow() -> Any:
    """The package pyarrow. Raises OutputError."""
    return needed("pyarrow", EXTRA)


def arrow_schema(schema: Schema, read: bool = False) -> Any:
    """The Arrow schema of a log. read: as JSON has it, in which times and durations are texts."""
    pa = arrow()
    return pa.schema([pa.field(name, _type(pa, kind, read)) for name, kind in schema.columns.items()])


def _type(pa: Any, kind: Type, read: bool) -> Any:
    match kind:
        case Scalar("count"):
            return pa.uint64()
        case Scalar("number"):
            return pa.int64()
        case Scalar("port"):
            return pa.uint16() if not read else pa.uint64()
        case Scalar("bool"):
            return pa.bool_()
        case Scalar("time") if not read:
            return pa.timestamp("ns", "UTC")
        case Scalar("seconds") if not read:
            return pa.float64()
        case Scalar():
            return pa.string()
        case ListOf(item):
            return pa.list_(_type(pa, item, read))
        case Record(members):
            return pa.struct([pa.field(name, _type(pa, member, read)) for name, member in members])


def table_of(lines: bytes, schema: Schema) -> Any:
    """Rows as an Arrow table."""
    pa = arrow()
    if not lines:
        return arrow_schema(schema).empty_table()
    reader = needed("pyarrow.json", EXTRA)
    # the block holds all rows, because a row may have several MiB
    options = {
        "read_options": reader.ReadOptions(use_threads=False, block_size=max(1 << 20, min(len(lines), (1 << 31) - 1))),
        "parse_options": reader.ParseOptions(
            explicit_schema=arrow_schema(schema, read=True), unexpected_field_behavior="ignore"
        ),
    }
    try:
        read = reader.read_json(pa.BufferReader(lines), **options)
    except pa.ArrowInvalid:
        # a flow whose ends are numbers, which are text in the column of addresses
        read = reader.read_json(pa.BufferReader(_as_text(lines, schema)), **options)
    compute = needed("pyarrow.compute", EXTRA)
    columns: list[Any] = []
    for name, kind in schema.columns.items():
        column = read.column(name)
        if kind == Scalar("time"):
            digits = compute.cast(compute.replace_substring(column, ".", ""), pa.uint64())
            # a capture may have times after 2262, which a timestamp cannot express
            number = compute.min_element_wise(digits, pa.scalar(_TIME_MOST, pa.uint64()), skip_nulls=False)
            column = compute.cast(compute.cast(number, pa.int64()), pa.timestamp("ns", "UTC"))
        elif kind == Scalar("seconds"):
            column = compute.cast(column, pa.float64())
        elif kind == Scalar("port"):
            column = compute.cast(column, pa.uint16())
        columns.append(column)
    return pa.table(columns, schema=arrow_schema(schema))


def _as_text(lines: bytes, schema: Schema) -> bytes:
    """Rows in which numbers in columns of text and addresses are texts."""
    texts = [name for name, kind in schema.columns.items() if kind in (Scalar("text"), Scalar("address"))]
    rows = rows_of(lines)
    for row in rows:
        for name in texts:
            if isinstance(row.get(name), int):
                row[name] = str(row[name])
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class _Sink(io.RawIOBase):
    """The file that pyarrow writes to."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._descriptor = create(path)
        self._path = path
        self._regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self.done = 0
        self._reserved = 0

    def reserve(self, more: int) -> None:
        """Reserve the space of further bytes. Raises OSError if the file system has no room for them."""
        if not self._regular or self.done + more <= self._reserved:
            return
        try:
            os.posix_fallocate(self._descriptor, self._reserved, self.done + more - self._reserved)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise OSError(error.errno, error.strerror, self._path) from error
        else:
            self._reserved = self.done + more

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from error
        self.done += size
        return size

    def tell(self) -> int:
        return self.done

    def close(self) -> None:
        if not self.closed:
            if self._reserved > self.done:
                os.ftruncate(self._descriptor, self.done)
            os.close(self._descriptor)
        super().close()


class GroupedWriter(ABC):
    """Buffers rows until they make a group, which it writes as a table. After a failed write, it writes nothing."""

    def __init__(self, schema: Schema, group_bytes: int) -> None:
        self._schema, self._group_bytes = schema, group_bytes
        self._lines: list[bytes] = []
        self._buffered = 0
        self._failed = False

    def write(self, lines: bytes) -> None:
        """Write rows."""
        self._lines.append(lines)
        self._buffered += len(lines)
        if self._buffered >= self._group_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows as a group."""
        if not self._buffered or self._failed:
            return
        lines, self._lines, self._buffered = b"".join(self._lines), [], 0
        table = table_of(lines, self._schema)
        try:
            self._write_table(table)
        except (OSError, OutputError):
            self._failed = True
            raise

    @abstractmethod
    def _write_table(self, table: Any) -> None:
        """Write a group of rows. Raises OSError or OutputError."""


class ColumnarWriter(GroupedWriter):
    """Writes Parquet or, if `parquet` is false, an Arrow file."""

    def __init__(self, path: str, schema: Schema, parquet: bool, group_bytes: int = GROUP_BYTES) -> None:
        super().__init__(schema, group_bytes)
        pa = arrow()
        self._arrow_schema = arrow_schema(schema)
        self._parquet = needed("pyarrow.parquet", EXTRA) if parquet else None
        self._contents = _CONTENTS_LEAST + 2 * self._columns() * _CONTENTS_GROUP
        self._sink = _Sink(path)
        self._sink.reserve(self._contents)
        self._writer: Any = (
            self._parquet.ParquetWriter(self._sink, self._arrow_schema, compression="zstd")
            if self._parquet is not None
            else pa.ipc.new_file(self._sink, self._arrow_schema)
        )

    def _columns(self) -> int:
        return sum(_leaves(kind) for kind in self._schema.columns.values())

    def _write_table(self, table: Any) -> None:
        """Write a group of rows; of one that the file system has no room for, as many rows as fit."""
        more = self._columns() * _CONTENTS_GROUP
        try:
            # a group is hardly larger than its values in memory
            self._sink.reserve(table.nbytes + table.nbytes // 8 + self._contents + more)
        except OSError:
            if table.num_rows < 2:
                raise
            half = table.num_rows // 2
            self._write_table(table.slice(0, half))
            self._write_table(table.slice(half))
            return
        self._contents += more
        self._writer.write_table(table)

    def size(self) -> int:
        """The bytes written, without rows that are buffered."""
        return self._sink.done

    def close(self) -> None:
        """Write the buffered rows and the table of contents."""
        try:
            self.flush()
        finally:
            with contextlib.closing(self._sink):
                self._writer.close()


def _leaves(kind: Type) -> int:
    match kind:
        case ListOf(item):
            return _leaves(item)
        case Record(members):
            return sum(_leaves(member) for _, member in members)
        case Scalar():
            return 1
