"""sluice report FILE [-o report.html]: write a page about captures: what, when, who, protocols, flows, loss, findings.

One box runs the default stack with its logs, and their rows become one self-contained page, which opens without a
network, in light and dark: a time line, who talks most, protocols as a tree, a flow table with search and sort,
retransmissions and gaps, DNS, HTTP, TLS, files, and what is worth a look, with the reasons.

  sluice report capture.pcap                            writes report.html
  sluice report capture.pcap -o case.html --rules local.rules     with the alerts of rules
  sluice report 'captures/*.pcap*' -o all.html          several captures, as one

The page has the largest flows (--flows); what it leaves out is said on it. --json prints its facts as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from sluice import __version__
from sluice.cli.common.detection import list_skipped, variables_of, with_table
from sluice.cli.common.files import check_output, write_text
from sluice.cli.common.inputs import add_inputs, check_inputs, input_files, inputs_of, named
from sluice.cli.common.options import add_command, add_run_options, count_from_1
from sluice.cli.common.running import (
    compile_for,
    run_file,
    settings_of,
    stack_of,
    stopped_early,
    tunnel_ports_function,
)
from sluice.cli.common.streams import printed_apart
from sluice.cli.common.summary import finish, outcome_json
from sluice.engine.box import Outcome
from sluice.engine.functions import VENDOR, Wanted, find_functions
from sluice.engine.inputs import STANDARD_INPUT, Inputs
from sluice.functions.detect.rules import read_files
from sluice.lang.stack import Stack
from sluice.report.output import Rows
from sluice.report.page.document import page
from sluice.report.page.facts import FLOWS, PARAMETERS, Facts
from sluice.report.page.text import many, size
from sluice.stacks.find import DEFAULT

ALWAYS = ("timeline", "flowlog", "tlslog", "dnslog", "sshlog", "smtplog", "ftplog", "dhcplog", "gtplog")
"""Functions of every report; of some the stack may lack the layers, then they have no rows."""
BY_LAYER = {"icmp": "icmplog", "sctp": "sctplog"}
"""Functions of reports about stacks with a layer."""
JUDGING = ("portscan", "synflood")
WITH_PARSERS = ("httplog", "filelog")
"""These need a parser that `scripts/setup.sh` downloads."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "report", __doc__, action)
    parser.add_argument("captures", nargs="*", metavar="FILE", help="captures; several are merged by time")
    add_inputs(parser)
    parser.add_argument("-o", metavar="OUT.html", dest="out", default="report.html", help="default report.html")
    parser.add_argument(
        "--stack", default=DEFAULT, metavar="STACK", help=f"a name, or a Python file (default {DEFAULT})"
    )
    parser.add_argument("--title", metavar="TEXT", help="of the page (default: the name of the capture)")
    parser.add_argument(
        "--rules", action="append", default=[], metavar="RULES", help="rules of `sluice ids`, whose alerts are shown"
    )
    parser.add_argument(
        "--var", action="append", default=[], metavar="NAME=VALUE", dest="variables", help="a variable of the rules"
    )
    parser.add_argument("--lenient", action="store_true", help="skip and list rules that cannot be used")
    parser.add_argument(
        "--flows",
        type=count_from_1("flows"),
        default=FLOWS,
        metavar="N",
        help=f"in the table at most, those with most bytes (default {FLOWS:,})",
    )
    parser.add_argument("--json", action="store_true", help="print the facts of the page, and the summary, as JSON")
    add_run_options(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    options.files = [*options.captures, *options.files]
    inputs = inputs_of(options)
    check_inputs(inputs)
    check_output(options.out, *input_files(inputs), *(path for path in options.rules if os.path.isfile(path)))
    facts, missing = Facts(options.flows), list[str]()
    with printed_apart(None, apart=True):
        outcome = _run(options, inputs, facts, missing)
    if outcome.failure and not outcome.packets:
        return finish(outcome, as_json=False, inputs=named(inputs), quiet=True)
    files = input_files(inputs)
    found = facts.facts(
        captures=[*files, *(uri for uri in inputs.uris if uri == STANDARD_INPUT or not uri.startswith("file:"))],
        octets=sum(os.path.getsize(path) for path in files if os.path.exists(path)),
        counters=outcome.counters,
        reports=outcome.reports,
        alerts=bool(options.rules),
        fault=outcome.fault or outcome.failure or ("it was stopped" if outcome.interrupted else None),
        missing=missing,
        version=__version__,
    )
    write_text(options.out, page(found, options.title))
    if options.json:
        print(json.dumps({**outcome_json(outcome), "report": options.out, "facts": found}))
    else:
        _print(options, found)
    return finish(outcome, as_json=False, inputs=named(inputs), quiet=True)


def _run(options: argparse.Namespace, inputs: Inputs, facts: Facts, missing: list[str]) -> Outcome:
    """Run the box. missing: gets the functions that cannot run, with the reasons."""
    wanted = Wanted()
    try:
        stack = stack_of(options.stack, options)
        wanted = _wanted(stack, options, missing)
        compiled = compile_for(stack, wanted, options)
        settings = settings_of(options, timeouts=options.idle is not None or inputs.live)
    except KeyboardInterrupt:
        return stopped_early(wanted)
    with _rows(wanted, facts) as rows:
        outcome = run_file(
            compiled, wanted, settings, inputs, failed=lambda: any(one.failure is not None for one in rows)
        )
    failure = next((one.failure for one in rows if one.failure), None)
    return replace(outcome, failure=failure or outcome.failure)  # the box's is that its rows were not taken


def _wanted(stack: Stack, options: argparse.Namespace, missing: list[str]) -> Wanted:
    """The functions of a report on this stack."""
    layers = {layer.prototype.name for layer in stack.layers.values()}
    names = [*ALWAYS, *(JUDGING if "tcp" in layers else ())]
    names += [name for layer, name in BY_LAYER.items() if layer in layers]
    if VENDOR.is_dir():
        names += WITH_PARSERS
    else:
        missing.append("HTTP and files, as their parser is not there (scripts/setup.sh downloads it)")
    values = {name: {**PARAMETERS.get(name, {})} for name in names}
    if options.rules:
        rules = read_files(options.rules, variables_of(options.variables), options.lenient)
        list_skipped(rules)
        names.append("ids")
        values["ids"] = with_table({}, rules)
    return find_functions([*names, *tunnel_ports_function(stack, options)], values)


@contextlib.contextmanager
def _rows(wanted: Wanted, facts: Facts) -> Generator[list[Rows]]:
    """While the context is active, the rows of the functions go to the facts."""
    rows: list[Rows] = []
    try:
        for number, function in enumerate(wanted.c):
            if not any(parameter.name == "out" for parameter in function.parameters):
                continue
            given = wanted.options[number]
            rows.append(Rows(facts.sink(function.name)))
            wanted.options[number] = {**(given if not isinstance(given, str) else {}), "out": rows[-1].path}
        yield rows
    finally:
        for one in rows:
            one.finish()


def _print(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    capture = facts["capture"]
    print(
        f"{many(capture['packets'], 'packet')}, {size(capture['bytes'])}, {many(facts['totals']['flows'], 'flow')}"
        + (f", {many(facts['alerts']['total'], 'alert')}" if facts["alerts"] else "")
        + f": {options.out}"
    )
    for found in facts["findings"]:
        print(f"{found['count']:>9,}  {found['title']}")
