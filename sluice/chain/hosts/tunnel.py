"""A UDP tunnel between two hosts: messages arrive once, in their order, although datagrams are lost, repeated and
reordered, and only from an end that knows the key of the session.

A datagram has a code of authentication (BLAKE2b with the key, RFC 7693), its number from 1 (0: it has no messages), the
number of the last one that the sender has received in order, and messages, each after its length. Datagrams that are
not acknowledged are sent again. They are not encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

MESSAGE_MOST = 1300
"""Bytes of a message: with the headers of UDP and IPv6, one fits into a packet of 1,500 bytes."""
DATAGRAM_MOST = 1400
WINDOW = 512
"""Datagrams that are not acknowledged, at most; as many may arrive before one that is missing."""
SILENCE = 10.0
"""Seconds after which the other host counts as lost, if nothing arrives."""
KEEP_ALIVE = 0.5
"""Seconds after which something is sent, also without messages."""
_FIRST, _LAST = 0.03, 1.0
"""Seconds after which a datagram is sent again: at first, and at most."""
_REPEATED = 32
"""Datagrams that are sent again at once."""
_RECEIVED = 256
"""Datagrams that are received before others are sent."""
_BUFFER = 4 << 20
_MAC = 16
_HEAD = struct.Struct("<QQ")
_LENGTH = struct.Struct("<H")
FIGURES = ("sent", "repeated", "received", "refused")
"""What an end counts of datagrams."""
RELAY, AGENT = b"relay", b"agent"
"""The two ends: what one sends is not taken for what the other does."""


@dataclass
class Tunnel:
    """One end. other: the address of the other one, from which its last message came; None: that of the first one that
    proves to know the key.
    """

    socket: socket.socket
    key: bytes
    role: bytes
    other: tuple[str, int] | None = None
    figures: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIGURES, 0))

    def __post_init__(self) -> None:
        self.socket.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self._peer = AGENT if self.role == RELAY else RELAY
        self._waiting: deque[bytes] = deque()
        self._flight: deque[tuple[int, bytes]] = deque()
        self._number = 0
        self._expected = 1
        self._early: dict[int, bytes] = {}
        self._acknowledge = False
        self._timeout = _FIRST
        self.arrived = self._sent = self._progress = time.monotonic()

    def send(self, message: bytes) -> None:
        """A message is transmitted by `exchange`. It has at most MESSAGE_MOST bytes."""
        assert len(message) <= MESSAGE_MOST
        self._waiting.append(message)

    @property
    def pending(self) -> int:
        """Messages and datagrams that the other end has not acknowledged."""
        return len(self._waiting) + len(self._flight)

    @property
    def lost(self) -> bool:
        """Whether the other end has been silent for too long."""
        return time.monotonic() - self.arrived > SILENCE

    def exchange(self, seconds: float) -> list[bytes]:
        """Send what can be sent; wait for so many seconds, if nothing has arrived. The messages that have."""
        self._transmit()
        readable = select.select([self.socket], [], [], seconds)[0]
        found: list[bytes] = []
        for _ in range(_RECEIVED if readable else 0):
            try:
                data, sender = self.socket.recvfrom(1 << 16)
            except BlockingIOError:
                break
            except OSError:  # an ICMP error about a datagram that was sent
                continue
            found += self._take(data, (sender[0], sender[1]))
        self._transmit()
        return found

    def drain(self, seconds: float) -> bool:
        """Wait until the other end has everything, for so many seconds at most. Whether it has."""
        end = time.monotonic() + seconds
        while self.pending and time.monotonic() < end and not self.lost:
            self.exchange(0.01)
        return not self.pending

    def _code(self, role: bytes, data: bytes) -> bytes:
        return hashlib.blake2b(data, digest_size=_MAC, key=self.key, person=role).digest()

    def _take(self, data: bytes, sender: tuple[str, int]) -> Iterator[bytes]:
        """The messages that are in order now that a datagram has arrived."""
        body = data[_MAC:]
        if len(body) < _HEAD.size or not hmac.compare_digest(self._code(self._peer, body), data[:_MAC]):
            self.figures["refused"] += 1
            return
        self.figures["received"] += 1
        self.arrived = time.monotonic()
        number, acknowledged = _HEAD.unpack_from(body)
        while self._flight and self._flight[0][0] <= acknowledged:
            self._flight.popleft()
            self._progress, self._timeout = self.arrived, _FIRST
        first = self._expected <= number < self._expected + WINDOW and number not in self._early
        if first or self.other is None:  # one that is repeated may be from someone who has only read it
            self.other = sender
        if not number:
            return
        self._acknowledge = True
        if first:
            self._early[number] = body[_HEAD.size :]
        while (found := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            at = 0
            while at + _LENGTH.size <= len(found):
                (size,) = _LENGTH.unpack_from(found, at)
                yield found[at + _LENGTH.size : at + _LENGTH.size + size]
                at += _LENGTH.size + size

    def _transmit(self) -> None:
        """Send new messages, those that were not acknowledged in time, and acknowledgements."""
        if self.other is None:
            return
        now = time.monotonic()
        if not self._flight:
            self._progress = now
        elif now - self._progress > self._timeout:
            for number, body in list(self._flight)[:_REPEATED]:
                self.figures["repeated"] += 1
                self._put(number, body)
            self._progress, self._timeout = now, min(2 * self._timeout, _LAST)
        while self._waiting and len(self._flight) < WINDOW:
            parts, size = list[bytes](), 0
            while self._waiting and size + _LENGTH.size + len(self._waiting[0]) <= DATAGRAM_MOST - _MAC - _HEAD.size:
                message = self._waiting.popleft()
                parts += (_LENGTH.pack(len(message)), message)
                size += _LENGTH.size + len(message)
            self._number += 1
            self._flight.append((self._number, b"".join(parts)))
            self._put(*self._flight[-1])
        if self._acknowledge or now - self._sent > KEEP_ALIVE:
            self._put(0, b"")

    def _put(self, number: int, messages: bytes) -> None:
        body = _HEAD.pack(number, self._expected - 1) + messages
        self._acknowledge, self._sent = False, time.monotonic()
        self.figures["sent"] += 1
        with contextlib.suppress(OSError):  # as one that is lost on the way
            self.socket.sendto(self._code(self.role, body) + body, self.other or ("", 0))


def opened(address: str) -> socket.socket:
    """A socket at an address of this host, with a port that is free. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        made.bind((address, 0))
    except OSError:
        made.close()
        raise
    return made
