"""The actions `instrument` and `serialise` of `sluice analyze`, which act on the state that the report finds."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from sluice.analyze.state.instrument import Instrumented, instrument, link
from sluice.analyze.state.serialise import Code, serialise
from sluice.cli.analyze_options import add_knowledge, knowledge_of
from sluice.cli.common.errors import UsageError
from sluice.cli.common.files import check_output, write_text
from sluice.cli.common.options import add_command
from sluice.cli.common.progress import busy

_INSTRUMENT = """sluice analyze instrument PROGRAM.bc: make updates of state visible as the program runs.

Each updateable variable gets a byte that is set where packet processing updates it. After each packet, the run-time
library calls back with the variables that changed and the packet's flow key (sluice/analyze/state/sluice_state.h).
--program links the program with the library; --state adds the code of `sluice analyze serialise`, with which the
program exports its state, as the environment variables say that docs/analyze.md lists.
"""

_SERIALISE = """sluice analyze serialise PROGRAM.bc: write C that exports and imports the program's state.

The code says which variables are state, of what types they are, and where these contain pointers. What it cannot handle
is marked, and listed at the beginning of the file and here.
"""


def add_actions(actions: Any) -> None:
    """Add both to the actions of `sluice analyze`."""
    instrumenting = add_command(actions, "instrument", _INSTRUMENT, _instrument)
    instrumenting.add_argument("module", metavar="PROGRAM.bc", help="a module, as `sluice analyze build` writes it")
    instrumenting.add_argument("-o", metavar="FILE", dest="output", help="the instrumented module to write (bitcode)")
    instrumenting.add_argument("--program", metavar="FILE", help="link the instrumented program to this file")
    instrumenting.add_argument(
        "--state", metavar="FILE.c", help="for --program: the code that `sluice analyze serialise` wrote"
    )
    instrumenting.add_argument(
        "--link", action="append", default=[], metavar="WHAT", help="a library (-lpcap), object or source to link with"
    )
    instrumenting.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="do not mark updates of this variable"
    )
    instrumenting.add_argument(
        "--no-pruning", action="store_true", help="mark each update, also where the variable certainly is marked"
    )
    writing = add_command(actions, "serialise", _SERIALISE, _serialise)
    writing.add_argument("module", metavar="PROGRAM.bc", help="a module, as `sluice analyze build` writes it")
    writing.add_argument("-o", metavar="FILE.c", dest="output", required=True, help="the C to write")
    for parser in (instrumenting, writing):
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")
        add_knowledge(parser)


def _instrument(options: argparse.Namespace) -> int:
    if not options.output and not options.program:
        raise UsageError("sluice analyze instrument: give -o FILE, --program FILE or both")
    if options.state and not options.program:
        raise UsageError("sluice analyze instrument: --state is for --program")
    for path in filter(None, (options.output, options.program)):
        check_output(path, options.module)
    with tempfile.TemporaryDirectory() as folder, busy(f"instrumenting {options.module}"):
        module = Path(options.output or Path(folder) / "instrumented.bc")
        done = instrument(
            options.module,
            module,
            **knowledge_of(options),
            without=options.without,
            pruning=not options.no_pruning,
        )
        if options.program:
            link(module, Path(options.program), [*filter(None, [options.state]), *options.link])
    print(json.dumps(_instrumented_json(done)) if options.json else _instrumented_text(done))
    return 0


def _instrumented_json(done: Instrumented) -> dict[str, Any]:
    names = ("variables", "updates", "pruned", "at_once", "boundaries", "fields", "comparisons")
    return {name: getattr(done, name) for name in names}


def _instrumented_text(done: Instrumented) -> str:
    pruned = "nothing was pruned, because the program has threads, or handlers that receive"
    if not done.at_once:
        pruned = f"{done.pruned} more were pruned"
    return (
        f"{len(done.variables)} variables, updated in {done.updates - done.pruned} places; {pruned}\n"
        f"packets end in {done.boundaries} places; {done.fields} fields of packets and {done.comparisons} comparisons "
        "with entries are kept"
    )


def _serialise(options: argparse.Namespace) -> int:
    check_output(options.output, options.module)
    with busy(f"analysing {options.module}"):
        code = serialise(options.module, **knowledge_of(options))
    write_text(options.output, code.text)
    print(json.dumps(_code_json(code)) if options.json else _code_text(code))
    return 0


def _code_json(code: Code) -> dict[str, Any]:
    by_hand = [{"where": note.where, "what": note.what} for note in code.by_hand]
    return {"variables": code.variables, "types": code.types, "shapes": code.shapes, "by_hand": by_hand}


def _code_text(code: Code) -> str:
    lines = [f"{code.variables} variables of {code.types} types"]
    for shape in sorted(set(code.shapes.values())):
        names = [name for name, found in code.shapes.items() if found == shape]
        lines.append(f"  {shape}: {', '.join(names)}")
    lines += [f"for a person to handle: {note.where}: {note.what}" for note in code.by_hand]
    return "\n".join(lines)
