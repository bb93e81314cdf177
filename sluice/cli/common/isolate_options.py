"""Options of `sluice isolate`."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from sluice.cli.common.monitoring import address
from sluice.isolate.accounting import MAX_CONTAINERS
from sluice.isolate.enforcer import EARLY, TICK
from sluice.isolate.gates import MODES
from sluice.isolate.restore import FOLDER


def add_enforcing(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` alone."""
    parser.add_argument(
        "--drop",
        choices=MODES,
        default="auto",
        help="where packets are dropped: at the host's end of a veth, in the driver of the container's interface "
        "(xdp), after it (tc), or not; auto: the first of them that an interface has (default); threads: by the device "
        "itself, which a thread in the container's cgroup polls (threaded NAPI)",
    )
    parser.add_argument(
        "--nic",
        action="append",
        default=[],
        metavar="IF",
        help="drop packets also at this interface of the host, by destination (native XDP, else tc); auto: at all its "
        "devices; may be given several times",
    )
    parser.add_argument(
        "--early",
        type=_percent,
        default=EARLY,
        metavar="PERCENT",
        help=f"drop once less than this of the limit is left, if packets are most of the cost (default {EARLY})",
    )
    parser.add_argument(
        "--tick", type=_tick, default=TICK, metavar="MS", help=f"between decisions (default {TICK * 1e3:g})"
    )
    parser.add_argument("--dry-run", action="store_true", help="decide and report, and change nothing")
    add_state(parser)


def add_state(parser: argparse.ArgumentParser) -> None:
    """Add --state."""
    parser.add_argument(
        "--state", type=Path, default=FOLDER, metavar="FOLDER", help=f"where limits are kept (default {FOLDER})"
    )


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Add the options of `watch` and `run`."""
    parser.add_argument(
        "--cgroup",
        action="append",
        default=[],
        metavar="PATTERN",
        help="cgroups that are containers, by their path, as in 'docker/*'; may be given several times (default: "
        "those of container engines, and plain ones with tasks)",
    )
    parser.add_argument(
        "--interval", type=_positive, default=1.0, metavar="SECONDS", help="between samples (default 1)"
    )
    parser.add_argument("--seconds", type=_positive, metavar="SECONDS", help="stop after this time")
    parser.add_argument("--count", type=_count, metavar="N", help="stop after this number of samples")
    parser.add_argument("--max-containers", type=_count, default=MAX_CONTAINERS, metavar="N", help="at the same time")
    parser.add_argument(
        "--interrupt-ns",
        type=_nanoseconds,
        metavar="NS",
        help="the hidden cost of a network interrupt, instead of measuring it at the start",
    )
    parser.add_argument("--json", action="store_true", help="print an object per line: start, samples, summary")
    parser.add_argument(
        "--metrics",
        type=address,
        metavar="[ADDR:]PORT",
        help="serve what containers cost to Prometheus, at /metrics; without an address on the loopback interface",
    )


def _positive(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < 1e9:
            return value
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")


def _count(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= 1_000_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to 1000000")


def _nanoseconds(text: str) -> int:
    if text.isdecimal() and int(text) <= 1_000_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of nanoseconds from 0 to 1000000")


def _percent(text: str) -> int:
    if text.isdecimal() and int(text) <= 100:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a percentage from 0 to 100")


def _tick(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 1 <= (value := float(text)) <= 1000:
            return value / 1000
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of milliseconds from 1 to 1000")
