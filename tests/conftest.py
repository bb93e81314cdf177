"""Makes pytest put the repository's root on the path, from where tests import `tests.support`; every run of a box
in the suite is held to the conservation law; what the tests compile is kept in the checkout, not in the user's cache.
"""

import os
from pathlib import Path

from tests.support.conserve import check_every_box

os.environ.setdefault("SLUICE_CACHE", str(Path(__file__).resolve().parents[1] / "build" / "tests-cache"))
check_every_box()
