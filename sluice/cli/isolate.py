"""sluice isolate: show and enforce what CPU time each container costs, with the network's share.

The kernel processes packets in softirqs, in the context of whatever task is interrupted, and charges that task.
`watch` charges the time to the container that the packets are for. It prints a table per interval until a signal, or
--seconds or --count, ends it; then what all cost since the start. Containers are found as they come and go.

`run` also enforces: what others spend on a container's packets is charged to its CPU limit, and what it spends on
theirs is given back. Once a container has used its limit, its packets are dropped where this costs others least. Limits
are as before when it ends, also when it is killed; `restore` is for the case that its watchdog was killed, too.

  sluice isolate watch                                 containers of Docker, podman, containerd, LXC, and plain cgroups
  sluice isolate watch --cgroup 'system.slice/*.service' --interval 5
  sluice isolate watch --json --seconds 60 > usage.jsonl
  sluice isolate run --dry-run                         what would be charged and dropped
  sluice isolate run --drop xdp
  sluice isolate restore

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
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.options import add_command
from sluice.isolate.accounting import MAX_CONTAINERS
from sluice.isolate.capabilities import ENFORCING, drop_capabilities
from sluice.isolate.enforcement_table import (
    ENFORCEMENT_HEADINGS,
    Totals,
    enforcement_json,
    enforcement_text,
    enforcer_json,
    enforcer_text,
    restored_text,
)
from sluice.isolate.enforcer import EARLY, TICK, Enforcer
from sluice.isolate.errors import IsolateError
from sluice.isolate.gates import MODES
from sluice.isolate.restore import FOLDER, Record, restore
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
    _add_sampling(watch)
    run = actions.add_parser("run", help="enforce the CPU limits of containers", description=ENFORCEMENT_HEADINGS)
    _add_sampling(run)
    run.add_argument(
        "--drop",
        choices=MODES,
        default="auto",
        help="where packets are dropped: at the host's end of a veth, in the driver of the container's interface "
        "(xdp), after it (tc), or not; auto: the first of them that an interface has (default)",
    )
    run.add_argument(
        "--early",
        type=_percent,
        default=EARLY,
        metavar="PERCENT",
        help=f"drop once less than this of the limit is left, if packets are most of the cost (default {EARLY})",
    )
    run.add_argument(
        "--tick", type=_tick, default=TICK, metavar="MS", help=f"between decisions (default {TICK * 1e3:g})"
    )
    run.add_argument("--dry-run", action="store_true", help="decide and report, and change nothing")
    _add_state(run)
    restored = actions.add_parser("restore", help="restore limits that a killed `run` left")
    _add_state(restored)
    restored.add_argument("--json", action="store_true", help="print an object")


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", type=Path, default=FOLDER, metavar="FOLDER", help=f"where limits are kept (default {FOLDER})"
    )


def _add_sampling(parser: argparse.ArgumentParser) -> None:
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


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        if options.what == "restore":
            return _restore(options)
        if options.count and options.seconds:
            raise UsageError("--seconds and --count both say when to stop; give one of them")
        return _enforce(options) if options.what == "run" else _account(options)
    except IsolateError as error:
        raise CommandError(str(error)) from error


def _account(options: argparse.Namespace) -> int:
    with Session(options.cgroup, options.max_containers, options.interrupt_ns) as session:
        drop_capabilities()
        with _stopped_by_signals(session.stop):
            _watch(session, options)
    return 0


def _enforce(options: argparse.Namespace) -> int:
    enforcer = Enforcer(
        options.cgroup,
        options.drop,
        options.dry_run,
        options.early,
        options.tick,
        options.max_containers,
        options.interrupt_ns,
        state_folder=options.state,
    )
    try:
        with enforcer:
            drop_capabilities(ENFORCING)
            with _stopped_by_signals(enforcer.session.stop):
                _run(enforcer, options)
    finally:
        for name, why in enforcer.not_restored.items():
            print(f"sluice: the limit of {name} is not restored: {why}", file=sys.stderr)
        if enforcer.not_restored:
            print(f"    `sluice isolate restore --state {options.state}` tries again", file=sys.stderr)
    return 1 if enforcer.not_restored else 0


def _restore(options: argparse.Namespace) -> int:
    record = Record(options.state)
    try:
        done = restore(options.state)
    finally:
        record.close()
    if options.json:
        found = asdict(done)
        del found["kept"]  # the file has it
        _print_json({"type": "restored", **found})
    else:
        print(restored_text(done) or "no limits to restore")
    return 1 if done.failed else 0


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
    _begin(start_text(session), start_json(session), options)
    for seconds in _intervals(session, options):
        session.wait(seconds)
        sample = session.sample()
        if options.json:
            _print_json(sample_json(sample, "sample"))
        else:
            _show(start_text(session), lambda rows, sample=sample: sample_text(sample, rows))
    _summary(session, options.json)


def _run(enforcer: Enforcer, options: argparse.Namespace) -> None:
    _begin(enforcer_text(enforcer), enforcer_json(enforcer), options)
    total = Totals()
    for seconds in _intervals(enforcer.session, options):
        enforcer.wait(seconds)
        found = enforcer.sample()
        total.add(found)
        if options.json:
            _print_json(enforcement_json(found, "sample"))
        else:
            _show(enforcer_text(enforcer), lambda rows, found=found: enforcement_text(found, rows))
    if options.json:
        _print_json(
            {**sample_json(enforcer.session.total(), "summary"), **total.json(), "losses": total.losses(enforcer)}
        )
        return
    print(f"since the start:\n{sample_text(enforcer.session.total())}\n{total.text()}".rstrip())
    _print_losses(total.losses(enforcer))


def _begin(text: str, data: dict[str, object], options: argparse.Namespace) -> None:
    if options.json:
        _print_json(data)
    elif not sys.stdout.isatty():
        print(text, file=sys.stderr)


def _intervals(session: Session, options: argparse.Namespace) -> Iterator[float]:
    """The seconds to wait for each sample, until the end."""
    end = time.monotonic() + options.seconds if options.seconds else float("inf")
    samples = 0
    while not session.stopped and time.monotonic() < end and samples != options.count:
        yield max(0.0, min(options.interval, end - time.monotonic()))
        samples += 1


def _show(head: str, table: Callable[[int | None], str]) -> None:
    """A table in place of the one before, if this is a terminal; else after it."""
    if sys.stdout.isatty():
        rows = max(1, shutil.get_terminal_size().lines - len(head.splitlines()) - _OTHER_LINES)
        print(f"{_HOME_AND_CLEAR}{head}\n{table(rows)}", flush=True)
    else:
        print(f"{table(None)}\n", flush=True)


def _print_json(data: dict[str, object]) -> None:
    print(json.dumps(data), flush=True)


def _summary(session: Session, as_json: bool) -> None:
    total, losses = session.total(), session.losses
    if as_json:
        _print_json({**sample_json(total, "summary"), "losses": losses})
        return
    print(f"since the start:\n{sample_text(total)}")
    _print_losses(losses)


def _print_losses(losses: dict[str, int]) -> None:
    for reason, number in losses.items():
        if number:
            print(f"{reason}: {number:,}")
