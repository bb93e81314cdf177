"""sluice flows -r FILE [-o OUT]: list the flows of captures or of an interface, one JSON object each, or as a table.

A row for each connection or bidirectional flow, in order of first packet: who, how many packets and bytes,
length and SHA-256 of each side's stream, gaps, the last state and how it ended (docs/commands.md has every
key), inside tunnels too. On files nothing times out unless --idle is given; on interfaces flows do. Without -o
the rows go to standard output, and the summary, if requested (--summary, --json), to standard error.

  sluice flows -r capture.pcap -o flows.parquet     also .csv, .arrow, .duckdb, .log (Zeek), eve.json

Rows in other formats than JSON lines have all that `flowlog` adds, such as the community-id; --details adds it to JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from sluice.cli.common.files import check_output
from sluice.cli.common.inputs import add_inputs, check_inputs, input_files, inputs_of, named
from sluice.cli.common.options import add_command, add_run_options, add_workers, count_from_1
from sluice.cli.common.outputs import add_outputs, outputs
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
from sluice.engine.box import Outcome
from sluice.engine.functions import Wanted, find_functions
from sluice.engine.inputs import Inputs
from sluice.report.formats.find import JSON, format_of
from sluice.stacks.find import DEFAULT

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
    add_outputs(parser)
    add_run_options(parser)
    add_workers(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    inputs = inputs_of(options)
    with printed_apart(None, apart=not options.out) as stdout:
        outcome = _run(options, inputs, stdout)
    status = _finish(outcome, options, named(inputs))
    for name, note in NOTES.items():
        if outcome.reports.get(name):
            print(f"sluice: note: {outcome.reports[name]:,} {note}", file=sys.stderr)
    return status


def _run(options: argparse.Namespace, inputs: Inputs, stdout: str | None) -> Outcome:
    """Run everything except the summary. stdout: the path of the standard output, to which rows are written."""
    wanted = Wanted()
    try:
        stack = stack_of(options.stack, options)
        check_inputs(inputs)
        if options.out:
            check_output(options.out, *input_files(inputs))
        out = options.out or stdout
        given = {"key": "+".join(options.key), "rows": options.rows, "holes": options.holes, "out": out}
        values = {name: str(value) for name, value in given.items() if value}
        format = options.format or format_of(options.out or "")
        log = "flowlog" if options.details or format is not JSON else "flow_log"
        wanted = find_functions([log, *tunnel_ports_function(stack, options)], {log: values})
        compiled = compile_for(stack, wanted, options)
        settings = settings_of(options, timeouts=options.idle is not None or inputs.live)
    except KeyboardInterrupt:
        return stopped_early(wanted)
    on_terminal = not options.out and sys.stdout.isatty()
    with outputs(wanted, options, stdout, tuple(options.key)) as files:
        outcome = run_file(
            compiled, wanted, settings, inputs, on_terminal, workers=options.workers, failed=files.failed
        )
        return files.finished(outcome)


def _finish(outcome: Outcome, options: argparse.Namespace, inputs: str) -> int:
    """Print the requested parts of the summary. Returns the exit status."""
    if options.out:
        return finish(outcome, options.json, inputs)
    if options.summary or options.json:
        print(json.dumps(outcome_json(outcome)) if options.json else summary(outcome), file=sys.stderr)
    return finish(outcome, as_json=False, inputs=inputs, quiet=True)
