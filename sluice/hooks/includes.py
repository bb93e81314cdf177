"""Files that a function in C includes from its own folder: their text becomes part of the function's.

So the compiler finds them wherever the function is compiled, the cache of compiled stacks covers their content, and
what they declare by SLUICE_ lines is declared by the function. Headers of the runtime and of the system are left alone.
"""

from __future__ import annotations

import re
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)".*$', re.MULTILINE)


def with_own_includes(text: str, path: str) -> str:
    """The text of a function, in which each file of its own folder stands where it is first included.

    A file that is included from such a file is looked for in that one's folder. Lines keep their numbers for the
    compiler's messages. A file is included once, as if it had an include guard.
    """
    return _expand(text, Path(path).name, Path(path).parent, {Path(path).resolve()})


def _expand(text: str, name: str, folder: Path, seen: set[Path]) -> str:
    out: list[str] = []
    at = 0
    for match in _INCLUDE.finditer(text):
        file = folder / match[1]
        if not file.is_file():
            continue
        out.append(text[at : match.start()])
        at = match.end()
        if file.resolve() in seen:
            continue
        seen.add(file.resolve())
        own = _expand(file.read_text(), match[1], file.parent, seen).rstrip("\n")
        line = text.count("\n", 0, match.start()) + 1
        out.append(f'#line 1 "{match[1]}"\n{own}\n#line {line} "{name}"')
    return "".join(out) + text[at:]
