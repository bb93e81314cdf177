"""Speed side by side, in one table: `.venv/bin/python bench/run.py TRACE [TRACE ...]`.

Every variant (a function with a set of passes) is a process of its own, `sluice bench`, which loads the trace into
memory and times the loop over its packets alone. Variants run in random order, one round after another, so that
what else the machine does falls on all of them; figures are medians over the rounds. Absolute figures move with
the machine, ratios within a run by about a tenth.

With --pause the slowest single packet of each trace is measured, too (bench/pause.c). `bench/make_trace.sh` makes
traces of real HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent))

from sluice.engine.box import compile_stack  # noqa: E402
from sluice.engine.compiler import RUNTIME, compiler  # noqa: E402
from sluice.engine.functions import find_functions  # noqa: E402
from sluice.stacks.find import find_stack  # noqa: E402

COMMAND = (sys.executable, "-P", "-c", "import sys; from sluice.cli.main import main; sys.exit(main())")


@dataclass
class Variant:
    """What is measured: a stack with a function and passes on a trace; and what each round gave."""

    stack: str
    trace: Path
    function: str
    passes: str
    rounds: list[dict[str, Any]] = field(default_factory=lambda: [])

    def measure(self) -> None:
        """One round."""
        words = ["bench", self.stack, "-r", str(self.trace), "-f", self.function, "--passes", self.passes]
        run = subprocess.run(
            [*COMMAND, *words, "--repeat", "1", "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        if run.returncode:
            raise SystemExit(f"bench: {' '.join(words)}: {run.stderr.strip()}")
        self.rounds.append(json.loads(run.stdout))

    def middle(self, key: str) -> float:
        """Median of a figure over the rounds."""
        return median(found[key] for found in self.rounds)


def table(variants: list[Variant]) -> str:
    """All variants, a line each; `ratio` is to the fastest on the same trace."""
    head = ["trace", "function", "passes", "packets", "ns/packet", "min..max", "Mpps", "Gbit/s", "ratio", "delivered"]
    rows: list[list[str]] = [head]
    for variant in variants:
        ns = [found["ns_per_packet_cpu"] for found in variant.rounds]
        best = min(other.middle("ns_per_packet_cpu") for other in variants if other.trace == variant.trace)
        rows.append(
            [
                variant.trace.stem,
                variant.function,
                variant.passes,
                f"{variant.rounds[0]['packets']:,}",
                f"{median(ns):.1f}",
                f"{min(ns):.1f}..{max(ns):.1f}",
                f"{1e3 / median(ns):.2f}",
                f"{8 * variant.rounds[0]['bytes'] / variant.rounds[0]['packets'] / median(ns):.2f}",
                f"{median(ns) / best:.2f}",
                f"{variant.rounds[0]['delivered_bytes']:,}",
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    left = 3  # columns of text
    return "\n".join(
        "  ".join(f"{row[n]:<{w}}" if n < left else f"{row[n]:>{w}}" for n, w in enumerate(widths)) for row in rows
    )


def pauses(stack: str, traces: list[Path], rounds: int, max_instances: int) -> str:
    """For each trace the slowest packet with `assemble`: the least of the rounds, since others only add to it."""
    wanted = find_functions(["assemble"])
    library = compile_stack(find_stack(stack), tuple(wanted.c))
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "pause"))
        source = str(HERE / "pause.c")
        subprocess.run(
            [*compiler(), "-O2", f"-I{RUNTIME}", f"-I{RUNTIME / 'io'}", source, "-o", program, "-ldl"], check=True
        )
        for trace in traces:
            words = [
                program,
                str(library.compiled.path),
                library.generated.name,
                str(trace),
                str(max_instances),
            ]
            found = [json.loads(subprocess.run(words, check=True, capture_output=True).stdout) for _ in range(rounds)]
            cpu, wall = (min(one[f"slowest_{kind}_ns"] for one in found) / 1e6 for kind in ("cpu", "wall"))
            lines.append(f"{trace.stem}: slowest packet {cpu:.3f} ms of CPU, {wall:.3f} ms by the clock")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help="capture files")
    parser.add_argument("--stack", default="tcp_ip", help="a name, or a Python file (default tcp_ip)")
    parser.add_argument("--functions", default="none,assemble", help="with commas (default none,assemble)")
    parser.add_argument("--passes", default="all,none", help="sets of passes, with commas (default all,none)")
    parser.add_argument("--rounds", type=int, default=9, help="default 9; 0: no table, for --pause alone")
    parser.add_argument("--pause", action="store_true", help="measure the slowest single packet, too")
    parser.add_argument("--max-instances", type=int, default=1 << 22, help="of each table, for --pause")
    parser.add_argument("--json", action="store_true", help="print every round as JSON instead of the table")
    options = parser.parse_args()
    variants = [
        Variant(options.stack, trace, function, passes)
        for trace in options.traces
        for function in options.functions.split(",")
        for passes in options.passes.split(",")
    ]
    for number in range(options.rounds):
        for variant in random.sample(variants, len(variants)):
            variant.measure()
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if options.json:
        print(json.dumps([{**vars(variant), "trace": str(variant.trace)} for variant in variants]))
    elif options.rounds:
        print(table(variants))
    if options.pause:
        print(pauses(options.stack, options.traces, 3, options.max_instances))


if __name__ == "__main__":
    main()
