"""The totals that a program prints when it ends."""

from __future__ import annotations

import re

NO_TOTALS = "the output has no line with all totals"


def last_totals(output: str, *names: str) -> dict[str, int] | None:
    """The numbers of the last line of totals by their names; None where one of these names is missing."""
    lines = [line for line in output.splitlines() if re.match(r"total\b", line)]
    found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", lines[-1])} if lines else {}
    return found if found.keys() >= set(names) else None
