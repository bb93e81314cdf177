"""Boxes with all four logs over `everything`, compiled once, and the rows that they write."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import VENDOR, find_functions
from sluice.stacks.find import find_stack
from tests.support.connection import Host, pair
from tests.support.conserve import check_all_ended, check_conservation

LOGS = ("httplog", "tlslog", "dnslog", "flowlog")
START, SECOND = 1_700_000_000 * 10**9, 10**9
Row = dict[str, Any]

needs_parsers = pytest.mark.skipif(not VENDOR.is_dir(), reason="llhttp is not there: scripts/setup.sh gets it")


@dataclass
class Logs:
    """What a run came to: the rows of each log, and what is counted."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {})
    reports: dict[str, int] = field(default_factory=lambda: {})

    def __getitem__(self, log: str) -> list[Row]:
        return self.rows[log]


@cache
def compiled() -> CompiledStack:
    """All logs over `everything`."""
    return compile_stack(find_stack("everything"), tuple(find_functions(list(LOGS)).c))


def run(feed: Callable[[Box], object], parameters: dict[str, str] | None = None, timeouts: bool = False) -> Logs:
    """The rows about what `feed` gives a box; each run is checked for what must hold after it."""
    found = Logs()
    with tempfile.TemporaryDirectory() as folder:
        options = [f"out={folder}/{log}{(parameters or {}).get(log, '')}" for log in LOGS]
        settings = Settings(seed=1, timeouts=timeouts, max_instances=1 << 16)
        with Box(compiled(), settings, [], options) as box:
            feed(box)
            box.finish()
            found.reports = box.reports()
            check_conservation(compiled().program, box.counters())
            check_all_ended(compiled().program, box.counters())
        for log in LOGS:
            found.rows[log] = [json.loads(line) for line in Path(folder, log).read_text().splitlines()]
    return found


def run_packets(packets: Sequence[bytes], parameters: dict[str, str] | None = None) -> Logs:
    """The rows about packets that come a millisecond apart."""

    def feed(box: Box) -> None:
        for number, data in enumerate(packets):
            box.packet(data, START + number * SECOND // 1000, 1, len(data))

    return run(feed, parameters)


def run_capture(path: Path, parameters: dict[str, str] | None = None) -> Logs:
    """The rows about a capture file."""
    return run(lambda box: box.run(path), parameters)


Talk = Sequence[tuple[str, bytes]]
"""What two hosts say by turns: ">" the client, "<" the server."""


def connection(talk: Talk, cut: int = 1460, *, port: int = 80, close: bool = True) -> list[bytes]:
    """The frames of a TCP connection, in segments of at most `cut` bytes."""
    client, server = pair()
    server.port = port
    frames = [client.send("S"), server.send("SA"), client.send("A")]
    for who, said in talk:
        host: Host = client if who == ">" else server
        frames += [host.data(said[at : at + cut]) for at in range(0, len(said), cut)]
    return [*frames, client.send("FA"), server.send("FA"), client.send("A")] if close else frames


VARYING = ("ts", "delay", "layers", "flow", "first_ts", "last_ts")
"""Members of a row that depend on when its packets came, and through which layers."""


def lasting(rows: Sequence[Row]) -> list[Row]:
    """Rows without what depends on how, and when, their bytes came."""
    return [{name: value for name, value in row.items() if name not in VARYING} for row in rows]
