"""What the programs at both ends of generated captures say they sent and received, beside what a stack delivered.

`app/NAME.app.json` of the corpus has it: for TCP each connection, with lengths and hashes of what the client sent and
received; for UDP each datagram; for SCTP the messages of each stream. Of a connection that one end reset, the other
may have sent what nobody saw, so there only what the client received is compared. A client that ends early has
received the beginning of what was delivered.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from sluice.stacks.find import find_stack
from tests.corpus.associations import Message, Way, associations_of, digest
from tests.corpus.boxes import Ends, payloads_of, streams_of
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


SENT = ("messages", "bytes", "sha256_send_order")
"""What the client says of what it sent on a stream of SCTP."""

HASH = 16
"""Digits of a message's hash that the server tells."""


def associations(stack: str, name: str) -> Compared:
    """SCTP's messages: those that either program sent on each stream, and those that arrived, were delivered.

    What is unordered may overtake; where there is any, only the messages count and not their order.
    """
    story = said(name)
    if not isinstance(story, dict) or "client" not in story or "sctp_message" not in find_stack(stack).layers:
        return []
    ways = associations_of(stack, name)
    compared: Compared = []
    for one in story["client"] + story["server"]:
        me, peer = ((end[0], int(end[1])) for end in (one["me"], one["peer"]))
        for number, stream in one.get("sent", {}).items():
            ours, what = messages_of(ways, me + peer, int(number)), f"{me[0]} {me[1]}, stream {number} sent"
            sizes = [len(ours), sum(len(each.data) for each in ours)]
            if isinstance(stream, list):  # that is all that the server says
                compared.append((what, sizes, stream))
            elif stream["unordered"]:
                compared.append((what, sizes, [stream["messages"], stream["bytes"]]))
            else:
                compared.append((what, [*sizes, digest(ours)], [stream[key] for key in SENT]))
        for number, stream in one.get("recv", {}).items():
            ours, what = messages_of(ways, peer + me, int(number)), f"{me[0]} {me[1]}, stream {number} received"
            hashes = sorted(digest([each])[:HASH] for each in ours)
            compared.append((what, hashes, sorted(stream["msgs"])))
    return compared


def messages_of(ways: dict[Ends, list[Way]], ends: Ends, stream: int) -> list[Message]:
    """The messages of a stream; the ports of the generated captures are not used twice."""
    return [message for way in ways.get(ends, []) for message in way.streams.get(stream, [])]
