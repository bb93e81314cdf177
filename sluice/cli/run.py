"""sluice run STACK -r FILE|-i INTERFACE [-f FUNCTION ...]: run a stack over captures or an interface.

Compiles the stack with its functions (cached for the next time), processes every packet, and prints by layer
what it saw: packets, bytes, what was passed on, and what was malformed or dropped and why.

  sluice run tcp_ip -r capture.pcap.gz                     a file, perhaps compressed
  sluice run tcp_ip -r captures/                           all captures of a folder, in the order of time
  tcpdump -i eth0 -w - | sluice run tcp_ip -r -            standard input
  sluice run tcp_ip -i eth0 -f flow_log:out=flows.jsonl    an interface, until Ctrl-C or SIGTERM
  sluice run tcp_ip -i eth1 --forward eth2 -f shield.c     inline: what comes in at one leaves at the other
  sluice run tcp_ip -r capture.pcap --workers 4            four threads, which share the connections
  sluice run tcp_ip -i eth0 -f f.c --workers 4 --isolate   four processes: a crash in f.c ends one, which starts again

A function is a ready one by its name (assemble, flow_log, none), FILE.c or FILE.py; several have commas between them.
Parameters follow a colon, as in flow_log:out=flows.jsonl; the name of `out` decides on the format of a log. `none`
tracks connections without storing their bytes. Without -f the functions run that the file of the stack defines.
`sluice run -f FUNCTION --help` lists parameters.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice.cli.common.capture_output import add_written, rotation_of
from sluice.cli.common.detection import prepare_rules
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.files import check_function_outputs, check_output, write_text
from sluice.cli.common.forwarding import add_forwarding, check_policies, forwarding_inputs, inline_settings
from sluice.cli.common.inputs import add_inputs, check_inputs, input_files, named
from sluice.cli.common.monitoring import add_observing
from sluice.cli.common.options import (
    add_command,
    add_functions,
    add_run_options,
    add_stack,
    add_store,
    add_workers,
    check_store,
)
from sluice.cli.common.outputs import add_outputs, outputs
from sluice.cli.common.privileges import add_privileges, check_privileges, copies, rotated, series_of
from sluice.cli.common.running import (
    check_workers,
    compile_for,
    run_file,
    settings_of,
    stack_of,
    stopped_early,
    tunnel_ports_function,
)
from sluice.cli.common.streams import printed_apart
from sluice.cli.common.summary import finish
from sluice.engine.box import Outcome
from sluice.engine.functions import Wanted, find_functions, has_functions, split_names
from sluice.engine.inputs import Inputs
from sluice.report.formats.find import JSON, format_of
from sluice.report.logs import schema_of
from sluice.state.errors import StoreError
from sluice.state.session import session, shares


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "run", __doc__, action)
    add_stack(parser)
    add_inputs(parser)
    add_forwarding(parser)
    add_written(parser, "what leaves the box: of an interface, also where no function decides on packets")
    add_functions(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON; functions then print to standard error"
    )
    parser.add_argument(
        "-o",
        metavar="FILE",
        dest="prints",
        help="where functions print, and write rows; with another format than JSON, the file of the only log (default: "
        "standard output, or standard error where that takes JSON or the rows of another function)",
    )
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument(
        "--quick",
        action="store_true",
        help="for trying functions in C: no passes, no optimisation, only an edited function is compiled again; the "
        "first time, the default compilation runs in the background",
    )
    speed.add_argument("--compile-only", action="store_true", help="compile what is not cached, and run nothing")
    parser.add_argument(
        "--extract",
        metavar="DIR",
        help="existing folder that gets a copy of each file that is carried: the parameter extract of filelog",
    )
    parser.add_argument("--no-timeouts", action="store_true", help="nothing times out, as in `sluice flows`")
    add_outputs(parser)
    add_store(parser)
    parser.add_argument(
        "--state", metavar="FILE", help="file for the final state of shared objects, as `sluice state dump` prints it"
    )
    add_run_options(parser)
    add_workers(parser)
    add_observing(parser)
    add_privileges(parser)


def functions_of(stack: str, given: list[str]) -> list[str]:
    """The functions to run: those given with -f, else those that the file of the stack defines."""
    path = Path(stack)
    if path.suffix != ".py" or not path.is_file() or not has_functions(path):  # find_stack says what is wrong
        return given
    if not given:
        return [stack]
    files = [Path(name.partition(":")[0]) for text in given for name in split_names(text)]
    if not any(file.suffix == ".py" and file.is_file() and file.samefile(path) for file in files):
        print(
            f"sluice: note: {stack}: its functions on events do not run, as others are given; add -f {stack}",
            file=sys.stderr,
        )
    return given


def log_of_output(options: argparse.Namespace, names: list[str]) -> str:
    """The log whose rows go to the file of -o, as if it were its out=FILE: the only one, if they have another format
    than JSON lines; else "". Raises UsageError if there are several.
    """
    if options.prints is None or (options.format or format_of(options.prints)) is JSON:
        return ""
    logs = [name.partition(":")[0] for text in names for name in split_names(text)]
    logs = [name for name in logs if schema_of(name) is not None]
    if len(logs) > 1:
        each = " ".join(f"-f {name}:out=FILE" for name in logs)
        raise UsageError(f"-o {options.prints}: a file of this format has the rows of one log: give {each}")
    return logs[0] if logs else ""


def check_inline(wanted: Wanted, output: str | None, inputs: Inputs) -> None:
    """Warn that functions need an inline box. Raise CommandError if -w is given and would get a copy of files."""
    inline = [f"{function.name}.c" for function in wanted.c if function.inline]
    inline += [f"{function.name}.py" for function in wanted.python if function.verdicts]
    if output is not None:
        check_output(output, *input_files(inputs))
        if not inline and not inputs.live:
            raise CommandError(
                f"-w {output}: no function drops, changes or sends packets (by SLUICE_INLINE, or Verdicts in Python): "
                "it would be the input"
            )
    elif inline and not inputs.forwarding:
        print(
            f"sluice: note: {', '.join(inline)}: drops, changes or sends packets, and nothing takes what leaves the "
            "box; -w FILE does of a capture file, --forward INTERFACE of an interface",
            file=sys.stderr,
        )


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    inputs = forwarding_inputs(options)
    if options.prints is not None:
        check_output(options.prints, *input_files(inputs), options.stack)
    if options.state is not None:
        check_output(options.state, *input_files(inputs), options.stack)
    names = functions_of(options.stack, options.functions)
    log = log_of_output(options, names)
    with printed_apart(None if log else options.prints, apart=options.json):
        outcome = _run(options, inputs, names, log)
    return 0 if options.compile_only and not outcome.stopped else finish(outcome, options.json, named(inputs))


def _run(options: argparse.Namespace, inputs: Inputs, names: list[str], log: str) -> Outcome:
    """Run everything except the summary. log: that whose rows go to the file of -o; "": none."""
    wanted = Wanted()
    try:
        stack = stack_of(options.stack, options)
        wanted = find_functions([*names, *tunnel_ports_function(stack, options)])
        if log:
            wanted.set_unset("out", options.prints, log)
        prepare_rules(wanted)
        if options.extract is not None and not wanted.set_unset("extract", options.extract):
            raise CommandError(f"--extract {options.extract}: no function copies files; add -f filelog")
        files = input_files(inputs)
        check_inputs(inputs)
        later = [options.state, *series_of(options), *rotated(options, wanted), *copies(wanted)]
        check_privileges(options, inputs, later)
        rotation = rotation_of(options)
        check_workers(options.workers, wanted, inputs, options.output, options.isolate)
        check_store(options)
        check_function_outputs(wanted, *files)
        check_policies(options, wanted.c)
        check_inline(wanted, options.output, inputs)
        compiled = compile_for(stack, wanted, options)
        if options.compile_only:
            return Outcome(0, {}, {})
        settings = inline_settings(settings_of(options, timeouts=not options.no_timeouts), options)
    except KeyboardInterrupt:
        return stopped_early(wanted)
    if options.store.kind != "local" and not shares(wanted.c, wanted.python):
        print("sluice: note: --store: no function declares shared state, so nothing is stored", file=sys.stderr)
    # rows are separated from the output of other functions
    several = len(wanted.c) + len(wanted.python) > 1 and wanted.writes_rows()
    with printed_apart(None, apart=several and options.prints is None and not options.json) as stdout:
        if stdout is not None:
            wanted.direct_rows(stdout)
        with (
            session(options.store, wanted.c, options.state is not None, wanted.python) as state,
            outputs(wanted, options, stdout, tuple(options.key), begins=False) as files,
        ):
            settings = replace(settings, store=state.store, state_file=state.state_file)
            ran = run_file(
                compiled,
                wanted,
                settings,
                inputs,
                output=options.output,
                workers=options.workers,
                isolated=options.isolate,
                groups=options.groups,
                dispatch=options.dispatch,
                rotation=rotation,
                failed=files.failed,
                observed=options,
                begin=files.begin,
            )
            outcome = state.finished(files.finished(ran))
            if options.state is not None and state.text is not None:
                try:
                    write_text(options.state, state.text())
                except StoreError as error:
                    outcome = replace(outcome, failure=outcome.failure or str(error))
            return outcome
