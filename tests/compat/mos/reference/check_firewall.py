"""What firewall.c should print and forward: all but the connections that its rules deny."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from tests.compat.mos.reference.captures import Endpoint, Frame, parse_segment, read_frames
from tests.compat.mos.reference.connections import Connection, Traffic, follow
from tests.compat.mos.reference.totals import NO_TOTALS, last_totals


@dataclass(frozen=True)
class Side:
    """The addresses and ports of clients or servers that a rule is about."""

    network: IPv4Network
    first_port: int
    last_port: int

    @staticmethod
    def of(network: str, ports: str) -> Side:
        """As it is written in a rule."""
        first, _, last = ports.replace("any", "0-65535").partition("-")
        return Side(IPv4Network(network.replace("any", "0.0.0.0/0"), strict=False), int(first), int(last or first))

    def holds(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint is one of these."""
        address, port = endpoint
        return IPv4Address(address) in self.network and self.first_port <= port <= self.last_port


@dataclass(frozen=True)
class Rule:
    """What becomes of the connections from a client to a server."""

    denies: bool
    clients: Side
    servers: Side

    def matches(self, connection: Connection) -> bool:
        """Whether it is about the connection."""
        return self.clients.holds(connection.client) and self.servers.holds(connection.server)


ANYBODY = Side.of("any", "any")


def read_rules(path: Path) -> list[Rule]:
    """The rules of a file, the default at the end; the first that matches decides."""
    rules: list[Rule] = []
    default = Rule(False, ANYBODY, ANYBODY)
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["default"]:
            default = Rule(words[1] == "deny", ANYBODY, ANYBODY)
        elif words:
            action, source, destination, source_ports, destination_ports = words
            rules.append(Rule(action == "deny", Side.of(source, source_ports), Side.of(destination, destination_ports)))
    return [*rules, default]


def check_firewall(capture: Path, rules: Path, output: str, forwarded: Path) -> list[str]:
    """What is wrong in the output of firewall.c, and in the frames that it forwarded."""
    traffic, in_order = follow(capture), read_rules(rules)
    denied = [
        connection
        for connection in traffic.connections
        if next(rule for rule in in_order if rule.matches(connection)).denies
    ]
    return _wrong_totals(traffic, denied, output) + _wrong_frames(traffic, denied, forwarded)


def _wrong_totals(traffic: Traffic, denied: Collection[Connection], output: str) -> list[str]:
    totals = last_totals(output, "accepted", "denied", "dropped", "failed")
    if totals is None:
        return [NO_TOTALS]
    problems = [f"failed={totals['failed']}"] if totals["failed"] else []
    if any(connection.uncertain for connection in traffic.connections):
        return problems
    for name, count in (("accepted", len(traffic.connections) - len(denied)), ("denied", len(denied))):
        if totals[name] != count:
            problems.append(f"{name}={totals[name]}, expected {count}")
    least = sum(len(connection.segments) for connection in denied)
    most = least + sum(len(connection.late) for connection in denied)
    if not least <= totals["dropped"] <= most:
        problems.append(f"dropped={totals['dropped']}, expected {least} to {most}")
    return problems


def _wrong_frames(traffic: Traffic, denied: Collection[Connection], forwarded: Path) -> list[str]:
    """What is wrong in the frames; packets of denied connections may be forwarded or not after the end of these."""
    found = Counter(_packet(frame) for frame in read_frames(forwarded))
    uncertain = _numbers(connection for connection in traffic.connections if connection.uncertain)
    late = {segment.number for connection in denied for segment in connection.late}
    gone = _numbers(denied) - late
    frames = [placed.segment.frame for placed in traffic.placed]
    problems: list[str] = []
    for frame in [frame for frame in frames if frame.number not in gone | late] + traffic.others:
        if found[_packet(frame)] > 0:
            found[_packet(frame)] -= 1
        elif frame.number not in uncertain:
            problems.append(f"frame {frame.number} is missing in the output")
    for frame in [frame for frame in frames if frame.number in gone | late]:
        if found[_packet(frame)] <= 0:
            continue
        found[_packet(frame)] -= 1
        if frame.number in gone - uncertain:
            problems.append(f"frame {frame.number} of a denied connection is in the output")
    if extra := found.total():
        problems.append(f"{extra} frames in the output are not in the capture, or not that often")
    return problems


def _numbers(connections: Iterable[Connection]) -> set[int]:
    return {segment.number for connection in connections for segment in connection.segments + connection.late}


def _packet(frame: Frame) -> bytes:
    """The IPv4 packet of a TCP segment, without padding; other frames as they are."""
    segment = parse_segment(frame)
    return frame.data[segment.network : segment.end] if segment else frame.data
