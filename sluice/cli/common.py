"""What several commands share: their options, the box they run, progress, and the summary."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

from sluice.engine.box import Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.functions import Wanted
from sluice.lang.stack import Stack


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that runs a box."""
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="time out what was quiet for so long, in packet time")
    parser.add_argument("--checksums", action="store_true", help="verify checksums; packets with wrong ones are malformed")
    parser.add_argument("--passes", default="all", metavar="all|none|LIST", help="optimisation passes, by name, with commas")
    parser.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="that all sequences together may hold")
    parser.add_argument("--max-instances", type=int, default=1 << 22, metavar="N", help="connections (or datagrams) per table")
    parser.add_argument("--seed", type=int, metavar="N", help="of the hashes; random unless given")


def passes_of(text: str) -> str | list[str]:
    """The value of --passes."""
    return text if text in ("all", "none") else [name.strip() for name in text.split(",") if name.strip()]


def compile_for(stack: Stack, wanted: Wanted, options: argparse.Namespace) -> CompiledStack:
    """Compile a stack with the functions and options of the command line."""
    if wanted.track_only:
        for layer in stack.layers.values():
            layer.prototype.buffer_data = False
    checks = frozenset({"checksums"}) if options.checksums else frozenset[str]()
    return compile_stack(stack, tuple(wanted.c), wanted.python_hooks(), passes_of(options.passes), checks)


def settings_of(options: argparse.Namespace, timeouts: bool) -> Settings:
    """Settings of a box from the command line."""
    return Settings(options.memory, options.max_instances, timeouts, options.idle, options.seed)


def run_file(compiled: CompiledStack, wanted: Wanted, settings: Settings, path: str) -> Outcome:
    """Run a box over a file, with progress on a terminal."""
    with Box(compiled, settings, wanted.python, wanted.options) as box:
        return box.run(path, progress_line() if sys.stderr.isatty() else None)


def progress_line() -> Callable[[int, int, int], bool]:
    """A progress callback that keeps one line of the terminal up to date."""
    begin = time.monotonic()
    last = [begin]

    def show(done: int, size: int, packets: int) -> bool:
        now = time.monotonic()
        if now - last[0] >= 0.2 or done >= size:
            last[0] = now
            rate = packets / max(now - begin, 1e-9) / 1e6
            text = f"\r{100 * done // max(size, 1):3d}%  {packets:,} packets  {rate:.2f} M/s "
            print(text, end="\n" if done >= size else "", file=sys.stderr, flush=True)
        return False

    return show


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """The machine-readable summary of a run."""
    layers = {name: counters for name, counters in outcome.counters.items() if name != "box"}
    return {
        "packets": outcome.packets,
        "seconds": round(outcome.seconds, 6),
        "box": outcome.counters.get("box", {}),
        "layers": layers,
        "reports": outcome.reports,
        "fault": outcome.fault,
        "stopped": outcome.stopped,
    }


_ROUTINE = ("packets", "bytes", "passed", "ended", "held", "instances")


def summary(outcome: Outcome) -> str:
    """What the box saw, by layer: packets, bytes, instances, what was passed on, and what was given up and why."""
    box = outcome.counters.get("box", {})
    lines = [f"{outcome.packets:,} packets, {box.get('bytes', 0):,} bytes in {outcome.seconds:.3f} s"]
    seen = [(name, c) for name, c in outcome.counters.items() if name != "box" and c.get("packets")]
    if seen:
        width = max(len(name) for name, _ in seen)
        lines.append(f"{'layer':<{width}}  {'packets':>11} {'bytes':>14} {'passed on':>11} {'held':>9} {'instances':>10}  what else")
        for name, c in seen:
            rest = ", ".join(f"{key} {value:,}" for key, value in c.items() if value and key not in _ROUTINE)
            lines.append(
                f"{name:<{width}}  {c['packets']:>11,} {c['bytes']:>14,} {c.get('passed', 0):>11,} {c.get('held', 0):>9,} "
                f"{c.get('instances', 0):>10,}  {rest}".rstrip()
            )
    for key, text in (("unknown link type", "packets of a link type that the stack does not begin with"), ("too deep", "packets nested too deeply")):
        if box.get(key):
            lines.append(f"{box[key]:,} {text}")
    for name, value in outcome.reports.items():
        lines.append(f"{name}: {value:,}")
    return "\n".join(lines)


def finish(outcome: Outcome, as_json: bool, quiet: bool = False) -> int:
    """Print the summary, say what is wrong with the file; the exit status."""
    if as_json:
        print(json.dumps(outcome_json(outcome)))
    elif not quiet:
        print(summary(outcome))
    if outcome.fault:
        print(f"sluice: {outcome.fault}; the packets before it were processed", file=sys.stderr)
        return 1
    return 0
