"""What state outside the box costs a packet: the functions of CHC (3.6.1, figure 3.13) with each store.

    .venv/bin/python bench/state.py [--connections N] [--rounds N] [--only NAME] [CAPTURE]

T is local state; EO has every operation in the store, and a packet waits for each; C caches flow-scoped state; NA does
not wait for updates whose result is not used. Each row has nanoseconds a packet, medians of rounds in turns: of the
CPU time of the thread that processes packets, what that adds to T, and of wall time. Waiting modes have a part of the
trace.
The store is an embedded server on this machine, on the other processors.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import Wanted, find_functions
from sluice.stacks.find import find_stack
from sluice.state.embedded import embedded
from sluice.state.location import read_location
from sluice.state.peer import Peer
from sluice.state.session import session

FUNCTIONS = ("nat:inside=10.0.0.0/8", "balance:address=192.0.2.10", "portscan:out=/dev/null", "trojan:out=/dev/null")
MODES = {"T": "local", "EO": "?wait=all&cache=no", "EO+C": "?wait=all", "EO+C+NA": ""}
WAITING = ("EO", "EO+C")
DATA = 100
"""Segments of data in a connection."""


def frames(connections: int) -> Iterator[bytes]:
    """Connections from 10.0.0.0/8, a tenth to the virtual address; 32 are open at once; payloads of 300 bytes."""
    choose = random.Random(1)
    payload = bytes(range(256)) + bytes(44)

    def segment(
        client: int, server: int, port: int, forward: bool, seq: int, ack: int, flags: int, data: bytes
    ) -> bytes:
        ends = struct.pack(">II", client, server) if forward else struct.pack(">II", server, client)
        ports = struct.pack(">HH", port, 80) if forward else struct.pack(">HH", 80, port)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 1, 0x4000, 64, 6, 0) + ends
        return bytes(12) + b"\x08\0" + ip + ports + struct.pack(">IIBBHHH", seq, ack, 0x50, flags, 65535, 0, 0) + data

    def connection(number: int) -> Iterator[bytes]:
        client = 0x0A000001 + number % 1000
        server = 0xC000020A if number % 10 == 0 else 0xC6336401 + number % 200
        ends = (client, server, 1024 + number % 60000)
        yield segment(*ends, True, 99, 0, 2, b"")
        yield segment(*ends, False, 499, 100, 18, b"")
        yield segment(*ends, True, 100, 500, 16, b"")
        for k in range(DATA):
            yield (
                segment(
                    *ends, k % 4 == 0, 100 + 300 * (k // 4 + (k % 4 > 0)), 500 + 300 * (k - (k + 3) // 4), 16, payload
                )
                if k % 4 == 0
                else segment(*ends, False, 500 + 300 * (k - (k + 3) // 4), 100 + 300 * (k // 4 + 1), 16, payload)
            )
        yield segment(*ends, True, 100 + 300 * (DATA // 4), 500, 17, b"")
        yield segment(*ends, False, 500 + 300 * (DATA - DATA // 4), 101, 17, b"")

    waiting = [connection(number) for number in range(connections)]
    open_now: list[Iterator[bytes]] = []
    while waiting or open_now:
        while waiting and len(open_now) < 32:
            open_now.append(waiting.pop(0))
        place = choose.randrange(len(open_now))
        frame = next(open_now[place], None)
        if frame is None:
            open_now.pop(place)
        else:
            yield frame


def write(path: Path, packets: list[bytes]) -> Path:
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for number, data in enumerate(packets):
            out.write(
                struct.pack("<IIII", 1000 + number // 100_000, number % 100_000 * 10, len(data), len(data)) + data
            )
    return path


def timed(
    stack: CompiledStack, wanted: Wanted, capture: Path, mode: str, server: str
) -> tuple[float, float, dict[str, int]]:
    """Nanoseconds a packet of CPU and of wall time, the end of all connections included, and what was reported."""
    location = read_location("local" if mode == "T" else f"valkey+unix://{server}{MODES[mode]}")
    with Peer(read_location(f"valkey+unix://{server}")) as peer:
        peer.call("FLUSHALL")
    with session(location, stack.functions.c, False) as held:
        settings = Settings(max_instances=1 << 17, memory=1 << 28, seed=1, store=held.store)
        with Box(stack, settings, function_options=wanted.options) as box:
            begin = time.thread_time_ns()
            outcome = box.run(capture)
            cpu = time.thread_time_ns() - begin
    if outcome.failure:
        raise SystemExit(f"bench/state.py: {outcome.failure}")
    return cpu / outcome.packets, outcome.seconds * 1e9 / outcome.packets, outcome.reports


def pin(part: int) -> None:
    """This process on one processor, and, if there are several, the server on the others."""
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, processors[:1] if part == 0 else processors[1:] or processors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", nargs="?", type=Path)
    parser.add_argument("--connections", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="NAME")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        capture = options.capture
        part = capture
        if capture is None:
            capture = write(Path(folder, "trace.pcap"), list(frames(options.connections)))
            part = write(Path(folder, "part.pcap"), list(frames(max(options.connections // 20, 1))))
        pin(1)
        with embedded(read_location("embedded")) as location:
            pin(0)
            heads = f"{'CPU ns':>10} {'added':>10} {'wall ns':>10} {'operations':>11} {'requests':>10} {'waits':>9}"
            print(f"{'function':<10} {'mode':<8} {heads}")
            for name in FUNCTIONS:
                if not name.startswith(options.only):
                    continue
                wanted = find_functions([name])
                stack = compile_stack(find_stack("tcp_ip"), tuple(wanted.c))
                found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
                last: dict[str, dict[str, int]] = {}
                for _ in range(options.rounds):
                    for mode in MODES:
                        if mode in WAITING and len(found[mode]) >= 3:
                            continue
                        trace = part if mode in WAITING else capture
                        cpu, wall, last[mode] = timed(stack, wanted, trace, mode, location.path)
                        found[mode].append((cpu, wall))
                for mode in MODES:
                    cpu, wall = (median(each) for each in zip(*found[mode], strict=True))
                    counts = [last[mode].get(f"store_{what}", 0) for what in ("operations", "requests", "waits")]
                    added = cpu - median(each for each, _ in found["T"])
                    print(
                        f"{name.partition(':')[0]:<10} {mode:<8} {cpu:>10,.0f} {added:>10,.0f} {wall:>10,.0f} "
                        f"{counts[0]:>11,} {counts[1]:>10,} {counts[2]:>9,}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
