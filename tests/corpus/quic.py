"""QUIC in the captures of the corpus: what a stack makes of its packets and streams, beside the truth.

TRUTH.md of the corpus says what its figures mean: what long headers show in the clear, and how many packets with a
short header came after the first long one. What the programs at both ends sent over each stream `app/NAME.app.json`
tells, with the secrets of their connections in `app/NAME.keys`.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sluice.engine.box import Box, Settings
from sluice.engine.events import PythonFunction, Seen
from tests.corpus.boxes import PACKET, capture, looked_into
from tests.support.conserve import check_conservation
from tests.support.corpus import key_log, truth

KINDS = ("initial", "0rtt", "handshake", "retry", "short", "vneg")
VERSIONS = {0: "vneg", 1: "v1", 0x6B3343CF: "v2", 0x709A50C4: "v2-draft"}
LISTED = 16
"""As many connection ids as the truth lists of each end."""

Figures = dict[str, Any]
Counters = dict[str, dict[str, int]]


HOOKS = [("quic", PACKET), ("tls_client_hello", "hello"), ("quic_stream", "data"), ("quic_stream", "gap")]
"""Each packet of QUIC, each ClientHello and what the streams deliver."""


def quic_events(stack: str, name: str, keylog: Path | None = None) -> tuple[list[Seen], Counters]:
    """What the stack tells of a capture, and its counters."""
    events: list[Seen] = []
    made = looked_into(stack)
    hooks = [(layer, event, events.append) for layer, event in HOOKS]
    natives = {"keylog": str(keylog)} if keylog is not None else {}
    settings = Settings(seed=1, timeouts=False, natives=natives)
    with Box(made, settings, [PythonFunction("seen", hooks, [])]) as box:
        box.run(capture(name))
        counters = box.counters()
    check_conservation(made.program, counters)
    return events, counters


# --- packets ----------------------------------------------------------------------------------------------------


@dataclass
class Flow:
    """QUIC's packets between two ends: how many of which version and kind; ids in the order in which they came."""

    versions: Counter[str] = field(default_factory=Counter[str])
    long: Counter[str] = field(default_factory=Counter[str])
    short: int = 0
    ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))

    def figures(self) -> Figures:
        """As the truth has them; ids only of ends that sent some."""
        ids = {end: sorted(several[:LISTED]) for end, several in self.ids.items() if several}
        return {"versions": dict(self.versions), "long": dict(self.long), "short": self.short, "ids": ids}


Ends = frozenset[str]


def version_name(number: int) -> str:
    """As the truth calls versions."""
    if number in VERSIONS:
        return VERSIONS[number]
    if number >> 8 == 0xFF0000:
        return f"draft-{number & 0xFF}"
    if number >> 8 == 0xFACEB0:
        return f"mvfst-{number:x}"
    if number & 0x0F0F0F0F == 0x0A0A0A0A:
        return "grease"
    return number.to_bytes(4, "big").decode()


def end_name(address: int | bytes | str, port: int) -> str:
    """An end, whether events or the truth tell it."""
    return f"{ip_address(address)} {port}"


def source_id(event: Seen) -> bytes:
    """The connection id of who sent a packet."""
    if event.scid_length < 4:
        return event.short_scid
    if event.scid_length < 8:
        return event.scid_4.to_bytes(4, "big") + event.scid_after_4
    return event.scid_start.to_bytes(8, "big") + event.scid_rest


@cache
def packets_of(stack: str, name: str) -> dict[Ends, Flow]:
    """What a stack makes of QUIC's packets: those of each pair of ends that are in a connection."""
    found: dict[Ends, Flow] = defaultdict(Flow)
    for event in quic_events(stack, name)[0]:
        if event.name != PACKET or not event.connection:
            continue
        sender, receiver = end_name(event.src, event.sport), end_name(event.dst, event.dport)
        flow = found[frozenset((sender, receiver))]
        kind = KINDS[event.kind]
        if kind == "short":
            flow.short += 1
            continue
        flow.versions[version_name(event.version)] += 1
        flow.long[kind] += 1
        for text in ("d" + event.dcid.hex(), "s" + source_id(event).hex()):
            if text not in flow.ids[sender]:
                flow.ids[sender].append(text)
    return dict(found)


def true_packets(name: str) -> Iterator[tuple[int, Ends, Figures]]:
    """The truth's flows of QUIC: the number among those of UDP, the ends, and what it says of them."""
    for number, flow in enumerate(truth()[name]["udp"]):
        quic = flow.get("quic")
        if quic is not None:
            ends = [end_name(*flow[side]) for side in "ab"]
            ids = {end: sorted(those) for end, those in zip(ends, quic["cids"], strict=True) if those}
            figures = {key: quic[key] for key in ("versions", "long", "short")}
            yield number, frozenset(ends), {**figures, "ids": ids}


# --- streams ----------------------------------------------------------------------------------------------------

Stream = tuple[int, int, str, str]
"""Bytes from the client and from the server, and their hashes."""


def streams_in(events: list[Seen]) -> Counter[Stream]:
    """The streams that were delivered; the parts of one with a gap do not make one that somebody sent."""
    sides: dict[tuple[int, int], tuple[bytearray, bytearray]] = defaultdict(lambda: (bytearray(), bytearray()))
    for event in events:
        if event.layer == "quic_stream" and event.name == "data":
            sides[event.key["connection"], event.key["stream"]][event.key["sender"]].extend(event.bytes)
    return Counter(
        (len(client), len(server), hashlib.sha256(client).hexdigest(), hashlib.sha256(server).hexdigest())
        for client, server in sides.values()
    )


def streams(stack: str, name: str, story: Any) -> list[tuple[str, Any, Any]]:
    """What was compared, what the stack has, what the applications say: each stream of a connection, and no other."""
    keylog = key_log(capture(name))
    if not isinstance(story, list) or keylog is None:
        return []
    found = streams_in(quic_events(stack, name, keylog)[0])
    compared: list[tuple[str, Any, Any]] = []
    for connection in story:
        for number, sent in enumerate(connection["streams"]):
            own = tuple(sent) if found[tuple(sent)] else None
            found[tuple(sent)] -= 1
            compared.append((f"connection {connection['conn']} stream {number}", own, tuple(sent)))
    return [*compared, ("delivered and not sent", sorted((+found).elements()), [])]
