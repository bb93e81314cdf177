"""The entry of the command `sluice`: Ctrl-C before everything is imported ends it without a traceback, too."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line; returns the exit status."""
    try:
        if not _has_streams():
            return 1
        from sluice.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("sluice: stopped", file=sys.stderr)
        return 130


def _has_streams() -> bool:
    """Give closed streams a place, so that no file that is opened gets their numbers; without a standard output there
    is nothing to do.
    """
    closed = sys.stdout is None  # pyright: ignore[reportUnnecessaryComparison]  # as Python has it after >&-
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(os.devnull, "w")
    if closed:
        print("sluice: standard output is closed; redirect it to a file, or to /dev/null", file=sys.stderr)
    return not closed
