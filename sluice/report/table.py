"""Rows of a log for Python programs: as an iterator, an Arrow table, and pandas and polars frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.report.formats.base import needed
from sluice.report.formats.columnar import GROUP_BYTES, arrow, arrow_schema, table_of
from sluice.report.formats.find import format_named, format_of
from sluice.report.rotation import Limits, Rotating
from sluice.report.schema import Scalar, Schema

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Table:
    """The rows of a log.

    Iterate over it for rows as dictionaries: times are `datetime` (UTC, in microseconds), durations are seconds as
    `float`, members that a row does not have are None. `arrow`, `pandas` and `polars` give all rows at once; times
    there have nanoseconds. DuckDB, polars and other libraries with Arrow's C interface accept a Table itself.

    A table of `sluice.flows` and `sluice.log` reads its captures again whenever its rows are used, and never holds
    all of them for an iteration.
    """

    def __init__(self, schema: Schema, chunks: Callable[[], Iterable[bytes]]) -> None:
        self._schema, self._chunks = schema, chunks

    @property
    def name(self) -> str:
        """The log's name, such as "http"."""
        return self._schema.log

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self._schema.columns)

    def __repr__(self) -> str:
        return f"<sluice rows of {self.name}: {len(self.columns)} columns>"

    def __iter__(self) -> Iterator[Row]:
        scalars = [(name, kind.name) for name, kind in self._schema.columns.items() if isinstance(kind, Scalar)]
        converted = [(name, _PYTHON[kind]) for name, kind in scalars if kind in _PYTHON]
        absent = dict.fromkeys(self._schema.columns)
        for chunk in self._chunks():
            for line in chunk.splitlines():
                row: Row = absent | json.loads(line)
                for name, convert in converted:
                    if row[name] is not None:
                        row[name] = convert(row[name])
                yield row

    def arrow(self) -> Any:
        """A pyarrow.Table. Raises OutputError where pyarrow is not installed: pip install 'sluice[arrow]'."""
        pa = arrow()
        tables: list[Any] = []
        waiting: list[bytes] = []
        size = 0
        for chunk in self._chunks():
            waiting.append(chunk)
            size += len(chunk)
            if size >= GROUP_BYTES:
                tables.append(table_of(b"".join(waiting), self._schema))
                waiting, size = [], 0
        if waiting:
            tables.append(table_of(b"".join(waiting), self._schema))
        return pa.concat_tables(tables) if tables else arrow_schema(self._schema).empty_table()

    def pandas(self) -> Any:
        """A pandas.DataFrame, with types that have a null (Int64, string, boolean) where pandas offers them."""
        frame: Any = needed("pandas", "pandas")
        types: dict[Any, Any] = {}
        pa = arrow()
        for make, like in (
            (pa.uint64(), "UInt64Dtype"),
            (pa.uint16(), "UInt16Dtype"),
            (pa.bool_(), "BooleanDtype"),
            (pa.string(), "StringDtype"),
        ):
            types[make] = getattr(frame, like)()
        return self.arrow().to_pandas(types_mapper=types.get)

    def polars(self) -> Any:
        """A polars.DataFrame."""
        return needed("polars", "polars").from_arrow(self.arrow())

    def write(self, path: str, format: str | None = None) -> None:
        """Write the rows to a file in the format of its name, or in the given one: see `sluice run --format`.

        Raises OutputError for a format that the log does not have, and OSError.
        """
        writer = Rotating(path, self._schema, format_named(format) if format else format_of(path), Limits())
        try:
            for chunk in self._chunks():
                writer.write(chunk)
        finally:
            writer.close()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's C interface for streams."""
        return self.arrow().__arrow_c_stream__(requested_schema)


def _time(text: str) -> datetime:
    return _EPOCH + timedelta(microseconds=int(text.replace(".", "")) // 1000)


_PYTHON: dict[str, Callable[[str], Any]] = {"time": _time, "seconds": float}
