"""Headers of a function's own folder: their text becomes part of the function's.

So they are found wherever the function is compiled, also in the folder of `sluice build`, and the cache of compiled
stacks covers their content. Headers of the runtime and of the system stay includes.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from sluice.hooks.c_words import c_string

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)".*$', re.MULTILINE)


def with_own_includes(text: str, path: str) -> str:
    """The text of a function, in which each header of its own folder stands where it is included.

    A header that includes another one looks in its own folder first. Each is compiled once in a function, as if it had
    an include guard; in which of several places, the preprocessor decides. Lines keep their numbers for messages.
    """
    place = Path(path)
    found = _expand(text, path, place.parent, place.resolve(), frozenset({place.resolve()}))
    # gcc needs the name in front of the text to which the first header returns
    return found if found == text else f"#line 1 {c_string(path)}\n{found}"


def without_folder(text: str, path: str) -> str:
    """The text of a function, in which the files of its own folder have no folder in their names."""
    folder = c_string(f"{Path(path).parent}/")[:-1]
    return re.sub(rf"^(# (?=\d)|#line )(\d+ ){re.escape(folder)}", r'\1\2"', text, flags=re.MULTILINE)


def _expand(text: str, name: str, folder: Path, function: Path, within: frozenset[Path]) -> str:
    out: list[str] = []
    at = 0
    for match in _INCLUDE.finditer(text):
        file = folder / match[1]
        if not file.is_file():
            continue
        out.append(text[at : match.start()])
        at = match.end()
        resolved = file.resolve()
        if resolved in within:
            continue
        own = _expand(file.read_text(), str(file), file.parent, function, within | {resolved}).rstrip("\n")
        line = text.count("\n", 0, match.start()) + 2  # of the line that follows
        guard = f"SL_OWN_{hashlib.sha256(f'{function} {resolved}'.encode()).hexdigest()[:16]}"
        # flags 1 and 2 mark the text of a header: clang warns of a function that is not used, but not in a header
        begin, end = f"# 1 {c_string(str(file))} 1", f"# {line} {c_string(name)} 2"
        back = f"#line {line} {c_string(name)}"
        out.append(f"#ifndef {guard}\n#define {guard}\n{begin}\n{own}\n{end}\n#endif\n{back}")
    return "".join(out) + text[at:]
