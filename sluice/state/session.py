"""The store of one run: opened before the box, and its final state written after it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.hooks.function import CFunction
from sluice.state.client import Client
from sluice.state.embedded import embedded
from sluice.state.library import check_version, load_library, make_library
from sluice.state.location import Location
from sluice.state.peer import Peer
from sluice.state.rows import declare_objects, local_rows, store_rows

RUNS = "sluice-runs"
"""The number of runs so far: the first two bytes of identifiers."""
RUNS_MOST = 65535
INSTANCE = "0"
"""The instance of each function: there is one."""


@dataclass
class Session:
    """What a box is given: the address of its store, and the file for local objects. Both None: neither is needed."""

    store: int | None = None
    state_file: str | None = None
    text: Callable[[], str] | None = None
    """The final state, once the box has finished: a row a line."""


@contextlib.contextmanager
def session(location: Location, functions: Sequence[CFunction], dumps: bool) -> Generator[Session]:
    """The store of a run, for functions that declare shared objects. dumps: whether the final state is wanted.

    Raises StoreError when it cannot be used.
    """
    declared = [function for function in functions if function.shared]
    if not declared:
        yield Session(text=lambda: "")
    elif location.kind == "local":
        with _local(dumps) as found:
            yield found
    elif location.kind == "embedded":
        with embedded(location) as server, _remote(server, declared) as found:
            yield found
    else:
        with _remote(location, declared) as found:
            yield found


@contextlib.contextmanager
def _local(dumps: bool) -> Generator[Session]:
    if not dumps:
        yield Session()
        return
    with tempfile.TemporaryDirectory(prefix="sluice-state-") as folder:
        path = os.path.join(folder, "rows")

        def text() -> str:
            written = Path(path)
            return _lines(local_rows(written.read_text(encoding="utf-8") if written.exists() else ""))

        yield Session(state_file=path, text=text)


@contextlib.contextmanager
def _remote(location: Location, functions: list[CFunction]) -> Generator[Session]:
    library = make_library([operation for function in functions for operation in function.operations])
    with Peer(location) as peer:
        check_version(peer)
        load_library(peer, library)
        declare_objects(peer, functions)
        run = peer.call("INCR", RUNS)
    epoch = (int(run) if isinstance(run, int) else 1) % RUNS_MOST + 1
    client = Client(location, library.prefix, epoch, INSTANCE)

    def text() -> str:
        with Peer(location, 60.0) as peer:
            return _lines(store_rows(peer, [function.name for function in functions]))

    try:
        yield Session(client.address, None, text)
    finally:
        client.close()


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
