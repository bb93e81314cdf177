"""Compiles stacks without the C compiler's optimiser, which makes the compilation faster."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

UNOPTIMISED = "-O0 -g0"


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
