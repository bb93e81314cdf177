"""sluice isolate: show and enforce what CPU time each container costs, with the network's share.

The kernel processes packets in softirqs, in the context of whatever task is interrupted, and charges that task.
`watch` charges the time to the container that the packets are for. It prints a table per interval until a signal, or
--seconds or --count, ends it; then what all cost since the start. Containers are found as they come and go.

`run` also enforces: what others spend on a container's packets is charged to its CPU limit, and what it spends on
theirs is given back. Once a container has used its limit, its packets are dropped where this costs others least. Limits
are as before when it ends, also when it is killed; `restore` is for the case that its watchdog was killed, too.
`report` adds up a recording, `unit` prints a unit of systemd.

  sluice isolate watch                                 containers of Docker, podman, containerd, LXC, and plain cgroups
  sluice isolate watch --cgroup 'system.slice/*.service' --interval 5
  sluice isolate watch --json --seconds 60 > usage.jsonl
  sluice isolate run --dry-run                         what would be charged and dropped
  sluice isolate run --drop xdp --nic eth0 --metrics 9105
  sluice isolate restore
  sluice isolate report usage.jsonl
  sluice isolate unit -- --drop auto > /etc/systemd/system/sluice-isolate.service

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
from typing import Any

from sluice.cli.common.container_metrics import Exposed, exposing
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.isolate_options import add_enforcing, add_sampling, add_state
from sluice.cli.common.options import add_command
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
from sluice.isolate.enforcer import Enforcer
from sluice.isolate.errors import IsolateError
from sluice.isolate.recorded import read_report, report_json, report_text
from sluice.isolate.restore import Record, restore
from sluice.isolate.session import Session
from sluice.isolate.table import HEADINGS, sample_json, sample_text, start_json, start_text
from sluice.isolate.unit import notify, unit_text

_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_OTHER_LINES = 7
"""The number of lines of a table that are not containers."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "isolate", __doc__, action)
    actions = parser.add_subparsers(dest="what", metavar="ACTION", required=True, title="actions")
    watch = actions.add_parser("watch", help="show what each container costs", description=HEADINGS)
    add_sampling(watch)
    run = actions.add_parser("run", help="enforce the CPU limits of containers", description=ENFORCEMENT_HEADINGS)
    add_sampling(run)
    add_enforcing(run)
    restored = actions.add_parser("restore", help="restore limits that a killed `run` left")
    add_state(restored)
    restored.add_argument("--json", action="store_true", help="print an object")
    report = actions.add_parser("report", help="add up what `watch --json` or `run --json` recorded")
    report.add_argument("file", metavar="FILE", help="the recording; - for standard input")
    report.add_argument("--json", action="store_true", help="print an object")
    unit = actions.add_parser("unit", help="print a unit of systemd that enforces from the start of the machine")
    unit.add_argument("words", nargs="*", metavar="OPTION", help="options of `run`, after --")
    unit.set_defaults(run_parser=run)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        if options.what in _ACTIONS:
            return _ACTIONS[options.what](options)
        if options.count and options.seconds:
            raise UsageError("--seconds and --count both say when to stop; give one of them")
        with exposing(options.metrics) as exposed:
            return _enforce(options, exposed) if options.what == "run" else _account(options, exposed)
    except IsolateError as error:
        raise CommandError(str(error)) from error


def _account(options: argparse.Namespace, exposed: Exposed | None) -> int:
    with Session(options.cgroup, options.max_containers, options.interrupt_ns) as session:
        drop_capabilities()
        with _stopped_by_signals(session.stop):
            _watch(session, options, exposed)
    return 0


def _enforce(options: argparse.Namespace, exposed: Exposed | None) -> int:
    enforcer = Enforcer(
        options.cgroup,
        options.drop,
        options.dry_run,
        options.early,
        options.tick,
        options.max_containers,
        options.interrupt_ns,
        state_folder=options.state,
        nics=options.nic,
    )
    try:
        with enforcer:
            drop_capabilities(ENFORCING)
            with _stopped_by_signals(enforcer.session.stop):
                notify("READY=1")
                _run(enforcer, options, exposed)
    finally:
        notify("STOPPING=1")
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


def _report(options: argparse.Namespace) -> int:
    name: str = options.file
    try:
        with contextlib.nullcontext(sys.stdin) if name == "-" else open(name, encoding="utf-8") as lines:
            report = read_report(lines, name)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    if options.json:
        _print_json(report_json(report))
    else:
        print(report_text(report))
    return 0


def _unit(options: argparse.Namespace) -> int:
    options.run_parser.parse_args(options.words)  # wrong options are reported now, and not by systemd
    print(unit_text(options.words), end="")
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {"restore": _restore, "report": _report, "unit": _unit}


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


def _watch(session: Session, options: argparse.Namespace, exposed: Exposed | None) -> None:
    _begin(start_text(session), start_json(session), options)
    for seconds in _intervals(session, options):
        session.wait(seconds)
        sample = session.sample()
        if exposed:
            exposed.update(session.total(), session.losses)
        if options.json:
            _print_json(sample_json(sample, "sample"))
        else:
            _show(start_text(session), lambda rows, sample=sample: sample_text(sample, rows))
    _summary(session, options.json)


def _run(enforcer: Enforcer, options: argparse.Namespace, exposed: Exposed | None) -> None:
    _begin(enforcer_text(enforcer), enforcer_json(enforcer), options)
    total = Totals()
    for seconds in _intervals(enforcer.session, options):
        enforcer.wait(seconds)
        found = enforcer.sample()
        total.add(found)
        if exposed:
            exposed.update(enforcer.session.total(), total.losses(enforcer), found)
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
