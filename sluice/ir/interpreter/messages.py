"""The model of what a side's stream has brought of a message. sluice/runtime/messages.h does the same in C."""

from __future__ import annotations

from collections.abc import Callable

from sluice.ir.interpreter.value import Bytes

FOUND, LOST, SEARCHING, OVER = range(4)
LIMIT, GAP, MALFORMED_CAUSE = range(3)

INCOMPLETE = 0
TOO_LONG = (1 << 64) - 2
"""From here on what a frame graph returns is no length."""


class Messages:
    """One side of an instance: bytes of an incomplete message, and whether it is known where the next begins."""

    def __init__(self) -> None:
        self.kept = b""
        self.state = FOUND
        self.cause = 0

    def lose(self, cause: int) -> None:
        """What was kept is of no use any more."""
        self.kept = b""
        if self.state not in (OVER, LOST):
            self.state = LOST
            self.cause = cause

    def take(
        self,
        data: bytes,
        frame: Callable[[Bytes, int], int],
        deliver: Callable[[Bytes], None],
        lost: Callable[[int], None],
        resyncs: bool,
    ) -> None:
        """Cut what the stream brings into messages. `frame` tells how long the one at the beginning is."""
        if self.state == OVER:
            return
        rest = self.kept + data
        self.kept = b""
        while rest:
            if self.state == LOST:
                lost(self.cause)
                self.state = SEARCHING if resyncs else OVER
                if self.state == OVER:
                    return
            length = frame((rest, len(rest)), int(self.state == SEARCHING))
            if length == INCOMPLETE:
                break
            if length >= TOO_LONG:
                if self.state == SEARCHING:
                    rest = rest[1:]
                else:
                    self.lose(LIMIT if length == TOO_LONG else MALFORMED_CAUSE)
                continue
            self.state = FOUND
            if length > len(rest):
                break
            deliver((rest[:length], length))
            rest = rest[length:]
        self.kept = rest
