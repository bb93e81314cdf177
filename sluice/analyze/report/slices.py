"""A slice as text."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from sluice.analyze.slices import Slice


def slice_text(found: Slice) -> str:
    """The lines of a slice by function, with their source where it still is."""
    lines = [_title(found)]
    if not found.matched:
        lines.append(
            "  the slice became too large to match calls and returns: it may have lines that do not belong to it"
        )
    for part in found.parts:
        lines += ["", f"{part.function} ({_near(part.file)})"]
        source = _lines_of(part.file)
        width = len(str(part.lines[-1]))
        for number in part.lines:
            text = source[number - 1].strip() if number <= len(source) else ""
            lines.append(f"  {number:>{width}}  {text}".rstrip())
    return "\n".join(lines)


def _title(found: Slice) -> str:
    count = sum(len(part.lines) for part in found.parts)
    counted = f"{found.module}: {count:,} lines of {len(found.parts):,} functions"
    if found.source and found.target:
        return f"{counted} through which {found.target} may depend on {found.source}"
    if found.source:
        return f"{counted} may depend on {found.source}"
    return f"{counted} on which {found.target} may depend"


def _near(file: str) -> str:
    """The path from the current folder, if the file lies below it."""
    path = os.path.relpath(file)
    return file if path.startswith("..") else path


@cache
def _lines_of(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
