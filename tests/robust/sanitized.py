"""Runs the stack over all captures, over cut and over damaged packets. A program of its own, since the
sanitizers' library must be loaded before Python; `test_sanitized.py` compiles the stack and starts it.

Prints how many packets went through. A finding of the sanitizers ends it with their report.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sluice.engine.box import Box, RunError, Settings
from tests.robust.cuts import cuts, samples, stack
from tests.support.budget import examples
from tests.support.capture import Edge, Packet, read_packets
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.corpus import captures

ORDINARY = Settings(timeouts=False, seed=1)
SMALL = Settings(memory=1 << 14, max_instances=8, timeouts=True, idle=0.05, seed=1)
"""Everything that can be given up is."""

DAMAGED = examples(20_000, 6_000)
OPTIONS = ["out=/dev/null", ""]


def feed(packets: Iterable[Packet], settings: Settings) -> int:
    """Process packets from memory that ends where they end; how many there were."""
    with Box(stack(), settings, [], OPTIONS) as box:
        edge = Edge(box)
        for packet in packets:
            edge.packet(packet)
        box.finish()
        counters = box.counters()
        assert counters["box"]["packets"] == edge.number
        check_conservation(stack().program, counters)
        check_all_ended(stack().program, counters)
        assert box.reports()["pool left"] == 0
    return edge.number


def run_file(path: Path, settings: Settings) -> int:
    """Process a file, which may be one that is refused; the number of packets."""
    with Box(stack(), settings, [], OPTIONS) as box:
        try:
            outcome = box.run(path)
        except RunError:
            return 0
        check_conservation(stack().program, outcome.counters)
        check_all_ended(stack().program, outcome.counters)
    return outcome.packets


def damaged(packets: list[Packet], chance: random.Random) -> Iterable[Packet]:
    """Packets with a few bytes changed, most of them among the headers, some cut, at times that jump."""
    time = 0
    for _ in range(DAMAGED):
        packet = chance.choice(packets)
        data = bytearray(packet.data)
        for _ in range(chance.choice((0, 1, 1, 2, 5))):
            if data:
                at = min(int(chance.expovariate(1 / 40)), len(data) - 1)
                data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        size = chance.choice((len(data), len(data), chance.randrange(len(data) + 1)))
        time = max(0, time + chance.choice((0, 1000, 10**6, 10**9, 10**11, -(10**9))))
        length = chance.choice((size, len(data), len(data), chance.randrange(size, 1 << 17)))
        yield Packet(bytes(data[:size]), max(size, length), time, packet.link_type)


def main() -> None:
    """All of it in the full matrix, else a part."""
    os.environ.pop("LD_PRELOAD", None)
    total = 0
    everything: list[Packet] = []
    for path in captures()[:: examples(1, 12)]:
        packets = read_packets(stack().compiled.path, path)
        everything += packets[:50]
        for settings in (ORDINARY, SMALL):
            total += run_file(path, settings) + feed(packets, settings)
    for packets in samples().values():
        for wire in (False, True):
            every = [packet.cut(size, wire) for packet in packets for size in cuts(packet)[:: examples(1, 3)]]
            total += feed(every, ORDINARY) + feed(every, SMALL)
    for seed in range(examples(4, 2)):
        total += feed(damaged(everything, random.Random(seed)), (ORDINARY, SMALL)[seed % 2])
    with tempfile.TemporaryDirectory() as folder:
        cut = Path(folder, "cut")
        for path in [path for path in captures() if path.suffix == ".pcapng"][:1] + captures()[:1]:
            file = path.read_bytes()
            for size in range(0, 2001, examples(1, 29)):
                cut.write_bytes(file[:size])
                total += run_file(cut, ORDINARY)
    print(total, "packets")


if __name__ == "__main__":
    main()
