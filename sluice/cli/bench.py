"""sluice bench STACK -r FILE: measure how fast a stack is.

The packets are loaded into memory first; then one pinned thread runs them through a new box, --repeat times.
Reading the file and compiling are not part of the time. The figures are medians over the runs.

Packets lie in memory as in the file, so that each has to be fetched into the cache. With --warm each burst is
copied into a small ring right before it is processed, as a network card that writes into the cache leaves it;
the copying is not part of the time.

Functions are in C. For comparisons: `none` tracks connections and keeps no bytes, `assemble` has both
directions of every stream reassembled and handed to a function that looks at pointer and length only.

--beside FUNCTION also measures the same stack with that function, alternately with the first, and prints how
many times longer the first takes. Adjacent runs are compared, so that load on the machine affects both.
"""

from __future__ import annotations

import argparse
import json
from statistics import median, quantiles
from typing import Any

from sluice.cli.common.detection import prepare_rules
from sluice.cli.common.errors import CommandError
from sluice.cli.common.files import check_function_outputs, check_input
from sluice.cli.common.options import add_command, add_functions, add_run_options, add_stack, repeats
from sluice.cli.common.progress import busy
from sluice.cli.common.running import compile_for, settings_of, stack_of
from sluice.engine.box import CompiledStack, Settings
from sluice.engine.functions import find_functions
from sluice.engine.measure import Candidate, Measured, measure


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "bench", __doc__, action)
    add_stack(parser)
    parser.add_argument("-r", required=True, metavar="FILE", dest="file", help="capture file (pcap or pcapng)")
    add_functions(parser, "a ready function (none, assemble, ...) or a C file")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="FUNCTION",
        help="measure the stack with this function, too (NAME or C file), in turns; several are called together",
    )
    parser.add_argument("--repeat", type=repeats, default=9, metavar="N", help="runs (default 9)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--warm", action="store_true", help="copy each burst into a small ring right before it is processed, untimed"
    )
    add_run_options(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    check_input(options.file)
    settings = settings_of(options, timeouts=True)
    compared = [options.functions, *([options.beside] if options.beside else [])]
    candidates = [_candidate(names, options, settings) for names in compared]
    with busy(f"running {options.repeat} times"):
        measured = measure(candidates, options.file, options.repeat, options.warm)
    if not measured[0].packets:
        raise CommandError(f"{options.file}: has no packets to measure with")
    found = figures(candidates[0].compiled, measured[0])
    if options.beside:
        found["beside"] = {"functions": options.beside, **times_of(*measured)}
        del found["peak_rss_bytes"]  # it covers both candidates
    print(json.dumps(found) if options.json else text_of(found, options.repeat))
    return 0


def _candidate(names: list[str], options: argparse.Namespace, settings: Settings) -> Candidate:
    """Compile the stack with functions."""
    stack = stack_of(options.stack, options)
    wanted = find_functions(names)
    prepare_rules(wanted)
    if wanted.python:
        raise CommandError(f"{wanted.python[0].name}.py: bench measures functions in C")
    check_function_outputs(wanted, options.file)
    return Candidate(compile_for(stack, wanted, options, fresh=True), settings, wanted.options)


def times_of(first: Measured, second: Measured) -> dict[str, float]:
    """The figures of the second of two alternately measured candidates, and how many times longer the first took: the
    median and the quartiles of the ratios of adjacent runs.
    """
    ratios = [one / other for one, other in zip(first.cpu_ns, second.cpu_ns, strict=True)]
    low, middle, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return {
        "ns_per_packet_cpu": round(median(second.cpu_ns) / second.packets, 2),
        "times": round(middle, 4),
        "times_low": round(low, 4),
        "times_high": round(high, 4),
    }


def figures(compiled: CompiledStack, measured: Measured) -> dict[str, Any]:
    """The figures under their stable names; docs/commands.md explains each."""
    cpu = [ns / measured.packets for ns in measured.cpu_ns]
    wall = [ns / measured.packets for ns in measured.wall_ns]
    each = median(cpu)
    return {
        "packets": measured.packets,
        "bytes": measured.bytes,
        "flows": _flows(compiled, measured.counters),
        "delivered_bytes": measured.reports.get("delivered_bytes", 0),
        "ns_per_packet_cpu": round(each, 2),
        "ns_per_packet_wall": round(median(wall), 2),
        "mpps": round(1e3 / each, 4),
        "gbps": round(measured.bytes * 8 / measured.packets / each, 4),
        "spread": round(max(cpu) / min(cpu), 4),
        "peak_rss_bytes": measured.peak_rss_bytes,
        "compile_seconds": {"sluice": round(compiled.seconds, 4), "cc": round(compiled.compiled.seconds, 4)},
        "generated_lines": compiled.generated.source.count("\n") + compiled.generated.header.count("\n"),
    }


def _flows(compiled: CompiledStack, counters: list[int]) -> int:
    """The number of instances created in connection-oriented layers."""
    layers = compiled.program.layers
    total = 0
    for (name, counter), value in zip(compiled.generated.counters, counters, strict=True):
        instance = layers[name].instance if name in layers else None
        if counter == "instances" and instance is not None and instance.oriented:
            total += value
    return total


def text_of(found: dict[str, Any], repeat: int) -> str:
    """The figures as text for users."""
    compile_seconds = found["compile_seconds"]
    rows = [
        f"{found['packets']:,} packets, {found['bytes']:,} bytes, {found['flows']:,} flows, "
        f"{found['delivered_bytes']:,} bytes delivered",
        f"{found['ns_per_packet_cpu']:.1f} ns a packet of CPU time, "
        f"{found['ns_per_packet_wall']:.1f} ns of wall time "
        f"(medians of {repeat}; slowest/fastest {found['spread']:.2f})",
        f"{found['mpps']:.2f} million packets a second, {found['gbps']:.2f} Gbit/s on one core",
        *([f"{found['peak_rss_bytes']:,} bytes for trace and box"] if "peak_rss_bytes" in found else []),
        f"compiled in {compile_seconds['sluice']:.2f} s + {compile_seconds['cc']:.2f} s (C compiler), "
        f"{found['generated_lines']:,} lines of C",
    ]
    if "beside" in found:
        beside = found["beside"]
        rows.insert(
            2,
            f"{beside['times']:.2f} times as long as with {' and '.join(beside['functions'])}, "
            f"{beside['ns_per_packet_cpu']:.1f} ns (half of the neighbouring runs: "
            f"{beside['times_low']:.2f} to {beside['times_high']:.2f} times)",
        )
    return "\n".join(rows)
