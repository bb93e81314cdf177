"""Makes pytest put the repository's root on the path, from where tests import `tests.support`; every run of a box
in the suite is held to the conservation law; what the tests compile is kept in the checkout, not in the user's cache;
no example of Hypothesis has a time limit, as machines differ.
"""

import os
from pathlib import Path

from hypothesis import settings

from tests.support.conserve import check_every_box

os.environ.setdefault("SLUICE_CACHE", str(Path(__file__).resolve().parents[1] / "build" / "tests-cache"))
check_every_box()
settings.register_profile("suite", settings(), deadline=None)
settings.load_profile("suite")
