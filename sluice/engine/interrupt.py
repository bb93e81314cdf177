"""Handles Ctrl-C (SIGINT) and SIGTERM while C code runs.

Python handles a signal when it next executes Python code. While C code runs, this is on entry to a callback. ctypes
prints and discards an exception that is raised there, so the run would continue to its end.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Generator

_SIGNALS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""The signals that stop a run, with Python's default handlers."""


@contextlib.contextmanager
def noticed(note: Callable[[], None]) -> Generator[None]:
    """While the context is active, SIGINT and SIGTERM call `note` instead of ending the program.

    A handler that the caller installed is not replaced. Outside the main thread nothing is changed, because signal
    handlers run only in the main thread.
    """
    replaced: list[signal.Signals] = []

    def interrupted(_signal: int, _frame: object) -> None:
        note()

    if threading.current_thread() is threading.main_thread():
        for number, python in _SIGNALS.items():
            if signal.getsignal(number) is python:
                signal.signal(number, interrupted)
                replaced.append(number)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, _SIGNALS[number])
