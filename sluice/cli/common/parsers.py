"""The declarations of the commands' parsers, for shell completion and manual pages."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """An option or argument: its names (none of an argument), the name of its value ("" for a flag), and its help."""

    names: tuple[str, ...]
    value: str
    help: str


def options_of(parser: argparse.ArgumentParser) -> Iterator[Option]:
    """The options of a command, in the order of its help."""
    return (item for item in declared(parser) if item.names)


def declared(parser: argparse.ArgumentParser) -> Iterator[Option]:
    """The arguments and options of a command, in the order of its help."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if action.help is argparse.SUPPRESS:
            continue
        flag = action.nargs == 0
        metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        text = " ".join((action.help or "").replace("%%", "%").split())
        yield Option(tuple(action.option_strings), "" if flag else metavar, text)
