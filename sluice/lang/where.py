"""The lines of the user's code that created the objects of the language.

Every object of the language stores the file and line that created it. Errors, the text of the IR and the generated C
can therefore name the line of the description, and never a line of Sluice.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import FrameType

_LANGUAGE = os.path.dirname(__file__) + os.sep


@dataclass(frozen=True, slots=True)
class Where:
    """A line of a description: `file` as Python names it, `line` counted from 1."""

    file: str
    line: int

    @property
    def short(self) -> str:
        """File name without its folder, and line, as in generated code and listings."""
        return f"{os.path.basename(self.file)}:{self.line}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Where("<sluice>", 0)


def here() -> Where:
    """The innermost line on the call stack that is not part of the language itself."""
    frame = _user_frame()
    return Where(frame.f_code.co_filename, frame.f_lineno)


def user_names() -> dict[str, object]:
    """Local names of the user's innermost function or module, from which states get their names."""
    return dict(_user_frame().f_locals)


def user_function() -> str:
    """The name of the user's function that is being executed (`<module>` outside any)."""
    return _user_frame().f_code.co_name


def _user_frame() -> FrameType:
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
        frame = frame.f_back
    return frame
