"""sluice analyze build|report|slice|check|instrument|serialise: find the state in a third-party middlebox in C.

  sluice analyze build -- make           records a build as one bitcode module for each program
  sluice analyze report PROGRAM.bc       says which variables are state, and why
  sluice analyze slice PROGRAM.bc ...    prints the lines that depend on a line, or on which it depends

  sluice analyze check PROGRAM.bc -- ...   runs the program, and compares what changes with the report

  sluice analyze instrument PROGRAM.bc   makes updates visible as the program runs
  sluice analyze serialise PROGRAM.bc    writes C that exports and imports the state

The analyses need LLVM 19 (Debian: llvm-19-dev, clang-19); scripts/setup.sh --analyze installs it. docs/analyze.md is
their manual.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

from sluice.analyze.oracle.bits import build_bits
from sluice.analyze.oracle.check import build, check
from sluice.analyze.record.build import Recorded, record
from sluice.analyze.report.page import page_of
from sluice.analyze.report.text import text_of
from sluice.analyze.run import analyze
from sluice.cli.analyze_options import add_knowledge, add_slice_steps, knowledge_of
from sluice.cli.analyze_slice import add_slice
from sluice.cli.analyze_state import add_actions
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.files import check_output, write_text
from sluice.cli.common.options import add_command
from sluice.cli.common.progress import busy

_BUILD = """sluice analyze build -- COMMAND...: record a build as bitcode.

Runs the build with compilers that embed LLVM bitcode with debug info into every object file, whatever the build's own
flags are, and links the bitcode of each program into NAME.bc. The build must compile everything again: run `make clean`
first. A configure script is best run by this command as well: `sluice analyze build -- sh -c './configure && make'`.

Says what was left out: assembly, files that clang does not compile, functions of objects that were there before.
"""

_REPORT = """sluice analyze report PROGRAM.bc: find the variables that are state.

A variable is persistent if its value may last from one packet to the next: globals, static variables, and local
variables of functions with a loop that receives packets. It is top-level if packet processing, that is, code that may
run after a packet was received, uses it, by name or through a pointer (lines with *).
"""


_CHECK = """sluice analyze check PROGRAM.bc -- ARGUMENT...: run the program, and compare what changes with the report.

Instruments the program, links and runs it. At each receive call, the bytes of its variables and of what it allocated
are compared with those at the receive call before. If bytes change in what the report does not call updateable, the
analysis has missed an update, and the command fails. Programs that read captures are best run on one.

--bits checks what `sluice analyze instrument` inserts instead: memory that changed while a packet was processed has to
belong to variables whose byte is set.
"""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "analyze", __doc__, action)
    actions = parser.add_subparsers(dest="what", metavar="build|report|slice|check|instrument|serialise", required=True)
    recording = add_command(actions, "build", _BUILD, _build)
    recording.add_argument(
        "-o", metavar="FILE", dest="output", help="the module to write, if the build links one program"
    )
    recording.add_argument("--program", metavar="NAME", help="only this one of the programs that the build links")
    recording.add_argument("--json", action="store_true", help="print what was recorded as JSON")
    recording.add_argument("build", nargs="+", metavar="COMMAND", help="the build, after --")
    report = add_command(actions, "report", _REPORT, _report)
    report.add_argument("module", metavar="PROGRAM.bc", help="a module, as `sluice analyze build` writes it")
    report.add_argument("--json", action="store_true", help="print all of it as JSON")
    report.add_argument("--page", metavar="FILE", help="write a page with the source to this file (HTML)")
    report.add_argument("--all", action="store_true", help="print long lists whole")
    add_knowledge(report)
    report.add_argument("--field-insensitive", action="store_true", help="do not tell the members of structures apart")
    report.add_argument(
        "--all-locals", action="store_true", help="every local variable of a function that receives in a loop persists"
    )
    add_slice_steps(report, "1,000,000")

    check = add_command(actions, "check", _CHECK, _check)
    check.add_argument("module", metavar="PROGRAM.bc", help="a module, as `sluice analyze build` writes it")
    check.add_argument("--json", action="store_true", help="print what was found as JSON")
    check.add_argument(
        "--link", action="append", default=[], metavar="WHAT", help="a library (-lpcap), object or source to link with"
    )
    check.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="take a variable (or FILE:LINE of an allocation) as not updateable, to see that the check finds it",
    )
    check.add_argument("--bits", action="store_true", help="check what `instrument` inserts: what changed is marked")
    check.add_argument("--seconds", type=float, default=600, help="the longest that the program may run (600)")
    add_knowledge(check)
    check.add_argument("of_program", nargs="*", metavar="ARGUMENT", help="of the program, after --")
    add_slice(actions)
    add_actions(actions)


def action(options: argparse.Namespace) -> int:
    """The action without the name of one; each has its own function."""
    raise UsageError(f"sluice analyze {options.what}: is no action")


def _build(options: argparse.Namespace) -> int:
    if options.output:
        check_output(options.output)
    recorded = record(options.build, options.program, options.output)
    if options.json:
        print(json.dumps([_recorded_json(one) for one in recorded]))
    else:
        print("\n".join(_recorded_text(one) for one in recorded))
    return 0


def _recorded_json(one: Recorded) -> dict[str, Any]:
    return {
        "program": str(one.program),
        "module": str(one.module),
        "units": one.units,
        "libraries": [str(path) for path in one.libraries],
        "missing_functions": one.missing_functions,
        "missing_variables": one.missing_variables,
        "left_out": [{"source": source, "reason": reason} for source, reason in one.left_out],
    }


def _recorded_text(one: Recorded) -> str:
    lines = [f"{one.module}: {one.units} translation units of {one.program.name}"]
    lines += [f"  with {path.name}, which the same build made" for path in one.libraries]
    lines += [f"  left out of the build: {source} ({reason})" for source, reason in one.left_out]
    missing = [*one.missing_functions, *one.missing_variables]
    if missing:
        more = f" and {len(missing) - 10} more (--json)" if len(missing) > 10 else ""
        lines.append(f"  the program contains, and the module does not: {', '.join(missing[:10])}{more}")
    elif not one.left_out:
        lines.append("  nothing was left out")
    return "\n".join(lines)


def _check(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder, busy(f"checking {options.module}"):
        program = Path(folder) / "program"
        make = build_bits if options.bits else build
        make(options.module, program, options.link, options.without, **knowledge_of(options))
        found = check(program, options.of_program, options.seconds)
    if options.json:
        print(json.dumps(dataclasses.asdict(found)))
    else:
        for one in found.missed:
            print(f"missed: {one.name} changed (byte {one.offset}, after {one.packet:,} receive calls)")
        print(
            f"{found.packets:,} receive calls; of what may be updated, {len(found.changed)} changed: "
            f"{', '.join(sorted({one.name for one in found.changed})) or 'nothing'}"
        )
        if found.not_watched:
            print(f"not enough memory to compare {found.not_watched} pieces of memory")
    if found.missed:
        raise CommandError(f"{options.module}: {len(found.missed)} updates were missed, a defect of Sluice")
    return 0


def _report(options: argparse.Namespace) -> int:
    if options.page:
        check_output(options.page, options.module)
    with busy(f"analysing {options.module}"):
        analysis = analyze(
            options.module,
            **knowledge_of(options),
            field_insensitive=options.field_insensitive,
            all_locals=options.all_locals,
            slice_steps=options.slice_steps,
        )
    if options.page:
        write_text(options.page, page_of(analysis))
    if options.json:
        print(json.dumps(analysis.json))
    else:
        print(text_of(analysis, options.all))
    if not analysis.receive:
        raise CommandError(
            f"{options.module}: has no receive call, so that no variable is used in packet processing; describe the "
            "function that receives packets in a YAML file for --models (sluice/analyze/models/README.md)"
        )
    return 0
