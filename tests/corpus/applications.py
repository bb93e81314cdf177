"""What the programs at both ends of generated captures say they sent and received, beside what a stack delivered.

`app/NAME.app.json` of the corpus has it: for TCP each connection, with lengths and hashes of what the client sent and
received; for UDP each datagram. Of a connection that one end reset, the other may have sent what nobody saw, so there
only what the client received is compared. A client that ends early has received the beginning of what was delivered.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from tests.corpus.boxes import payloads_of, streams_of
from tests.support.corpus import corpus

Compared = list[tuple[str, Any, Any]]
"""What was compared, what the stack has, what the application says."""


def said(name: str) -> Any:
    """What the applications say of a capture; None where they say nothing."""
    path = corpus() / "app" / f"{name}.app.json"
    return json.loads(path.read_text()) if path.is_file() else None


def figures(stream: bytes | None) -> tuple[int, str] | None:
    """Length and hash of a stream, if there is one."""
    return None if stream is None else (len(stream), hashlib.sha256(stream).hexdigest())


def connections(stack: str, name: str) -> Compared:
    """The TCP connections: what either program sent."""
    story = said(name)
    if not isinstance(story, dict) or "connections" not in story:
        return []
    streams = streams_of(stack, name)
    compared: Compared = []
    for number, one in enumerate(story["connections"]):
        client, server = (one["src"], one["sport"]), (one["dst"], one["dport"])
        both = (streams.get(ends) for ends in (client + server, server + client))
        sent, received = (several.pop(0) if several else None for several in both)
        if "error" not in one:
            compared.append((f"connection {number} sent", figures(sent), (one["sent"], one["sent_sha256"])))
        read = received if received is None else received[: one["recv"]]
        compared.append((f"connection {number} received", figures(read), (one["recv"], one["recv_sha256"])))
    return compared


def datagrams(stack: str, name: str) -> Compared:
    """The UDP datagrams: what arrived at the receiver was delivered, and what was delivered was sent."""
    story = said(name)
    if not isinstance(story, dict) or "v4" not in story:
        return []
    delivered: Counter[tuple[int, int, str]] = Counter()
    for port, payload in payloads_of(stack, name):
        delivered[port, len(payload), hashlib.sha256(payload).hexdigest()] += 1
    compared: Compared = []
    for version, both in story.items():
        arrived = Counter((port, size, digest) for _, port, size, digest in both["received"])
        (port,) = {port for port, _, _ in arrived}
        sent = Counter((port, size, digest) for size, digest in both["sent"])
        own = Counter({one: count for one, count in delivered.items() if one[0] == port})
        compared.append((f"{version}: arrived and not delivered", dict(arrived - own), {}))
        unsent = sorted(own.keys() - sent.keys())  # networks duplicate, and do not invent
        compared.append((f"{version}: delivered and not sent", unsent, []))
    return compared
