"""sluice ids RULES... -r FILE | -i A [--forward B]: detect by rules in Snort's syntax, and write alerts.

Reads rules (files, or folders of .rules files), matches them on reassembled streams, on HTTP messages and on packets,
inside tunnels too, and writes each alert as a line of JSON in eve.json's shape. A summary at the end says which
rules alerted how often, and what was bounded.

  sluice ids local.rules -r capture.pcap                    alerts to standard output
  sluice ids rules/ -r capture.pcap -o alerts.jsonl         a folder of rules, alerts to a file
  sluice ids local.rules -r capture.pcap --fast             lines of the fast log
  sluice ids local.rules -r capture.pcap -w matched.pcap    the packets that matched, too
  sluice ids local.rules -i eth0 --var HOME_NET=10.0.0.0/8  an interface, until Ctrl-C or SIGTERM
  sluice ids local.rules -i eth1 --forward eth2             inline: rules that drop and reject stop packets

A rule that cannot be used ends the run with its file, line and option; --lenient skips and lists such rules.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sluice.cli.common.detection import list_skipped, variables_of, with_table
from sluice.cli.common.files import check_output
from sluice.cli.common.forwarding import add_forwarding, check_policies, forwarding_inputs, inline_settings
from sluice.cli.common.inputs import add_inputs, check_inputs, input_files, named
from sluice.cli.common.monitoring import add_observing
from sluice.cli.common.options import add_command, add_run_options
from sluice.cli.common.privileges import add_privileges, check_privileges, given_to_user
from sluice.cli.common.rule_costs import costs_of, print_costs
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
from sluice.engine.functions import Wanted, counters_of, find_functions
from sluice.engine.inputs import Inputs
from sluice.functions.detect.errors import DetectionError
from sluice.functions.detect.rules import RuleSet, read_files
from sluice.stacks.find import DEFAULT

ROUTINE = frozenset({"ids_alerts", "ids_http_messages", "ids_logged", "ids_blocked", "ids_tls_opened"})
"""Counters of `ids` that are no bounds."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "ids", __doc__, action)
    parser.add_argument("rules", nargs="+", metavar="RULES", help="a file of rules, or a folder of .rules files")
    add_inputs(parser)
    add_forwarding(parser)
    parser.add_argument(
        "--stack", default=DEFAULT, metavar="STACK", help=f"a name, or a Python file (default {DEFAULT})"
    )
    parser.add_argument(
        "--var",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="variables",
        help="set a variable of the rules, in place of what files say",
    )
    parser.add_argument("--lenient", action="store_true", help="skip and list rules that cannot be used")
    parser.add_argument(
        "-o", metavar="OUT.jsonl", dest="out", help="where to write the alerts (default: standard output)"
    )
    parser.add_argument("-w", metavar="FILE", dest="packets", help="capture file (pcap) for the packets that match")
    parser.add_argument("--profile", action="store_true", help="print the checks and the time of each rule")
    parser.add_argument("--fast", action="store_true", help="write lines of the fast log, not JSON")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the summary as JSON; to standard error where the alerts take the other",
    )
    parser.add_argument("--no-timeouts", action="store_true", help="nothing times out, as in `sluice flows`")
    add_run_options(parser)
    add_observing(parser)
    add_privileges(parser)


def action(options: argparse.Namespace) -> int:
    """Run it."""
    inputs = forwarding_inputs(options)
    check_policies(options, ())  # its functions have one policy
    rules = read_files(options.rules, variables_of(options.variables), options.lenient)
    list_skipped(rules)
    if not rules.rules:
        raise DetectionError(
            f"{', '.join(options.rules)}: no rule can be used" if rules.skipped else "there is no rule"
        )
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "counts")
        profile = Path(folder, "profile") if options.profile else None
        with printed_apart(None, apart=not options.out) as stdout:
            outcome = _run(options, inputs, stdout, rules, counts, profile)
        alerts = _alerts(rules, counts)
        costs = costs_of(rules, profile) if profile else None
    out = sys.stdout if options.out else sys.stderr
    if options.json:
        profiled = {} if costs is None else {"profile": [asdict(cost) for cost in costs]}
        print(json.dumps({**_summary(rules, alerts, outcome), **profiled, **outcome_json(outcome)}), file=out)
    else:
        _print(rules, alerts, outcome, out)
        if costs is not None:
            print_costs(costs, out)
    return finish(outcome, as_json=False, inputs=named(inputs), quiet=True)


def _run(
    options: argparse.Namespace,
    inputs: Inputs,
    stdout: str | None,
    rules: RuleSet,
    counts: Path,
    profile: Path | None,
) -> Outcome:
    """Everything but the summary. stdout: the path of the standard output, which gets the alerts."""
    wanted = Wanted()
    try:
        stack = stack_of(options.stack, options)
        check_inputs(inputs)
        check_privileges(options, inputs)
        given_to_user(options, counts.parent)
        given = [*input_files(inputs), *(path for path in options.rules if Path(path).is_file())]
        if options.out:
            check_output(options.out, *given)
        if options.packets:
            check_output(options.packets, *given, *([options.out] if options.out else []))
        values = {"out": options.out or stdout or "", "counts": str(counts), "fast": "yes" if options.fast else "no"}
        values |= {"packets": options.packets or "", "profile": str(profile or "")}
        names = ["ids", *tunnel_ports_function(stack, options)]
        wanted = find_functions(names, {"ids": with_table(values, rules)})
        compiled = compile_for(stack, wanted, options)
        settings = inline_settings(settings_of(options, timeouts=not options.no_timeouts), options)
    except KeyboardInterrupt:
        return stopped_early(wanted)
    on_terminal = not options.out and sys.stdout.isatty()
    return run_file(compiled, wanted, settings, inputs, rows_on_terminal=on_terminal, observed=options)


def _alerts(rules: RuleSet, counts: Path) -> list[dict[str, Any]]:
    """The rules that alerted, the most frequent first."""
    messages = {(rule.gid, rule.sid): rule.msg for rule in rules.rules}
    found: list[dict[str, Any]] = []
    for line in counts.read_text().splitlines() if counts.exists() else []:
        gid, sid, count = map(int, line.split())
        found.append({"gid": gid, "sid": sid, "msg": messages[gid, sid], "alerts": count})
    return sorted(found, key=lambda each: (-each["alerts"], each["gid"], each["sid"]))


def _bounded(outcome: Outcome) -> dict[str, int]:
    """Bounds that were reached: counters of `ids` that are not 0, by name."""
    return {
        name: outcome.reports[name]
        for name, _ in counters_of("ids")
        if name not in ROUTINE and outcome.reports.get(name)
    }


def _summary(rules: RuleSet, alerts: list[dict[str, Any]], outcome: Outcome) -> dict[str, Any]:
    skipped = [
        {"file": error.place.file, "line": error.place.line, "item": error.item, "why": error.what}
        for error in rules.skipped
    ]
    return {"rules": len(rules.rules), "skipped": skipped, "alerts": alerts, "bounded": _bounded(outcome)}


def _print(rules: RuleSet, alerts: list[dict[str, Any]], outcome: Outcome, out: Any) -> None:
    skipped = f", {len(rules.skipped):,} skipped" if rules.skipped else ""
    total = sum(each["alerts"] for each in alerts)
    print(
        f"{outcome.packets:,} packets; {len(rules.rules):,} rules{skipped}; {total:,} alerts of {len(alerts):,} rules",
        file=out,
    )
    for each in alerts:
        print(f"{each['alerts']:>9,}  [{each['gid']}:{each['sid']}] {each['msg']}", file=out)
    what = dict(counters_of("ids"))
    for name, count in _bounded(outcome).items():
        print(f"{count:>9,}  {what[name]} ({name})", file=out)
