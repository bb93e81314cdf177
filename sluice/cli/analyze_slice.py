"""The action `slice` of `sluice analyze`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from sluice.analyze.report.slices import slice_text
from sluice.analyze.slices import slice_of
from sluice.cli.analyze_options import add_knowledge, add_slice_steps, knowledge_of
from sluice.cli.common.errors import UsageError
from sluice.cli.common.options import add_command
from sluice.cli.common.progress import busy

_SLICE = """sluice analyze slice PROGRAM.bc: print the lines that depend on a place, or on which it depends.

--from alone prints the forward slice: lines that may compute something else, or may not run, if the values of the line
are others. --to alone prints the backward slice: lines on which the values of the line may depend. Both print the chop:
lines through which the second place may depend on the first.

A place is FILE:LINE. --from receive begins at the calls that receive packets; --to packets and --to logs end at the
calls that put these out.
"""


def add_slice(actions: Any) -> None:
    """Add it to the actions of `sluice analyze`."""
    parser = add_command(actions, "slice", _SLICE, _slice)
    parser.add_argument("module", metavar="PROGRAM.bc", help="a module, as `sluice analyze build` writes it")
    parser.add_argument("--from", dest="source", metavar="PLACE", help="FILE:LINE, or receive: forward from there")
    parser.add_argument("--to", dest="target", metavar="PLACE", help="FILE:LINE, packets or logs: backward from there")
    parser.add_argument("--json", action="store_true", help="print the lines as JSON")
    add_knowledge(parser)
    add_slice_steps(parser, "4,000,000")


def _slice(options: argparse.Namespace) -> int:
    if not options.source and not options.target:
        raise UsageError("sluice analyze slice: give --from PLACE, --to PLACE or both")
    with busy(f"analysing {options.module}"):
        known = knowledge_of(options)
        found = slice_of(options.module, options.source, options.target, **known, slice_steps=options.slice_steps)
    print(json.dumps(dataclasses.asdict(found)) if options.json else slice_text(found))
    return 0
