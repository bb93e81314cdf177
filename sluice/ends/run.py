"""Programs in a namespace, which run until they end or a signal ends them."""

from __future__ import annotations

import contextlib
import os
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
    space: Space,
    command: list[str],
    ready: Callable[[IO[str] | None], None],
    pipe: bool = False,
    output: int | None = None,
    move: Callable[[int], bool] | None = None,
    target: Callable[[int], int] = lambda process: process,
) -> tuple[int, str]:
    """Run a command in a namespace; SIGINT and SIGTERM end it. `ready` is called once it has started; with `pipe`, it
    gets its standard output. output: a file of ours for what it, or what it starts, writes. move: what SIGUSR2 does,
    which ends it, too; no packets arrive then. It gets the process, and returns whether that moves. target: the process
    that signals are for, if it is not the command's own. Returns its exit status, and the rest of its output on the
    pipe.

    The program has its own session, so that Ctrl-C ends it once, by us.
    """
    stopped = False
    process: subprocess.Popen[str] | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if process is not None:
            terminate(process)

    def terminate(process: subprocess.Popen[str]) -> None:
        with contextlib.suppress(OSError, IndexError):  # it has ended
            os.kill(target(process.pid), signal.SIGTERM)

    def begin_move(number: int, frame: FrameType | None) -> None:
        nonlocal move
        if process is None or move is None:
            return
        with contextlib.suppress(OSError, IndexError):  # it has ended
            server = target(process.pid)
            moves, move = move, None  # a signal may come again, also while this one is handled
            space.hold()
            if not moves(server):
                space.release(stays=True)
                move = moves

    before: dict[signal.Signals, Any] = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    if move is not None:
        signal.signal(signal.SIGUSR2, begin_move)
        before[signal.SIGUSR2] = signal.SIG_IGN  # the namespace is still to be removed
    files: dict[str, Any] = {"stdout": subprocess.PIPE if pipe else None}
    if output is not None:
        files = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, "pass_fds": (output,)} | (
            {"stdout": subprocess.PIPE} if pipe else {}
        )
    text = ""
    try:
        process = subprocess.Popen(space.command(*command), text=True, start_new_session=True, **files)
        if stopped:  # before there was a process
            terminate(process)
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
