"""Packets whose connections are in several tunnels, and rows of boxes that divide packets in different ways."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.capture import pcap
from tests.support.packets import TCP, eth, ip4, tcp

IN_IP = 4
TURNS = 6
PATIENCE = 600.0
PAUSE = 0.1
"""Seconds: longer than the kernel withholds packets from a ring."""


def tunnelled(connections: int) -> list[list[bytes]]:
    """By turn, a packet of each connection: of its two directions in turns. Of every other one, each direction is in a
    tunnel of its own, of IP in IP, but for the last packets, which are in none.
    """
    found: list[bytes] = []
    for number in range(connections):
        ends = bytes([10, 1, number, 1]), bytes([10, 2, 0, 1])
        for turn in range(TURNS):
            src, dst = ends if turn % 2 == 0 else ends[::-1]
            ports = (2000 + number, 80) if turn % 2 == 0 else (80, 2000 + number)
            packet = ip4(tcp(*ports, 1, ("S", "SA")[turn] if turn < 2 else "A", b""), TCP, src, dst)
            if number % 2 and turn < 4:
                packet = ip4(packet, IN_IP, bytes([192, 0, 2, number]), bytes([192, 0, 2, 200 + turn % 2]))
            found.append(eth(packet))
    return [found[turn::TURNS] for turn in range(TURNS)]


def send_by_turns(end: socket.socket, turns: list[list[bytes]]) -> None:
    """The packets of a turn arrive after those of the former one, whatever divides them."""
    for frames in turns:
        for frame in frames:
            end.send(frame)
        time.sleep(PAUSE)


def run_alone(stack: Path, frames: list[bytes], out: Path) -> dict[str, Any]:
    """The summary of `sluice flows` with one box, of these packets in a file. Its rows are in the file `out`."""
    capture = out.with_suffix(".pcap")
    capture.write_bytes(pcap(frames, [1000.0] * len(frames)))
    words = ["flows", "--stack", str(stack), "-r", str(capture), "--json", "-o", str(out)]
    command = [sys.executable, "-m", "sluice", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(path: Path) -> list[str]:
    """Rows without times and without the number of the instance, which depends on the worker."""
    found: list[str] = []
    for line in path.read_text().splitlines():
        row = {name: value for name, value in json.loads(line).items() if name not in ("first_ts", "last_ts", "flow")}
        found.append(json.dumps(row, sort_keys=True))
    return sorted(found)
