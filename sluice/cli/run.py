"""sluice run STACK -r FILE|-i INTERFACE [-f FUNCTION ...]: run a stack over captures or an interface.

Compiles the stack with its functions (cached for the next time), processes every packet, and prints by layer
what it saw: packets, bytes, what was passed on, and what was malformed or dropped and why.

  sluice run tcp_ip -r capture.pcap.gz                     a file, perhaps compressed
  sluice run tcp_ip -r captures/                           all captures of a folder, in the order of time
  tcpdump -i eth0 -w - | sluice run tcp_ip -r -            standard input
  sluice run tcp_ip -i eth0 -f flow_log:out=flows.jsonl    an interface, until Ctrl-C or SIGTERM

A function is a ready one by its name (assemble, flow_log, none), FILE.c or FILE.py; its parameters stand
behind a colon, as in flow_log:out=flows.jsonl. `none` tracks connections without keeping their bytes.
`sluice run -f FUNCTION --help` tells what parameters it has.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from sluice.cli.common.errors import CommandError
from sluice.cli.common.inputs import add_inputs, input_files, inputs_of
from sluice.cli.common.options import (
    add_command,
    add_functions,
    add_run_options,
    add_stack,
    check_function_outputs,
    check_output,
    compile_for,
    finish,
    run_file,
    settings_of,
    stack_of,
    tunnel_ports_function,
)
from sluice.engine.functions import Wanted, find_functions


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "run", __doc__, action)
    add_stack(parser)
    add_inputs(parser)
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


def check_inline(wanted: Wanted, output: str | None, files: list[str]) -> None:
    """Say that functions need a box inline, or raise CommandError where a file is given that none would change."""
    inline = [f"{function.name}.c" for function in wanted.c if function.inline]
    if output is not None:
        check_output(output, *files)
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
    wanted = find_functions([*options.functions, *tunnel_ports_function(stack, options)])
    inputs = inputs_of(options)
    files = input_files(inputs)
    check_function_outputs(wanted, *files)
    check_inline(wanted, options.output, files)
    compiled = compile_for(stack, wanted, options)
    settings = settings_of(options, timeouts=not options.no_timeouts)
    return finish(run_file(compiled, wanted, settings, inputs, output=options.output), options.json)
