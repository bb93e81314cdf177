"""Tracebacks of exceptions that signals raise, as pytest-timeout does, where the interpreter has no line.

CPython 3.11 has instructions without a line. If an exception arises at one, `tb_lineno` is None: pytest cannot show
the traceback, and with pytest-xdist the whole run ends. The first line of the function is shown instead.
"""

from __future__ import annotations

from _pytest._code.code import TracebackEntry


def pytest_configure() -> None:
    """Give every entry a line."""

    def lineno(entry: TracebackEntry) -> int:
        raw = entry._rawentry  # pyright: ignore[reportPrivateUsage]
        line: int | None = raw.tb_lineno  # typeshed does not know of None
        return (raw.tb_frame.f_code.co_firstlineno if line is None else line) - 1

    TracebackEntry.lineno = property(lineno)  # pyright: ignore[reportAttributeAccessIssue]
