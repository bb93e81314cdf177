"""sluice run STACK -r FILE [-f FUNCTION ...]: run a stack over a capture file.

Compiles the stack with its functions (kept for the next time), processes every packet, and says by layer
what it saw: packets, bytes, what was passed on, and what was malformed or dropped and why.

A function is a ready one by its name (assemble, flow_log, none), FILE.c or FILE.py; its parameters stand
behind a colon, as in flow_log:out=flows.jsonl. `none` tracks connections without keeping their bytes.
`sluice run -f FUNCTION --help` tells what parameters it has.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from sluice.cli.common.errors import CommandError
from sluice.cli.common.files import check_function_outputs, check_input, check_output
from sluice.cli.common.options import add_command, add_functions, add_run_options, add_stack
from sluice.cli.common.running import compile_for, run_file, settings_of, stack_of
from sluice.cli.common.summary import finish
from sluice.engine.functions import Wanted, find_functions


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "run", __doc__, action)
    add_stack(parser)
    parser.add_argument("-r", required=True, metavar="FILE", dest="file", help="capture file (pcap or pcapng)")
    parser.add_argument(
        "-w",
        metavar="FILE",
        dest="output",
        help="capture file (pcap) for what leaves the box, where a function drops, changes or sends packets",
    )
    add_functions(parser)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--no-timeouts", action="store_true", help="nothing times out, as in `sluice flows`")
    add_run_options(parser)


def check_inline(wanted: Wanted, output: str | None, file: str) -> None:
    """Say that functions need a box inline, or raise CommandError where a file is given that none would change."""
    inline = [f"{function.name}.c" for function in wanted.c if function.inline]
    if output is not None:
        check_output(output, file)
        if not inline:
            raise CommandError(
                f"-w {output}: no function drops, changes or sends packets (by SLUICE_INLINE): it would be the input"
            )
    elif inline:
        print(
            f"sluice: note: {', '.join(inline)}: drops, changes or sends packets, which needs a box inline; of a "
            "capture file, -w FILE gets what would leave it",
            file=sys.stderr,
        )


def action(options: argparse.Namespace) -> int:
    """Run it."""
    stack = stack_of(options.stack, options)
    wanted = find_functions(options.functions)
    check_input(options.file)
    check_function_outputs(wanted, options.file)
    check_inline(wanted, options.output, options.file)
    compiled = compile_for(stack, wanted, options)
    settings = settings_of(options, timeouts=not options.no_timeouts)
    return finish(run_file(compiled, wanted, settings, options.file, output=options.output), options.json)
