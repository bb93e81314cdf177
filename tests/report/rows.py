"""Rows of logs for tests: those of the example, and longer sets that are made of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from sluice.report.logs import schema_of
from sluice.report.schema import Schema

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "logs" / "expected.jsonl"
FUNCTIONS = {"http": "httplog", "tls": "tlslog", "dns": "dnslog", None: "flowlog"}


@cache
def example(function: str) -> bytes:
    """The rows of a log about the example's capture."""
    lines = EXAMPLE.read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if FUNCTIONS[json.loads(line).get("log")] == function)


def schema(function: str) -> Schema:
    """The columns of a log."""
    found = schema_of(function)
    assert found is not None
    return found


def numbered(function: str, count: int, seconds: int = 0) -> bytes:
    """Many copies of a log's first row, with flows 1, 2, ..., so many seconds apart."""
    row: dict[str, Any] = json.loads(example(function).splitlines()[0])
    lines: list[bytes] = []
    for number in range(1, count + 1):
        row["flow"] = number
        row["ts"] = f"{1_700_000_000 + number * seconds}.000000000"
        lines.append(json.dumps(row, separators=(",", ":")).encode() + b"\n")
    return b"".join(lines)
