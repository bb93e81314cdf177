"""What hosts say in streams of SCTP: in messages and chunks of any length."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.functions.logs.boxes import Talk
from tests.protocols.test_sctp import (
    BEGIN,
    COMPLETE,
    END,
    SHUTDOWN,
    SHUTDOWN_ACK,
    TSN,
    UNORDERED,
    A,
    B,
    chunk,
    data,
    handshake,
    packet,
)

I_DATA = 64
HELLO, GOODBYE = 4, 3
"""Packets at the beginning and at the end of an association."""


@dataclass
class Association:
    """The packets of an association so far. part: bytes of a chunk at most; interleaved: chunks are I-DATA."""

    part: int = 1200
    interleaved: bool = False
    frames: list[bytes] = field(default_factory=lambda: [one.data for one in handshake()])
    numbers: Counter[str] = field(default_factory=lambda: Counter[str]())
    messages: Counter[tuple[str, int]] = field(default_factory=lambda: Counter[tuple[str, int]]())

    def say(self, src: str, stream: int, said: bytes, unordered: bool = False) -> None:
        """Send a message."""
        parts = [said[at : at + self.part] for at in range(0, len(said), self.part)]
        number = self.messages[src, stream]
        self.messages[src, stream] += not unordered
        for place, part in enumerate(parts):
            flags = BEGIN * (place == 0) | END * (place == len(parts) - 1) | UNORDERED * unordered
            self.frames.append(packet(self._chunk(src, stream, number, part, flags, place), src).data)
            self.numbers[src] += 1

    def _chunk(self, src: str, stream: int, number: int, part: bytes, flags: int, place: int) -> bytes:
        if not self.interleaved:
            return data(self.numbers[src], part, flags, stream, number % 2**16, src)
        tsn = (TSN[src] + self.numbers[src]) % 2**32
        return chunk(I_DATA, struct.pack(">IHHII", tsn, stream, 0, number % 2**32, place) + part, flags)

    def end(self) -> list[bytes]:
        """Close it; all packets."""
        for kind, src in ((SHUTDOWN, A), (SHUTDOWN_ACK, B), (COMPLETE, A)):
            self.frames.append(packet(chunk(kind, bytes(4) if kind == SHUTDOWN else b""), src).data)
        return self.frames


def association(talks: Sequence[Talk], cut: int = 1200, part: int = 1200, interleaved: bool = False) -> list[bytes]:
    """An association, each stream of which has one of the talks, in messages of at most `cut` bytes."""
    found = Association(part, interleaved)
    for who, stream, said in _by_turns(talks):
        for at in range(0, len(said), cut):
            found.say(A if who == ">" else B, stream, said[at : at + cut])
    return found.end()


def _by_turns(talks: Sequence[Talk]) -> Iterator[tuple[str, int, bytes]]:
    for step in range(max(len(talk) for talk in talks)):
        for stream, talk in enumerate(talks):
            if step < len(talk):
                yield talk[step][0], stream, talk[step][1]
