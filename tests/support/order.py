"""The order of test files in a run with several workers: those that take longest first, so that none runs alone at the
end. `--dist loadfile` by its own order begins with the files that have the most tests.

SECONDS, a line for each file that takes more than a few seconds, is rewritten from the results of a run by

    python -m pytest -n 2 --dist loadfile --junitxml=build/tests.xml
    python -m tests.support.order build/tests.xml
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = Path(__file__).with_name("seconds.txt")
SHORT = 5
"""Files that take less are not recorded. They run last, in the order of their names."""


@cache
def recorded() -> dict[str, int]:
    """The seconds that each recorded file takes, by its path in the repository."""
    lines = (line.split() for line in SECONDS.read_text().splitlines())
    return {file: int(seconds) for seconds, file in lines}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have xdist keep the order of this module."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the files of a run with several workers; the tests of a file stay in their order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -recorded().get(item.nodeid.partition("::")[0], 0))


def measured(results: Path) -> Counter[str]:
    """Seconds of each test file, from results in JUnit's format."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(results).iter("testcase"):
        parts = (case.get("classname") or "").split(".")
        while parts and not (ROOT / Path(*parts)).with_suffix(".py").is_file():
            parts.pop()  # classes
        if parts:
            seconds["/".join(parts) + ".py"] += float(case.get("time") or 0)  # type: ignore[assignment]
    return seconds


if __name__ == "__main__":
    found = measured(Path(sys.argv[1]))
    SECONDS.write_text("".join(f"{s:5.0f} {file}\n" for file, s in found.most_common() if s >= SHORT))
