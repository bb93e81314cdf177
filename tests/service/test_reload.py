"""Services get a new version while they run: no connection is lost, and a wrong version changes nothing."""

from __future__ import annotations

import contextlib
import json
import os
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
RELOADS = int(os.environ.get("SLUICE_RELOADS", "6"))
CLOSE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Running:
    """`sluice serve` of a folder server whose program is a file of the test."""

    def __init__(self, folder: Path, drain: int, workers: int, python: tuple[str, ...]) -> None:
        self.program, self.control, self.port = folder / "web.fk", folder / "control", free_port()
        self.program.write_bytes((Path(services).parent / "http_static.fk").read_bytes())
        self.folders = [folder / name for name in ("first", "second")]
        for each in self.folders:
            each.mkdir()
            (each / "index.html").write_text(each.name)
        command = [
            sys.executable, *python, "serve", str(self.program), "--workers", str(workers),
            "--listen", f"127.0.0.1:{self.port}",
            "--backends", str(self.folders[0]), "--control", str(self.control), "--drain", str(drain), "--json",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line("ready")

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
def running(
    folder: Path, drain: int = 20, workers: int = 1, python: tuple[str, ...] = ("-m", "sluice")
) -> Iterator[Running]:
    served = Running(folder, drain, workers, python)
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
        while b"second" not in answers:  # those that the old listener had accepted, or had in its queue
            assert time.monotonic() < end, "new connections have the old backends"
            time.sleep(0.005)
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
        assert counters["connections accepted"] == len(answers) + 2
    assert not served.control.exists()


def test_the_connection_after_a_reload_has_the_new_version_and_none_is_lost(tmp_path: Path) -> None:
    with running(tmp_path, workers=2) as served:
        answers: list[bytes] = []
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                answers.append(served.get())

        clients = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for each in clients:
            each.start()
        for number in range(RELOADS):
            end = time.monotonic() + PATIENCE
            while served.reload("--backends", str(served.folders[number % 2])) != 0:
                assert time.monotonic() < end, "processes before do not end"
                time.sleep(0.1)
            assert {served.get() for _ in range(8)} == {(b"first", b"second")[number % 2]}
        done.set()
        joined(*clients)
        assert set(answers) == {b"first", b"second"}, "each has its answer"


def test_connections_that_wait_at_an_address_that_is_removed_are_served(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("it is served")
    config, control, ports = tmp_path / "web.toml", tmp_path / "control", [free_port(), free_port()]

    def write(port: int) -> None:
        config.write_text(f'[web]\nprogram = "http_static"\nlisten = "127.0.0.1:{port}"\nbackends = "{tmp_path}"\n')

    write(ports[0])
    command = [sys.executable, "-m", "sluice", "serve", "--config", str(config), "--control", str(control)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with killed_after(process, PATIENCE):
            assert "serves at" in process.stdout.readline()
        before = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        os.kill(before, signal.SIGSTOP)
        with contextlib.ExitStack() as stack:
            waiting = [
                stack.enter_context(socket.create_connection(("127.0.0.1", ports[0]), PATIENCE)) for _ in range(200)
            ]
            write(ports[1])
            statuses: list[int] = []
            reload = threading.Thread(target=lambda: statuses.append(main(["reload", str(control)])), daemon=True)
            reload.start()
            wait_for(ports[1])
            os.kill(before, signal.SIGCONT)
            joined(reload)
            assert statuses == [0]
            for each in waiting:
                each.sendall(CLOSE)
                assert read_to_end(each).endswith(b"it is served")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]), PATIENCE)
    finally:
        process.terminate()
        process.wait(PATIENCE)


SLOW = """
import socket, sys, time
from sluice.cli.main import main
from sluice.service import operation
find = socket.getaddrinfo
def slow(host, *more, **named):
    time.sleep({"slow.example": 3, "slower.example": 1000}.get(host, 0))
    return find("127.0.0.1" if host == "slow.example" else host, *more, **named)
socket.getaddrinfo, operation.PREPARE_MOST = slow, 1
sys.exit(main(sys.argv[1:]))
"""


def test_a_slow_resolver_delays_only_the_reload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path, python=("-c", SLOW)) as served:
        began = time.monotonic()
        assert served.reload("--backends", "slow.example:80") == 1
        assert "was not prepared within 1 seconds" in capsys.readouterr().err
        assert served.reload("--backends", str(served.folders[1])) == 1
        assert "another reload is being prepared" in capsys.readouterr().err
        assert served.get() == b"first" and time.monotonic() - began < 3
        while served.reload() != 0:  # with the backends before: the late ones do not count
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.2)
        assert served.get() == b"first"
        assert served.reload("--backends", "slower.example:80") == 1
        served.process.terminate()
        assert served.process.wait(PATIENCE) == 0, "it does not wait for the resolver"


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
