"""What bytes.c should print: the length and the hash of both streams of each connection."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.compat.mos.reference.connections import UNCERTAIN, Connection, follow

UNCERTAIN_STREAMS = UNCERTAIN | {
    "before-start",
    "beyond-buffer",
    "changed",
    "cut-frames",
    "data-after-fin",
    "data-after-rst",
    "data-in-rst",
    "data-in-syn",
    "hole",
    "late-data",
    "no-synack",
    "synack-differs",
}
"""Notes of connections of which a program may well see other streams."""

LINE = re.compile(r"(\S+:\d+ \S+:\d+) (\d+ [0-9a-f]{16} \d+ [0-9a-f]{16}) \d+ \d+\s*$")
"""A connection, what its streams are, and the counts of what was sent again, which are not looked at."""


def check_bytes(capture: Path, output: str) -> list[str]:
    """What is wrong in the output of bytes.c."""
    expected: defaultdict[str, list[Connection]] = defaultdict(list)
    printed: defaultdict[str, list[str]] = defaultdict(list)
    for connection in follow(capture).connections:
        expected[connection.name].append(connection)
    for line in output.splitlines():
        if matched := LINE.match(line):
            printed[matched[1]].append(matched[2])
    problems: list[str] = []
    for name in expected | printed:
        problems += [f"{name}: {problem}" for problem in _differences(expected[name], printed[name])]
    return problems


def _differences(expected: Iterable[Connection], printed: Iterable[str]) -> list[str]:
    """What is wrong in the lines of connections between the same endpoints."""
    remaining, missing = list(printed), list[Connection]()
    for connection in expected:
        streams = _streams(connection)
        if streams in remaining:
            remaining.remove(streams)
        else:
            missing.append(connection)
    problems: list[str] = []
    for connection in missing:
        found = remaining.pop(0) if remaining else "no line"
        if connection.notes.isdisjoint(UNCERTAIN_STREAMS):
            problems.append(f"{_streams(connection)} expected, {found} found")
    if not any(connection.uncertain for connection in expected):
        problems += [f"{streams} is a line too many" for streams in remaining]
    return problems


def _streams(connection: Connection) -> str:
    to_server, to_client = connection.from_client.data, connection.from_server.data
    return f"{len(to_server)} {fnv1a(to_server):016x} {len(to_client)} {fnv1a(to_client):016x}"


def fnv1a(data: bytes | bytearray) -> int:
    """The hash FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
