"""Contexts in threads of their own: each gets the packets that dispatch gives it, in the same order each time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.compat.mos.programs import configuration, run, with_thread_sanitizer
from tests.support.capture import pcap
from tests.support.connection import Host, goodbye, handshake

FLOWS = 40


def flows(in_turn: bool = True) -> list[bytes]:
    """Connections of different clients, whose packets come in turn, or one connection after the other."""
    columns: list[list[bytes]] = []
    for number in range(FLOWS):
        client = Host(bytes([10, 0, 1, number + 1]), 40000, 1000)
        server = Host(bytes([10, 0, 2, 1]), 80, 5000)
        client.peer, server.peer = server, client
        packets = [*handshake(client, server), client.data(b"x" * 100), server.data(b"y" * 300)]
        columns.append([*packets, *goodbye(client, server)])
    rows = zip(*columns, strict=True) if in_turn else columns
    return [packet for row in rows for packet in row]


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("contexts")
    packets = flows()
    capture = folder / "in.pcap"
    capture.write_bytes(pcap(packets, [1000 + n / 50 for n in range(len(packets))]))
    return str(configuration(folder, capture))


def totals(lines: list[str]) -> list[int]:
    """What all contexts saw: callbacks, bytes, ends."""
    return [sum(int(line.split()[word]) for line in lines) for word in (2, 4, 6)]


def test_several_contexts_see_together_what_one_sees(conf: str) -> None:
    one, two, four = (run("contexts", [conf, count]).splitlines() for count in ("1", "2", "4"))
    assert totals(one) == totals(two) == totals(four)
    assert totals(one)[1:] == [FLOWS * 400, FLOWS]
    assert all(int(line.split()[2]) for line in two)


def test_time_goes_on_in_a_context_by_the_packets_of_all(tmp_path: Path) -> None:
    """From the first packet to the last, of whichever context: 8 of each flow, 50 a second."""
    packets = flows(in_turn=False)
    capture = tmp_path / "in.pcap"
    capture.write_bytes(pcap(packets, [1000 + n / 50 for n in range(len(packets))]))
    conf = str(configuration(tmp_path, capture))
    for count in ("1", "2", "4"):
        ticks = [line.split()[8] for line in run("contexts", [conf, count]).splitlines()]
        assert ticks == [str((FLOWS * 8 - 1) // 50)] * int(count)


def test_a_context_sees_the_same_in_the_same_order_each_time(conf: str) -> None:
    first = run("contexts", [conf, "2"])
    assert all(run("contexts", [conf, "2"]) == first for _ in range(3))


@pytest.mark.slow_matrix
def test_threads_share_nothing_without_a_lock(conf: str, tmp_path: Path) -> None:
    """Under the thread sanitizer, where the compiler has it."""
    made = with_thread_sanitizer("contexts", tmp_path)
    for _ in range(3):
        done = subprocess.run([str(made), conf, "2"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr[:4000]
