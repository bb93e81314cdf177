"""The options of a box between two interfaces, `-i A --forward B`, which several commands share."""

from __future__ import annotations

import argparse
from dataclasses import replace

from sluice.cli.common.errors import UsageError
from sluice.cli.common.inputs import inputs_of
from sluice.cli.common.options import byte_count, seconds
from sluice.engine.inputs import Inputs
from sluice.engine.options import HELD_BYTES, HELD_SECONDS, Settings


def add_forwarding(parser: argparse.ArgumentParser) -> None:
    """Add the option --forward."""
    parser.add_argument(
        "--forward",
        metavar="INTERFACE",
        help="with -i A: run inline between A and this interface; each packet leaves at the other one",
    )
    parser.add_argument(
        "--on-fault",
        choices=("stop", "open", "closed"),
        default="stop",
        help="with --forward, once a function failed: the run ends (stop), or, until it is ended, packets pass without "
        "functions (open) or are dropped (closed) (default stop)",
    )
    parser.add_argument(
        "--on-overload",
        choices=("open", "closed"),
        default="closed",
        help="packets that come faster than functions process them, or that functions hold beyond the next two bounds: "
        "they pass without a decision (open), or are dropped (closed) (default closed)",
    )
    parser.add_argument(
        "--hold-packets",
        type=byte_count("bytes of packets"),
        default=HELD_BYTES,
        metavar="BYTES",
        help="that functions may hold until they have decided (default 16 MiB)",
    )
    parser.add_argument(
        "--hold-time",
        type=seconds,
        default=HELD_SECONDS,
        metavar="SECONDS",
        help="that they may hold a packet (default 0.2)",
    )


def inline_settings(settings: Settings, options: argparse.Namespace) -> Settings:
    """The settings of a box with the bounds of --hold-packets, --hold-time and --on-overload."""
    return replace(
        settings,
        held_bytes=options.hold_packets,
        held_seconds=options.hold_time,
        held_open=options.on_overload == "open",
    )


def forwarding_inputs(options: argparse.Namespace) -> Inputs:
    """The inputs of the command line: two interfaces with --forward, else those of inputs_of.

    Raises UsageError for options that exclude each other.
    """
    if options.forward is None:
        if options.on_fault != "stop":
            raise UsageError(f"--on-fault {options.on_fault}: is for packets that are forwarded: add --forward B")
        return inputs_of(options)
    if len(options.interfaces) != 1 or options.files:
        raise UsageError("--forward B: is for one interface more, as in -i A --forward B")
    if options.forward in options.interfaces:
        raise UsageError(f"--forward {options.forward}: is the interface of -i as well; give the other one")
    if options.snaplen:
        raise UsageError("--snaplen: packets that are cut off cannot be forwarded; leave one of it and --forward out")
    if options.filter:
        raise UsageError("--filter: what it rejects would not be forwarded; leave one of it and --forward out")
    options.interfaces.append(options.forward)
    return replace(inputs_of(options), forwarding=True, on_fault=options.on_fault, on_overload=options.on_overload)
