"""sluice trace STACK -r FILE: say for each packet what each layer read of it, and what came of it.

For each layer that a packet came to: the fields of its header with their values; its instance, by its key, and the
state; the events; and the outcome, with the line of the description that decided it. Options choose packets:

  sluice trace tcp_ip -r in.pcap --packet 17
  sluice trace tcp_ip -r in.pcap --flow 10.0.0.1:443
  sluice trace hello.py -r in.pcap --outcome malformed

The last one answers what the summary's "malformed (version) 1" asks: which packet, and why. All packets up to the last
one that is printed are processed, so instances and states are those of the whole capture. The program is interpreted,
not compiled: it takes some thousand times as long as `sluice run`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from sluice.cli.common.files import check_input
from sluice.cli.common.options import add_command, add_description_options, add_interpreter_options, add_stack
from sluice.cli.common.running import checks_of, stack_of
from sluice.cli.common.trace_choice import FlowEnd, packet_range, read_flow
from sluice.cli.common.trace_text import json_of, text_of
from sluice.engine.packets import Packet, packets, runtime_library
from sluice.engine.trace import HOOKS, Traced, trace
from sluice.lower.build import build


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "trace", __doc__, action)
    add_stack(parser)
    parser.add_argument("-r", required=True, metavar="FILE", dest="file", help="capture file (pcap or pcapng)")
    parser.add_argument(
        "--packet", type=packet_range, metavar="N", help="only this packet, from 1; N-M, N- and -M are ranges"
    )
    parser.add_argument(
        "--flow",
        type=read_flow,
        metavar="A:P[,B:P]",
        help="only packets from or to an address, a port (:53) or both; with two, only packets between them",
    )
    parser.add_argument(
        "--outcome",
        metavar="TEXT",
        help="only packets that ended so in a layer: malformed, dropped, or with the reason",
    )
    parser.add_argument("--json", action="store_true", help="print each packet as a JSON object, one on each line")
    parser.add_argument("--no-timeouts", action="store_true", help="nothing times out, as in `sluice flows`")
    add_description_options(parser)
    add_interpreter_options(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    stack = stack_of(options.stack, options)
    check_input(options.file)
    program = build(stack, HOOKS, checks_of(options))
    library = runtime_library(program.natives)
    first, last = options.packet or (1, None)
    printed = 0
    for traced in trace(
        program,
        lambda secrets: _up_to(last, packets(options.file, library, secrets)),
        timeouts=not options.no_timeouts,
        idle=options.idle,
        lifetime=options.fragment_timeout,
        max_instances=options.max_instances,
        library=library,
        natives=dict(options.natives),
    ):
        if _is_chosen(traced, first, last, options.flow, options.outcome):
            printed += traced.packet is not None
            print(json.dumps(json_of(traced)) if options.json else text_of(traced))
    if not printed:
        chosen = "no packet is chosen" if options.packet or options.flow or options.outcome else "there are no packets"
        print(f"sluice: {options.file}: {chosen}", file=sys.stderr)
    return 0 if printed else 1


def _up_to(last: int | None, all_packets: Iterator[Packet]) -> Iterator[Packet]:
    """The packets up to a number; None: all."""
    for packet in all_packets:
        yield packet
        if packet.number == last:
            return


def _is_chosen(traced: Traced, first: int, last: int | None, flow: list[FlowEnd], outcome: str | None) -> bool:
    """Whether to print a trace. The end of the input is printed if all packets are and the trace is not empty."""
    if traced.packet is None:
        return not flow and outcome is None and last is None and first == 1 and bool(traced.events)
    if traced.packet.number < first:
        return False
    if outcome is not None and not any(_matches(step.outcome, outcome) for step in traced.steps):
        return False
    return not flow or any(all(end.is_in(step.key) for end in flow) for step in traced.steps)


def _matches(outcome: str, text: str) -> bool:
    """Whether an outcome matches a text in the form of the summary, `malformed (version)`, or of the counter, or a part
    of either.
    """
    what, _, why = outcome.partition(":")
    return text.lower() in outcome.lower() or text.lower() in f"{what} ({why})".lower()
