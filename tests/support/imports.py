"""Imports the test modules of a run with several workers, each worker from another place on.

Each worker collects all tests. pytest rewrites the assertions of a module and stores the result, which the next import
reads. Workers that import the modules in the same order at the same time would each rewrite all of them.
"""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection(session: pytest.Session) -> None:
    """Before the collection, in each worker of a run of the whole suite."""
    given = getattr(session.config, "workerinput", None)
    if given is None or [Path(name).resolve() for name in session.config.args] != [ROOT / "tests"]:
        return
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    first = len(files) * int(str(given["workerid"]).removeprefix("gw")) // int(given["workercount"])
    for file in files[first:] + files[:first]:
        # a module that fails, or that skips its tests, does so again when pytest collects it
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
