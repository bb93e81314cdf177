"""sluice isolate watch: show what CPU time each container costs, with the network's share.

The kernel processes packets in softirqs, in the context of whatever task is interrupted, and charges that task.
`watch` charges the time to the container that the packets are for. It prints a table per interval until a signal, or
--seconds or --count, ends it; then what all cost since the start. Containers are found as they come and go.

  sluice isolate watch                                 containers of Docker, podman, containerd, LXC, and plain cgroups
  sluice isolate watch --cgroup 'system.slice/*.service' --interval 5
  sluice isolate watch --json --seconds 60 > usage.jsonl

It needs root, a kernel with BTF, clang and libbpf (scripts/setup.sh --isolate). docs/isolate.md explains the columns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.options import add_command
from sluice.isolate.accounting import MAX_CONTAINERS
from sluice.isolate.capabilities import drop_capabilities
from sluice.isolate.errors import IsolateError
from sluice.isolate.session import Session
from sluice.isolate.table import HEADINGS, sample_json, sample_text, start_json, start_text

_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_OTHER_LINES = 7
"""The number of lines of a table that are not containers."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "isolate", __doc__, action)
    actions = parser.add_subparsers(dest="what", metavar="ACTION", required=True, title="actions")
    watch = actions.add_parser("watch", help="show what each container costs", description=HEADINGS)
    watch.add_argument(
        "--cgroup",
        action="append",
        default=[],
        metavar="PATTERN",
        help="cgroups that are containers, by their path, as in 'docker/*'; may be given several times (default: "
        "those of container engines, and plain ones with tasks)",
    )
    watch.add_argument("--interval", type=_positive, default=1.0, metavar="SECONDS", help="between samples (default 1)")
    watch.add_argument("--seconds", type=_positive, metavar="SECONDS", help="stop after this time")
    watch.add_argument("--count", type=_count, metavar="N", help="stop after this number of samples")
    watch.add_argument("--max-containers", type=_count, default=MAX_CONTAINERS, metavar="N", help="at the same time")
    watch.add_argument(
        "--interrupt-ns",
        type=_nanoseconds,
        metavar="NS",
        help="the hidden cost of a network interrupt, instead of measuring it at the start",
    )
    watch.add_argument("--json", action="store_true", help="print an object per line: start, samples, summary")


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


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.count and options.seconds:
        raise UsageError("--seconds and --count both say when to stop; give one of them")
    try:
        with Session(options.cgroup, options.max_containers, options.interrupt_ns) as session:
            drop_capabilities()
            with _stopped_by_signals(session.stop):
                _watch(session, options)
    except IsolateError as error:
        raise CommandError(str(error)) from error
    return 0


@contextlib.contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Generator[None]:
    """While active, a signal stops the command as --seconds and --count do: it prints a summary and leaves nothing in
    the kernel.
    """

    def handler(_number: int, _frame: object) -> None:
        stop()

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _watch(session: Session, options: argparse.Namespace) -> None:
    screen = sys.stdout.isatty() and not options.json
    if options.json:
        _print_json(start_json(session))
    elif not screen:
        print(start_text(session), file=sys.stderr)
    end = time.monotonic() + options.seconds if options.seconds else float("inf")
    samples = 0
    while not session.stopped and time.monotonic() < end and samples != options.count:
        session.wait(min(options.interval, end - time.monotonic()))
        sample = session.sample()
        samples += 1
        if options.json:
            _print_json(sample_json(sample, "sample"))
        elif screen:
            head = start_text(session)
            rows = max(1, shutil.get_terminal_size().lines - len(head.splitlines()) - _OTHER_LINES)
            print(f"{_HOME_AND_CLEAR}{head}\n{sample_text(sample, rows)}", flush=True)
        else:
            print(f"{sample_text(sample)}\n", flush=True)
    _summary(session, options.json)


def _print_json(data: dict[str, object]) -> None:
    print(json.dumps(data), flush=True)


def _summary(session: Session, as_json: bool) -> None:
    total, losses = session.total(), session.losses
    if as_json:
        _print_json({**sample_json(total, "summary"), "losses": losses})
        return
    print(f"since the start:\n{sample_text(total)}")
    for reason, number in losses.items():
        if number:
            print(f"{reason}: {number:,}")
