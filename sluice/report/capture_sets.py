"""Divides capture files into sets: the files that one capture was rotated into belong together, by their names.

| written by | names |
|---|---|
| `tcpdump -C`, with `-W` or without | `web.pcap`, `web.pcap1`, `web.pcap2` |
| `tcpdump -G`, with a date and a time in the name | `web-2024-05-17T10:00:00.pcap`, `web_20240517_100500.pcap` |
| `dumpcap -b` | `web_00001_20240517100000.pcapng` |
| `sluice run -w` with a series | `web-00001.pcap` |
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

_ENDING = r"(?P<end>\.(?:pcap|pcapng|cap|dmp)){number}(?P<packed>\.(?:gz|zst|lz4|xz))?$"
_DUMPCAP = r"(?P<stem>.+)_(?P<index>\d{5,})_(?P<date>\d{14})"
_DATE = (
    r"(?P<stem>(?:.*\D)?)(?P<date>(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])"
    r"[-_.T ]?(?:[01]\d|2[0-3])[-_.:]?[0-5]\d(?:[-_.:]?[0-5]\d)?)(?P<rest>(?:\D.*)?)"
)
_SERIES = r"(?P<stem>.+)-(?P<index>\d{5})"
_ROTATED = tuple(
    re.compile(stem + _ENDING.replace("{number}", number), re.IGNORECASE)
    for stem, number in ((_DUMPCAP, ""), (_DATE, ""), (_SERIES, ""), (r"(?P<stem>.+)", r"(?P<index>\d*)"))
)
"""The first that matches a name decides."""


@dataclass(frozen=True)
class CaptureSet:
    """The files of one capture, in the order in which they were written, by their names."""

    files: tuple[str, ...]
    share: int = 0
    shares: int = 1
    """Of its flows, which are divided into `shares`, a task may have only those of one: number `share`."""

    @property
    def name(self) -> str:
        """The path of its first file, by which rows name it."""
        return self.files[0]

    def size(self) -> int:
        """The bytes of all files; 0 for those that are not there."""
        return sum(os.path.getsize(path) for path in self.files if os.path.exists(path))

    def divided(self, shares: int) -> list[CaptureSet]:
        """A task for each share of its flows; each reads all files."""
        return [replace(self, share=share, shares=shares) for share in range(shares)]


def capture_sets(paths: Sequence[str]) -> list[CaptureSet]:
    """The sets of these files, in the order of the first path of each. A file that is named twice occurs once."""
    found: dict[tuple[str, ...], dict[str, tuple[str, int]]] = {}
    for path in paths:
        key, order = _key(path)
        found.setdefault(key, {}).setdefault(path, order)
    return [CaptureSet(tuple(sorted(files, key=lambda path: files[path]))) for files in found.values()]


def _key(path: str) -> tuple[tuple[str, ...], tuple[str, int]]:
    """The common part of the names of a set, and the place of this one among them."""
    folder, name = os.path.split(path)
    for kind, pattern in enumerate(_ROTATED):
        if match := pattern.match(name):
            parts = match.groupdict(default="")
            date = re.sub(r"\D", "", parts.get("date", ""))
            common = (folder, str(kind), parts["stem"], parts.get("rest", ""), parts["end"].lower(), parts["packed"])
            return common, (date, int(parts.get("index") or 0))
    return (path,), ("", 0)
