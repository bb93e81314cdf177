"""The entry point of the command `sluice`. It handles Ctrl-C during imports too, without a traceback."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line. Returns the exit status."""
    try:
        if not _has_streams():
            return 1
        from sluice.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("sluice: stopped", file=sys.stderr)
        return 130


def _has_streams() -> bool:
    """Open /dev/null for closed standard streams, so that no opened file gets their descriptors. Returns whether
    standard output was open.
    """
    closed = sys.stdout is None  # pyright: ignore[reportUnnecessaryComparison]  # Python sets None after >&-
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
