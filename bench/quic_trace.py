"""A trace of QUIC: connections by aioquic, in each of which a client asks for a file, so many open at once.

    python -m bench.quic_trace OUT CONNECTIONS BYTES OPEN [deciphered]

Unlike TCP's, a connection cannot be copied under another address: its ids are what it is known by, and its packets are
protected with them. So each is one of its own, with keys of its own. Deciphered they are as before they were sealed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.quic.deciphering import Decipherer
from tests.quic.traffic import Link, Run
from tests.support.capture import pcap


def connection(number: int, size: int, deciphered: bool) -> Iterator[tuple[float, bytes]]:
    """The frames of a connection, each with its time in seconds from its beginning."""
    run = Run(1, "aes128", Link(seed=number), False, None, {})
    run.client_address = bytes([10, 1, number >> 8 & 255, number & 255]), 40000 + number % 20000
    answer = bytes(size)
    traffic = run.run([lambda run: run.send(0, b"GET /"), lambda run: run.send(0, answer, from_server=True)])
    packets: Iterable[bytes] = traffic.packets
    if deciphered:
        packets = map(Decipherer(traffic.keylog, 1, run.client_address[0]).datagram, packets)
    yield from zip(traffic.times, packets, strict=True)


def main(out: str, connections: int, size: int, opened: int, deciphered: bool = False) -> None:
    """Writes the trace: `opened` connections begin together, and one more whenever one has ended."""
    began = [0.0] * opened
    frames: list[tuple[float, int, bytes]] = []
    for number in range(connections):
        lane = min(range(opened), key=lambda lane: began[lane])
        last = 0.0
        for time, data in connection(number, size, deciphered):
            frames.append((began[lane] + time, len(frames), data))
            last = time
        began[lane] += last + 0.001 * (number % 7)
    frames.sort()
    Path(out).write_bytes(pcap([data for _, _, data in frames], [time for time, _, _ in frames]))


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:5]), deciphered="deciphered" in sys.argv[5:])
