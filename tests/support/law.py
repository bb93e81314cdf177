"""The law of payload: each byte of it is in one figure of its flow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PARTS = ("stream", "after_gap", "rexmit", "before", "outside", "cut")
"""Where the bytes of a side's payload may be."""


def check_law(rows: Iterable[dict[str, Any]]) -> None:
    """Each row of TCP: payload = stream + after gap + retransmitted + before byte 0 + outside + cut, on both sides."""
    for row in rows:
        if row["proto"] != "tcp" or row["src_stream"] is None:
            continue
        for side in ("src", "dst"):
            found = {part: row[f"{side}_{part}"] for part in PARTS}
            assert row[f"{side}_payload"] == sum(found.values()), (
                f"{side}: {row[f'{side}_payload']} is not {found}: {row}"
            )
