"""How many events a second functions in Python take: `.venv/bin/python bench/python_events.py [FILE]`.

Runs handlers on event `data` of TCP over a capture, and takes off what the run takes where C hears of these events.
Without FILE a capture is made: 200,000 segments in 2,000 connections.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.columns import Events
from sluice.engine.events import PythonFunction, Seen
from sluice.stacks.find import find_stack
from tests.support.capture import pcap
from tests.support.connection import handshake, pair

ROUNDS = 5
HANDLERS = {
    "called": "one by one: nothing but the call",
    "bytes": "one by one: the length of the bytes of each",
    "by sender": "one by one: bytes by address and port",
    "many: lengths": "many at once: the length of the bytes of each",
    "many: bytes": "many at once: the bytes of each, one by one",
    "many: by sender": "many at once: bytes by address and port",
}


def capture(path: Path) -> None:
    """2,000 connections with 100 segments each, alternately, packets a microsecond apart: no connection times out."""
    hosts = [pair(port=1024 + number) for number in range(2000)]
    packets = [packet for client, server in hosts for packet in handshake(client, server)]
    packets += [client.send("A", b"x" * 100) for _ in range(100) for client, _ in hosts]
    path.write_bytes(pcap(packets, [1000 + at / 1e6 for at in range(len(packets))]))


class Count:
    """The handlers, and how many events came."""

    def __init__(self) -> None:
        self.events = 0
        self.octets = 0
        self.senders: dict[tuple[int, int], int] = {}

    def function(self, name: str) -> PythonFunction:
        """A function of the handler of that name."""
        single = {"called": self.called, "bytes": self.of_bytes, "by sender": self.by_sender}
        many = {"many: lengths": self.lengths, "many: bytes": self.many_bytes, "many: by sender": self.many_by_sender}
        return PythonFunction(
            "bench",
            [("tcp", "data", single[name])] if name in single else [],
            [],
            many=[("tcp", "data", many[name])] if name in many else [],
        )

    def called(self, _: Seen) -> None:
        """Counts."""
        self.events += 1

    def of_bytes(self, event: Seen) -> None:
        """Adds up bytes."""
        self.events += 1
        self.octets += len(event.bytes)

    def by_sender(self, event: Seen) -> None:
        """Adds up bytes by sender."""
        self.events += 1
        who = (event.src, event.sport)
        self.senders[who] = self.senders.get(who, 0) + len(event.bytes)

    def lengths(self, events: Events) -> None:
        """Adds up bytes."""
        self.events += len(events)
        self.octets += sum(events.lengths("bytes"))

    def many_bytes(self, events: Events) -> None:
        """Adds up bytes that it has."""
        self.events += len(events)
        for (octets,) in events.rows("bytes"):
            self.octets += len(octets)

    def many_by_sender(self, events: Events) -> None:
        """Adds up bytes by sender."""
        self.events += len(events)
        senders = self.senders
        for src, sport, octets in events.rows("src", "sport", "bytes"):
            who = src, sport
            senders[who] = senders.get(who, 0) + len(octets)


def seconds(stack: CompiledStack, python: list[PythonFunction], path: Path) -> float:
    """CPU seconds of a run, this thread's."""
    with Box(stack, Settings(), python, [""] * len(stack.functions.c)) as box:
        begin = time.thread_time()
        box.run(path)
        return time.thread_time() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="capture file")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "made.pcap"
        if options.file is None:
            capture(path)
        listens = read_c_function("listens", '#include "sluice.h"\nSLUICE_ON(tcp, data) {}\n', "listens.c")
        plain = compile_stack(find_stack("tcp_ip"), (listens,))
        for name in HANDLERS:
            function = Count().function(name)
            stack = compile_stack(find_stack("tcp_ip"), (), function.hooks(), many=function.taken())
            rates: list[float] = []
            for _ in range(ROUNDS):
                count = Count()
                taken = seconds(stack, [count.function(name)], path) - seconds(plain, [], path)
                rates.append(count.events / taken if taken > 0 else 0)
            found[name] = median(rates)
    if options.json:
        print(json.dumps({name: round(rate) for name, rate in found.items()}))
        return
    for name, rate in found.items():
        print(f"{rate / 1e6:.2f} million events a second: {HANDLERS[name]}")


if __name__ == "__main__":
    main()
