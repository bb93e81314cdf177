"""Keeps Python's collector of cycles from what lives as long as the run: test modules, and stacks that tests share.

These are millions of objects. By default the collector visits all of them again and again, which takes longer than
most tests do.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

THRESHOLDS = 20_000, 20, 100
"""Objects made, and collections of the younger generation, before a generation is collected."""


def pytest_configure() -> None:
    """Collect less often."""
    gc.set_threshold(*THRESHOLDS)


def pytest_collection_finish() -> None:
    """All test modules have been imported."""
    _keep()


@pytest.fixture(autouse=True, scope="module")
def kept_after_a_file() -> Iterator[None]:
    """What a file leaves, others share."""
    yield
    _keep()


def _keep() -> None:
    """Free what is garbage now. Cycles among the rest are never freed."""
    gc.collect()
    gc.freeze()
