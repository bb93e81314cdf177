"""Connections that were never sent: what two hosts wrote, in which segments, and what a box must make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.support.connection import Host, pair
from tests.support.packets import scale

MIRRORED = {
    "SYN_SENT": "SYN_ACK_SENT",
    "FIN_WAIT_1": "CLOSE_WAIT",
    "FIN_WAIT_2": "CLOSE_WAIT_2",
    "TIME_WAIT": "LAST_ACK",
}
MIRRORED |= {there: here for here, there in MIRRORED.items()}
CLOSING = {
    (0, 0): "ESTABLISHED",
    (1, 0): "FIN_WAIT_1",
    (2, 0): "FIN_WAIT_2",
    (0, 1): "CLOSE_WAIT",
    (0, 2): "CLOSE_WAIT_2",
    (1, 1): "CLOSING",
    (2, 1): "TIME_WAIT",
    (1, 2): "LAST_ACK",
    (2, 2): "TERMINATED",
}
"""By how far each side has closed: 0 not at all, 1 it sent its FIN, 2 that was acknowledged."""


@dataclass(repr=False)
class Sent:
    """A packet: who sent it, its flags, the part of the stream that it carries (with the place of a FIN), up to where
    it acknowledges the other's stream, the frame.
    """

    side: int
    flags: str
    low: int
    high: int
    ack: int
    frame: bytes

    def __repr__(self) -> str:
        return f"{'AB'[self.side]} {self.flags} [{self.low}, {self.high})"


@dataclass
class Side:
    """What one host has written so far."""

    host: Host
    text: bytes = b""
    finished: bool = False

    @property
    def end(self) -> int:
        """Its sequence space, FIN included."""
        return len(self.text) + self.finished


@dataclass(repr=False)
class Connection:
    """Two sides and all packets, in the order in which they were sent."""

    sides: tuple[Side, Side]
    sent: list[Sent] = field(default_factory=lambda: [])
    reset: bool = False  # a reset that counts was sent

    def __repr__(self) -> str:
        texts = ", ".join(f"{side.host.isn}: {side.text!r}" for side in self.sides)
        return f"<{texts}; {self.sent}>"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """How Hypothesis shows it."""
        printer.text(repr(self))

    def send(self, which: int, flags: str, low: int, high: int, ack: int | None = None, **more: Any) -> None:
        """Send bytes [low, high) of a side's stream; the place after its text is the FIN's."""
        side, other = self.sides[which], self.sides[1 - which]
        number = side.host.isn + 1 + low - ("S" in flags)
        if low <= len(side.text) < high:
            flags += "F"
        ack = other.end if ack is None else ack
        payload = side.text[low : min(high, len(side.text))]
        frame = side.host.send(flags, payload, number=number, ack=other.host.isn + 1 + ack, **more)
        self.sent.append(Sent(which, flags, low, high, ack if "A" in flags else -1, frame))

    def state(self, lost: frozenset[int] = frozenset()) -> str:
        """The state in which it must end, side 0 called the active one, when packets with these indexes are lost."""
        there = [packet for index, packet in enumerate(self.sent) if index not in lost]
        progress = [self._closed(which, there) for which in (0, 1)]
        if self.reset and any("R" in packet.flags for packet in there) and progress != [2, 2]:
            return "RESET"
        if any(not {"S", "R"} & set(packet.flags) for packet in there):
            return CLOSING[progress[0], progress[1]]
        syns = [{packet.flags for packet in there if packet.side == which} for which in (0, 1)]
        if any({"S", "SA"} <= flags for flags in syns):
            return "ESTABLISHED"
        return ("SYN_SENT", "SYN_ACK_SENT", "SYN_RECEIVED")[(bool(syns[0]) and bool(syns[1])) * 2 or not syns[0]]

    def _closed(self, which: int, there: list[Sent]) -> int:
        side = self.sides[which]
        if not side.finished or self.contiguous(which, there) < side.end:
            return 0
        return 2 if any(packet.ack >= side.end for packet in there if packet.side != which) else 1

    def contiguous(self, which: int, there: list[Sent]) -> int:
        """How far a side's sequence space is complete, from where its stream begins."""
        own = sorted((p for p in there if p.side == which and "R" not in p.flags), key=lambda p: p.low)
        at = own[0].low if own else 0
        for packet in own:
            if packet.low > at:
                break
            at = max(at, packet.high)
        return at


WINDOW = 1 << 11
"""Bytes that either side accepts at least: more than the other one sends. The law does not hold for bytes that the
receiver could not accept, as they have no place in the stream.
"""

numbers = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 40, 2**32 - 1), st.just(0))
steps = st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 40), st.integers(0, 40))


@st.composite
def connections(draw: st.DrawFn) -> Connection:
    """Handshake of one of several kinds, data both ways, retransmissions cut anew, closes of all kinds, resets."""
    window = draw(st.sampled_from([WINDOW, 5 * WINDOW]))
    a, b = pair(draw(numbers), draw(numbers), version=draw(st.sampled_from([4, 6])), window=window)
    made = Connection((Side(a), Side(b)))
    _handshake(draw, made)
    for which, kind, one, two in draw(st.lists(steps, max_size=14)):
        _step(made, which, kind, one, two)
    ending = draw(st.sampled_from(["open", "half", "whole", "whole", "crossed", "reset", "reset by both"]))
    first = draw(st.integers(0, 1))
    if ending in ("half", "whole"):
        _finish(made, first)
        if draw(st.booleans()):
            made.send(1 - first, "A", made.sides[1 - first].end, made.sides[1 - first].end)
        for kind, one, two in draw(
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.integers(0, 40)), max_size=5)
        ):
            _step(made, 1 - first, kind, one, two)
        if ending == "whole":
            _finish(made, 1 - first)
            if draw(st.integers(0, 3)):
                made.send(first, "A", made.sides[first].end, made.sides[first].end)
    elif ending == "crossed":
        before = [side.end for side in made.sides]
        for which in (0, 1):
            _finish(made, which, ack=before[1 - which])
        for which in (0, 1):
            if draw(st.booleans()):
                made.send(which, "A", made.sides[which].end, made.sides[which].end)
    if ending.startswith("reset") or draw(st.integers(0, 5)) == 0:
        for which in (0, 1) if ending == "reset by both" else (first,):
            far = draw(st.sampled_from([0, 0, 1 << 30]))
            made.reset |= not far
            made.send(which, "R", made.sides[which].end + far, made.sides[which].end + far)
    return made


def _handshake(draw: st.DrawFn, made: Connection) -> None:
    options = [scale(draw(st.integers(0, 14))) if draw(st.booleans()) else b"" for _ in range(2)]
    text = [draw(st.binary(max_size=6)) if draw(st.integers(0, 5)) == 0 else b"" for _ in range(2)]
    copies = [draw(st.integers(1, 3)) for _ in range(2)]
    simultaneous = draw(st.integers(0, 3)) == 0
    kinds = ("S", "S") if simultaneous else ("S", "SA")
    for which, flags in enumerate(kinds):
        side = made.sides[which]
        for _ in range(copies[which]):
            made.send(which, flags, 0, 0, options=options[which], ack=0)
        if text[which] and not simultaneous:
            side.text = text[which]
            made.send(which, flags, 0, len(side.text), options=options[which], ack=0)
    if simultaneous:
        for which in (0, 1):
            for _ in range(copies[which]):
                made.send(which, "SA", 0, 0, options=options[which], ack=0)


def _step(made: Connection, which: int, kind: int, one: int, two: int) -> None:
    """New data, an acknowledgement, a keep-alive, or something that was sent before, cut as it comes."""
    side = made.sides[which]
    if kind <= 4 and not side.finished:
        side.text += bytes((len(side.text) + 7 * k + which) & 255 for k in range(one + 1))
        made.send(which, "PA" if kind & 1 else "A", len(side.text) - one - 1, len(side.text))
    elif kind <= 6:
        made.send(which, "A", side.end, side.end, window=WINDOW + two)
    elif kind == 7 and side.text:
        made.send(which, "A", len(side.text) - 1, len(side.text) - 1)
    elif side.end:
        low = one % side.end
        made.send(which, "A", low, min(side.end, low + 1 + two))


def _finish(made: Connection, which: int, ack: int | None = None) -> None:
    side = made.sides[which]
    low = side.end - (side.end % 3 if side.end < 30 else 0)  # now and then with the last bytes again
    side.finished = True
    made.send(which, "A", min(low, side.end - 1), side.end, ack)


def arrange(connection: Connection, order: Sequence[int]) -> list[Sent]:
    """The packets in this order, as far as the law allows it.

    Each side's SYNs before its other packets, or else the packet that its stream begins with; resets last; and no
    SYN without ACK of a side that was heard before after a FIN, as that would begin another connection (TRUTH.md).
    """
    packets = [connection.sent[index] for index in order]
    for which in (0, 1):
        places = [place for place, packet in enumerate(packets) if packet.side == which]
        own = sorted((packets[place] for place in places), key=lambda packet: "S" not in packet.flags)
        if own and "S" not in own[0].flags:
            lowest = min(own, key=lambda packet: ("R" in packet.flags, packet.low))
            own.sort(key=lambda packet: packet is not lowest)
        for place, packet in zip(places, own, strict=True):
            packets[place] = packet
    fin = next((place for place, packet in enumerate(packets) if "F" in packet.flags), len(packets))
    front: list[int] = []
    for which in (0, 1):
        own = [place for place, packet in enumerate(packets) if packet.side == which]
        late = [place for place in own if place > fin and packets[place].flags == "S"]
        front += late if late != own[:1] else []
    first = [packets[place] for place in front]
    packets = packets[:fin] + first + [packets[place] for place in range(fin, len(packets)) if place not in front]
    return [p for p in packets if "R" not in p.flags] + [p for p in packets if "R" in p.flags]
