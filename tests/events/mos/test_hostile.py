"""Hostile packets: whatever arrives, a program that looks at everything goes on to its end, and in bounds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.events.mos.programs import configuration, rules, run
from tests.support.capture import pcap
from tests.support.connection import handshake, pair
from tests.support.packets import UDP, eth, ip4, scale, udp

ALL = ("snd", "rcv", "null", "data", "raw", "orphan", "two", "user", "timer", "peers")


def talk(rng: random.Random) -> list[bytes]:
    """Connections with overlaps, holes, far jumps, resets and repeated ports, their packets mixed up and damaged."""
    packets: list[bytes] = []
    for port in (40000, 40001):
        client, server = pair(
            rng.randrange(1 << 32), rng.randrange(1 << 32), port=port, window=rng.choice([0, 100, 65535])
        )
        packets += handshake(client, server, rng.choice([b"", scale(14), bytes([3, 255, 1]), bytes([5, 0])]))
        for _ in range(rng.randrange(30)):
            side = rng.choice([client, server])
            flags = rng.choice(["A", "A", "A", "PA", "FA", "R", "S", "SA", "", "SF", "RS"])
            offset = rng.choice([0, rng.randrange(50), rng.randrange(20000), 1 << 31, (1 << 32) - 5])
            packets.append(side.at(offset, bytes(rng.randrange(256) for _ in range(rng.randrange(40))), flags))
    packets.append(eth(ip4(udp(1, 2, b"x"), UDP)))
    for _ in range(rng.randrange(10)):
        packet = bytearray(rng.choice(packets))
        for _ in range(rng.randrange(1, 4)):
            packet[rng.randrange(12, len(packet))] = rng.randrange(256)
        packets.insert(rng.randrange(len(packets)), bytes(packet[: rng.randrange(14, len(packet) + 1)]))
    if rng.random() < 0.3:
        rng.shuffle(packets)
    return packets


@pytest.mark.parametrize("seed", range(24))
def test_whatever_arrives(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    change = rng.choice(["drop", "chomp", "insert", "stop", "overlap"])
    buffer = rng.choice([0, 1, 16, 100, 8192])
    times = [rng.choice([0.0, 1000.0, 4e9, 1000 + rng.random() * 50]) for _ in range(1000)]
    packets = talk(rng)
    rules(tmp_path, packets, *ALL, change, f"buffer={buffer}", times=times[: len(packets)])


def test_ranges_out_of_order_are_bounded(tmp_path: Path) -> None:
    """Each second byte of 2000: the first holes are given up, and reading goes on behind them."""
    client, server = pair()
    packets = handshake(client, server) + [client.at(2 * n, b"x") for n in range(1, 1000)]
    lines = rules(tmp_path, packets, "data")
    assert any(line.startswith("read") for line in lines)


def test_flows_are_bounded(tmp_path: Path) -> None:
    """At max_concurrency the longest quiet give way; each that began ends once."""
    packets: list[bytes] = []
    for port in range(1000, 1200):
        client, _ = pair(port=port)
        packets.append(client.send("S"))
    capture = tmp_path / "in.pcap"
    capture.write_bytes(pcap(packets, [1000.0] * len(packets)))
    path = configuration(tmp_path, capture, max_concurrency=16)
    out = run("rules", [str(path), "snd"])
    assert out.count("CONN_START") == out.count("CONN_END") == 200
