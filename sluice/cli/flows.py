"""sluice flows -r FILE [-o OUT.jsonl]: one JSON object per connection or bidirectional flow of a capture file.

On files nothing times out unless --idle is given. Without -o the rows go to standard output.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from sluice.cli.common import add_run_options, compile_for, finish, run_file, settings_of, summary
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser: argparse.ArgumentParser = commands.add_parser("flows", help="list the flows of a capture file", description=__doc__)
    parser.add_argument("-r", required=True, metavar="FILE", dest="file", help="capture file (pcap or pcapng)")
    parser.add_argument("--stack", default="tcp_ip", metavar="NAME", help="a name, or a Python file (default tcp_ip)")
    parser.add_argument("-o", metavar="OUT.jsonl", dest="out", help="where to write the rows (default: standard output)")
    parser.add_argument("--summary", action="store_true", help="with rows on standard output, print the summary to standard error")
    parser.add_argument("--json", action="store_true", help="with -o, print the summary as JSON")
    add_run_options(parser)
    parser.set_defaults(action=action)


def action(options: argparse.Namespace) -> int:
    """Run it."""
    stack = find_stack(options.stack)
    wanted = find_functions([f"flow_log:out={options.out}" if options.out else "flow_log"])
    compiled = compile_for(stack, wanted, options)
    outcome = run_file(compiled, wanted, settings_of(options, timeouts=options.idle is not None), options.file)
    if not options.out and options.summary:
        print(summary(outcome), file=sys.stderr)
    return finish(outcome, options.json and bool(options.out), quiet=not options.out)
