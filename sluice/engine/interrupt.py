"""Ctrl-C while C code runs.

Python handles a signal when it next executes Python code. While C code runs that is the entry to a function that C
calls back, and what is raised there ctypes prints and forgets: the run would go on to its end.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Generator


@contextlib.contextmanager
def noted(note: Callable[[], None]) -> Generator[None]:
    """Meanwhile Ctrl-C calls `note` instead of raising KeyboardInterrupt.

    Whoever has a handler of their own, or runs this in a thread (which gets no signals), keeps what they have.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupted(_signal: int, _frame: object) -> None:
        note()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Generator[None]:
    """Meanwhile Ctrl-C and SIGTERM call `stop`, unless the program handles them in another way (as in `noted`)."""
    numbers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    replaced: list[signal.Signals] = []

    def stopped(_signal: int, _frame: object) -> None:
        stop()

    if threading.current_thread() is threading.main_thread():
        replaced = [number for number, usual in numbers.items() if signal.getsignal(number) is usual]
    for number in replaced:
        signal.signal(number, stopped)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, numbers[number])
