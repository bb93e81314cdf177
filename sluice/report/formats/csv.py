"""CSV (RFC 4180) with a line of names. Lists and records are JSON in their field; null is an empty field."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from sluice.report.formats.base import TextWriter, rows_of


class CsvWriter(TextWriter):
    """Writes CSV. Lines end in LF, so that a tool of lines may read them; a value may contain line ends, in quotes."""

    def head(self) -> bytes:
        """The names of the columns."""
        return _lines([list(self.schema.columns)])

    def convert(self, lines: bytes) -> bytes:
        """Rows as lines of CSV."""
        names = list(self.schema.columns)
        return _lines([[_field(row.get(name)) for name in names] for row in rows_of(lines)])


def _lines(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if isinstance(value, (list, dict)) else value
