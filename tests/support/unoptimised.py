"""Compiles stacks without the C compiler's optimiser, which makes the compilation faster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def unoptimised() -> Iterator[None]:
    """Compile without optimisation within this context. The last option wins, so one that was given overrides -O0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_CFLAGS", f"-O0 {os.environ.get('SLUICE_CFLAGS', '')}".strip())
        yield
