"""What a function of an isolated chain costs: `.venv/bin/python bench/isolated_chains.py [FILE] [--parallel | --both]`.

Runs `sluice chain --isolate` with 1 to 8 functions that count packets of TCP over a capture, and the same over its
first packets, and takes the CPU time of all processes of each run. The difference, by packet, is that of the chain
without its start. The slope over the number of functions is that of a hop: the reference that the stack writes for a
function, and what the function does with the message. Time in which a process polls is part of it. With --work each
function takes so many nanoseconds for a packet, and with --both the chains in parallel are beside those in sequence.
--svg FOLDER draws the throughput of the chain, and the CPU time that it uses, by the number of functions.
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
from bench.isolate_plot import picture
from bench.python_events import capture

FIRST = 64
"""Packets of the short run."""


def working(nanoseconds: int) -> str:
    """A function that counts packets of TCP, and takes so long for each."""
    waits = f"uint64_t end = now() + {nanoseconds}; while (now() < end) continue; "
    clock = (
        "#include <time.h>\nstatic uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); "
        "return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec; }\n"
    )
    return COUNT.replace("SLUICE_ON", clock + "SLUICE_ON").replace("{ SLUICE", "{ " + waits + "SLUICE")


def description(folder: Path, count: int, sign: str, stack: str) -> Path:
    """A file that describes a chain of so many functions."""
    parts = f" {sign} ".join(f'function("count.c", "count{number}")' for number in range(count))
    path = folder / f"chain{count}{'p' if sign == '|' else ''}.py"
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


def measured(folder: Path, trace: Path, sign: str, options: argparse.Namespace) -> dict[int, dict[str, list[float]]]:
    """CPU time and time of a packet in nanoseconds, of each round, by the number of functions."""
    short = folder / "short.pcap"
    first_packets(trace, short, FIRST)
    cpu: dict[int, list[float]] = {count: [] for count in options.functions}
    taken: dict[int, list[float]] = {count: [] for count in options.functions}
    for number in range(options.rounds + 1):
        for count in options.functions:
            chain = description(folder, count, sign, options.stack)
            start, whole = run(chain, short), run(chain, trace)
            if number:  # the first round compiles
                packets = whole[2] - start[2]
                cpu[count].append((whole[0] - start[0]) / packets * 1e9)
                taken[count].append((whole[1] - start[1]) / packets * 1e9)
    return {count: {"cpu_ns": cpu[count], "ns": taken[count]} for count in options.functions}


def draw(folder: Path, found: dict[str, dict[int, dict[str, list[float]]]]) -> None:
    """Write the pictures."""
    counts = list(dict.fromkeys(count for rows in found.values() for count in rows))
    pictures = {
        "chain-throughput": ("Throughput of an isolated chain, thousands of packets a second", "ns", 1e6),
        "chain-cpu": ("CPU time of all processes of an isolated chain, nanoseconds a packet", "cpu_ns", 0.0),
    }
    for name, (title, key, inverted) in pictures.items():
        groups = [
            (
                f"{count} functions",
                [
                    (arrangement, [inverted / max(value, 1.0) if inverted else value for value in rows[count][key]])
                    for arrangement, rows in found.items()
                ],
            )
            for count in counts
        ]
        (folder / f"{name}.svg").write_text(picture(title, groups), encoding="utf-8")


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="a capture")
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--parallel", action="store_true", help="functions in parallel; else in sequence")
    parser.add_argument("--both", action="store_true", help="both, one after the other")
    parser.add_argument("--work", type=int, default=0, metavar="NS", help="that each function takes for a packet")
    parser.add_argument("--functions", type=int, nargs="+", default=[1, 2, 4, 6, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--svg", type=Path, metavar="FOLDER")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signs = {"in sequence": ">>", "in parallel": "|"}
    if not options.both:
        del signs["in sequence" if options.parallel else "in parallel"]
    found: dict[str, dict[int, dict[str, list[float]]]] = {}
    printed: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "count.c").write_text(working(options.work) if options.work else COUNT)
        trace = Path(options.file or folder / "trace.pcap")
        if not options.file:
            capture(trace)
        for arrangement, sign in signs.items():
            found[arrangement] = measured(folder, trace, sign, options)
            rows = {
                count: {key: median(values) for key, values in row.items()} for count, row in found[arrangement].items()
            }
            values = [row["cpu_ns"] for row in rows.values()]
            hop = linear_regression(list(rows), values).slope if len(rows) > 1 else 0.0
            printed[arrangement] = {"rows": rows, "cpu_ns_per_packet_and_hop": hop}
            if options.json:
                continue
            print(f"functions {arrangement}   CPU ns a packet   ns a packet")
            for count, row in rows.items():
                print(f"{count:21}   {row['cpu_ns']:15.0f}   {row['ns']:11.0f}")
            print(f"each further function: {hop:.0f} ns of CPU time a packet")
    if options.svg:
        draw(options.svg, found)
    if options.json:
        print(json.dumps(printed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
