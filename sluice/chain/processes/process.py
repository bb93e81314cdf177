"""The process of a function of an isolated chain, for the controller, and the result that it writes."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, field
from typing import Any

from sluice.chain.hosts.tunnel import FIGURES
from sluice.chain.processes.program import Part

RESULT_MOST = 16 << 20
"""Bytes of the result of a function."""


@dataclass
class Clone:
    """A process that is prepared, and waits. go: the event that it waits for."""

    pid: int
    pidfd: int
    result: int
    go: int

    def begin(self, token: str) -> None:
        """It continues, and is known to the store by this."""
        os.write(self.go, token.encode())
        os.close(self.go)

    def end(self) -> None:
        """It is not needed."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for file in (self.go, self.pidfd, self.result):
            os.close(file)


@dataclass
class Process:
    """The process of a function."""

    part: Part
    pid: int = 0
    pidfd: int = -1
    result: int = -1
    text: bytes = b""
    crashes: int = 0
    clones: int = 0
    """Processes that took the place of one that was a straggler."""
    clone: Clone | None = None
    in_batch: int = 0
    """Crashes since it was done with a batch."""
    done: int = 0
    seen: tuple[int, int] = (0, 0)
    since: float = 0.0
    known: dict[str, int] = field(default_factory=lambda: {})
    """Its counters in shared memory, as far as they are plausible."""
    tunnel: dict[str, int] = field(default_factory=lambda: {})
    """Datagrams between its processes on another host and this one (hosts/tunnel.py), of those that have ended."""
    reports: dict[str, int] | None = None
    failure: str | None = None
    error: str | None = None
    missing: list[str] = field(default_factory=lambda: [])
    ended: bool = False
    waits: tuple[int, bool] | None = None
    """It has ended, and the next one waits for the store: see Controller."""
    removed: bool = False
    hangs: bool = False
    """Whether it did not return from an event, and was killed."""
    before: dict[str, int] = field(default_factory=lambda: {})
    """The losses of earlier functions in its place."""
    last: dict[str, int] = field(default_factory=lambda: {})
    """Its figures, after it was removed."""
    following: tuple[Part | None] | None = None
    """Its replacement after it has left."""

    def take(self) -> None:
        """Read the available part of its result. One that writes without end is killed."""
        while self.result != -1:
            try:
                chunk = os.read(self.result, 65536)
            except BlockingIOError:
                return
            self.text += chunk
            if not chunk or len(self.text) > RESULT_MOST:
                os.close(self.result)
                self.result = -1
            if len(self.text) > RESULT_MOST:
                os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Read the result and the exit status, once it has ended.

        A function's output is not trusted: without exit status 0, or if it is malformed, it is no result.
        """
        self.take()
        _, status = os.waitpid(self.pid, 0)
        for file in (self.result, self.pidfd):
            if file != -1:
                os.close(file)
        self.pid, self.result, self.pidfd = 0, -1, -1
        found = read_result(self.text) or {}
        self.missing = found.get("missing", self.missing)
        self.error = found.get("error")
        for name, value in found.get("tunnel", {}).items():
            self.tunnel[name] = self.tunnel.get(name, 0) + value
        if "reports" in found and status == 0:
            self.reports, self.failure = found["reports"], found.get("failure")
        return os.waitstatus_to_exitcode(status)


def read_result(text: bytes) -> dict[str, Any] | None:
    """The output of a process: JSON objects, one per line. None if it is malformed."""
    found: dict[str, Any] = {}
    try:
        for line in text.splitlines():
            found |= json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    reports: dict[str, Any] = found.get("reports", {})
    tunnel: dict[str, Any] = found.get("tunnel", {})
    missing: list[Any] = found.get("missing", [])
    valid = (
        isinstance(reports, dict)  # pyright: ignore[reportUnnecessaryIsInstance]
        and all(isinstance(value, int) for value in reports.values())
        and isinstance(tunnel, dict)  # pyright: ignore[reportUnnecessaryIsInstance]
        and all(name in FIGURES and isinstance(value, int) for name, value in tunnel.items())
        and isinstance(missing, list)  # pyright: ignore[reportUnnecessaryIsInstance]
        and all(isinstance(one, str) for one in missing)
        and isinstance(found.get("error", ""), str)
        and isinstance(found.get("failure"), str | None)
    )
    return found if valid else None
