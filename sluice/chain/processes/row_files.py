"""The rows that instances of a function write to a file: each to a separate one, which are joined at the end.

A process that replaces another one writes the rows of the batches that it handles again, so the file is
first cut to its size at the last commit.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field

from sluice.chain.processes.program import IsolatedChain, Part
from sluice.engine.functions import Options

OUT = "out"
"""The parameter that names the file of a function's rows (runtime/function/output_file.h)."""


@dataclass
class RowFiles:
    """The files of a chain's instances with state in a store."""

    open_files: dict[int, int] = field(default_factory=lambda: {})
    """By the number of a part, the descriptor that its process writes to."""
    given: dict[int, list[Options]] = field(default_factory=lambda: {})
    """The options that the user gave, by the number of the first instance."""
    paths: dict[str, list[str]] = field(default_factory=lambda: {})
    """By the path that the user gave, those of the instances."""

    def open(self, part: Part) -> None:
        """The file of an instance; nothing for a function that writes none. Raises OSError."""
        part.options = list(self.given.get(part.leader, part.options))
        given = part.options[0] if part.options else None
        path = str(given.get(OUT, "")) if isinstance(given, dict) else ""
        if not path or path.startswith(("/dev/", "/proc/")) or not part.shares:
            return
        own = f"{path}.{part.instance}"
        file = os.open(own, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, 0o666)
        self.open_files[part.number] = file
        if own not in (paths := self.paths.setdefault(path, [])):  # else an instance could not start
            paths.append(own)
        part.options = [{**given, OUT: f"/dev/fd/{file}"}] if isinstance(given, dict) else part.options

    def cut(self, part: Part, size: int) -> None:
        """Another process continues after so many bytes."""
        if (file := self.open_files.get(part.number)) is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)

    def remove(self, part: Part) -> None:
        """The file of an instance that could not start."""
        if (file := self.open_files.pop(part.number, None)) is not None:
            os.close(file)

    def join(self) -> None:
        """Put the rows of all instances into the files that the user named. Raises OSError."""
        for path, parts in self.paths.items():
            out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
            with os.fdopen(out, "wb") as joined:
                for own in parts:
                    with open(own, "rb") as rows:
                        while chunk := rows.read(1 << 20):
                            joined.write(chunk)
            for own in parts:
                os.unlink(own)
        self.close()

    def close(self) -> None:
        """Close them."""
        for file in self.open_files.values():
            os.close(file)
        self.open_files = {}
        self.paths = {}


def row_files(chain: IsolatedChain) -> RowFiles:
    """The files of a chain that starts. Raises OSError."""
    files = RowFiles(given={part.leader: list(part.options) for part in chain.leaders})
    for part in chain.parts:
        files.open(part)
    return files
