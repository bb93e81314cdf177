"""Ctrl-C, and SIGTERM, while C code runs.

Python handles a signal when it next executes Python code. While C code runs, that is the entry to a function that C
calls back, and ctypes prints and drops what is raised there: the run would go on to its end.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Generator

_SIGNALS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""The signals that stop a run, and Python's own handlers of them."""


@contextlib.contextmanager
def noted(note: Callable[[], None]) -> Generator[None]:
    """Meanwhile these signals call `note` instead of ending the program.

    A handler of the caller's own stays in place; so it does in a thread, which gets no signals.
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
