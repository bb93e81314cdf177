"""What several workers gain: `.venv/bin/python bench/workers.py FILE [--workers 1,2] [--groups N] [--isolate]`.

Runs a stack over a capture, in one box without threads and on workers, in turns in one process. The time is that of
the run by the clock, from the first packet to the last row; so it depends on how many cores are free. Beside it stands
the CPU time of all threads and processes, which shows what passing packets on costs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.engine.workers import WorkerBoxes
from sluice.stacks.find import find_stack


def once(
    stack: CompiledStack, options: list[dict[str, str]], path: str, workers: int, more: dict[str, Any]
) -> tuple[float, float, int]:
    """Seconds by the clock, seconds of CPU, and packets of a run; 0 workers: one box."""
    settings = Settings(timeouts=False, seed=1)
    box = (
        WorkerBoxes(stack, settings, [], options, workers=workers, **more)
        if workers
        else Box(stack, settings, [], options)
    )
    with box:
        cpu = sum(os.times()[:4])  # with that of processes that have ended
        outcome = box.run(path)
        return outcome.seconds, sum(os.times()[:4]) - cpu, outcome.packets


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("-f", dest="function", default="", help="a function in C (default: tracking with streams)")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--groups", type=int, default=1, help="groups of connections of each worker")
    parser.add_argument("--isolate", action="store_true", help="workers are processes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = find_functions([options.function or "assemble"])
    given = [{"out": "/dev/null"} if options.function == "flow_log" else {} for _ in wanted.c]
    stack = compile_stack(find_stack(options.stack), tuple(wanted.c))
    counts = [0, *map(int, options.workers.split(","))]
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in counts}
    packets = 0
    more = {"groups": options.groups, "isolated": options.isolate}
    for _ in range(options.rounds):
        for count in counts:
            seconds, cpu, packets = once(stack, given, options.file, count, more)
            found[count].append((seconds, cpu))
    rows = [
        {
            "workers": count,
            "ns_per_packet": round(median(seconds for seconds, _ in runs) / packets * 1e9, 1),
            "cpu_ns_per_packet": round(median(cpu for _, cpu in runs) / packets * 1e9, 1),
            "times_one_box": round(median(one[0] / run[0] for one, run in zip(found[0], runs, strict=True)), 2),
        }
        for count, runs in found.items()
    ]
    if options.json:
        print(json.dumps({"packets": packets, "rows": rows}))
        return
    print(f"{packets:,} packets")
    for row in rows:
        name = f"{row['workers']} workers" if row["workers"] else "one box"
        print(
            f"{name:>10}: {row['ns_per_packet']:>7} ns a packet, {row['cpu_ns_per_packet']:>7} ns of CPU, "
            f"{row['times_one_box']} x one box"
        )


if __name__ == "__main__":
    main()
