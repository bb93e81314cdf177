"""Two TCP hosts that write segments: they track their numbers; the test decides what is sent and what arrives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.packets import A4, A6, B4, B6, eth, ip4, ip6, tcp


@dataclass
class Host:
    """One end. `isn` is its first number, `next` the number after the bytes that it has sent."""

    address: bytes
    port: int
    isn: int
    window: int = 65535
    tags: tuple[int, ...] = ()
    checksums: bool = False
    next: int = 0
    peer: Host | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.next = self.isn

    def send(
        self,
        flags: str,
        payload: bytes = b"",
        *,
        number: int | None = None,
        ack: int | None = None,
        options: bytes = b"",
        window: int | None = None,
    ) -> bytes:
        """A frame with a segment; unless given, `number` and `ack` are the values that TCP would use."""
        peer = self.peer
        assert peer is not None
        start = self.next if number is None else number
        acknowledged = (peer.next if ack is None else ack) if "A" in flags else 0
        segment = tcp(
            self.port,
            peer.port,
            start,
            flags,
            payload,
            acknowledged,
            self.window if window is None else window,
            options,
            (self.address, peer.address) if self.checksums else None,
        )
        if number is None:
            self.next = start + len(payload) + ("S" in flags) + ("F" in flags)
        pack = ip4 if len(self.address) == 4 else ip6
        return eth(pack(segment, 6, self.address, peer.address), *self.tags)

    def at(self, offset: int, payload: bytes = b"", flags: str = "A") -> bytes:
        """A segment whose first byte is byte `offset` of the stream."""
        return self.send(flags, payload, number=self.isn + 1 + offset)

    def data(self, payload: bytes) -> bytes:
        """The next bytes."""
        return self.send("A", payload)


def pair(
    isn: int = 1000,
    peer_isn: int = 5000,
    *,
    port: int = 40000,
    version: int = 4,
    window: int = 65535,
    tags: tuple[int, ...] = (),
    checksums: bool = False,
) -> tuple[Host, Host]:
    """A client and a server that are peers, with ports `port` and 80."""
    a, b = (A4, B4) if version == 4 else (A6, B6)
    client = Host(a, port, isn, window, tags, checksums)
    server = Host(b, 80, peer_isn, window, tags, checksums)
    client.peer, server.peer = server, client
    return client, server


def handshake(client: Host, server: Host, options: bytes = b"") -> list[bytes]:
    """SYN, SYN/ACK, ACK."""
    return [client.send("S", options=options), server.send("SA", options=options), client.send("A")]


def goodbye(first: Host, second: Host) -> list[bytes]:
    """FIN/ACK, FIN/ACK, ACK: the most common close."""
    return [first.send("FA"), second.send("FA"), first.send("A")]


def shuffled(frames: Sequence[bytes], seed: int, spread: float = 12, first: int = 3, last: int = 3) -> list[bytes]:
    """Frames out of order, each by at most `spread` places, of which a third comes twice.

    The first and the last ones keep their places: by default those of a handshake and a goodbye.
    """
    dice = random.Random(seed)
    end = len(frames) - last
    placed = [(at + dice.uniform(0, spread), one) for at, one in enumerate(frames[first:end])]
    placed += [(at + dice.uniform(0, spread), one) for at, one in dice.sample(placed, len(placed) // 3)]
    return [*frames[:first], *(one for _, one in sorted(placed)), *frames[end:]]
