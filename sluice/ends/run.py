"""Programs in a namespace, which run until they end or a signal ends them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from types import FrameType
from typing import IO

from sluice.ends.space import Space

_PATIENCE = 10.0
"""Seconds for a program to end after SIGTERM, until it is killed."""


def run_in(
    space: Space, command: list[str], ready: Callable[[IO[str] | None], None], pipe: bool = False
) -> tuple[int, str]:
    """Run a command in a namespace; SIGINT and SIGTERM end it. `ready` is called once it has started; with `pipe`, it
    gets its standard output. Its exit status, and what else it wrote there.

    The program is in a session of its own, so that Ctrl-C ends it once, by us.
    """
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        process.terminate()

    output = subprocess.PIPE if pipe else None
    process = subprocess.Popen(space.command(*command), stdout=output, text=True, start_new_session=True)
    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    text = ""
    try:
        ready(process.stdout)
        while process.poll() is None:
            try:
                text += process.communicate(timeout=_PATIENCE)[0] or ""
            except subprocess.TimeoutExpired:
                if stopped:
                    process.kill()
        text += process.communicate()[0] or "" if not text else ""
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for each, handler in before.items():
            signal.signal(each, handler)
    return (0 if stopped else process.returncode), text
