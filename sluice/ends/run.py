"""Programs in a namespace, which run until they end or a signal ends them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from types import FrameType
from typing import IO, Any

from sluice.ends.space import Space

_PATIENCE = 10.0
"""Seconds for a program to end after SIGTERM, until it is killed."""


@contextlib.contextmanager
def exits_on_term() -> Generator[None]:
    """SIGTERM ends Python by an exception, so that the namespace is removed."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_in(
    space: Space, command: list[str], ready: Callable[[IO[str] | None], None], pipe: bool = False, moves: bool = False
) -> tuple[int, str]:
    """Run a command in a namespace; SIGINT and SIGTERM end it. `ready` is called once it has started; with `pipe`, it
    gets its standard output. moves: SIGUSR2 is the command's, which ends, too; no packets arrive then. Returns its exit
    status, and its other output there.

    The program has its own session, so that Ctrl-C ends it once, by us.
    """
    stopped = False
    process: subprocess.Popen[str] | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if process is not None:
            process.terminate()

    def move(number: int, frame: FrameType | None) -> None:
        nonlocal moves
        if process is not None and moves:
            moves = False  # a signal may come again, also while this one is handled
            space.hold()
            process.send_signal(number)

    before: dict[signal.Signals, Any] = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    if moves:
        signal.signal(signal.SIGUSR2, move)
        before[signal.SIGUSR2] = signal.SIG_IGN  # the namespace is still to be removed
    output = subprocess.PIPE if pipe else None
    text = ""
    try:
        process = subprocess.Popen(space.command(*command), stdout=output, text=True, start_new_session=True)
        if stopped:  # before there was a process
            process.terminate()
        ready(process.stdout)
        while process.poll() is None:
            try:
                text = process.communicate(timeout=_PATIENCE)[0] or ""
            except subprocess.TimeoutExpired:
                if stopped:
                    process.kill()
        text = text or process.communicate()[0] or ""
        status = process.returncode
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        for each, handler in before.items():
            signal.signal(each, handler)
    return (0 if stopped else status), text
