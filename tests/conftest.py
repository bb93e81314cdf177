"""Makes pytest put the repository's root on the path, from where tests import `tests.support`; every run of a box
in the suite is held to the conservation law; what the tests compile is kept in the checkout, not in the user's cache;
no example of Hypothesis has a time limit, as machines differ.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.conserve import check_every_box

HERE = Path(__file__).resolve().parent
UNOPTIMISED = ("cli", "engine", "functions", "language", "messages", "protocols", "quic")
"""Tests that compile a stack for nearly each of them, and run few packets through it: the C compiler takes a quarter of
the time when it does not optimise. All others have what users have.
"""

os.environ.setdefault("SLUICE_CACHE", str(HERE.parent / "build" / "tests-cache"))
check_every_box()
settings.register_profile("suite", settings(), deadline=None)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def unoptimised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the options of the C compiler the last one counts: one that was given stays."""
    if request.path.relative_to(HERE).parts[0] in UNOPTIMISED:
        monkeypatch.setenv("SLUICE_CFLAGS", f"-O0 {os.environ.get('SLUICE_CFLAGS', '')}".strip())
