"""QUIC by the command line: rows of connections, the key log, and a program that `sluice build` writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.quic.test_traffic import talk
from tests.quic.traffic import Link, Traffic, make
from tests.support.capture import pcap


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return make(*talk(800), link=Link(late=0.1))


@pytest.fixture
def capture(traffic: Traffic, tmp_path: Path) -> Path:
    """The traffic as a capture file, and its key log beside it."""
    path = tmp_path / "quic.pcap"
    path.write_bytes(pcap(traffic.packets, traffic.times))
    path.with_suffix(".keys").write_text(traffic.keylog)
    return path


def passed(counters: dict[str, dict[str, int]]) -> int:
    return sum(own["passed"] for layer, own in counters.items() if layer.startswith("quic_over"))


def test_run_with_a_key_log(capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found: list[int] = []
    for more in ([], ["--keylog", str(capture.with_suffix(".keys"))]):
        assert main(["run", "quic", "-r", str(capture), "--json", *more]) == 0
        found.append(passed(json.loads(capfd.readouterr().out)["layers"]))
    assert found[0] < 6 < 20 < found[1]


def test_a_key_log_is_for_stacks_with_quic(capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tcp_ip", "-r", str(capture), "--keylog", "keys"]) == 1
    assert "not of stack tcp_ip" in capfd.readouterr().err


def test_a_row_for_a_connection(capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Beside that of its UDP flow; its packets are those of QUIC, of which one datagram may hold several."""
    assert main(["flows", "--stack", "everything", "-r", str(capture)]) == 0
    rows = {row["proto"]: row for row in map(json.loads, capfd.readouterr().out.splitlines())}
    assert set(rows) == {"udp", "quic"}
    assert (rows["quic"]["src"], rows["quic"]["dport"]) == ("10.0.0.1", 443)
    assert rows["quic"]["src_pkts"] >= rows["udp"]["src_pkts"]


def test_build(capture: Path, tmp_path: Path) -> None:
    """The program takes the module along with its headers, and the key log as an option of its own."""
    folder = tmp_path / "built"
    assert main(["build", "quic", "-o", str(folder)]) == 0
    subprocess.run(["make", "-s", "-C", str(folder), "CFLAGS=-O0", "quic-run"], check=True)
    command = [str(folder / "quic-run"), "--json", "--keylog", str(capture.with_suffix(".keys")), str(capture)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert passed(json.loads(done.stdout)["layers"]) > 20
