"""A server on a Unix socket for tests, which can be killed, and started with nothing, or with what it had saved."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from sluice.state.embedded import find_server
from sluice.state.errors import StoreError
from sluice.state.location import Location
from sluice.state.peer import Peer
from tests.support.bounded import PATIENCE


class Server:
    """The process of a server. checkpoint: what it loads when it starts."""

    def __init__(self, folder: Path) -> None:
        self.location = Location("server", path=str(folder / "socket"))
        self.checkpoint = folder / "dump.rdb"
        self._folder = folder
        self.start()

    def start(self) -> None:
        """Start it, and wait until it replies."""
        words = ["--port", "0", "--unixsocket", self.location.path, "--dir", str(self._folder), "--save", ""]
        words += ["--unixsocketperm", "777"]  # instances have users of their own
        log = self._folder / "log"
        with log.open("ab") as out:
            self.process = subprocess.Popen([find_server(), *words, "--appendonly", "no"], stdout=out, stderr=out)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(StoreError), self.peer() as peer:
                if peer.call("PING") == b"PONG":
                    return
            time.sleep(0.005)
        raise AssertionError(f"the server does not reply: {log.read_text()[-500:]}")

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def fail(self, empty: bool = False) -> None:
        """Kill it, and start it with what it had saved, or with nothing."""
        self.kill()
        if empty:
            self.checkpoint.unlink(missing_ok=True)
        self.start()

    def save(self) -> None:
        """It has from now on, if it fails, what it has now."""
        with self.peer() as peer:
            peer.call("SAVE")

    def peer(self) -> Peer:
        return Peer(self.location, 5.0)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    """A server while the context lasts."""
    folder.mkdir(exist_ok=True)
    server = Server(folder)
    try:
        yield server
    finally:
        server.kill()
