"""Rules for the whole suite. Every run of a box must keep the conservation law. Compiled stacks are cached in the
checkout, not in the user's cache. No example of Hypothesis has a time limit, as machines differ. Pytest puts the root
of the repository on the path because this file is here, so that tests can import `tests.support`.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import settings

from sluice.engine.trust import UntrustedError, check_folder
from tests.support.conserve import check_every_box
from tests.support.unoptimised import fewer_passes, unoptimised

pytest_plugins = ["tests.support.again", "tests.support.budget", "tests.support.order", "tests.support.lines"]
pytest_plugins += ["tests.support.imports"]
HERE = Path(__file__).resolve().parent
OPTIMISED = (
    *("analyze", "bench/test_bound.py", "bench/test_branches.py", "bench/test_instructions.py", "isolate", "native"),
    *("robust/test_attacks.py", "robust/test_attacks_quic.py", "robust/test_fair.py", "robust/test_sanitized.py"),
    "runtime/test_runtime.py",
)
"""Folders and files whose stacks are compiled as users do, except stacks with fewer passes: they run many packets, or
test what depends on the C compiler's optimiser. All others compile without it, unless the full matrix runs.
"""
FEWER_PASSES = ("cli", "docs", "engine", "examples", "functions", "hooks", "report")
"""Folders whose stacks are compiled without the passes that take longest, as the passes are no part of what they test.
The full matrix runs all passes, and where a tenth of it runs, a tenth of these files does, which the commit chooses.
"""
ALL_PASSES = ("cli/test_reload.py", "engine/test_homes.py")
"""Files of these that need all passes: their boxes run in processes that they start, which compile with all; or the
paths that a dispatcher predicts follow from the passes before.
"""

if "SLUICE_CACHE" not in os.environ:  # a checkout of another user is no place for code that is loaded
    with suppress(UntrustedError, OSError):
        check_folder(HERE.parent)
        os.environ["SLUICE_CACHE"] = str(HERE.parent / "build" / "tests-cache")
    os.environ.setdefault("SLUICE_CACHE", tempfile.mkdtemp(prefix="sluice-tests-"))
# Commands that tests start import compiled modules, which halves the time of a short command. So do the workers.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", os.path.join(os.environ["SLUICE_CACHE"], "python"))
sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ["PYTHONPYCACHEPREFIX"]
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: tests interrupt what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
check_every_box()
settings.register_profile("suite", settings(), deadline=None)
settings.load_profile("suite")


@pytest.fixture(autouse=True, scope="module")
def optimised_or_not(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of a module, so that it precedes the module's fixtures, which compile stacks too."""
    from tests.support.budget import is_chosen  # not earlier, as it is a plug-in of pytest

    path = request.path.relative_to(HERE)
    named = path.parts[0] in OPTIMISED or path.as_posix() in OPTIMISED
    optimised = named or request.config.getoption("--matrix") == "all"
    fewer = path.parts[0] in FEWER_PASSES and path.as_posix() not in ALL_PASSES
    fewer = fewer and not is_chosen(request.config, path.as_posix())
    with nullcontext() if optimised else unoptimised(), fewer_passes() if fewer else nullcontext():
        yield
