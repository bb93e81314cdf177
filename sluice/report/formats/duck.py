"""DuckDB: a table for each log in a database file, by the packages duckdb and pyarrow.

Each group of rows is one transaction, so that the file is readable whatever happens. A database that exists keeps its
other tables; the log's own is replaced.
"""

from __future__ import annotations

import os
from typing import Any

from sluice.report.errors import OutputError
from sluice.report.formats.base import needed
from sluice.report.formats.columnar import GROUP_BYTES, GroupedWriter, arrow_schema
from sluice.report.schema import Schema

EXTRA = "duckdb"


class DuckWriter(GroupedWriter):
    """Writes rows to the table that is called as the log."""

    def __init__(self, path: str, schema: Schema, group_bytes: int = GROUP_BYTES) -> None:
        super().__init__(schema, group_bytes)
        self._duckdb: Any = needed("duckdb", EXTRA)
        self._path = path
        try:
            self._connection: Any = self._duckdb.connect(path)
            self._connection.execute("SET TimeZone='UTC'")
            empty = arrow_schema(schema).empty_table()
            self._connection.register("rows", empty)
            self._connection.execute(f'CREATE OR REPLACE TABLE "{schema.log}" AS SELECT * FROM rows')
            self._connection.unregister("rows")
        except self._duckdb.Error as error:
            raise OutputError(f"{path}: {_first_line(error)}") from error

    def _write_table(self, table: Any) -> None:
        """Commit a group of rows."""
        try:
            self._connection.register("rows", table)
            self._connection.execute(f'INSERT INTO "{self._schema.log}" SELECT * FROM rows')
            self._connection.unregister("rows")
            self._connection.execute("CHECKPOINT")
        except self._duckdb.Error as error:
            raise OutputError(f"{self._path}: {_first_line(error)}") from error

    def size(self) -> int:
        """The size of the file."""
        return os.stat(self._path).st_size

    def close(self) -> None:
        """Commit buffered rows, and close the database."""
        try:
            self.flush()
        finally:
            try:
                self._connection.close()
            except self._duckdb.Error as error:
                if not self._failed:
                    raise OutputError(f"{self._path}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
