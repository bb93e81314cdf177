"""Formats errors for users: a few lines, no traceback, and the user's source line if there is one."""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
import traceback
from pathlib import Path

import sluice
from sluice.analyze.errors import AnalyzeError
from sluice.ends.space import SpaceError
from sluice.engine.box import RunError
from sluice.engine.cache import CacheError
from sluice.engine.compiler import CompilerError
from sluice.engine.functions import FunctionError
from sluice.functions.detect.errors import DetectionError, RuleError
from sluice.hooks.subscription import HookError
from sluice.lang.errors import DescriptionError
from sluice.service.lang.errors import ServiceError
from sluice.stacks.find import UnknownStackError
from sluice.state.errors import StoreError

SHOWN = (
    DescriptionError, UnknownStackError, FunctionError, HookError, RunError, CompilerError, CacheError, ServiceError,
    AnalyzeError, DetectionError, RuleError, StoreError, SpaceError,
)  # fmt: skip
"""Errors that are printed as their message only."""

_NOT_THE_USERS = (
    str(Path(sluice.__file__).resolve().parent),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    "<frozen",
    "<string>",
)


class CommandError(Exception):
    """A command cannot do what the user requested; the message has an alternative."""


class UsageError(CommandError):
    """A command was used wrongly; exit status 2."""


def tell(error: BaseException) -> str | None:
    """The text to print for an error; None for a defect of Sluice, which needs its traceback."""
    shown = _shown(error)
    return None if shown is None else from_here(shown)


def from_here(text: str) -> str:
    """A text in which absolute paths below the current folder are replaced by relative ones."""
    try:
        folder = os.path.join(os.getcwd(), "")
    except OSError:
        return text  # the current folder was removed
    return text if folder == os.sep else re.sub(rf"(?<![\w/.~-]){re.escape(folder)}", "", text)


def _shown(error: BaseException) -> str | None:
    if isinstance(error, (CommandError, *SHOWN)):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename and _users(error.filename):
        return _syntax_error(error)
    place = _users_line(error)
    if place is not None:
        return _users_error(error, *place)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        return str(error)
    return None


def _users(file: str) -> bool:
    return not file.startswith(_NOT_THE_USERS)


def _users_line(error: BaseException) -> tuple[str, int] | None:
    """The file and line of the innermost call in a file of the user."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if _users(frame.filename):
            return frame.filename, frame.lineno or 0
    return None


def _source(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip()
    return f"\n    {text}" if text else ""


def _users_error(error: BaseException, file: str, line: int) -> str:
    kind = type(error).__name__
    what = f"{kind}: {error}" if str(error) else kind
    return f"{file}:{line}: {what}{_source(file, line)}"


def _syntax_error(error: SyntaxError) -> str:
    return f"{error.filename}:{error.lineno}: {error.msg}{_source(str(error.filename), error.lineno or 0)}"
