"""The store of one run: opened before the box, and its final state written after it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sluice.engine.box import Outcome
from sluice.engine.events import PythonFunction
from sluice.hooks.function import CFunction
from sluice.hooks.shared import Shared
from sluice.state.client import Client
from sluice.state.cluster import open_store
from sluice.state.embedded import embedded
from sluice.state.errors import StoreError
from sluice.state.library import check_version, load_library, make_library
from sluice.state.location import Location
from sluice.state.python_objects import PythonObjects, declarations, python_rows
from sluice.state.rows import declare_objects, local_rows, store_rows
from sluice.state.safety import with_safety

RUNS = "sluice-runs"
"""The number of clients so far, two for each run: the first two bytes of identifiers."""
RUNS_MOST = 65535
INSTANCE = "0"
"""The instance of each function: there is one."""


@dataclass
class Session:
    """The parameters of a box: the address of its store, and the file for local objects. Both None: neither is needed.

    text: the final state, once the box has finished: a row a line. python: objects of functions in Python in a store.
    """

    store: int | None = None
    state_file: str | None = None
    text: Callable[[], str] | None = None
    python: PythonObjects | None = field(default=None, repr=False)

    def finished(self, outcome: Outcome) -> Outcome:
        """The outcome of a run, with the counters of objects of functions in Python. Call it before `text`."""
        if self.python is None:
            return outcome
        counts, fault = self.python.finish()
        reports = dict(outcome.reports)
        for name, value in counts.items():
            if value or name in ("store_operations", "store_requests", "store_waits"):
                reports[name] = reports.get(name, 0) + value
        return replace(outcome, reports=reports, failure=outcome.failure or fault)


def shares(functions: Sequence[CFunction], python: Sequence[PythonFunction]) -> bool:
    """Whether some function declares shared objects."""
    return any(function.shared for function in functions) or any(function.shared for function in python)


@contextlib.contextmanager
def session(
    location: Location, functions: Sequence[CFunction], dumps: bool, python: Sequence[PythonFunction] = ()
) -> Generator[Session]:
    """The store of a run, for functions that declare shared objects. dumps: whether the final state is wanted.

    Raises StoreError when it cannot be used, or a file in Python has an invalid declaration.
    """
    declared = [function for function in functions if function.shared]
    in_python = [function for function in python if function.shared]
    names = [(function.name, function.shared) for function in declared]
    names += [(function.name, tuple(declarations(function))) for function in in_python]
    if not names:
        yield Session(text=lambda: "")
    elif location.kind == "local":
        with _local(dumps, in_python) as found:
            yield found
    elif location.kind == "embedded":
        with embedded(location) as server, _remote(server, declared, in_python, names) as found:
            yield found
    else:
        with _remote(location, declared, in_python, names) as found:
            yield found


@contextlib.contextmanager
def _local(dumps: bool, python: list[PythonFunction]) -> Generator[Session]:
    if not dumps:
        yield Session()
        return
    with tempfile.TemporaryDirectory(prefix="sluice-state-") as folder:
        path = os.path.join(folder, "rows")

        def text() -> str:
            written = Path(path)
            rows = local_rows(written.read_text(encoding="utf-8") if written.exists() else "")
            return _lines(sorted([*rows, *python_rows(python)]))

        yield Session(state_file=path, text=text)


@contextlib.contextmanager
def _remote(
    location: Location,
    functions: list[CFunction],
    python: list[PythonFunction],
    names: list[tuple[str, tuple[Shared, ...]]],
) -> Generator[Session]:
    library = make_library([operation for function in functions for operation in function.operations])
    with open_store(location) as peer:
        check_version(peer)
        location = with_safety(peer, peer.location)  # with the nodes of a cluster
        load_library(peer, library)
        declare_objects(peer, names)
        runs = peer.call("INCRBY", RUNS, 2)
    run = runs if isinstance(runs, int) else 2
    if run > RUNS_MOST:  # identifiers would be those of an earlier run, whose updates may still be recorded
        raise StoreError(
            f"{location.name} has had as many runs as identifiers of updates can tell apart; while no run uses it, "
            f"delete its keys {RUNS} and sluice-log:*"
        )

    def text() -> str:
        with open_store(location, 60.0) as peer:
            return _lines(store_rows(peer, [name for name, _ in names]))

    with contextlib.ExitStack() as opened:
        # each client has separate identifiers, which increase
        first = Client(location, library.prefix, run - 1, INSTANCE, functions=[function.name for function in functions])
        opened.callback(first.close)
        objects = None
        if python:
            second = Client(location, library.prefix, run, INSTANCE, functions=[function.name for function in python])
            opened.callback(second.close)
            objects = PythonObjects(python, second)
        yield Session(first.address, None, text, objects)


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
