"""Finds the headers that a C source includes, so that a change of a header recompiles only its users.

Every quoted include counts, even in a comment or an untaken branch: a superfluous header costs a compilation, but a
missed one yields a stale library. System headers are not followed; the compiler's version represents them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


class Files:
    """Files as they are when they are first used: each is looked for, and read, once."""

    def __init__(self) -> None:
        self._contents: dict[Path, bytes] = {}
        self._names: dict[Path, list[bytes]] = {}
        self._places: dict[tuple[Path, bytes], Path | None] = {}

    def contents(self, path: Path) -> bytes:
        """The contents of a file."""
        if path not in self._contents:
            self._contents[path] = path.read_bytes()
        return self._contents[path]

    def names(self, path: Path) -> list[bytes]:
        """What a file includes."""
        if path not in self._names:
            self._names[path] = _INCLUDE.findall(self.contents(path))
        return self._names[path]

    def place(self, folder: Path, name: bytes) -> Path | None:
        """The file that an include names, in a folder; None if there is none."""
        key = (folder, name)
        if key not in self._places:
            path = (folder / name.decode("utf-8", "surrogateescape")).resolve()
            self._places[key] = path if path.is_file() else None
        return self._places[key]


def included(sources: Iterable[tuple[bytes, Path | None]], folders: Sequence[Path], files: Files) -> list[Path]:
    """The headers that the sources include, directly or indirectly, sorted.

    sources: the text of each, and the folder that is searched first for its includes, if any. folders: the include
    path. Headers that are found in neither are ignored.
    """
    found: set[Path] = set()
    waiting = [(_INCLUDE.findall(text), folder) for text, folder in sources]
    while waiting:
        names, folder = waiting.pop()
        for name in names:
            for place in ([folder] if folder else []) + list(folders):
                if (path := files.place(place, name)) is not None:
                    if path not in found:
                        found.add(path)
                        waiting.append((files.names(path), path.parent))
                    break
    return sorted(found)
