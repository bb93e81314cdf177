"""`sluice COMMAND ...`: finds the command and tells errors as a person wants them told."""

from __future__ import annotations

import argparse
import os
import sys
import warnings

from sluice import __version__
from sluice.cli import flows, run
from sluice.engine.box import RunError
from sluice.engine.compiler import CompilerError
from sluice.engine.functions import FunctionError
from sluice.lang.errors import DescriptionError, DescriptionWarning
from sluice.passes.pipeline import UnknownPassError
from sluice.stacks.find import UnknownStackError

COMMANDS = (run, flows)

_EXPECTED = (DescriptionError, UnknownStackError, UnknownPassError, FunctionError, RunError, CompilerError)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(prog="sluice", description="Program middleboxes: describe a protocol stack, run it on packets.")
    top.add_argument("--version", action="version", version=f"sluice {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 done, 1 something was wrong with the input, 2 wrong usage."""
    options = parser().parse_args(arguments)
    warnings.simplefilter("always", DescriptionWarning)
    warnings.showwarning = _show_warning
    try:
        return options.action(options)
    except _EXPECTED as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("sluice: stopped", file=sys.stderr)
        return 130


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    if issubclass(category, DescriptionWarning):
        print(f"sluice: warning: {message}", file=sys.stderr)
    else:
        print(f"sluice: {filename}:{lineno}: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
