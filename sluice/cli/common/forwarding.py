"""The options of a box between two interfaces, `-i A --forward B`, which several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace

from sluice.cli.common.errors import UsageError
from sluice.cli.common.inputs import device_of, inputs_of
from sluice.cli.common.options import byte_count, seconds
from sluice.engine.inputs import Inputs
from sluice.engine.options import HELD_BYTES, HELD_SECONDS, Settings
from sluice.hooks.function import CFunction


def add_forwarding(parser: argparse.ArgumentParser) -> None:
    """Add the option --forward."""
    parser.add_argument(
        "--forward",
        metavar="INTERFACE",
        help="with -i A: run inline between A and this interface; each packet leaves at the other one",
    )
    parser.add_argument(
        "--on-fault",
        type=_policy("stop", "open", "closed"),
        action="append",
        default=[],
        metavar="[FUNCTION=]POLICY",
        help="with --forward, once a function failed: the run ends (stop), or, until it is ended, packets pass without "
        "functions (open) or are dropped (closed) (default stop). FUNCTION=open, FUNCTION=closed: once "
        "this one failed, in C; the others go on",
    )
    parser.add_argument(
        "--on-overload",
        type=_policy("open", "closed"),
        action="append",
        default=[],
        metavar="[FUNCTION=]POLICY",
        help="packets that come faster than functions process them, or that functions hold beyond the next two bounds: "
        "they pass without a decision (open), or are dropped (closed) (default closed). FUNCTION=open: they "
        "pass without this one, in C",
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
        held_open=_of_all(options.on_overload, "closed") == "open",
        on_fault={name: policy for name, policy in options.on_fault if name and policy != "stop"},
        on_overload={name: policy for name, policy in options.on_overload if name},
    )


def _policy(*known: str) -> Callable[[str], tuple[str, str]]:
    """The type of an option [FUNCTION=]POLICY: function (or ""), policy."""

    def read(text: str) -> tuple[str, str]:
        function, _, policy = text.rpartition("=")
        if policy not in known:
            raise argparse.ArgumentTypeError(f"'{policy}' is none of {', '.join(known)}")
        return function, policy

    return read


def _of_all(given: list[tuple[str, str]], default: str) -> str:
    """The policy of the whole box."""
    return next((policy for function, policy in reversed(given) if not function), default)


def check_policies(options: argparse.Namespace, functions: Sequence[CFunction]) -> None:
    """Raise UsageError for a policy of a function that decides on no packets, or that several workers do not have."""
    deciding = [function.name for function in functions if function.inline]
    for option in ("on_fault", "on_overload"):
        for name, policy in getattr(options, option):
            if name and name not in deciding:
                raise UsageError(
                    f"--{option.replace('_', '-')} {name}={policy}: no function in C of this name decides on packets"
                    + (f": {', '.join(deciding)} does" if deciding else "")
                )
            if name and option == "on_overload" and policy == "open" and (options.workers > 1 or options.isolate):
                given = f"--workers {options.workers}" if options.workers > 1 else "--isolate"
                raise UsageError(f"--on-overload {name}=open: one worker can leave a function out: leave out {given}")


def forwarding_inputs(options: argparse.Namespace) -> Inputs:
    """The inputs of the command line: two interfaces with --forward, else those of inputs_of.

    Raises UsageError for options that exclude each other.
    """
    if options.forward is None:
        if (fault := _of_all(options.on_fault, "stop")) != "stop":
            raise UsageError(f"--on-fault {fault}: is for packets that are forwarded: add --forward B")
        return inputs_of(options)
    if len(options.interfaces) != 1 or options.files:
        raise UsageError("--forward B: is for one interface more, as in -i A --forward B")
    if device_of(options.forward) == device_of(options.interfaces[0]):
        raise UsageError(f"--forward {options.forward}: is the interface of -i as well; give the other one")
    if options.snaplen:
        raise UsageError("--snaplen: packets that are cut off cannot be forwarded; leave one of it and --forward out")
    if options.filter:
        raise UsageError("--filter: what it rejects would not be forwarded; leave one of it and --forward out")
    options.interfaces.append(options.forward)
    return replace(
        inputs_of(options),
        forwarding=True,
        on_fault=_of_all(options.on_fault, "stop"),
        on_overload=_of_all(options.on_overload, "closed"),
    )
