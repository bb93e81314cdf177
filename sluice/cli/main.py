"""`sluice COMMAND ...`: runs the command and prints errors as text for users."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Generator, Iterable

from sluice import __version__
from sluice.cli.common.errors import UsageError, from_here, tell
from sluice.lang.errors import DescriptionWarning, did_you_mean

_EPILOGUE = """\
STACK is a name (everything, tcp_ip, ...) or a Python file that describes one. A first example:

  sluice flows -r capture.pcap -o flows.jsonl
  sluice new hello                                 writes a protocol of your own to start from
  sluice run hello/stack.py -r hello/capture.pcap -f hello/stack.py

Exit status: 0 done, 1 something was wrong with the input, 2 wrong usage, 130 stopped by Ctrl-C.
"""


COMMANDS = (
    "run", "chain", "chainctl", "flows", "report", "ids", "top", "reload", "trace", "show", "explain",
    "build", "mos", "serve", "proxy", "endpoint", "state", "analyze", "isolate", "bench", "new",
    "functions", "stacks", "help", "completion",
)  # fmt: skip
"""The commands, each of the module sluice.cli.NAME. Only that of the given command is imported, which makes a command
start in a fraction of the time.
"""
OF_ALL = ("help", "completion")
"""Commands that read the parsers of all commands."""


def parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of the whole command line, or of some commands."""
    top = argparse.ArgumentParser(
        prog="sluice",
        description="Program middleboxes: describe a protocol stack, run it on packets.",
        epilog=_EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"sluice {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name in names:
        importlib.import_module(f"sluice.cli.{name}").add(commands)
    return top


def _corrected(arguments: list[str] | None) -> list[str]:
    """The arguments. Raises UsageError with a suggestion for an unknown command."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and not given[0].startswith("-") and given[0] not in COMMANDS:
        raise UsageError(
            f"there is no command '{given[0]}': {did_you_mean(given[0], COMMANDS)}\n    sluice --help lists them."
        )
    return given


def _options(arguments: list[str]) -> argparse.Namespace:
    """The parsed arguments. Raises UsageError with a suggestion for an unknown option."""
    is_alone = bool(arguments) and arguments[0] in COMMANDS and arguments[0] not in OF_ALL
    top = parser(arguments[:1] if is_alone else COMMANDS)
    options, unknown = top.parse_known_args(arguments)
    if unknown:
        own: argparse.ArgumentParser = options.parser
        known = [name for action in own._actions for name in action.option_strings]  # pyright: ignore[reportPrivateUsage]
        first = unknown[0].partition("=")[0]
        advice = (
            did_you_mean(first, known)
            if first.startswith("-")
            else f"sluice {options.command} --help says what it takes."
        )
        raise UsageError(f"sluice {options.command} takes no '{first}': {advice}")
    options.arguments = arguments
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0 success, 1 an error in the input, 2 wrong usage."""
    try:
        options = _options(_corrected(arguments))
        with _printed_warnings():
            status = options.action(options)
            sys.stdout.flush()
            return status
    except BrokenPipeError:
        # the reader of the output has closed it: discard the buffered output without an error
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("sluice: stopped", file=sys.stderr)
        return 130
    except Exception as error:
        text = tell(error)
        if text is None:
            raise
        print(f"sluice: {text}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


@contextlib.contextmanager
def _printed_warnings() -> Generator[None]:
    """Print warnings about a description, and Python's SyntaxWarnings, as one line each on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DescriptionWarning)
        warnings.simplefilter("always", SyntaxWarning)
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, category: type[Warning], file: str, line: int, *_: object) -> None:
    where = f"{file}:{line}: " if issubclass(category, SyntaxWarning) else ""
    print(f"sluice: warning: {from_here(f'{where}{message}')}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
