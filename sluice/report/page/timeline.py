"""Packets and bytes over time: the rows of `timeline`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.report.page.text import nanoseconds

BARS = 160
"""Intervals that a page shows at most."""


class Timeline:
    """Packets, bytes and retransmissions in at most BARS intervals."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._begin = 0
        self._width = 1

    def add(self, row: Mapping[str, Any]) -> None:
        """A row: `timeline` writes a bounded number of them."""
        number, self._width = row["interval"], row["width"]
        if not self._rows:
            self._begin = nanoseconds(row["ts"]) - number * self._width
        self._rows.append((number, row["packets"], row["bytes"], row["captured"], row["rexmit"]))

    @property
    def packets(self) -> int:
        """All of them."""
        return sum(row[1] for row in self._rows)

    @property
    def bytes(self) -> int:
        """On the wire."""
        return sum(row[2] for row in self._rows)

    @property
    def captured(self) -> int:
        """The bytes that the capture has."""
        return sum(row[3] for row in self._rows)

    def facts(self) -> dict[str, Any]:
        """The beginning, the width of a bar, and the bars."""
        used = self._rows[-1][0] + 1 if self._rows else 0
        joined = -(-used // BARS) or 1
        bars = [[0, 0, 0] for _ in range(-(-used // joined))]
        for number, packets, octets, _, rexmit in self._rows:
            for place, value in enumerate((packets, octets, rexmit)):
                bars[number // joined][place] += value
        return {"begin": self._begin, "width": self._width * joined, "bars": bars}
