"""Writes files into a folder that may hold others of the user's: only what Sluice wrote itself is ever replaced.

The names of what it wrote stand in a list beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

from sluice.cli.common.errors import CommandError

LIST = ".sluice-files"


def write_generated(folder: Path, files: dict[str, str], once: str) -> list[str]:
    """Write the files, but not `once` when it is there; the names of those written.

    Raises CommandError, before anything is written, when a file that is not Sluice's would be replaced, and when
    something cannot be written.
    """
    try:
        ours = _listed(folder)
        wanted = {name: text for name, text in files.items() if name != once or not (folder / name).exists()}
        foreign = [name for name, text in wanted.items() if name not in ours and _differs(folder / name, text)]
        if foreign:
            names = ", ".join(foreign[:4]) + (f" and {len(foreign) - 4} more" if len(foreign) > 4 else "")
            raise CommandError(
                f"{folder}: {names} would be replaced, and {'was' if len(foreign) == 1 else 'were'} not written by "
                "Sluice\n    give another folder with -o."
            )
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise CommandError(f"{folder}: cannot be written")
        # first the list: what is cut short is continued the next time
        everything = sorted({*ours, *wanted} - {once})
        (folder / LIST).write_text("".join(f"{name}\n" for name in everything), encoding="utf-8")
        for name, text in wanted.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from error
    return [*wanted, LIST]


def _listed(folder: Path) -> set[str]:
    """Names of what Sluice wrote there before."""
    path = folder / LIST
    return set(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else set()


def _differs(path: Path, text: str) -> bool:
    """Whether something else than this text is there (a link that leads nowhere counts)."""
    if not os.path.lexists(path):
        return False
    return not path.is_file() or path.read_bytes() != text.encode()
