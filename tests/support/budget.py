"""Time budgets for each folder of tests, and the selection of tests from the full matrix.

A budget is in seconds of one core, for the tests that `make test` runs in a folder while the compiled stacks are
cached, as in CI. The summary at the end of a run shows the budgets. Exceeding one does not fail a test, because
machines differ.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[1]

DEFAULT = 30
BUDGETS = {
    "analyze": 40, "bench": 20, "cases": 20, "chain": 60, "cli": 90, "codegen": 45, "compat": 60, "corpus": 90,
    "differential": 70, "docs": 50, "ends": 20, "engine": 60, "examples": 20, "functions": 100, "hooks": 10,
    "ir": 30, "isolate": 40, "lang": 20, "language": 25, "laws": 20, "live": 30, "lower": 5, "messages": 20,
    "native": 10, "paper": 10, "passes": 25, "protocols": 70, "quic": 45, "report": 25, "robust": 100,
    "runtime": 20, "scale": 15, "scripts": 5, "service": 50, "stacks": 5, "state": 50, "tshark": 30, ".": 5,
}  # fmt: skip
"""Seconds of one core by folder; DEFAULT for other folders."""
WHOLE = 2 * 12 * 60
"""Seconds of one core for all folders: twelve minutes on two cores. A test checks that the budgets keep to it."""

MATRIX = "slow_matrix"
TENTHS = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """--matrix: how much of the full matrix runs in addition to the other tests."""
    parser.addoption(
        "--matrix",
        choices=("none", "tenth", "all"),
        default="none",
        help=f"tests marked {MATRIX}: none of them, the tenth that the commit's hash chooses, or all",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the matrix that this run does not include."""
    left_out = [
        item for item in items if (mark := item.get_closest_marker(MATRIX)) and not _is_chosen(config, item, mark)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]


def _is_chosen(config: pytest.Config, item: pytest.Item, mark: pytest.Mark) -> bool:
    """`whole`: the test takes so long that no tenth has it."""
    whole = bool(mark.kwargs.get("whole")) and config.getoption("--matrix") != "all"
    return not whole and is_chosen(config, item.nodeid)


def is_chosen(config: pytest.Config, test: str) -> bool:
    """Whether this run includes a test, or file, of the matrix. Each commit runs another tenth; a few dozen runs cover
    all.
    """
    wanted = str(config.getoption("--matrix"))
    if wanted != "tenth":
        return wanted == "all"
    return hashlib.sha256(f"{_commit()} {test}".encode()).digest()[0] % TENTHS == 0


@cache
def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip() or "0"


def thinned(values: Iterable[Any], every: int, id: Callable[[Any], str] = str) -> list[Any]:
    """Parameters of a test. One in `every` always runs; the others belong to the full matrix."""
    return [
        pytest.param(value, id=id(value), marks=[] if number % every == 0 else getattr(pytest.mark, MATRIX))
        for number, value in enumerate(values)
    ]


def in_matrix(*values: Any, id: str | None = None) -> Any:
    """Parameters of a test that belong to the full matrix."""
    return pytest.param(*values, id=id, marks=getattr(pytest.mark, MATRIX))


def examples(full: int, usual: int) -> int:
    """The number of examples that a Hypothesis test tries: `full` in a run of the whole matrix, else `usual`."""
    return full if os.environ.get("SLUICE_MATRIX") == "all" else usual


class Budget:
    """Collects the time of the tests of each folder, and shows it at the end."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """With xdist, the controller gets the reports of all workers."""
        file = report.nodeid.partition("::")[0]
        folder, slash, _ = file.removeprefix("tests/").partition("/")
        self.seconds[folder if slash else "."] += report.duration  # type: ignore[assignment]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A line for each folder, the longest first."""
        if not self.seconds:
            return
        terminalreporter.section("seconds of one core by folder")
        for folder, seconds in self.seconds.most_common():
            budget = BUDGETS.get(folder, DEFAULT)
            over = "  OVER" if seconds > budget else ""
            terminalreporter.write_line(f"{folder:<16} {seconds:7.1f} of {budget}{over}")
        terminalreporter.write_line(f"{'all':<16} {self.seconds.total():7.1f} of {WHOLE}")


def pytest_configure(config: pytest.Config) -> None:
    """Register the budgets in the reporting process; pass the extent of the matrix to the Hypothesis tests."""
    os.environ["SLUICE_MATRIX"] = str(config.getoption("--matrix"))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Budget(), "budget")
