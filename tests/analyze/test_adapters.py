"""State goes to another instance through OpenNF's get and put, and through a server of Valkey."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.analyze.state.instrument import instrument, link
from sluice.analyze.state.serialise import serialise
from sluice.state.embedded import find_server
from sluice.state.errors import StoreError
from tests.analyze.conftest import SUBJECTS, to_bitcode
from tests.analyze.test_oracle import PCAP, REPLAY
from tests.analyze.test_oracle import capture as capture  # the fixture
from tests.analyze.test_state import STOP, run, split

CONTROLLER = SUBJECTS.parent / "adapters" / "controller.c"


@pytest.fixture(scope="module")
def program(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`flows` with its state, and what does the controller's part."""
    folder = tmp_path_factory.mktemp("adapters")
    module = to_bitcode(SUBJECTS / "flows.c", folder / "a.bc")
    instrument(str(module), folder / "i.bc")
    (folder / "state.c").write_text(serialise(str(module)).text, encoding="utf-8")
    link(folder / "i.bc", folder / "a", [str(folder / "state.c"), str(REPLAY), str(CONTROLLER), PCAP])
    return folder / "a"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server."""
    try:
        server = find_server()
    except StoreError as error:
        pytest.skip(str(error))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("store")
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen([*command, "--dir", folder], stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(500):
                if ask(port, "PING") == b"+PONG":
                    break
                time.sleep(0.02)
            yield port
        finally:
            process.kill()


def ask(port: int, *words: str) -> bytes:
    """The first line of the reply; nothing without a server."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(" ".join(words).encode() + b"\r\n")
            return connection.recv(4096).split(b"\r\n")[0]
    except OSError:
        return b""


def test_a_controller_moves_the_flows(program: Path, capture: Path, tmp_path: Path) -> None:
    rest, chunks = split(capture, tmp_path / "rest.pcap"), str(tmp_path / "chunks")
    whole = run(program, capture)
    first = run(program, capture, CHUNKS=chunks, MOVE=str(STOP))
    assert first + run(program, rest, CHUNKS=chunks) == whole


def test_a_standby_takes_over_from_a_store(program: Path, capture: Path, store: int, tmp_path: Path) -> None:
    rest, place = split(capture, tmp_path / "rest.pcap"), f"valkey:127.0.0.1:{store}:box"
    whole = run(program, capture)
    first = run(program, capture, SLUICE_STATE_TO=place, SLUICE_STATE_STOP=str(STOP))
    assert ask(store, "LLEN", "box") == f":{STOP}".encode()
    assert first + run(program, rest, SLUICE_STATE_FROM=place) == whole


def test_what_is_no_state_in_a_store_is_refused(program: Path, capture: Path, store: int) -> None:
    for command, message in (("SET", b"has no exports that can be read"), ("RPUSH", b"is no exported state")):
        ask(store, "DEL", "other")
        ask(store, command, "other", "value")
        with pytest.raises(subprocess.CalledProcessError) as caught:
            run(program, capture, SLUICE_STATE_FROM=f"valkey:127.0.0.1:{store}:other")
        assert caught.value.returncode == 70 and message in caught.value.stderr
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(program, capture, SLUICE_STATE_TO=f"valkey:127.0.0.1:{store}:other2", SLUICE_STATE_FROM="/nowhere")
    assert b"/nowhere: cannot be read" in caught.value.stderr
