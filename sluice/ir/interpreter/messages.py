"""The model of how packets and streams are cut into messages. sluice/runtime/stream/messages.h does the same in C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.ir.graph import CUT_BYTES
from sluice.ir.interpreter.holders import Holders
from sluice.ir.interpreter.value import Bytes

FOUND, LOST, SEARCHING, OVER = range(4)
LIMIT, GAP, MALFORMED_CAUSE, CLOSE, SHORT, SNAPLEN, MEMORY, WORK, BUNDLE = range(9)

INCOMPLETE = 0
MALFORMED, TOO_LONG, CUT = ((1 << 64) - number for number in (1, 2, 3))
"""What a frame graph returns when no message begins."""
SEARCHED = 8
"""Where bytes are searched for the beginning of a message, so many count as half of one that is bundled."""
PACKET_CAUSES = {MALFORMED: MALFORMED_CAUSE, TOO_LONG: LIMIT, CUT: SNAPLEN}
"""Why that is, where messages are cut from a packet."""


@dataclass(frozen=True, slots=True)
class Taker:
    """A layer that takes messages. `frame` tells how long the one at the beginning of bytes is; `lost` is notified of
    bytes that make none: their stream offset, how many so far, why. `brought` is notified of how many bytes a stream
    brings; `bounded` says whether the next message is not delivered, as the packet has had too many. `searched` is
    notified after every SEARCHED bytes at which no message begins.
    """

    layer: str
    frame: Callable[[Bytes, int], int]
    deliver: Callable[[Bytes], None]
    lost: Callable[[int, int, int], None]
    resyncs: bool
    brought: Callable[[int], None] = lambda _: None
    bounded: Callable[[], bool] = lambda: False
    searched: Callable[[], None] = lambda: None


def cut_packet(sdu: Bytes, counters: dict[str, int], taker: Taker, exceeded: Callable[[], int | None]) -> None:
    """Cut what a packet brings into messages; nothing is kept. `exceeded`: why the packet may have no other one."""
    whole, lost = CUT_BYTES
    data, length = sdu
    counters[whole] += length
    at = 0
    while at < length:
        rest = data[at:], length - at
        cause = exceeded()
        if cause is not None:
            counters[lost] += rest[1]
            taker.lost(at, rest[1], cause)
            return
        found = taker.frame(rest, 0)
        if not 1 <= found <= rest[1]:
            counters[lost] += rest[1]
            taker.lost(at, rest[1], PACKET_CAUSES.get(found, SHORT))
            return
        taker.deliver((rest[0][:found], found))
        at += found


class Messages:
    """One side of an instance: bytes of an incomplete message, and whether it is known where the next begins.

    begin: stream offset of the first byte that no message has had. seen: of the byte after all that came or was
    given up. want: how many bytes the message has whose beginning is kept, once that tells. taker: the layer that took
    them last. holders: among which it is while it keeps bytes.
    """

    def __init__(self) -> None:
        self.kept = b""
        self.want = 0
        self.state = FOUND
        self.cause = 0
        self.begin = 0
        self.seen = 0
        self.taker = ""
        self.holders = Holders()

    def drop(self) -> None:
        """Forget what is kept."""
        self.kept, self.want = b"", 0
        self.holders.leave(self)

    def gap(self, end: int) -> None:
        """Bytes of the stream, up to offset `end`, do not come."""
        self.seen = max(end, self.seen)
        self.lose(GAP)

    def lose(self, cause: int) -> None:
        """What was kept is of no use any more."""
        self.drop()
        if self.state not in (OVER, LOST):
            self.state = LOST
            self.cause = cause

    def take(self, data: bytes, offset: int, taker: Taker) -> None:
        """Cut what the stream brings at `offset` into messages."""
        if self.state == OVER:
            return
        self.taker = taker.layer
        self.seen = max(offset, self.seen) + len(data)
        rest = self.kept + data
        if self.kept and len(rest) < self.want:
            self.kept = rest
            return
        self.drop()
        taker.brought(len(data))
        skipped = searched = 0

        def lose_skipped() -> None:
            if skipped:
                taker.lost(self.seen - len(rest) - skipped, skipped, BUNDLE)

        while rest:
            if self.state == LOST:
                lose_skipped()
                skipped = 0
                taker.lost(self.begin, max(self.seen - len(rest) - self.begin, 0), self.cause)
                self.state = SEARCHING if taker.resyncs else OVER
                if self.state == OVER:
                    return
            length = taker.frame((rest, len(rest)), int(self.state == SEARCHING))
            if length == INCOMPLETE:
                break
            if length >= TOO_LONG:
                if self.state == SEARCHING and taker.bounded():
                    skipped += len(rest)
                    rest = b""
                elif self.state == SEARCHING:
                    rest = rest[1:]
                    searched += 1
                    if searched % SEARCHED == 0:
                        taker.searched()
                else:
                    self.begin = self.seen - len(rest)
                    self.lose(LIMIT if length == TOO_LONG else MALFORMED_CAUSE)
                continue
            self.state = FOUND
            if length > len(rest):
                self.want = length
                break
            if taker.bounded():
                skipped += length
            else:
                taker.deliver((rest[:length], length))
            rest = rest[length:]
        lose_skipped()
        self.kept = rest
        if rest:
            self.holders.enter(self)
        if self.state != LOST:
            self.begin = self.seen - len(rest)

    def close(self, taker: Taker) -> None:
        """The stream ends: `taker` is notified of the part of a message that it was left with, or of a loss before."""
        if self.taker != taker.layer:
            return
        if self.state == FOUND and self.kept:
            self.lose(CLOSE)
        if self.state == LOST:
            taker.lost(self.begin, self.seen - self.begin, self.cause)
        self.drop()
        self.state = OVER
