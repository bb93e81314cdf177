"""What nat.c should forward: clients with the external address, and servers' answers back at the clients."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path

from tests.compat.mos.reference.captures import (
    Endpoint,
    Frame,
    Segment,
    parse_segment,
    pseudo_header,
    read_frames,
    sum_of_words,
    write_frames,
)
from tests.compat.mos.reference.connections import Connection, Placed, Traffic, endpoint_name, follow

PORTS = range(10000, 20000)
"""The ports that nat.c hands out, in this order."""

Addresses = tuple[Endpoint, Endpoint]


def check_nat(capture: Path, external: str, forwarded: Path, given: Path | None = None) -> list[str]:
    """What is wrong in the frames that nat.c forwarded.

    It read the capture itself, or what `translated` made of it, which is `given` then. Segments after the end of
    their connection leave it translated or as they came.
    """
    traffic = follow(capture)
    checks = _Checks(_packed(external), _expected_ports(traffic), _addresses(given or capture))
    sent = [segment for frame in read_frames(forwarded) if (segment := parse_segment(frame))]
    previous = 0
    for segment, placed in zip(sent, checks.paired(sent, traffic), strict=True):
        if placed is None:
            checks.add(None, f"output frame {segment.number}: no such packet in the capture")
            continue
        if placed.segment.number < previous:
            checks.add(None, f"output frame {segment.number}: before frame {previous} of the capture")
        previous = max(previous, placed.segment.number)
        checks.check(segment, placed)
    checks.check_shared_ports(traffic)
    return checks.problems


def translated(capture: Path, new: Path, external: str) -> None:
    """Writes the capture as nat.c would see it: what the servers send is addressed to the external address.

    ValueError where there are more connections than ports.
    """
    traffic = follow(capture)
    if len(traffic.connections) > len(PORTS):
        raise ValueError(f"{capture}: more connections than ports")
    ports = dict(zip(traffic.connections, PORTS, strict=False))
    frames = list(traffic.others)
    for placed in traffic.placed:
        frame = placed.segment.frame
        if placed.connection and not placed.by_client and not placed.segment.cut:
            frame = _readdressed(placed.segment, (_packed(external), ports[placed.connection]))
        frames.append(frame)
    write_frames(new, sorted(frames, key=lambda frame: frame.number))


def _packed(address: str) -> bytes:
    return IPv4Address(address).packed


def _expected_ports(traffic: Traffic) -> dict[Connection, int]:
    """The port of each connection; none where the order of the connections is uncertain, or the ports run out."""
    uncertain = any(connection.uncertain for connection in traffic.connections)
    if uncertain or len(traffic.connections) > len(PORTS):
        return {}
    return dict(zip(traffic.connections, PORTS, strict=False))


def _addresses(capture: Path) -> dict[int, Addresses]:
    """Source and destination by the number of the frame."""
    segments = map(parse_segment, read_frames(capture))
    return {segment.number: segment.addresses for segment in segments if segment}


def _kept(segment: Segment) -> tuple[bytes, ...]:
    """What nat.c leaves as it is: all but addresses, ports, checksums, the time to live and padding."""
    data, network, transport = segment.frame.data, segment.network, segment.transport
    return (
        data[network : network + 8],
        data[network + 20 : transport],
        data[transport + 4 : transport + 16],
        data[transport + 18 : segment.end],
    )


def _readdressed(segment: Segment, destination: Endpoint) -> Frame:
    """The frame with another destination and right checksums."""
    data, network, transport = bytearray(segment.frame.data), segment.network, segment.transport
    address, port = destination
    data[network + 16 : network + 20] = address
    struct.pack_into("!H", data, transport + 2, port)
    struct.pack_into("!H", data, network + 10, 0)
    struct.pack_into("!H", data, network + 10, 0xFFFF - sum_of_words(data[network:transport]))
    struct.pack_into("!H", data, transport + 16, 0)
    tcp = data[transport : segment.end]
    covered = pseudo_header(segment.source[0] + address, len(tcp)) + tcp
    struct.pack_into("!H", data, transport + 16, 0xFFFF - sum_of_words(covered))
    return replace(segment.frame, data=bytes(data))


@dataclass(eq=False)
class _Checks:
    """What is known while the forwarded segments are looked at, one after the other."""

    external: bytes
    expected_ports: dict[Connection, int]
    came: dict[int, Addresses]
    """The addresses of what nat.c read."""
    ports: dict[Connection, int] = field(default_factory=dict)
    """The ports that connections got."""
    problems: list[str] = field(default_factory=list)

    def add(self, connection: Connection | None, problem: str) -> None:
        """Takes a problem, which is none where the connection is uncertain."""
        if connection is None or not connection.uncertain:
            self.problems.append(problem)

    def paired(self, sent: list[Segment], traffic: Traffic) -> list[Placed | None]:
        """The segment of the capture for each one sent; those that nothing was sent for are problems."""
        waiting: defaultdict[tuple[bytes, ...], list[Placed]] = defaultdict(list)
        for placed in traffic.placed:
            waiting[_kept(placed.segment)].append(placed)
        pairs: list[Placed | None] = []
        for segment in sent:
            alike = waiting[_kept(segment)]
            # Bare acknowledgments of two connections may be alike: the one that the addresses are right for.
            best = next((placed for placed in alike if self._fits(segment, placed)), alike[0] if alike else None)
            if best:
                alike.remove(best)
            pairs.append(best)
        for placed in (placed for alike in waiting.values() for placed in alike):
            self.add(placed.connection, f"frame {placed.segment.number} is missing in the output")
        return pairs

    def _unchanged(self, sent: Segment, placed: Placed) -> bool:
        return sent.addresses == self.came.get(placed.segment.number)

    def _fits(self, sent: Segment, placed: Placed) -> bool:
        connection = placed.connection
        if connection is None or self._unchanged(sent, placed):
            return self._unchanged(sent, placed)
        if placed.by_client:
            return sent.source[0] == self.external and sent.destination == connection.server
        return sent.addresses == (connection.server, connection.client)

    def check(self, sent: Segment, placed: Placed) -> None:
        """Looks at a segment that was sent for one of the capture."""
        connection, where = placed.connection, f"output frame {sent.number} (frame {placed.segment.number})"
        if connection is None:
            if not self._unchanged(sent, placed):
                self.add(None, f"{where}: changed, though it has no connection")
            return
        if placed.late and self._unchanged(sent, placed):
            return
        if not sent.network_checksum_right():
            self.add(connection, f"{where}: wrong checksum of IPv4")
        if not sent.cut and not sent.transport_checksum_right():
            self.add(connection, f"{where}: wrong checksum of TCP")
        right = placed.segment.destination if placed.by_client else connection.client
        if sent.destination != right:
            self.add(connection, f"{where}: to {endpoint_name(sent.destination)}, not {endpoint_name(right)}")
        if placed.by_client:
            self._check_source(sent, placed, connection, where)
        elif sent.source != placed.segment.source:
            self.add(connection, f"{where}: from {endpoint_name(sent.source)}")

    def _check_source(self, sent: Segment, placed: Placed, connection: Connection, where: str) -> None:
        address, port = sent.source
        if address != self.external or port not in PORTS:
            self.add(connection, f"{where}: from {endpoint_name(sent.source)}")
        elif self.ports.setdefault(connection, port) != port and not placed.late:
            self.add(connection, f"{where}: port {port}, but {self.ports[connection]} before")
        elif self.expected_ports.get(connection, port) != port:
            self.add(connection, f"{where}: port {port}, expected {self.expected_ports[connection]}")

    def check_shared_ports(self, traffic: Traffic) -> None:
        """Looks for connections to the same server that have the same port at the same time."""
        by_port: defaultdict[int, list[Connection]] = defaultdict(list)
        for connection in traffic.connections:
            if connection in self.ports:
                by_port[self.ports[connection]].append(connection)
        for port, connections in by_port.items():
            for one, other in pairwise(connections):
                if one.server == other.server and other.segments[0].number <= one.segments[-1].number:
                    self.add(one, f"port {port} for both {one.name} and {other.name}")
