"""Zeek's TSV, with its header lines, so that zeek-cut and zat read the files.

A member of a row that Zeek logs, too, has Zeek's name and type (zeek_fields.py); the others have their own names.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, cast

from sluice.report.formats.base import Row, TextWriter, rows_of
from sluice.report.formats.zeek_fields import FIELDS, PATHS, Field
from sluice.report.schema import ListOf, Record, Scalar, Schema, Type

UNSET, EMPTY = "-", "(empty)"
_TYPES = {
    "text": "string",
    "address": "string",
    "count": "count",
    "number": "int",
    "port": "port",
    "bool": "bool",
    "time": "time",
}


class ZeekWriter(TextWriter):
    """Writes TSV."""

    def __init__(self, path: str, schema: Schema) -> None:
        mapped = FIELDS.get(schema.log, [])
        used = {field.member for field in mapped}
        names = {field.name for field in mapped}
        own = [
            Field(f"sluice.{name}" if name in names else name, _zeek_type(kind), name)
            for name, kind in schema.columns.items()
            if name not in used
        ]
        self._fields = [*mapped, *own]
        self._values = [_converter(field) for field in self._fields]
        super().__init__(path, schema)

    def head(self) -> bytes:
        """The header lines."""
        opened = time.strftime("%Y-%m-%d-%H-%M-%S")
        lines = [
            "#separator \\x09",
            "#set_separator\t,",
            f"#empty_field\t{EMPTY}",
            f"#unset_field\t{UNSET}",
            f"#path\t{PATHS.get(self.schema.log, self.schema.log)}",
            f"#open\t{opened}",
            "\t".join(["#fields", *(field.name for field in self._fields)]),
            "\t".join(["#types", *(field.type for field in self._fields)]),
        ]
        return ("\n".join(lines) + "\n").encode()

    def tail(self) -> bytes:
        """The line of the end."""
        return f"#close\t{time.strftime('%Y-%m-%d-%H-%M-%S')}\n".encode()

    def convert(self, lines: bytes) -> bytes:
        """Rows as lines of TSV."""
        text = "\n".join("\t".join(value(row) for value in self._values) for row in rows_of(lines))
        return (text + "\n").encode() if text else b""


def _zeek_type(kind: Type) -> str:
    match kind:
        case Scalar("seconds"):
            return "interval"
        case Scalar(name):
            return _TYPES[name]
        case ListOf(Scalar(name)):
            return f"vector[{_TYPES[name]}]"
        case ListOf() | Record():
            return "vector[string]"


def _converter(field: Field) -> Callable[[Row], str]:
    get, kind = field.value, field.type
    member = field.member

    def value(row: Row) -> str:
        found = get(row) if get is not None else row.get(member)
        return _text(found, kind)

    return value


def _text(value: Any, kind: str) -> str:
    if value is None:
        return UNSET
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list):
        items = cast(list[Any], value)
        return ",".join(_item(item) for item in items) if items else EMPTY
    text = str(value)
    if kind not in ("string", "addr"):
        return text
    if not text:
        return EMPTY
    return _escaped(text) if text not in (UNSET, EMPTY) else f"\\x{ord(text[0]):02x}{text[1:]}"


def _item(item: Any) -> str:
    if isinstance(item, dict):
        members = cast(dict[str, Any], item)
        parts = [" ".join(cast(list[str], part)) if isinstance(part, list) else part for part in members.values()]
        item = " ".join(str(part) for part in parts if part not in (None, ""))
    text = _escaped(str(item)).replace(",", "\\x2c")
    return text if text not in ("", UNSET) else (EMPTY if not text else "\\x2d")


_SPECIAL = re.compile(r"[\x00-\x1f\x7f\\]")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"\\x{ord(match[0]):02x}", text) if _SPECIAL.search(text) else text
