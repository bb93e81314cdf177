"""The connections of a capture.

A connection begins with a pure SYN (SYN without ACK) between endpoints that have no live one. It is over after a
RST, when the FINs of both sides are acknowledged, or when it was idle for too long. Where an answer depends on
what this model cannot know, the connection has notes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.mos.reference.captures import ACK, FIN, RST, SYN, Endpoint, Frame, Segment, parse_segment, read_frames
from tests.compat.mos.reference.streams import Stream

UNCERTAIN = frozenset({"new-syn-on-live-flow", "idle-over-30s", "timed-out", "simultaneous-open", "odd-syn"})
"""Notes of connections of which a program may well see another beginning or end, or see them more than once."""


def endpoint_name(endpoint: Endpoint) -> str:
    """An endpoint as the programs print it."""
    address, port = endpoint
    return f"{'.'.join(str(byte) for byte in address)}:{port}"


@dataclass(eq=False, slots=True)
class Connection:
    """A connection, its streams, and the segments that belong to it.

    `late` are the segments between its endpoints after its end, up to the next connection.
    """

    client: Endpoint
    server: Endpoint
    from_client: Stream
    from_server: Stream
    notes: set[str]
    last_time: float
    segments: list[Segment] = field(default_factory=list)
    late: list[Segment] = field(default_factory=list)
    finished: set[Endpoint] = field(default_factory=set)
    """The sides whose FIN is acknowledged."""
    answered: bool = False
    reset: bool = False
    over: bool = False

    @staticmethod
    def begun_by(segment: Segment, buffer: int) -> Connection:
        """The connection that a pure SYN begins, still without any segment."""
        notes: set[str] = set()
        from_client, from_server = Stream(notes, buffer, segment.sequence), Stream(notes, buffer)
        return Connection(
            segment.source, segment.destination, from_client, from_server, notes, last_time=segment.frame.time
        )

    @property
    def name(self) -> str:
        """Client and server as the programs print them."""
        return f"{endpoint_name(self.client)} {endpoint_name(self.server)}"

    @property
    def uncertain(self) -> bool:
        """Whether a program may well see another beginning or end of it."""
        return not self.notes.isdisjoint(UNCERTAIN)

    def add(self, segment: Segment) -> None:
        """Takes a segment of the live connection."""
        by_client = segment.source == self.client
        sent, opposite = self.from_client, self.from_server
        if not by_client:
            sent, opposite = opposite, sent
        self.segments.append(segment)
        self._note_gaps(segment)
        if segment.flags & SYN:
            self._add_syn(segment, sent, by_client)
        if segment.flags & RST:
            if segment.payload:
                self.notes.add("data-in-rst")
            self.reset = self.over = True
            return
        if segment.payload and (sent.start is None or (by_client and not self.answered and not segment.flags & SYN)):
            self.notes.add("no-synack")
        if sent.start is None:
            return
        position = 0 if segment.flags & SYN else sent.position(segment.sequence)
        if segment.payload and not segment.flags & SYN:
            sent.add(position, segment.payload)
        if segment.flags & FIN:
            sent.finish(position + len(segment.payload))
        if segment.flags & ACK and opposite.start is not None and opposite.fin is not None:
            if opposite.position(segment.acknowledgment) > opposite.fin:
                self.finished.add(segment.destination)
        if len(self.finished) == 2:
            self.over = True

    def _note_gaps(self, segment: Segment) -> None:
        if segment.cut:
            self.notes.add("cut-frames")
        if segment.frame.time - self.last_time > 30:
            self.notes.add("idle-over-30s")
        self.last_time = segment.frame.time

    def _add_syn(self, segment: Segment, sent: Stream, by_client: bool) -> None:
        if segment.payload:
            self.notes.add("data-in-syn")
        if by_client == bool(segment.flags & ACK):
            self.notes.add("odd-syn")
        elif not by_client:
            self.answered = True
            if sent.start is None:
                sent.start = segment.sequence
            elif sent.start != segment.sequence:
                self.notes.add("synack-differs")

    def add_late(self, segment: Segment) -> None:
        """Takes a segment that comes after the end."""
        self.late.append(segment)
        if segment.payload:
            self.notes.add("data-after-rst" if self.reset else "late-data")


@dataclass(frozen=True, eq=False, slots=True)
class Placed:
    """A segment, the connection it belongs to (if any), and whether it comes after the end of that."""

    segment: Segment
    connection: Connection | None = None
    late: bool = False

    @property
    def by_client(self) -> bool:
        """Whether the client of its connection sent it."""
        return self.connection is not None and self.segment.source == self.connection.client


@dataclass(eq=False, slots=True)
class Traffic:
    """What a capture holds: connections in the order they begin, segments, and frames without a TCP segment."""

    connections: list[Connection] = field(default_factory=list)
    placed: list[Placed] = field(default_factory=list)
    others: list[Frame] = field(default_factory=list)


def follow(capture: Path, timeout: float = 30, buffer: int = 8192) -> Traffic:
    """What a capture holds; connections time out after so many seconds of the capture, or never after 0."""
    traffic = Traffic()
    latest: dict[frozenset[Endpoint], Connection] = {}
    for frame in read_frames(capture):
        segment = parse_segment(frame)
        if segment is None:
            traffic.others.append(frame)
            continue
        between = frozenset(segment.addresses)
        connection = latest.get(between)
        if connection and not connection.over and 0 < timeout < frame.time - connection.last_time:
            connection.over = True
            connection.notes.add("timed-out")
        if segment.pure_syn and (connection is None or connection.over):
            if segment.flags & (RST | FIN):
                traffic.placed.append(Placed(segment))
                continue
            connection = latest[between] = Connection.begun_by(segment, buffer)
            traffic.connections.append(connection)
        traffic.placed.append(_place(segment, connection))
    for connection in traffic.connections:
        if connection.from_client.has_hole() or connection.from_server.has_hole():
            connection.notes.add("hole")
    return traffic


def _place(segment: Segment, connection: Connection | None) -> Placed:
    if connection is None:
        return Placed(segment)
    if connection.over:
        connection.add_late(segment)
        return Placed(segment, connection, late=True)
    if segment.pure_syn and segment.source != connection.client:
        connection.notes.add("simultaneous-open")
    elif segment.pure_syn and segment.sequence != connection.from_client.start:
        connection.notes.add("new-syn-on-live-flow")
    connection.add(segment)
    return Placed(segment, connection)
