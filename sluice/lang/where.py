"""Where in the user's own code something was written.

Every object of the language remembers the file and line that made it, so that an error, the text of the IR
and the generated C can all name the line of the description and never a line of Sluice.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_LANGUAGE = os.path.dirname(__file__) + os.sep


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
    frame = _user_frame()
    return Where(frame.f_code.co_filename, frame.f_lineno)


def user_names() -> dict[str, object]:
    """Local names of the user's innermost function or module, by which states get their names."""
    return dict(_user_frame().f_locals)


def user_function() -> str:
    """Name of the user's function that is being executed (`<module>` outside any)."""
    return _user_frame().f_code.co_name


def _user_frame() -> FrameType:
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
        frame = frame.f_back
    return frame
