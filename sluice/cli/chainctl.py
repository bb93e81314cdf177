"""sluice chainctl SOCKET ACTION: change the functions of a running chain.

The chain runs with `sluice chain CHAIN.py --isolate --control SOCKET`. Packets pass meanwhile: a function is exchanged
between two batches of packets.

  sluice chainctl /run/guard list                             functions, their processes, what they received and lost
  sluice chainctl /run/guard remove mark
  sluice chainctl /run/guard replace ids ids2.c limit=5       the new one in its place, with these parameters
  sluice chainctl /run/guard add count count.c                a further function, after all others
  sluice chainctl /run/guard unsubscribe ids tcp.data         it gets no more of these events
  sluice chainctl /run/guard subscribe ids tcp.data --flow 7  but those of one flow
  sluice chainctl /run/guard scale nat 4                      four instances share the traffic of a function
  sluice chainctl /run/guard move nat 0 1 --percent 30        instance 1 gets a part of that of instance 0
  sluice chainctl /run/guard clone nat#1                      another process continues what a straggler does
  sluice chainctl /run/guard kill nat#1                       kill a process; root is that of the stack

Events are named as `list` has them, flows by their numbers (`event.instance` in Python). A new function may subscribe
to the events that the running stack sends to any function. docs/chain.md has the rest.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from sluice.chain.processes.commands import RequestError, ask
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.options import add_command


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "chainctl", __doc__, action)
    parser.add_argument("socket", metavar="SOCKET", help="that of `sluice chain --isolate --control SOCKET`")
    actions = parser.add_subparsers(dest="what", metavar="ACTION", required=True, title="actions")
    listing = actions.add_parser("list", help="the functions, and what they received and lost")
    listing.add_argument("--json", action="store_true", help="as JSON")
    removing = actions.add_parser("remove", help="end a function")
    removing.add_argument("name", metavar="NAME", help="of a function")
    for what, text in (("replace", "run another function in the place of one"), ("add", "run a further function")):
        one = actions.add_parser(what, help=text)
        one.add_argument("name", metavar="NAME", help="that it has in the chain")
        one.add_argument("source", metavar="FILE.c", help="the function")
        one.add_argument("parameters", metavar="NAME=VALUE", nargs="*", help="its parameters")
    for what, text in (("subscribe", "let a function receive an event"), ("unsubscribe", "not any more")):
        one = actions.add_parser(what, help=text)
        one.add_argument("name", metavar="NAME", help="of a function")
        one.add_argument("event", metavar="LAYER.EVENT", help="an event that it handles")
        one.add_argument("--flow", type=int, metavar="NUMBER", help="of this flow alone")
    killing = actions.add_parser("kill", help="kill a process, as a crash does, to see what the chain does then")
    killing.add_argument("name", metavar="NAME", help="of a process, as `list` has it; root is that of the stack")
    cloning = actions.add_parser(
        "clone", help="let another process continue what an instance does, if it is a straggler"
    )
    cloning.add_argument("name", metavar="NAME", help="of an instance with state in a store, as `list` has it")
    scaling = actions.add_parser("scale", help="let so many instances share the traffic of a function")
    scaling.add_argument("name", metavar="NAME", help="of a function that was started with --instances")
    scaling.add_argument("instances", metavar="N", type=int, help="number of instances")
    moving = actions.add_parser("move", help="move traffic between instances of a function")
    moving.add_argument("name", metavar="NAME", help="of a function that was started with --instances")
    moving.add_argument("source_instance", metavar="FROM", type=int, help="an instance, from 0")
    moving.add_argument("to", metavar="TO", type=int, help="another one")
    moving.add_argument("--percent", type=int, default=50, metavar="N", help="of the traffic of FROM (default 50)")


def action(options: argparse.Namespace) -> int:
    """Send a request to the chain, and print its answer."""
    request: dict[str, Any] = {"do": options.what}
    if options.what != "list":
        request["name"] = options.name
    if options.what in ("replace", "add"):
        request["source"] = os.path.abspath(options.source)
        request["parameters"] = dict(_parameter(text) for text in options.parameters)
    if options.what == "scale":
        request["instances"] = options.instances
    if options.what == "move":
        request |= {"from": options.source_instance, "to": options.to, "percent": options.percent}
    if options.what in ("subscribe", "unsubscribe"):
        request |= {"event": options.event, "flow": options.flow}
    try:
        answer = ask(options.socket, request)
    except RequestError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{options.socket}: {error.strerror}; is the chain running with --control?") from error
    if options.what == "list":
        print(json.dumps(answer["functions"]) if options.json else _table(answer["functions"]))
    elif options.what == "clone":
        print("its clone continues" if answer["cloned"] else "it is no straggler: it has handled what it was given")
    elif options.what in ("scale", "move"):
        print(f"{answer['moved']} of 1024 parts of the traffic move")
    return 0


def _parameter(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"'{text}' is no parameter: write NAME=VALUE")
    return name, value


def _table(functions: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for function in functions:
        process = f", process {function['process']}" if function["process"] else ""
        lines.append(f"{function['name']}: {function['state']}{process}, {function['flows']} flows")
        lines.append(f"  receives  {', '.join(function['receives'])}")
        lines.append(f"  failure   {function['failure']}, overload: {function['overload']}")
        if "scope" in function:
            shares = ", ".join(f"{name}: {parts}" for name, parts in function["parts"].items())
            packets = ", ".join(f"{name}: {count:,}" for name, count in function["packets"].items())
            lines.append(f"  instances divided by {function['scope']}; parts {shares}; packets {packets}")
        counted = {name: function[name] for name in _COUNTED if function[name]}
        if counted:
            lines.append("  " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in counted.items()))
        if function["not_limited"]:
            lines.append(f"  without   {', '.join(function['not_limited'])}")
    return "\n".join(lines)


_COUNTED = (
    "crashes", "clones", "events_skipped", "flows_lost", "events_lost", "events_without_room", "not_published",
    "not_decided", "waiting_batches",
)  # fmt: skip
