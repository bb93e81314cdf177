"""`sluice serve`: what it prints, and how it is used wrongly."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.service.peers import PATIENCE, read_answer
from tests.service.programs import LISTING_3, PAIR, ROOT, ROUTER, command
from tests.support.bounded import killed_after

ARGUMENTS = ["serve", str(ROUTER), "--grammar", "memcached_binary"]


def test_check_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--check", "--json", "--backends", "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1,10.0.0.4:1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["units"]["cmd"]["named"] == ["key"]
    assert [rule["forwards"] for rule in found["rules"]] == [True, True]
    assert found["memory"]["instance"] < 1024


def test_check_of_listing_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "listing3.fk"
    path.write_text(LISTING_3 + PAIR)
    assert main(["serve", str(path), "--check"]) == 0
    out, err = capsys.readouterr()
    assert "memory: an instance takes" in out
    assert err.count("'value' is taken") == 2


def test_check_of_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.fk"
    path.write_text(
        PAIR + "type kv: record\n  key : string\n" + "".join(f"process {n}: (kv/kv c)\n  c => c\n" for n in "AB")
    )
    assert main(["serve", str(path), "--check"]) == 0
    assert "memory: choose a process: --process A or B" in capsys.readouterr().out
    assert main(["serve", str(path), "--check", "--process", "B"]) == 0
    assert "memory: an instance takes" in capsys.readouterr().out


def test_the_generated_c(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--print-c"]) == 0
    assert "m_cmd_parse" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (ARGUMENTS, 2, "--listen is missing"),
        ([*ARGUMENTS, "--listen", "nowhere"], 2, "'nowhere' is no address: write HOST:PORT"),
        ([*ARGUMENTS, "--listen", "127.0.0.1:0"], 1, "nothing is connected to 'backends'"),
        ([*ARGUMENTS, "--listen", "backends=127.0.0.1:0"], 1, "'backends' is an array"),
        ([*ARGUMENTS, "--listen", "cleint=127.0.0.1:0"], 1, "did you mean 'client'?"),
        ([*ARGUMENTS, "--listen", "127.0.0.1:0", "--backends", "a=1.2.3.4:5"], 1, "has no channel 'a' that is left"),
        ([*ARGUMENTS, "--workers", "0", "--check"], 2, "--workers 0: from 1 to 256"),
        ([*ARGUMENTS, "--set", "n", "--check"], 2, "write NAME=NUMBER"),
        (["serve", str(ROUTER), "--check", "--grammar", "memcached"], 1, "did you mean 'memcached_text'?"),
        (
            ["serve", str(ROUTER), "--check", "--grammar", "memcached_binary", "--process", "P"],
            1,
            "there is no process",
        ),
        (["serve", str(ROUTER), "--print-c"], 1, "nothing says how 'cmd' stands on the wire"),
        (["serve", "absent.fk", "--check"], 1, "absent.fk: No such file"),
    ],
)
def test_wrong_usage(arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a]\nworkers = 2\n", "'workers' is for all services; write it before the tables"),
        ("[a]\nslice = 2\n", "'slice' is for all services; write it before the tables"),
        ('["a\\nb"]\n', "is no name; use letters, digits, _ and -"),
        ("[a]\nworker = 2\n", "[a] has no key 'worker'"),
        ("share = 2\n[a]\n", "'share' stands before the tables"),
    ],
)
def test_wrong_configurations(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "services.toml").write_text(text)
    assert main(["serve", "--config", str(tmp_path / "services.toml")]) == 2
    assert message in capsys.readouterr().err


def test_a_service_runs_until_it_is_stopped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as backend:
        backend.settimeout(PATIENCE)
        address = f"127.0.0.1:{backend.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "sluice", *ARGUMENTS, "--listen", "localhost:0", "--backends", address, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert process.stdout is not None
        with killed_after(process, PATIENCE):
            port = int(json.loads(process.stdout.readline())["ready"].rpartition(":")[2])
        with socket.create_connection(("localhost", port), PATIENCE) as client:
            client.sendall(command(b"key", opaque=5))
            accepted, _ = backend.accept()
            with accepted:
                accepted.settimeout(PATIENCE)
                assert accepted.recv(100) == command(b"key", opaque=5)
                accepted.sendall(command(b"", b"answer", magic=0x81, opaque=5))
                assert read_answer(client) == (0, 5, b"answer")
                process.send_signal(signal.SIGINT)
                with killed_after(process, PATIENCE):
                    counters = json.loads(process.stdout.readline())["counters"]
        assert process.wait(PATIENCE) == 0
    assert counters["messages received"] == 2 and counters["instances ended by the end of the service"] == 1


def test_a_port_in_use_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main([*ARGUMENTS, "--listen", address, "--backends", "127.0.0.1:1"]) == 1
    assert "cannot listen: Address already in use" in capfd.readouterr().err


def test_explain_prints_the_c_of_a_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "http_balancer"]) == 0
    assert "const struct service_program service_program" in capsys.readouterr().out
    assert main(["explain", "http_balancer", "--layer", "x"]) == 2
    assert "a service has no passes and layers" in capsys.readouterr().err
