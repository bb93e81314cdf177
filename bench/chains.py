"""What a further function of a chain costs: `.venv/bin/python bench/chains.py [FILE]`.

Runs chains of 1 to 8 functions that do next to nothing (each counts packets of TCP) over a capture, fused, in turns in
one process. Beside them stand as many stacks with a function each, which is what a chain without a shared stack costs;
and the same chains after a function that may drop packets, so that each further one tests whether a packet was
dropped.
Without FILE a capture is made: 200,000 segments in 2,000 connections.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import linear_regression, median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from bench.python_events import capture
from sluice.chain.description import Arrangement, Chain, function
from sluice.chain.plan import read_chain
from sluice.engine.box import Settings, compile_stack
from sluice.engine.measure import Candidate, Measured, measure
from sluice.stacks.find import find_stack

MOST = 8
ROUNDS = 9
COUNT = """#include "sluice.h"
SLUICE_COUNTER(packets, "seen")
SLUICE_ON(tcp, packet) { SLUICE_COUNTER_OF(event->box, packets)++; }
"""
GUARD = """#include "sluice.h"
SLUICE_INLINE
SLUICE_ON(tcp, packet) { if (data->length == 99999) SLUICE_DROP(event->box); }
"""


def candidate(stack: str, folder: Path, count: int, guarded: bool) -> Candidate:
    """A chain of so many functions, perhaps after one that may drop packets."""
    names = [*(["guard"] if guarded else []), *(f"count{number}" for number in range(count))]
    parts = [function(str(folder / f"{name.rstrip('0123456789')}.c"), name) for name in names]
    arrangement: Arrangement = parts[0]
    for part in parts[1:]:
        arrangement = arrangement >> part
    wanted = read_chain(Chain(arrangement, stack=stack)).wanted()
    compiled = compile_stack(find_stack(stack), tuple(wanted.c))
    return Candidate(compiled, Settings(seed=1, max_instances=1 << 14), wanted.options)


def nanoseconds(measured: Measured) -> float:
    """CPU time of a packet: the median of the runs."""
    return median(measured.cpu_ns) / measured.packets


def slope(values: list[float]) -> float:
    """What each further function adds: the line of least squares."""
    return linear_regression(range(len(values)), values).slope


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="a capture")
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "count.c").write_text(COUNT)
        (folder / "guard.c").write_text(GUARD)
        path = options.file or str(folder / "trace.pcap")
        if not options.file:
            capture(Path(path))
        counts = range(1, MOST + 1)
        asked = [candidate(options.stack, folder, count, guarded) for guarded in (False, True) for count in counts]
        found = [nanoseconds(each) for each in measure(asked, path, ROUNDS, warm=True)]
    plain, guarded = found[:MOST], found[MOST:]
    result = {
        "ns_per_packet": plain,
        "ns_per_packet_after_a_guard": guarded,
        "ns_per_function": slope(plain),
        "ns_per_function_after_a_guard": slope(guarded),
        "stacks_of_their_own_at_six": 6 * plain[0] / plain[5],
    }
    if options.json:
        print(json.dumps(result))
        return 0
    print("functions   ns a packet   after a guard   one stack each")
    for count, one, other in zip(counts, plain, guarded, strict=True):
        print(f"{count:9}   {one:11.1f}   {other:13.1f}   {count * plain[0]:14.1f}")
    after = result["ns_per_function_after_a_guard"]
    print(f"each further function: {result['ns_per_function']:.2f} ns, {after:.2f} after a guard")
    print(f"six functions with a stack each take {result['stacks_of_their_own_at_six']:.2f} times as long")
    return 0


if __name__ == "__main__":
    sys.exit(main())
