"""Temporary output on a terminal while a command works."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator


def _on_terminal() -> bool:
    return sys.stderr.isatty()


@contextlib.contextmanager
def busy(what: str) -> Generator[None]:
    """Show on a terminal which long operation runs, and erase the text afterwards."""
    if not _on_terminal():
        yield
        return
    print(f"\r{what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(_CLEAR, end="", file=sys.stderr, flush=True)


_CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def progress_line() -> Generator[Callable[[int, int, int], bool] | None]:
    """A progress callback that updates one line of the terminal and clears it at the end; None without a terminal."""
    if not _on_terminal():
        yield None
        return
    begin = time.monotonic()
    last = 0.0
    shown = False

    def show(done: int, size: int, packets: int) -> bool:
        nonlocal last, shown
        now = time.monotonic()
        if now - last >= 0.1:
            last = now
            shown = True
            rate = packets / max(now - begin, 1e-9) / 1e6
            share = f"{100 * done // size:3d}%  " if size else ""
            text = f"\r{share}{packets:,} packets  {rate:.2f} M/s{_CLEAR[1:]}"
            print(text, end="", file=sys.stderr, flush=True)
        return False

    try:
        yield show
    finally:
        if shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
