"""Two ends of a TCP connection with selective acknowledgements (RFC 2018), as models that check each packet, and a link
between them that loses, repeats and reorders packets on both sides of a box."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

from tests.support.packets import A4, B4, checksum, eth, ip4, pseudo_header, tcp

ROUNDS = 1500
WINDOW = 30000
SACK_OPTION = 5


class Link:
    """What is between the ends."""

    def through(self, packets: list[bytes]) -> list[bytes]:
        """What leaves when these packets arrive."""
        raise NotImplementedError

    def connect(self, client: End, server: End) -> None:
        """Both ends get the SYN of the other one."""
        for sender, receiver in ((client, server), (server, client)):
            (packet,) = self.through([sender.syn()])
            receiver.feed(packet)


@dataclass
class End:
    """One end: `text` is what it sends, `got` what it received."""

    address: bytes
    port: int
    peer_address: bytes
    peer_port: int
    isn: int
    text: bytes = b""
    sizes: tuple[int, int] = (1, 1000)
    chosen: random.Random = field(default_factory=lambda: random.Random(1))
    cuts: list[int] = field(default_factory=list[int])
    got: bytearray = field(default_factory=bytearray)
    una: int = 0
    sent: int = 0
    peer_isn: int = -1
    begun: bool = False
    reset: bool = False
    fin_sent: bool = False
    fin_got: bool = False
    owes: bool = False
    waiting: dict[int, bytes] = field(default_factory=dict[int, bytes])
    peer_fin: int = -1
    sacked: set[int] = field(default_factory=set[int])
    segments: dict[int, bytes] = field(default_factory=dict[int, bytes])
    quiet: int = 0

    def packet(self, flags: str, offset: int, payload: bytes = b"", options: bytes = b"") -> bytes:
        """A segment at an offset of the stream, where -1 is the SYN."""
        ack = (self.peer_isn + 1 + len(self.got) + self.fin_got) if self.peer_isn >= 0 else 0
        segment = tcp(
            self.port, self.peer_port, self.isn + 1 + offset, flags, payload, ack if "A" in flags else 0, WINDOW,
            options, (self.address, self.peer_address),
        )  # fmt: skip
        packet = bytearray(ip4(segment, 6, self.address, self.peer_address))
        packet[10:12] = b"\0\0"
        packet[10:12] = checksum(bytes(packet[:20])).to_bytes(2, "big")
        return eth(bytes(packet))

    def syn(self) -> bytes:
        options = bytes([2, 4, 5, 180, 4, 2, 3, 3, 0])
        return self.packet("SA" if self.peer_isn >= 0 else "S", -1, b"", options)

    def blocks(self) -> bytes:
        """The option with the first block that waits."""
        for offset in sorted(self.waiting):
            low = self.peer_isn + 1 + offset
            return struct.pack(
                ">BBBBII", 1, 1, SACK_OPTION, 10, low & 0xFFFFFFFF, (low + len(self.waiting[offset])) & 0xFFFFFFFF
            )
        return b""

    def sends(self) -> list[bytes]:
        """What it sends now: new segments, repetitions, an acknowledgement."""
        out: list[bytes] = []
        if not self.begun:
            return out
        self.quiet += 1
        if self.quiet > 3 and self.una < self.sent:
            self.quiet = 0
            lost = [offset for offset in sorted(self.segments) if offset not in self.sacked][:4]
            self.sacked.clear()  # blocks are no promise (RFC 2018, 8)
            out += [self.repeat(offset) for offset in lost]
        while self.sent < len(self.text) and self.sent - self.una < WINDOW // 3 and len(out) < 4:
            end = (
                self.cuts[0] if self.cuts and self.cuts[0] > self.sent else self.sent + self.chosen.randint(*self.sizes)
            )
            data = self.text[self.sent : min(end, len(self.text))]
            self.segments[self.sent] = data
            out.append(self.packet("A", self.sent, data))
            self.sent += len(data)
        if self.sent == len(self.text) and not self.fin_sent:
            self.fin_sent = True
            self.segments[self.sent] = b""
            out.append(self.packet("FA", self.sent))
            self.sent += 1
        elif not out and self.owes:
            out.append(self.packet("A", self.sent, b"", self.blocks()))
        self.owes = False
        return out

    def repeat(self, offset: int) -> bytes:
        """A retransmission; it may be cut in other places than the first copy was."""
        data = self.segments[offset]
        if offset >= len(self.text):
            return self.packet("FA", offset)
        more = self.text[offset : offset + max(1, self.chosen.randint(1, 2 * len(data)))]
        return self.packet("A", offset, more[: self.sent - offset])

    def feed(self, frame: bytes) -> None:
        """Take a packet, whose checksums and numbers are checked."""
        ip, length = frame[14:], int.from_bytes(frame[16:18], "big")
        segment = ip[20:length]
        assert length == len(ip) and checksum(ip[:20]) == 0
        assert checksum(pseudo_header(ip[12:16], ip[16:20], 6, len(segment)) + segment) == 0
        number, ack = struct.unpack(">II", segment[4:12])
        size, flags = (segment[12] >> 4) * 4, segment[13]
        payload = segment[size:]
        if flags & 4:
            expected = self.peer_isn + 1 + len(self.got) + self.fin_got
            assert self.reset or number == expected & 0xFFFFFFFF, "a reset that its receiver accepts"
            self.reset = True
            return
        if flags & 2:
            if self.peer_isn < 0:
                self.peer_isn = number
            self.begun = True
            self.owes = True
            return
        self.begun = True
        if flags & 16:
            self.acknowledged((ack - self.isn - 1) & 0xFFFFFFFF)
            self.take_blocks(segment[20:size])
        offset = (number - self.peer_isn - 1 + 0x80000000) % (1 << 32) - 0x80000000
        assert offset <= len(self.got) + WINDOW and len(payload) <= 1460
        if flags & 1:
            self.peer_fin = offset + len(payload)
        if payload or flags & 1:
            self.owes = True
        if payload and offset + len(payload) > len(self.got):
            self.waiting[offset] = payload
        self.collect()

    def collect(self) -> None:
        again = True
        while again:
            again = False
            for offset in sorted(self.waiting):
                data, have = self.waiting[offset], len(self.got)
                if offset > have:
                    break
                del self.waiting[offset]
                assert data[: have - offset] == bytes(self.got[offset : offset + len(data)])[: have - offset], (
                    "the same bytes again"
                )
                self.got += data[have - offset :]
                again = True
                break
        if self.peer_fin == len(self.got):
            self.fin_got = True

    def acknowledged(self, offset: int) -> None:
        if offset >= 0x80000000:
            return
        assert offset <= self.sent, "nothing is acknowledged that was not sent"
        if offset > self.una:
            self.una = offset
            self.quiet = 0
            for begin in [begin for begin in self.segments if begin + max(1, len(self.segments[begin])) <= offset]:
                del self.segments[begin]
                self.sacked.discard(begin)

    def take_blocks(self, options: bytes) -> None:
        at = options.find(bytes([SACK_OPTION, 10]))
        if at < 0:
            return
        low, high = ((number - self.isn - 1) & 0xFFFFFFFF for number in struct.unpack(">II", options[at + 2 : at + 10]))
        assert 0 <= low < high <= self.sent, "a block of what was sent"
        for begin in self.segments:
            if low <= begin and begin + len(self.segments[begin]) <= high:
                self.sacked.add(begin)

    @property
    def done(self) -> bool:
        return self.reset or (self.fin_sent and self.una == self.sent and self.fin_got)


def pair(texts: tuple[bytes, bytes], chosen: random.Random, sizes: tuple[int, int], cuts: list[int]) -> tuple[End, End]:
    client = End(A4, 40000, B4, 80, 0xFFFFFF00, texts[0], sizes, chosen, list(cuts))
    server = End(B4, 80, A4, 40000, 7000, texts[1], sizes, chosen)
    return client, server


def disturbed(packets: list[bytes], chosen: random.Random, faults: float) -> list[bytes]:
    out: list[bytes] = []
    for packet in packets:
        draw = chosen.random()
        if draw < faults:
            continue
        out.append(packet)
        if draw > 1 - faults:
            out.append(packet)
    for i in range(len(out) - 1):
        if chosen.random() < faults:
            out[i], out[i + 1] = out[i + 1], out[i]
    return out


def talk(
    link: Link,
    chosen: random.Random,
    texts: tuple[bytes, bytes],
    *,
    sizes: tuple[int, int] = (1, 1000),
    cuts: list[int] | None = None,
    faults: float = 0.0,
) -> tuple[End, End]:
    """Both ends after they have said everything, or were reset."""
    client, server = pair(texts, chosen, sizes, cuts or [])
    link.connect(client, server)
    ends = (client, server)
    for _ in range(ROUNDS):
        packets = disturbed([packet for end in ends for packet in end.sends()], chosen, faults)
        for packet in disturbed(link.through(packets), chosen, faults):
            ends[packet[14 + 12 : 14 + 16] == client.address].feed(packet)
        if all(end.done for end in ends) or any(end.reset for end in ends):
            return ends
    raise AssertionError([(end.una, end.sent, len(end.text), len(end.got), end.fin_got) for end in ends])
