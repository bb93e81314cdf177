"""Waits that end: a test that waits for a thread, a process or what it prints fails after a time, with a message."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE = 120.0
"""Seconds that a test waits for what takes a moment on a machine without load."""


def joined(*threads: threading.Thread, seconds: float = PATIENCE) -> None:
    """Wait for threads; an error if they have not ended after some seconds. Make them daemons, so that they do not
    keep the interpreter from its end then.
    """
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
        assert not thread.is_alive(), f"{thread.name} has not ended after {seconds:.0f} s"


def until(met: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until a condition is true; an error if it is not after some seconds."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"it is not so after {seconds:.0f} s"
        time.sleep(0.01)


@contextlib.contextmanager
def killed_after(process: subprocess.Popen[Any], seconds: float = PATIENCE) -> Iterator[None]:
    """Kill a process that the block has not done with after some seconds, so that no read of its output waits forever;
    and if the block fails, so that the end of a `with` of the process does not wait.
    """
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except BaseException as error:
        if process.poll() is None:
            process.kill()
        if expired.is_set():
            raise AssertionError(f"{process.args} did not do what was expected within {seconds:.0f} s") from error
        raise
    finally:
        timer.cancel()
