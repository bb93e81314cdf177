"""Finds the headers that a C source includes, so that a change of a header recompiles only its users.

Every quoted include counts, even in a comment or an untaken branch: a superfluous header costs a compilation, but a
missed one yields a stale library. System headers are not followed; the compiler's version represents them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def included(sources: Iterable[tuple[bytes, Path | None]], folders: Sequence[Path]) -> list[Path]:
    """The headers that the sources include, directly or indirectly, sorted.

    sources: the text of each, and the folder that is searched first for its includes, if any. folders: the include
    path. Headers that are found in neither are ignored.
    """
    found: set[Path] = set()
    waiting = list(sources)
    while waiting:
        text, folder = waiting.pop()
        for name in _INCLUDE.findall(text):
            for place in ([folder] if folder else []) + list(folders):
                path = (place / name.decode("utf-8", "surrogateescape")).resolve()
                if path.is_file():
                    if path not in found:
                        found.add(path)
                        waiting.append((path.read_bytes(), path.parent))
                    break
    return sorted(found)
