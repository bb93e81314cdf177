"""One stack for a chain, or one for each function: `.venv/bin/python bench/consolidation.py` (Microboxes, figure 6).

Programs of `sluice build` with 1 to 8 functions that count packets of TCP run over a capture; beside each, as many
programs with one of these functions each, and as many monitors over libsluice_mos, mOS's interface, that count packets
in a callback. Prints the CPU time of a packet in nanoseconds, of whole processes less what they take for an empty
capture, so that reading the packets counts once for a chain and once for each function otherwise; and how many times as
long the others take. --instructions: in place of time the instructions that valgrind counts, whatever else the machine
does. Without FILE a capture is made: 200,000 segments in 2,000 connections. --svg FILE draws the throughput.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from bench import mos
from bench.chains import COUNT, MOST
from bench.isolate_plot import picture
from bench.python_events import capture
from tests.support.capture import pcap

CHAIN, STACKS, MOS = "one chain", "a stack for each", "mOS for each"


def chain_command(folder: Path, stack: str, count: int) -> list[str]:
    """The program of a chain of so many functions, but for the capture."""
    sources = [folder / f"count{number}.c" for number in range(count)]
    for source in sources:
        source.write_text(COUNT)
    made = folder / f"chain{count}"
    mos.build(["build", stack, "-f", ",".join(map(str, sources))], made)
    return [str(made / f"{stack}-run")]


def mos_command(folder: Path) -> list[str]:
    """The monitor."""
    made = folder / "mos"
    mos.build(["mos"], made)
    return mos.mos_command(Path(__file__).with_name("mos") / "count.c", made)


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="a capture file (pcap)")
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--functions", type=int, nargs="+", default=list(range(1, MOST + 1)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--instructions", action="store_true", help="count them by valgrind")
    parser.add_argument("--svg", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.instructions:
        mos.use_valgrind()
    counts = sorted({1, *options.functions})
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = Path(name)
        path, empty = options.file or folder / "trace.pcap", folder / "empty.pcap"
        if not options.file:
            capture(path)
        empty.write_bytes(pcap([]))
        packets = mos.packets_of(path)
        with contextlib.redirect_stdout(sys.stderr):
            commands = {count: chain_command(folder, options.stack, count) for count in counts}
            commands[0] = mos_command(folder)  # 0: mOS
        cost: dict[int, list[float]] = {count: [] for count in commands}
        for _ in range(1 if options.instructions else options.rounds):
            for count, command in commands.items():
                if options.instructions:
                    taken = float(mos.instructions(command, path) - mos.instructions(command, empty))
                else:
                    taken = (mos.run(command, path)[0] - mos.run(command, empty)[0]) * 1e9
                cost[count].append(max(taken, 1e-9) / packets)
    rows = {
        count: {
            CHAIN: cost[count],
            STACKS: [count * one for one in cost[1]],
            MOS: [count * one for one in cost[0]],
        }
        for count in counts
    }
    if options.svg:
        title = f"Throughput of a chain, millions of packets a second of one core: {len(cost[0])} rounds"
        groups = [
            (f"{count} functions", [(name, [1e3 / ns for ns in values]) for name, values in row.items()])
            for count, row in rows.items()
        ]
        options.svg.write_text(picture(title, groups), encoding="utf-8")
    middle = {count: {name: median(values) for name, values in row.items()} for count, row in rows.items()}
    if options.json:
        print(json.dumps(middle))
        return 0
    unit = "instructions a packet" if options.instructions else "ns of CPU time a packet"
    print(f"functions   {CHAIN:>12}   {STACKS:>18}   {MOS:>14}   {unit}, and times those of one chain")
    for count, row in middle.items():
        others = [f"{row[name]:{width}.0f} ({row[name] / row[CHAIN]:.2f})" for name, width in ((STACKS, 11), (MOS, 7))]
        print(f"{count:9}   {row[CHAIN]:12.0f}   {others[0]:>18}   {others[1]:>14}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
