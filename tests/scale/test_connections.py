"""Memory for each of a million connections (a quarter, outside the full matrix), and a table that is full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.engine.compiler import compiler
from tests.support.budget import examples
from tests.support.conserve import is_outcome

ROOT = Path(__file__).resolve().parents[2]
SLUICE = Path(sluice.__file__).resolve().parents[1]
MOST_BYTES = 216
"""That a connection may cost, instance and index together."""


def connections(folder: Path, count: int) -> Path:
    """A capture of so many connections, all open at once."""
    program, out = folder / "connections", folder / "connections.pcap"
    source = str(Path(__file__).with_name("connections.c"))
    subprocess.run(
        [*compiler(), "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", str(program)], check=True, timeout=300
    )
    subprocess.run([str(program), str(out), str(count)], check=True, timeout=300)
    return out


def measure(capture: Path, max_instances: int, function: str = "assemble") -> dict[str, Any]:
    """What tests.scale.measure prints."""
    run = subprocess.run(
        [sys.executable, "-P", "-m", "tests.scale.measure", str(capture), str(max_instances), function],
        env={**os.environ, "PYTHONPATH": f"{SLUICE}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
def test_many_connections(tmp_path: Path) -> None:
    count, room = examples(1_000_000, 250_000), examples(1 << 20, 1 << 18)
    capture = connections(tmp_path, count)
    found = measure(capture, room)
    capture.unlink()  # it is large
    tcp = found["counters"]["tcp_over_ipv4"]
    assert tcp["packets"] == 4 * count
    assert tcp["instances"] == tcp["ended:eof"] == count
    assert found["reports"]["delivered_bytes"] == 32 * count
    assert found["grown"] <= MOST_BYTES * count, f"{found['grown'] / count:.0f} bytes a connection"


def test_a_full_table(tmp_path: Path) -> None:
    """The table keeps to its size: others make room, counted as evicted, and every packet has its outcome."""
    count, room = 20_000, 1000
    found = measure(connections(tmp_path, count), room)
    tcp = found["counters"]["tcp_over_ipv4"]
    assert tcp["packets"] == 4 * count == sum(value for name, value in tcp.items() if is_outcome(name))
    assert tcp["ended:eof"] == room
    assert tcp["ended:evicted"] == tcp["instances"] - room
    assert tcp["instances"] > count  # a connection that was evicted is picked up again by its next packet
    assert found["reports"]["delivered_bytes"] == 32 * count
    assert found["grown"] < 8 << 20


def test_a_flow_log_of_many_connections(tmp_path: Path) -> None:
    """What it keeps is bounded, too, and no row is lost."""
    count, room = 50_000, 1000
    found = measure(connections(tmp_path, count), room, "flow_log:rows=2000,out=/dev/null")
    tcp = found["counters"]["tcp_over_ipv4"]
    assert found["reports"]["flows"] == tcp["instances"] > 3 * count
    assert found["grown"] < 8 << 20, f"{found['grown'] / tcp['instances']:.0f} bytes a row"
