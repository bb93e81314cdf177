"""The rows of sets of captures, some of whose flows were divided among several tasks, in one output."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sluice.report.capture_sets import CaptureSet
from sluice.report.logs import CAPTURE
from sluice.report.rotation import Rotating

_FIRST = re.compile(rb'"first_ts":"?([0-9]+)([0-9.]*)')
_LINES = 1 << 12
"""Rows that are appended at a time."""


class Taking:
    """Appends the rows of each set to a file, each with the name of its capture. It leaves out rows that are cut.

    A context: at its end, the rows of a set of which not all shares came, as after Ctrl-C, are appended, too.
    """

    def __init__(self, file: Rotating) -> None:
        self._file = file
        self._shares: list[Path] = []
        """The rows of the shares of the current set."""
        self._current: CaptureSet | None = None

    def __enter__(self) -> Taking:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-shares-")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._folder:
            if kind is None:
                self._append()

    def take(self, captures: CaptureSet, rows: Path) -> None:
        """Append the rows of a set. Those of its shares wait for the last one, and are merged by first packets."""
        if self._current is not None and self._current.files != captures.files:
            self._append()
        self._current = captures
        share = Path(self._folder.name) / f"{captures.share}.jsonl"
        with contextlib.suppress(FileNotFoundError):
            shutil.move(rows, share)
            self._shares.append(share)
        if captures.share == captures.shares - 1:
            self._append()

    def _append(self) -> None:
        """Append the rows of the current set."""
        if self._current is None:
            return
        begin = f'{{"{CAPTURE}":{json.dumps(os.fsdecode(self._current.name))},'.encode("utf-8", "surrogateescape")
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(open(path, "rb")) for path in self._shares]
            lines: Iterator[bytes] = heapq.merge(*files, key=_first_time) if len(files) > 1 else itertools.chain(*files)
            while some := list(itertools.islice(lines, _LINES)):
                self._file.write(b"".join(begin + line[1:] for line in some if line.endswith(b"\n")))
        for path in self._shares:
            path.unlink()
        self._shares.clear()
        self._current = None


def _first_time(line: bytes) -> tuple[int, bytes]:
    """The time of a flow's first packet, as a key to sort by."""
    found = _FIRST.search(line)
    return (int(found[1]), found[2]) if found else (0, b"")
