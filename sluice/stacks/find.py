"""Find the stack that a user means: one of ours by its name, or one in a Python file of the user's own."""

from __future__ import annotations

import importlib
import os
import pkgutil
from pathlib import Path

import sluice.stacks
from sluice.lang import Stack
from sluice.lang.errors import did_you_mean
from sluice.lang.userfile import execute

DEFAULT = "everything"
"""The default stack of commands."""

PIECES = ("find", "links", "ports", "tunnels")
"""Modules of sluice.stacks that are not stacks."""


class UnknownStackError(Exception):
    """There is no such stack; the message says what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what}\n    {advice}")


def stack_names() -> list[str]:
    """Names of the stacks that come with Sluice."""
    return sorted(item.name for item in pkgutil.iter_modules(sluice.stacks.__path__) if item.name not in PIECES)


def find_stack(name_or_path: str) -> Stack:
    """The stack of a name or file: a name out of `stack_names()`, or the path of a Python file that describes one.

    The file makes one Stack at its top level, or names one of several `stack`; it may import modules of its
    folder. Raises UnknownStackError, and whatever the user's file raises (DescriptionError has its line).
    """
    if name_or_path.endswith(".py") or os.sep in name_or_path:
        return _from_file(Path(name_or_path))
    if name_or_path in stack_names():
        made = getattr(importlib.import_module(f"sluice.stacks.{name_or_path}"), name_or_path)()
        assert isinstance(made, Stack)
        return made
    if Path(name_or_path + ".py").is_file():
        advice = f"give the file as a path: ./{name_or_path}.py"
    else:
        advice = did_you_mean(name_or_path, stack_names()) + " Or give the path of a Python file that describes one."
    raise UnknownStackError(f"there is no stack '{name_or_path}'", advice)


def _from_file(path: Path) -> Stack:
    if not path.is_file():
        raise UnknownStackError(
            f"{path}: no such file", "give the path of a Python file that describes a stack, or a name."
        )
    if path.suffix != ".py":
        raise UnknownStackError(f"{path}: not a Python file", "give it a name that ends in .py.")
    known = vars(execute(path))
    named = known.get("stack")
    if isinstance(named, Stack):
        return named
    found = {id(value): name for name, value in known.items() if isinstance(value, Stack)}
    if not found:
        raise UnknownStackError(
            f"{path}: no variable is a Stack", "write stack = Stack() at the file's top level and fill it."
        )
    if len(found) > 1:
        names = ", ".join(sorted(found.values()))
        raise UnknownStackError(
            f"{path}: several variables are stacks ({names})", "call the one that is meant `stack`."
        )
    stack = known[next(iter(found.values()))]
    assert isinstance(stack, Stack)
    return stack
