"""The formats by name and by the names of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.lang.errors import did_you_mean
from sluice.report.errors import OutputError
from sluice.report.formats.base import Writer
from sluice.report.formats.columnar import ColumnarWriter
from sluice.report.formats.csv import CsvWriter
from sluice.report.formats.duck import DuckWriter
from sluice.report.formats.eve import EveWriter
from sluice.report.formats.lines import LinesWriter
from sluice.report.formats.zeek import ZeekWriter
from sluice.report.schema import Schema


@dataclass(frozen=True)
class Format:
    """A file format. text: its rows are lines, which may go to standard output. help: one line."""

    name: str
    endings: tuple[str, ...]
    text: bool
    help: str
    open: Callable[[str, Schema, int], Writer]
    """The writer of a file. The number is the bytes of JSON that columnar formats write together."""


FORMATS = (
    Format("json", (".jsonl", ".ndjson", ".json"), True, "one JSON object per line", lambda p, s, _: LinesWriter(p, s)),
    Format("csv", (".csv",), True, "comma-separated values with a line of names", lambda p, s, _: CsvWriter(p, s)),
    Format("zeek", (".log", ".tsv"), True, "Zeek's TSV with its header", lambda p, s, _: ZeekWriter(p, s)),
    Format("eve", ("eve.json", ".eve"), True, "Suricata's eve.json", lambda p, s, _: EveWriter(p, s)),
    Format("parquet", (".parquet",), False, "Parquet (pyarrow)", lambda p, s, n: ColumnarWriter(p, s, True, n)),
    Format("arrow", (".arrow", ".feather"), False, "Arrow (pyarrow)", lambda p, s, n: ColumnarWriter(p, s, False, n)),
    Format("duckdb", (".duckdb", ".ddb"), False, "a table of DuckDB (duckdb)", lambda p, s, n: DuckWriter(p, s, n)),
)
JSON = FORMATS[0]


def format_named(name: str) -> Format:
    """The format called so. Raises OutputError with the nearest name."""
    for one in FORMATS:
        if one.name == name:
            return one
    raise OutputError(f"there is no format '{name}': {did_you_mean(name, [one.name for one in FORMATS])}")


def format_of(path: str) -> Format:
    """The format of a file by its name: the longest ending counts. JSON lines for any other name."""
    found = [(len(ending), one) for one in FORMATS for ending in one.endings if path.lower().endswith(ending)]
    return max(found, key=lambda item: item[0])[1] if found else JSON
