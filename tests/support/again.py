"""Runs a failed test again where what it observes depends on the load of the machine: processes, namespaces and timers
of the kernel beside the other tests of the run. The summary lists each test that ran again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
FOLDERS = ("chain", "compat", "isolate", "live", "service", "state")
AGAIN = 2
"""Times that a test of FOLDERS may run after its first failure."""
OVERDUE = "Timeout"
"""In the message of pytest-timeout. A test that did not end does not run again, as each time costs minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of FOLDERS for pytest-rerunfailures."""
    for item in items:
        if item.path.relative_to(HERE).parts[0] in FOLDERS:
            item.add_marker(pytest.mark.flaky(reruns=AGAIN, reruns_delay=1, rerun_except=[OVERDUE]))
