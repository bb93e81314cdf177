"""Writes what bench/isolate.py and bench/isolate_single.py measured into docs/isolate.md, between marks."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "isolate.md"
GOAL = 1.05
"""The greatest penalty that the thesis states for Iron (2.3.1)."""


def cell(values: list[float]) -> str:
    """The median, with the least and the greatest."""
    return f"{median(values):,.2f} ({min(values):,.2f}-{max(values):,.2f})"


def machine(command: str) -> str:
    """Where, when and by what a table was measured."""
    load = os.getloadavg()[0]
    return (
        f"`{command}`, {time.strftime('%Y-%m-%d')}, Linux {os.uname().release}, {os.cpu_count()} CPUs, "
        f"load average {load:.1f} at the end:"
    )


def penalties(results: list[dict[str, Any]]) -> str:
    """The table for each number of containers, and how many cells of each mode reach the goal."""
    out: list[str] = []
    for one in results:
        rows: dict[str, dict[str, list[float]]] = one["penalties"]
        modes = list(dict.fromkeys(mode for row in rows.values() for mode in row))
        out += [f"{one['containers']} containers on the CPU:\n", f"| interferer | {' | '.join(modes)} |"]
        out.append("|---|" + "---|" * len(modes))
        for name, row in rows.items():
            out.append(f"| {name} | " + " | ".join(cell(row[mode]) if mode in row else "-" for mode in modes) + " |")
        reached = [
            f"`{mode}` {sum(median(row[mode]) <= GOAL for row in rows.values() if mode in row)} of "
            f"{sum(mode in row for row in rows.values())}"
            for mode in modes
        ]
        out.append(f"\nRows with a median of at most {GOAL}: {', '.join(reached)}.\n")
    return "\n".join(out).rstrip()


def singles(results: dict[str, tuple[str, dict[str, list[float]]]]) -> str:
    """A table of all parts. results: by part, its title and the values of each row."""
    out = ["| | | median (least-greatest) |", "|---|---|---|"]
    for title, values in results.values():
        out += [f"| {title} | {name} | {cell(one)} |" for name, one in values.items()]
    return "\n".join(out)


def write(part: str, text: str, page: Path = PAGE) -> None:
    """Replace what lies between `<!-- PART -->` and `<!-- end -->`. Raises SystemExit if the page has no such marks."""
    old = page.read_text()
    pattern = re.compile(rf"(<!-- {re.escape(part)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(old):
        raise SystemExit(f"{page} has no part <!-- {part} --> ... <!-- end -->")
    page.write_text(pattern.sub(lambda found: f"{found[1]}{text}\n{found[2]}", old, count=1))
    print(f"wrote the part {part!r} of {page}")
