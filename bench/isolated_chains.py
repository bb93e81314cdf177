"""What a function of an isolated chain costs: `.venv/bin/python bench/isolated_chains.py [FILE] [--parallel]`.

Runs `sluice chain --isolate` with 1 to 8 functions that count packets of TCP over a capture, and the same over its
first packets, and takes the CPU time of all processes of each run. The difference, by packet, is that of the chain
without its start. The slope over the number of functions is that of a hop: the reference that the stack writes for a
function, and what the function does with the message. Time in which a process polls is part of it.
Without FILE a capture is made: 200,000 segments in 2,000 connections.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression, median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from bench.chains import COUNT
from bench.python_events import capture

FIRST = 64
"""Packets of the short run."""


def description(folder: Path, count: int, sign: str, stack: str) -> Path:
    """A file that describes a chain of so many functions."""
    parts = f" {sign} ".join(f'function("count.c", "count{number}")' for number in range(count))
    path = folder / f"chain{count}.py"
    path.write_text(f'from sluice.chain import Chain, function\n\nchain = Chain({parts}, stack="{stack}")\n')
    return path


def first_packets(path: Path, to: Path, count: int) -> None:
    """Copy the first packets of a capture file in the format of libpcap, in the byte order of this machine."""
    data, at = path.read_bytes(), 24
    for _ in range(count):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], sys.byteorder)
    to.write_bytes(data[:at])


def run(chain: Path, trace: Path) -> tuple[float, float, int]:
    """CPU time and time of a run in seconds, and its packets."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [sys.executable, "-m", "sluice", "chain", str(chain), "-r", str(trace), "--isolate", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ})
    after, taken = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, taken, int(json.loads(done.stdout)["packets"])


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="a capture")
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--parallel", action="store_true", help="functions in parallel; else in sequence")
    parser.add_argument("--functions", type=int, nargs="+", default=[1, 2, 4, 6, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "count.c").write_text(COUNT)
        trace, short = Path(options.file or folder / "trace.pcap"), folder / "short.pcap"
        if not options.file:
            capture(trace)
        first_packets(trace, short, FIRST)
        cpu: dict[int, list[float]] = {count: [] for count in options.functions}
        taken: dict[int, list[float]] = {count: [] for count in options.functions}
        for number in range(options.rounds + 1):
            for count in options.functions:
                chain = description(folder, count, "|" if options.parallel else ">>", options.stack)
                start, whole = run(chain, short), run(chain, trace)
                if number:  # the first round compiles
                    packets = whole[2] - start[2]
                    cpu[count].append((whole[0] - start[0]) / packets * 1e9)
                    taken[count].append((whole[1] - start[1]) / packets * 1e9)
    rows = {count: {"cpu_ns": median(cpu[count]), "ns": median(taken[count])} for count in options.functions}
    hop = linear_regression(list(rows), [row["cpu_ns"] for row in rows.values()]).slope if len(rows) > 1 else 0.0
    if options.json:
        print(json.dumps({"rows": rows, "cpu_ns_per_packet_and_hop": hop}))
        return 0
    print("functions   CPU ns a packet   ns a packet")
    for count, row in rows.items():
        print(f"{count:9}   {row['cpu_ns']:15.0f}   {row['ns']:11.0f}")
    print(f"each further function: {hop:.0f} ns of CPU time a packet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
