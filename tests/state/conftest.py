"""A server for the tests of a file, empty at the beginning of each test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.engine.compiler import RUNTIME
from sluice.state.client import FOLDER, SOURCES
from sluice.state.embedded import embedded
from sluice.state.location import Location
from sluice.state.peer import Peer
from tests.state.boxes import missing
from tests.state.servers import Server, running

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")


@pytest.fixture(scope="module")
def server() -> Iterator[Location]:
    """A private server, as --store embedded starts it."""
    if why := missing():
        pytest.skip(why)
    with embedded(Location("embedded")) as location:
        yield location


@pytest.fixture
def store(server: Location) -> Location:
    """The same, empty."""
    with Peer(server) as peer:
        peer.call("FLUSHALL")
    return server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of one test, which can be configured and killed."""
    if why := missing():
        pytest.skip(why)
    # the path of a Unix socket has at most 107 bytes
    folder = Path(f"/tmp/{tmp_path.parent.name}-{tmp_path.name}"[:80])
    with running(folder) as found:
        yield found
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of client_trial.c; with sanitizers where a compiler has them."""
    made = tmp_path_factory.mktemp("client") / "client_trial"
    files = [str(Path(__file__).with_name("client_trial.c")), *map(str, SOURCES)]
    words = [
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{RUNTIME}",
        f"-I{FOLDER}",
        *files,
        "-o",
        str(made),
        "-lhiredis",
    ]
    why = "there is no C compiler"
    for compiler in ("clang", "gcc"):
        for extra in (SANITIZERS, ("-O1",)):
            if shutil.which(compiler) is not None:
                done = subprocess.run([compiler, *extra, *words], capture_output=True, text=True, timeout=300)
                if done.returncode == 0 and subprocess.run([str(made)], timeout=300).returncode == 2:
                    return made
                why = done.stderr
    pytest.fail(why)
