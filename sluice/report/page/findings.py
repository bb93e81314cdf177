"""Findings: their kinds, each with its reason, and the places where it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.report.page.text import visible

EACH = 25
"""Places that are listed of a kind."""


@dataclass(frozen=True)
class Kind:
    """level: 0 look first, 1 worth a look, 2 good to know. why: the reason, and a benign explanation."""

    level: int
    title: str
    why: str


KINDS: dict[str, Kind] = {
    "scan": Kind(
        0,
        "Hosts that scan",
        "Their first contacts with others fail far more often than those of a benign host (threshold random walk). "
        "A monitoring system, or a service that is down, can look like this.",
    ),
    "flood": Kind(
        0,
        "Floods of SYNs",
        "Many connections to an endpoint wait for the end of their handshake, more than half of all that were opened.",
    ),
    "smuggling": Kind(
        0,
        "HTTP messages with contradicting or broken heads",
        "Servers may disagree about where such a message ends, which request smuggling exploits. Old or careless "
        "clients send some, too.",
    ),
    "executable": Kind(
        0,
        "Executable files",
        "Programs crossed the network unencrypted. Look at where they come from, and their hashes.",
    ),
    "disguised": Kind(
        0,
        "Files that are not what they are declared to be",
        "The content is a program or an archive, and the declared type says text, an image or a video.",
    ),
    "cleartext": Kind(
        0,
        "Passwords in clear text",
        "A login crossed the network without encryption, and can be read from the capture.",
    ),
    "beacon": Kind(
        1,
        "Connections at regular intervals",
        "A host contacts the same service again and again, at nearly equal intervals of at least a second. Updates "
        "and health checks do this, and so does malware that asks for commands.",
    ),
    "many_ssh": Kind(
        1,
        "Many SSH connections to one server",
        "Guessing of passwords looks like this, and so do scripts that run commands one by one.",
    ),
    "long_name": Kind(
        1,
        "Very long DNS names",
        "Names of 100 characters and more can carry data out of a network. Content networks have some, too.",
    ),
    "many_names": Kind(
        1,
        "Many names under one domain",
        "A hundred and more different names were asked for under one domain, which is how DNS tunnels send data.",
    ),
    "nxdomain": Kind(
        1,
        "Many names that do not exist",
        "At least 20 answers to a host, and more than half of all, were NXDOMAIN. Malware that generates names "
        "looks like this; so does a wrong search domain.",
    ),
    "old_tls": Kind(1, "Obsolete versions of TLS", "SSL 3, TLS 1.0 and TLS 1.1 are deprecated (RFC 8996)."),
    "certificate": Kind(
        1,
        "Certificates that are expired, not yet valid or self-signed",
        "The certificate was outside its validity at the time of the connection, or its issuer is its subject.",
    ),
    "tls_alert": Kind(1, "TLS handshakes that failed", "A fatal alert was sent before the connection was established."),
    "changed_ttl": Kind(
        1,
        "TTLs that change within a flow",
        "Packets of one side arrived with TTLs that differ by more than 5. Injected packets come over another path; so "
        "do "
        "packets after a change of routes.",
    ),
    "gaps": Kind(
        2,
        "Bytes that were never captured",
        "The other side acknowledged data that is not in the capture, or holes were never filled: what is said about "
        "these flows is incomplete. Capture on a faster machine, or with a larger buffer.",
    ),
    "loss": Kind(
        2,
        "Many retransmissions",
        "More than 5 percent of at least 100 packets of a flow carried bytes that were sent before.",
    ),
    "one_sided": Kind(
        2,
        "Only one direction was captured",
        "TCP connections with data of which only one side's packets are there: routing is asymmetric, or a mirror port "
        "lacks one direction.",
    ),
    "malformed": Kind(2, "Malformed packets", "Headers that contradict themselves or do not fit into their packet."),
    "cut": Kind(
        2,
        "Packets that were cut at capture",
        "The snap length was shorter than the packets, so that their ends are not known. Capture with `-s 0`.",
    ),
}


class Findings:
    """Places by kind, at most EACH of one; further ones are counted. Each kind is added by one log only."""

    def __init__(self) -> None:
        self._found: dict[str, list[dict[str, Any]]] = {}
        self._count: dict[str, int] = {}

    def add(self, kind: str, text: str, search: str = "", count: int = 1) -> None:
        """Add a place. search: the text that finds its flows in the table. count: how many it represents."""
        self._count[kind] = self._count.get(kind, 0) + count
        places = self._found.setdefault(kind, [])
        if len(places) < EACH:
            places.append({"text": visible(text), "search": search})

    def facts(self) -> list[dict[str, Any]]:
        """The findings, the most urgent ones first."""
        order: Mapping[str, int] = {kind: number for number, kind in enumerate(KINDS)}
        return [
            {
                "kind": kind,
                "level": KINDS[kind].level,
                "title": KINDS[kind].title,
                "why": KINDS[kind].why,
                "count": self._count[kind],
                "places": self._found[kind],
            }
            for kind in sorted(self._found, key=lambda kind: (KINDS[kind].level, order[kind]))
        ]
