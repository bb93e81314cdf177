"""sluice flows -r FILE [-o OUT]: list the flows of captures or of an interface, one JSON object each, or as a table.

A row for each connection or bidirectional flow, in order of first packet: who, how many packets and bytes,
length and SHA-256 of each side's stream, gaps, the last state and how it ended (docs/commands.md has every
key), inside tunnels too. On files nothing times out unless --idle is given; on interfaces flows do. Without -o
the rows go to standard output, and the summary, if requested (--summary, --json), to standard error.

  sluice flows -r capture.pcap -o flows.parquet     also .csv, .arrow, .duckdb, .log (Zeek), eve.json

Rows in other formats than JSON lines have all that `flowlog` adds, such as the community-id; --details adds it to JSON.

  sluice flows -r 'captures/**/*.pcap*' --jobs 4 -o flows.parquet

With --jobs each capture is processed separately, some at a time; files that one capture was rotated into are one. Each
row names its capture. --ray gives the same work to a Ray cluster. --split N divides the flows of each
capture among N tasks.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from functools import partial
from typing import Any

from sluice.cli.common.capture_set_rows import Taking
from sluice.cli.common.errors import UsageError
from sluice.cli.common.files import check_output
from sluice.cli.common.inputs import add_inputs, check_inputs, input_files, inputs_of, named
from sluice.cli.common.jobs import Done, Jobs, Report, Work, joined, of_whole_sets
from sluice.cli.common.monitoring import add_observing
from sluice.cli.common.options import add_command, add_run_options, add_workers, count_from_1
from sluice.cli.common.outputs import add_outputs, log_file, outputs
from sluice.cli.common.privileges import add_privileges, check_privileges
from sluice.cli.common.ray_jobs import RayJobs
from sluice.cli.common.running import (
    compile_for,
    run_file,
    settings_of,
    stack_of,
    stopped_early,
    tunnel_ports_function,
)
from sluice.cli.common.streams import printed_apart
from sluice.cli.common.summary import finish, outcome_json, summary
from sluice.engine.box import CompiledStack, Outcome, Settings
from sluice.engine.functions import Wanted, find_functions
from sluice.engine.inputs import Inputs
from sluice.engine.workers import WORKERS_MOST
from sluice.report.capture_sets import CaptureSet, capture_sets
from sluice.report.formats.find import JSON, format_of
from sluice.report.logs import schema_of
from sluice.stacks.find import DEFAULT

SPLIT_LEAST = 256 << 20
"""Bytes of a capture from which its flows are divided without --split."""

NOTES = {
    "flows out of order": "rows follow those of flows that began later, so that no more had to wait in memory;"
    " --rows N lets more wait, or sort the rows by first_ts",
    "gaps left out": "gaps are counted in their rows (gaps_left_out) and not listed; --holes N lists more",
}
"""Reports of flow_log that mean that a bound was reached, with advice for the user."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "flows", __doc__, action)
    add_inputs(parser)
    parser.add_argument(
        "--stack", default=DEFAULT, metavar="STACK", help=f"a name, or a Python file (default {DEFAULT})"
    )
    parser.add_argument("-o", metavar="OUT", dest="out", help="where to write the rows (default: standard output)")
    parser.add_argument(
        "--details",
        action="store_true",
        help="rows of flowlog: community-id, bytes on the wire, round-trip times, retransmissions, TTL, VLAN, tunnels",
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="with rows on standard output, print the summary to standard error",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON; to standard error where the rows take the other"
    )
    parser.add_argument(
        "--rows",
        type=count_from_1("rows"),
        metavar="N",
        help="in memory, open ones included; beyond it order is given up (default: as --max-instances, at least 65536)",
    )
    parser.add_argument(
        "--holes", type=count_from_1("gaps"), metavar="N", help="gaps that one row lists at most (default 65536)"
    )
    parser.add_argument(
        "--jobs",
        type=count_from_1("jobs"),
        metavar="N",
        help="processes, each for one capture of many at a time, with the memory of one run each",
    )
    parser.add_argument(
        "--split",
        type=count_from_1("split"),
        metavar="N",
        help="tasks among which --jobs and --ray divide the flows of each capture; each reads all of it (default: as "
        f"many as occupy all jobs, of captures of at least {SPLIT_LEAST >> 20} MiB that are fewer than these; else 1)",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="each capture as a task of the Ray cluster at the address, or of the one that runs on this machine (auto)",
    )
    add_outputs(parser)
    add_run_options(parser)
    add_workers(parser)
    add_observing(parser)
    add_privileges(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    inputs = inputs_of(options)
    if options.jobs or options.ray:
        return _run_jobs(options, inputs)
    if options.split:
        raise UsageError(f"--split {options.split}: divides the tasks of --jobs and --ray: give one of these, too")
    with printed_apart(None, apart=not options.out) as stdout:
        outcome = _run(options, inputs, stdout)
    status = _finish(outcome, options, named(inputs))
    _note_bounds(outcome)
    return status


def _note_bounds(outcome: Outcome) -> None:
    """Notes about bounds that were reached."""
    for name, note in NOTES.items():
        if outcome.reports.get(name):
            print(f"sluice: note: {outcome.reports[name]:,} {note}", file=sys.stderr)


def _log(options: argparse.Namespace) -> str:
    """The function that writes the rows."""
    format = options.format or format_of(options.out or "")
    return "flowlog" if options.details or format is not JSON else "flow_log"


def _prepared(
    options: argparse.Namespace, log: str, out: str | None, live: bool = False
) -> tuple[CompiledStack, Wanted, Settings]:
    """The parameters of a box for flows. out: the file of their rows."""
    stack = stack_of(options.stack, options)
    given = {"key": "+".join(options.key), "rows": options.rows, "holes": options.holes, "out": out}
    values = {name: str(value) for name, value in given.items() if value}
    wanted = find_functions([log, *tunnel_ports_function(stack, options)], {log: values})
    return compile_for(stack, wanted, options), wanted, settings_of(options, options.idle is not None or live)


def _run(options: argparse.Namespace, inputs: Inputs, stdout: str | None) -> Outcome:
    """Run everything except the summary. stdout: the path of the standard output, to which rows are written."""
    try:
        check_inputs(inputs)
        if options.out:
            check_output(options.out, *input_files(inputs))
        check_privileges(options, inputs, later=[options.out] if options.rotate_size or options.rotate_time else [])
        compiled, wanted, settings = _prepared(options, _log(options), options.out or stdout, inputs.live)
    except KeyboardInterrupt:
        return stopped_early(Wanted())
    on_terminal = not options.out and sys.stdout.isatty()
    with outputs(wanted, options, stdout, tuple(options.key), begins=False) as files:
        outcome = run_file(
            compiled,
            wanted,
            settings,
            inputs,
            on_terminal,
            workers=options.workers,
            isolated=options.isolate,
            groups=options.groups,
            dispatch=options.dispatch,
            failed=files.failed,
            observed=options,
            begin=files.begin,
        )
        return files.finished(outcome)


def _run_jobs(options: argparse.Namespace, inputs: Inputs) -> int:
    """Each set of captures in a separate process, or as a task of a Ray cluster."""
    name = "--ray" if options.ray else "--jobs"
    if (options.split or 1) > WORKERS_MOST:
        raise UsageError(f"--split {options.split}: give from 1 to {WORKERS_MOST}")
    if options.ray and options.jobs:
        raise UsageError("--ray: Ray chooses the number of tasks that run at once: leave out --jobs")
    if inputs.endless or options.workers > 1:
        raise UsageError(f"{name}: is for files that are complete: leave out -i, --follow, `-r -` and --workers")
    if options.metrics or options.control:
        raise UsageError(f"{name}: is of processes, each with a box of its own: leave out --metrics and --control")
    check_inputs(inputs)
    check_privileges(options, inputs)
    if options.out:
        check_output(options.out, *input_files(inputs))
    log, whole, begin = _log(options), capture_sets(input_files(inputs)), time.monotonic()
    sets = [task for captures in whole for task in captures.divided(_shares(options, captures, len(whole)))]
    options.seed = secrets.randbits(63) if options.seed is None else options.seed  # all tasks divide flows alike
    with printed_apart(None, apart=not options.out) as stdout:
        _prepared(options, log, None)  # compiled once, for all processes
        schema = schema_of(log, tuple(options.key), captures=True)
        assert schema is not None
        with log_file(options, options.out or stdout or "-", schema) as file:
            plain = argparse.Namespace(**{**vars(options), **_ONLY_HERE})
            prepare = partial(_prepare_sets, plain, log)
            with Taking(file) as taking:
                if options.ray:
                    done = RayJobs(prepare, taking.take, options.ray).run(sets)
                else:
                    done = Jobs(prepare, taking.take, min(options.jobs, len(sets))).run(sets)
    interrupted = len(done) < len(sets)
    done = of_whole_sets(done)
    outcome = joined(done, len(whole) + interrupted, time.monotonic() - begin)
    for one in done:
        if why := one.outcome.failure or one.outcome.fault:
            print(f"sluice: {why if one.captures.name in why else f'{one.captures.name}: {why}'}", file=sys.stderr)
    status = _finish(outcome, options, named(inputs), {"captures": [_set_json(one) for one in done]})
    _note_bounds(outcome)
    return status


_ONLY_HERE = {"format": None, "action": None, "parser": None, "rotate_size": 0, "rotate_time": 0}
"""Options that concern the rows of all captures."""


def _prepare_sets(options: argparse.Namespace, log: str) -> Work:
    """In a process of a job: the callable that processes one set, and writes its rows to a file."""
    compiled, wanted, settings = _prepared(options, log, "-")
    given = wanted.options[0]
    assert isinstance(given, dict)

    def work(captures: CaptureSet, rows: str, report: Report) -> Outcome:
        wanted.options[0] = {**given, "out": rows}
        inputs = Inputs(tuple(f"file:{path}" for path in captures.files), filter=options.filter)
        only = captures.share if captures.shares > 1 else None
        return run_file(compiled, wanted, settings, inputs, report_to=report, workers=captures.shares, only=only)

    return work


def _shares(options: argparse.Namespace, captures: CaptureSet, sets: int) -> int:
    """The number of tasks among which the flows of a set are divided."""
    if options.split:
        return options.split
    return max(1, min(WORKERS_MOST, (options.jobs or 1) // sets)) if captures.size() >= SPLIT_LEAST else 1


def _set_json(done: Done) -> dict[str, Any]:
    outcome = done.outcome
    return {
        "files": list(done.captures.files),
        "packets": outcome.packets,
        "flows": outcome.reports.get("flows", 0),
        "seconds": round(outcome.seconds, 6),
        "fault": outcome.fault,
        "failure": outcome.failure,
    }


def _finish(outcome: Outcome, options: argparse.Namespace, inputs: str, more: dict[str, Any] | None = None) -> int:
    """Print the requested parts of the summary. more: members of its JSON. Returns the exit status."""
    if options.out:
        return finish(outcome, options.json, inputs, more=more)
    if options.summary or options.json:
        text = json.dumps(outcome_json(outcome) | (more or {})) if options.json else summary(outcome)
        print(text, file=sys.stderr)
    return finish(outcome, as_json=False, inputs=inputs, quiet=True)
