"""Options that several actions of `sluice analyze` share."""

from __future__ import annotations

import argparse
from typing import TypedDict

from sluice.cli.common.options import count_from_1


class Knowledge(TypedDict):
    """What a user knows of a program, as arguments of the functions of `sluice.analyze`."""

    models: list[str]
    not_receive: list[str]
    assume: list[str]


def add_knowledge(parser: argparse.ArgumentParser) -> None:
    """Add options for what a user knows of a program that the analysis cannot find in it."""
    parser.add_argument(
        "--models", action="append", default=[], metavar="FILE", help="describes functions outside the program (YAML)"
    )
    parser.add_argument(
        "--not-receive",
        action="append",
        default=[],
        metavar="FUNCTION",
        help="a function of the program that reads, but no packets (a configuration, say)",
    )
    parser.add_argument(
        "--assume",
        action="append",
        default=[],
        metavar="WHAT[=REASON]",
        help="harmless: an unknown function by its name, or all (externals), assembly, dlopen; and why",
    )


def knowledge_of(options: argparse.Namespace) -> Knowledge:
    """What was given of it."""
    return {"models": options.models, "not_receive": options.not_receive, "assume": options.assume}


def add_slice_steps(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the bound of slices. default: in words, if the option is not given."""
    parser.add_argument(
        "--slice-steps",
        type=count_from_1("steps"),
        metavar="N",
        help=f"most steps of a slice that matches calls and returns (default: {default})",
    )
