"""Where in the user's own code something was written.

Every object of the language remembers the file and line that made it, so that an error, the text of the IR and the
generated C can all name the line of the description and never a line of Sluice.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

_LANGUAGE = str(Path(__file__).resolve().parent)


@dataclass(frozen=True, slots=True)
class Where:
    """A line of a description: `file` as Python knows it, `line` counted from 1."""

    file: str
    line: int

    @property
    def short(self) -> str:
        """File name without its folder, and line: what generated code and listings carry."""
        return f"{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Where("<sluice>", 0)


def here() -> Where:
    """The innermost line on the call stack that is not part of the language itself."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
        frame = frame.f_back
    return Where(frame.f_code.co_filename, frame.f_lineno)


def user_names() -> dict[str, object]:
    """The local names of the innermost function or module of the user, by which states and parsers get their names."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
        frame = frame.f_back
    return dict(frame.f_locals)


def user_function() -> str:
    """Name of the user's function that is being executed (`<module>` outside any)."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
        frame = frame.f_back
    return frame.f_code.co_name
