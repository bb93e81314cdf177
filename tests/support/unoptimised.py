"""Compiles stacks in less time: without the C compiler's optimiser, and without the passes that take longest."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluice.engine import compiled_stack, compiler
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
            if not given:
                patch.setattr(compiler, "_call", _call_precompiled)
        yield


HEADERS = re.compile(r'\A/\*(?:[^*]|\*(?!/))*\*/\n((?:#include "[^"\n]+"\n)+)')
"""The comment and the headers with which the C of a stack begins."""
_call = compiler._call  # pyright: ignore[reportPrivateUsage]


def _call_precompiled(generated: Any, command: list[str]) -> str:
    """Call clang, for the C of a stack with the runtime's headers precompiled, as parsing them takes a third of its
    time.
    """
    source = Path(command[command.index("-c") + 1]) if "-c" in command else None
    if source is None or source.name != f"{generated.name}.c" or command[0] != "clang":
        return _call(generated, command)
    found = HEADERS.match(source.read_text())
    own = f'#include "{generated.name}.h"\n'
    if found is None or own not in found[1]:
        return _call(generated, command)
    options = tuple(command[1 : command.index("-c")])
    header = _precompiled(tuple(each for each in options if str(source.parent) not in each), found[1].replace(own, ""))
    return _call(generated, [command[0], "-include-pch", str(header), *command[1:]])


@cache
def _precompiled(options: tuple[str, ...], text: str) -> Path:
    """A precompiled header of this process."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "runtime.h").write_text(text)
    made = folder / "runtime.pch"
    subprocess.run(["clang", *options, "-x", "c-header", folder / "runtime.h", "-o", made], check=True)
    return made


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
