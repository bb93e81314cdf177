"""What logs cost: `.venv/bin/python bench/logs.py [--trace FILE]`.

Each log alone, and all of them at once, over the trace `http1k` (traces.py), or over a capture of yours, beside
`assemble`, which only reassembles streams. All take turns, round by round, in one process; CPU time,
medians, and medians of the ratios within a round. Rows go to /dev/null.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from bench.programs import MissingError
from bench.traces import BY_NAME, TraceFolder
from sluice.engine.box import Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.engine.measure import Candidate, Measured, measure
from sluice.stacks.find import find_stack

BESIDE, ALL, ROUNDS = "assemble", "all logs", 5
LOGS = (
    "httplog", "tlslog", "dnslog", "flowlog", "filelog", "sshlog", "smtplog", "ftplog", "icmplog", "dhcplog", "ntplog",
    "gtplog", "sctplog",
)  # fmt: skip


def candidate(stack: str, functions: tuple[str, ...]) -> Candidate:
    """A stack with these functions, whose rows are not kept."""
    compiled = compile_stack(find_stack(stack), tuple(find_functions(list(functions)).c))
    options = ["out=/dev/null" if name in LOGS else "" for name in functions]
    return Candidate(compiled, Settings(seed=1, max_instances=1 << 18), options)


def ratio(one: Measured, other: Measured) -> float:
    """The median of the ratios within a round."""
    return median(a / b for a, b in zip(one.cpu_ns, other.cpu_ns, strict=True))


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", help="a capture; without it the trace is made, which needs root and nginx")
    parser.add_argument("--divide", type=int, default=4, help="the part of that trace")
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        trace = options.trace or TraceFolder(Path("build/bench/traces"), options.divide).path(BY_NAME["http1k"])
    except MissingError as error:
        print(f"bench/logs.py: {error}", file=sys.stderr)
        return 1
    asked = {BESIDE: (BESIDE,), **{name: (name,) for name in LOGS}, ALL: LOGS}
    found = measure([candidate(options.stack, names) for names in asked.values()], str(trace), options.rounds)
    table = {
        name: (median(one.cpu_ns) / one.packets, ratio(one, found[0])) for name, one in zip(asked, found, strict=True)
    }
    if options.json:
        print(json.dumps(table))
        return 0
    print(f"{found[0].packets:,} packets; ns of CPU time a packet; times {BESIDE}")
    for name, (took, times) in table.items():
        print(f"{name:12}{took:8.1f}{times:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
