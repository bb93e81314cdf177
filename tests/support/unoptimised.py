"""Stacks compiled without the C compiler's optimiser, which takes it a quarter of the time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def unoptimised() -> Iterator[None]:
    """What is compiled meanwhile. Of the options of the C compiler the last one counts: one that was given stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_CFLAGS", f"-O0 {os.environ.get('SLUICE_CFLAGS', '')}".strip())
        yield
