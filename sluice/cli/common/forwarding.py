"""The options of a box between two interfaces, `-i A --forward B`, which several commands share."""

from __future__ import annotations

import argparse
from dataclasses import replace

from sluice.cli.common.errors import UsageError
from sluice.cli.common.inputs import inputs_of
from sluice.engine.inputs import Inputs


def add_forwarding(parser: argparse.ArgumentParser) -> None:
    """Add the option --forward."""
    parser.add_argument(
        "--forward",
        metavar="INTERFACE",
        help="with -i A: run inline between A and this interface; each packet leaves at the other one",
    )


def forwarding_inputs(options: argparse.Namespace) -> Inputs:
    """The inputs of the command line: two interfaces with --forward, else those of inputs_of.

    Raises UsageError for options that exclude each other.
    """
    if options.forward is None:
        return inputs_of(options)
    if len(options.interfaces) != 1 or options.files:
        raise UsageError("--forward B: is for one interface more, as in -i A --forward B")
    if options.forward in options.interfaces:
        raise UsageError(f"--forward {options.forward}: is the interface of -i as well; give the other one")
    if options.snaplen:
        raise UsageError("--snaplen: packets that are cut off cannot be forwarded; leave one of it and --forward out")
    options.interfaces.append(options.forward)
    return replace(inputs_of(options), forwarding=True)
