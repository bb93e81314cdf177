"""Services get a new version while they run: no connection is lost, and a wrong version changes nothing."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import main
from sluice.service.services import __file__ as services
from tests.service.peers import PATIENCE, free_port, read_to_end, wait_for
from tests.support.bounded import joined, killed_after

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
CLOSE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Running:
    """`sluice serve` of a folder server whose program is a file of the test."""

    def __init__(self, folder: Path, drain: int) -> None:
        self.program, self.control, self.port = folder / "web.fk", folder / "control", free_port()
        self.program.write_bytes((Path(services).parent / "http_static.fk").read_bytes())
        self.folders = [folder / name for name in ("first", "second")]
        for each in self.folders:
            each.mkdir()
            (each / "index.html").write_text(each.name)
        command = [
            sys.executable, "-m", "sluice", "serve", str(self.program), "--listen", f"127.0.0.1:{self.port}",
            "--backends", str(self.folders[0]), "--control", str(self.control), "--drain", str(drain), "--json",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(self.port)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def get(self) -> bytes:
        with self.connect() as client:
            client.sendall(CLOSE)
            return read_to_end(client).rpartition(b"\r\n\r\n")[2]

    def reload(self, *more: str) -> int:
        return main(["reload", str(self.control), *more])

    def line(self, key: str) -> dict[str, Any]:
        """The next object with a key that is printed."""
        assert self.process.stdout is not None
        with killed_after(self.process, PATIENCE):
            return next(found for found in map(json.loads, self.process.stdout) if key in found)


@contextlib.contextmanager
def running(folder: Path, drain: int = 20) -> Iterator[Running]:
    served = Running(folder, drain)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.terminate()
        served.process.communicate(timeout=PATIENCE)


def read_answer(client: socket.socket, end: bytes) -> None:
    got = b""
    while not got.endswith(end):
        part = client.recv(4096)
        assert part, "the connection was lost"
        got += part


def test_new_connections_have_the_new_backends_and_old_ones_go_on(tmp_path: Path) -> None:
    with running(tmp_path) as served, served.connect() as before:
        before.sendall(GET)
        read_answer(before, b"first")
        answers: list[bytes] = []
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                answers.append(served.get())
                time.sleep(0.005)

        clients = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
        for each in clients:
            each.start()
        assert served.reload("--backends", str(served.folders[1])) == 0
        end = time.monotonic() + PATIENCE
        while served.get() != b"second":  # those that the old listener had accepted, or had in its queue
            assert time.monotonic() < end, "new connections have the old backends"
        done.set()
        joined(*clients)
        assert set(answers) == {b"first", b"second"}  # each has its answer
        before.sendall(CLOSE)
        read_answer(before, b"first")
        before.close()
        assert served.line("drained")["ended"] == 0
        served.process.send_signal(signal.SIGHUP)
        served.line("drained")
        assert served.get() == b"second"
        served.process.terminate()
        counters = served.line("counters")["counters"]
        assert counters["connections accepted"] >= len(answers) + 3
    assert not served.control.exists()


def test_a_connection_that_does_not_end_is_ended_after_the_time_and_counted(tmp_path: Path) -> None:
    with running(tmp_path, drain=1) as served, served.connect() as before:
        before.sendall(GET)
        read_answer(before, b"first")
        assert served.reload() == 0
        assert read_to_end(before) == b""
        assert served.line("drained")["ended"] == 1


def test_a_wrong_version_is_refused_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path) as served:
        assert served.reload("--backends", "/no/such/folder") == 1
        assert "go on as they were" in capsys.readouterr().err
        assert served.get() == b"first"
        served.program.write_text("proc Web\n")
        assert served.reload() == 1
        assert "go on as they were" in capsys.readouterr().err
        assert served.get() == b"first"
        assert served.reload("guard") == 1
        assert "these are services" in capsys.readouterr().err
