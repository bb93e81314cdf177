"""Compiles stacks in less time: without the C compiler's optimiser, and without the passes that take longest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sluice.engine import compiled_stack
from sluice.passes.pipeline import PASSES

UNOPTIMISED = "-O0 -g0"
DUPLICATING = ("lifting", "prediction")
"""The passes that duplicate paths. They take more than half of the time of all passes, and those after them take longer
for each path.
"""
FEWER = [item.name for item in PASSES if item.name not in DUPLICATING]


@contextmanager
def unoptimised() -> Iterator[None]:
    """Compile without optimisation and debug information within this context.

    The last option wins, so one that was given overrides these. clang needs less than half of gcc's time for this; gcc
    compiles what is optimised, unless $CC is set. Contexts within each other are one, so that the options, and with
    them the cached libraries, stay the same.
    """
    given = os.environ.get("SLUICE_CFLAGS", "")
    if given.startswith(UNOPTIMISED):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_CFLAGS", f"{UNOPTIMISED} {given}".strip())
        if "CC" not in os.environ and shutil.which("clang"):
            patch.setenv("CC", "clang")
        yield


@contextmanager
def fewer_passes() -> Iterator[None]:
    """Compile with FEWER passes where all are wanted within this context, in this process.

    What a box does is the same with any passes, which the tests of the passes and of the corpus check.
    """
    if compiled_stack.run_passes is not _run_all:
        yield
        return

    def run(program: Any, passes: Any, *more: Any) -> Any:
        return _run_all(program, FEWER if passes == "all" else passes, *more)

    def content(stack: Any, functions: Any, passes: Any, options: Any) -> Any:
        return _content_of_all(stack, functions, FEWER if passes == "all" else passes, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_stack, "run_passes", run)
        patch.setattr(compiled_stack, "content", content)
        yield


_run_all, _content_of_all = compiled_stack.run_passes, compiled_stack.content
