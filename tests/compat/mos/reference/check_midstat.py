"""What midstat.c should print: how many connections start and end, and which ones are live."""

from __future__ import annotations

import re
from pathlib import Path

from tests.compat.mos.reference.connections import follow
from tests.compat.mos.reference.totals import NO_TOTALS, last_totals

LINE = re.compile(r"cpu \d+ tick \d+ (\S+:\d+ \S+:\d+) \S+ \S+")


def check_midstat(capture: Path, output: str) -> list[str]:
    """What is wrong in the output of midstat.c."""
    totals = last_totals(output, "started_snd", "started_rcv", "ended", "live", "strange", "failed")
    if totals is None:
        return [NO_TOTALS]
    connections = follow(capture).connections
    problems: list[str] = []
    if not any(connection.uncertain for connection in connections):
        for name in ("started_snd", "started_rcv"):
            if totals[name] != len(connections):
                problems.append(f"{name}={totals[name]}, expected {len(connections)}")
        over = sum(connection.over for connection in connections)
        if totals["ended"] < over:
            problems.append(f"ended={totals['ended']}, but {over} connections end in the capture")
    if totals["ended"] + totals["live"] != totals["started_snd"]:
        problems.append(f"ended={totals['ended']} live={totals['live']}, but started_snd={totals['started_snd']}")
    problems += [f"{name}={totals[name]}" for name in ("strange", "failed") if totals[name]]
    names = {connection.name for connection in connections}
    found = (matched[1] for line in output.splitlines() if (matched := LINE.match(line)))
    problems += [f"unknown connection {name}" for name in found if name not in names]
    return problems
