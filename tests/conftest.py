"""Makes pytest put the repository's root on the path, from where tests import `tests.support`; every run of a box
in the suite is held to the conservation law; what the tests compile is kept in the checkout, not in the user's cache;
no example of Hypothesis has a time limit, as machines differ.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import settings

from sluice.engine.trust import UntrustedError, check_folder
from tests.support.conserve import check_every_box
from tests.support.unoptimised import unoptimised

HERE = Path(__file__).resolve().parent
UNOPTIMISED = ("cli", "engine", "functions", "language", "messages", "protocols", "quic")
"""Tests that compile a stack for nearly each of them, and run few packets through it. All others have what users have,
but for stacks of which passes are left out.
"""

if "SLUICE_CACHE" not in os.environ:  # a checkout of another user is no place for code that is loaded
    with suppress(UntrustedError, OSError):
        check_folder(HERE.parent)
        os.environ["SLUICE_CACHE"] = str(HERE.parent / "build" / "tests-cache")
    os.environ.setdefault("SLUICE_CACHE", tempfile.mkdtemp(prefix="sluice-tests-"))
check_every_box()
settings.register_profile("suite", settings(), deadline=None)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def optimised_or_not(request: pytest.FixtureRequest) -> Iterator[None]:
    with unoptimised() if request.path.relative_to(HERE).parts[0] in UNOPTIMISED else nullcontext():
        yield
