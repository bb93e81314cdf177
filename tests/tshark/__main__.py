"""Hold our headers against tshark's: `python -m tests.tshark [PARSER ...]`. Exit status 1 where they disagree."""

from __future__ import annotations

import sys
from itertools import groupby

from tests.tshark.compare import compare
from tests.tshark.dissection import available
from tests.tshark.table import all_tables

SHOWN = 5
"""Disagreements that are shown of a field."""


def main(names: list[str]) -> int:
    """Print, for each parser, what was compared and what disagrees."""
    if not available():
        print("there is no tshark: scripts/setup.sh --tshark gets it", file=sys.stderr)
        return 2
    tables = {table.parser: table for those in all_tables().values() for table in those}
    unknown = [name for name in names if name not in tables]
    if unknown:
        print(f"no table for {', '.join(unknown)}; there are {', '.join(tables)}", file=sys.stderr)
        return 2
    found = compare({name: tables[name] for name in names or tables})
    for parser in tables:
        wrong = [item for item in found.disagreements if item.parser == parser]
        if parser in found.packets:
            print(f"{parser}: {found.packets[parser]} packets, {found.values[parser]} values, {len(wrong)} disagree")
        for _, several in groupby(sorted(wrong, key=lambda item: item.field), key=lambda item: item.field):
            items = list(several)
            for item in items[:SHOWN]:
                print(f"  {item}")
            if len(items) > SHOWN:
                print(f"  ... and {len(items) - SHOWN} more")
    for (parser, name, reason), count in sorted(found.explained.items()):
        print(f"explained: {parser}.{name}, {count} times: {reason}")
    return 1 if found.disagreements else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
