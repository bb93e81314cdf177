"""The command line: --store and --state of `sluice run`, `sluice state`, and what is said when a store fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.engine.functions import READY as READY_FOLDER
from sluice.state.location import Location
from sluice.state.peer import Peer
from tests.state.boxes import READY, needs_store
from tests.state.peers import replying
from tests.state.traffic import mixed, write

FUNCTIONS = [part for name in READY for part in ("-f", name)]
"""All four, as in other files: one compiled stack."""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def capture(tmp_path: Path) -> str:
    return str(write(tmp_path / "in.pcap", mixed(5, 40)))


def run(capture: str, *options: str) -> int:
    return main(["run", "tcp_ip", "-r", capture, *FUNCTIONS, "-w", f"{capture}.out", *options])


@needs_store
def test_an_embedded_store_gives_the_same_state_and_ends(capture: str, tmp_path: Path, capsys: Captured) -> None:
    before = _servers()
    for store in ("local", "embedded"):
        assert run(capture, "--store", store, "--state", str(tmp_path / store)) == 0
    assert (tmp_path / "local").read_text() == (tmp_path / "embedded").read_text() != ""
    assert "store_operations: " in capsys.readouterr().out
    assert _servers() == before


def _servers() -> int:
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, timeout=300)
    return sum("sluice-store-" in line for line in done.stdout.splitlines())


def url(store: Location) -> str:
    return f"valkey+unix://{store.path}"


def test_state_outlives_a_run_and_is_dumped(capture: str, store: Location, tmp_path: Path, capsys: Captured) -> None:
    assert run(capture, "--store", url(store), "--state", str(tmp_path / "first")) == 0
    capsys.readouterr()
    assert main(["state", "dump", url(store), "--json"]) == 0
    assert capsys.readouterr().out == (tmp_path / "first").read_text()
    assert main(["state", "dump", url(store), "--function", "nat", "-o", str(tmp_path / "dump")]) == 0
    text = (tmp_path / "dump").read_text()
    assert "nat.packets: " in text and "items)" in text and "balance" not in text
    assert run(capture, "--store", url(store), "--state", str(tmp_path / "second")) == 0

    def packets(path: Path) -> int:
        rows = [json.loads(row) for row in path.read_text().splitlines()]
        return next(row["value"] for row in rows if (row["function"], row["object"]) == ("nat", "packets"))

    assert packets(tmp_path / "second") == 2 * packets(tmp_path / "first")


def test_state_objects_prints_declarations(capsys: Captured) -> None:
    assert main(["state", "objects", "-f", "nat"]) == 0
    out = capsys.readouterr().out
    assert "nat.mapping" in out and "read_mostly" in out and "the external port of a connection" in out
    assert main(["state", "objects", "-f", "portscan", "--json"]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    assert {row["object"]: row["scope"] for row in rows} == {
        "likelihood": "src",
        "contacts": "src+dst",
        "pending": "flow",
        "blocked": "src",
    }


@pytest.mark.parametrize("name", READY)
def test_ready_functions_declare_their_state(name: str, capsys: Captured) -> None:
    assert main(["state", "objects", "-f", name]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2
    assert "SLUICE_SHARED" in (READY_FOLDER / f"{name}.c").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dump", "embedded"], "the embedded store exists only while a run lasts"),
        (["dump", "local"], "sluice run --state FILE"),
        (["objects"], "give the functions by -f"),
        (["dump", "valkey+unix:///nothing/here"], "cannot be reached: No such file or directory; start a Valkey"),
    ],
)
def test_state_refuses(words: list[str], message: str, capsys: Captured) -> None:
    assert main(["state", *words]) != 0
    assert message in capsys.readouterr().err


def test_a_store_that_is_away_at_the_start(capture: str, tmp_path: Path, capsys: Captured) -> None:
    assert run(capture, "--store", f"valkey+unix://{tmp_path}/nothing") == 1
    assert f"the store {tmp_path}/nothing cannot be reached: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"$20\r\nredis_version:6.2.7\r\n\r\n", "is redis 6.2.7, which has no server-side functions: use Redis 7.0"),
        (b"$42\r\nredis_version:7.2.4\r\nvalkey_version:7.1.0\r\n\r\n", "is valkey 7.1.0, which has no"),
        (b"$42\r\nredis_version:7.0.1\r\nredis_mode:cluster   \r\n\r\n", "is a node of a cluster"),
        (b"$7\r\nnothing\r\n", "does not say which version it is"),
        (b"-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required"),
        (b"HTTP/1.1 400 Bad Request\r\n", "its replies are no protocol of Valkey"),
        (b"$99999999999\r\n", "its replies are no protocol of Valkey"),
        (b"*9999999999\r\n", "its replies are no protocol of Valkey"),
        (b"*1\r\n" * 100, "its replies are no protocol of Valkey"),
    ],
)
def test_a_server_of_a_wrong_kind(capture: str, tmp_path: Path, capsys: Captured, reply: bytes, message: str) -> None:
    with replying(tmp_path / "peer", lambda number, _: reply) as path:
        assert run(capture, "--store", f"valkey+unix://{path}?timeout=500") == 1
    assert message in capsys.readouterr().err


def test_an_object_of_another_type_is_refused(capture: str, store: Location, capsys: Captured) -> None:
    with Peer(store) as peer:
        peer.call("HSET", "sluice-objects", "nat.ports", json.dumps({"type": "set"}))
    assert run(capture, "--store", url(store)) == 1
    assert "has nat.ports as a set, not a list, of another version of the function" in capsys.readouterr().err


def test_a_store_without_shared_objects_is_noted(capture: str, capsys: Captured) -> None:
    assert main(["run", "tcp_ip", "-r", capture, "-f", "none", "--store", "embedded"]) == 0
    assert "no function declares shared state" in capsys.readouterr().err


@needs_store
def test_a_store_that_dies_in_the_middle(tmp_path: Path) -> None:
    """The run goes on, fails at its end, and says what is missing from the state."""
    from sluice.state.embedded import embedded

    packets = mixed(6, 60)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = write(tmp_path / "in.pcap", packets).read_bytes()
    half = 24 + sum(16 + len(packet) for packet in packets[: len(packets) // 2])
    with embedded(Location("embedded")) as server:
        command = [sys.executable, "-m", "sluice", "run", "tcp_ip", "-r", str(pipe), *FUNCTIONS, "--json"]
        command += [
            "-w",
            str(tmp_path / "out"),
            "--store",
            f"{url(server)}?timeout=300",
            "--state",
            str(tmp_path / "rows"),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with pipe.open("wb") as end:
            end.write(data[:half])
            end.flush()
            _until_packets(server)
            _kill(server)
            end.write(data[half:])
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    found = json.loads(out)
    assert found["packets"] == len(packets)
    assert found["reports"]["store_lost_updates"] > 0
    assert "its state is older than the packets that left" in found["failure"]
    assert found["failure"] in err


def _until_packets(server: Location) -> None:
    """Until the run has counted some in the store."""
    end = time.monotonic() + 60
    with Peer(server) as peer:
        while not peer.call("GET", "sluice:{nat}packets:"):
            assert time.monotonic() < end
            time.sleep(0.02)


def _kill(server: Location) -> None:
    with Peer(server) as peer:
        info = peer.call("INFO", "server")
    assert isinstance(info, bytes)
    number = next(line for line in info.decode().splitlines() if line.startswith("process_id:"))
    os.kill(int(number.partition(":")[2]), signal.SIGKILL)
    threading.Event().wait(0.05)
