"""sluice run STACK -r FILE [-f FUNCTION ...]: run a stack over a capture file."""

from __future__ import annotations

import argparse
from typing import Any

from sluice.cli.common import add_run_options, compile_for, finish, run_file, settings_of
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser: argparse.ArgumentParser = commands.add_parser("run", help="run a stack over a capture file", description=__doc__)
    parser.add_argument("stack", metavar="STACK", help="a name, or a Python file that describes a stack")
    parser.add_argument("-r", required=True, metavar="FILE", dest="file", help="capture file (pcap or pcapng)")
    parser.add_argument("-f", action="append", default=[], metavar="FUNCTION", dest="functions", help="a ready function, a C file or a Python file")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_run_options(parser)
    parser.set_defaults(action=action)


def action(options: argparse.Namespace) -> int:
    """Run it."""
    stack = find_stack(options.stack)
    wanted = find_functions(options.functions)
    compiled = compile_for(stack, wanted, options)
    return finish(run_file(compiled, wanted, settings_of(options, timeouts=True), options.file), options.json)
