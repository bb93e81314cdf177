"""Which headers a C source includes, so that a change of one makes anew only what includes it.

Every quoted include counts, also one in a comment or in an untaken branch: a file too many costs a compilation, one too
few a stale library. Headers of the system are not followed; the compiler's version stands for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def included(sources: Iterable[tuple[bytes, Path | None]], folders: Sequence[Path]) -> list[Path]:
    """Headers that sources include, directly or not, sorted.

    sources: the text of each, and the folder where its own includes are searched first, if any. folders: the include
    path. Names that are in neither are left out.
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
