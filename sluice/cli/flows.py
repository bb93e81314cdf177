"""sluice flows -r FILE [-o OUT.jsonl]: list the flows of a capture file, one JSON object each.

A row for each connection or bidirectional flow, in order of first packet: who, how many packets and bytes,
length and SHA-256 of each side's stream, gaps, the last state and how it ended (docs/commands.md has every
key). On files nothing times out unless --idle is given. Without -o the rows go to standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from sluice.cli.common import (
    add_command,
    add_run_options,
    check_input,
    check_output,
    compile_for,
    finish,
    outcome_json,
    run_file,
    settings_of,
    summary,
)
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "flows", __doc__, action)
    parser.add_argument("-r", required=True, metavar="FILE", dest="file", help="capture file (pcap or pcapng)")
    parser.add_argument("--stack", default="tcp_ip", metavar="STACK", help="a name, or a Python file (default tcp_ip)")
    parser.add_argument(
        "-o", metavar="OUT.jsonl", dest="out", help="where to write the rows (default: standard output)"
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="with rows on standard output, print the summary to standard error",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_run_options(parser)


def action(options: argparse.Namespace) -> int:
    """Run it."""
    stack = find_stack(options.stack)
    check_input(options.file)
    if options.out:
        check_output(options.out, options.file)
    wanted = find_functions([f"flow_log:out={options.out}" if options.out else "flow_log"])
    compiled = compile_for(stack, wanted, options)
    outcome = run_file(compiled, wanted, settings_of(options, timeouts=options.idle is not None), options.file)
    if options.out:
        return finish(outcome, options.json)
    if options.summary:
        print(json.dumps(outcome_json(outcome)) if options.json else summary(outcome), file=sys.stderr)
    return finish(outcome, as_json=False, quiet=True)
