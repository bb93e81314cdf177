"""SCTP's associations as a stack tells them: chunks of data in their order, and messages of each stream.

The truth knows an association by its ends, and a new one by an INIT with another tag, as our layer does.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from sluice.engine.box import Box, Settings
from sluice.engine.events import PythonFunction, Seen
from tests.corpus.boxes import Ends, address, capture, looked_into


class Message(NamedTuple):
    """A user message, and which protocol its sender says that it is of."""

    ppid: int
    data: bytes


@dataclass
class Way:
    """What one end of an association sent, up to the first hole."""

    streams: dict[int, list[Message]] = field(default_factory=lambda: defaultdict(list))
    data: bytearray = field(default_factory=bytearray)
    chunks: int = 0
    broken: bool = False


@cache
def associations_of(stack: str, name: str) -> dict[Ends, list[Way]]:
    """What was sent, by sender and receiver: of each association, in their order."""
    ends: dict[int, tuple[Ends, Ends]] = {}
    found: dict[int, tuple[Way, Way]] = {}

    def created(event: Seen) -> None:
        src, sport, dst, dport = str(address(event.src)), event.sport, str(address(event.dst)), event.dport
        ends[event.instance] = (src, sport, dst, dport), (dst, dport, src, sport)
        found[event.instance] = Way(), Way()

    def data(event: Seen) -> None:
        way = found[event.instance][event.side]
        if not way.broken:
            way.chunks += 1
            way.data += event.bytes

    def gap(event: Seen) -> None:
        found[event.instance][event.side].broken = True

    def message(event: Seen) -> None:
        way = found[event.association][event.to_active]
        if not way.broken:
            way.streams[event.stream].append(Message(event.ppid, event.data))

    handlers = [("sctp", "created", created), ("sctp", "data", data), ("sctp", "gap", gap)]
    look = PythonFunction("look", [*handlers, ("sctp_message", "message", message)], [])
    with Box(looked_into(stack), Settings(timeouts=False, seed=1), [look]) as box:
        box.run(capture(name))
    ways: dict[Ends, list[Way]] = defaultdict(list)
    for instance, both in found.items():
        for key, way in zip(ends[instance], both, strict=True):
            ways[key].append(way)
    return ways


def digest(messages: list[Message]) -> str:
    """The hash of messages, one after the other."""
    return hashlib.sha256(b"".join(message.data for message in messages)).hexdigest()


def way_figures(way: Way) -> dict[str, Any]:
    """What was sent one way: chunks of data, and of each stream the messages."""
    streams = {
        number: {
            "messages": len(messages),
            "bytes": sum(len(message.data) for message in messages),
            "sha256": digest(messages),
            "ppids": sorted({message.ppid for message in messages}),
        }
        for number, messages in sorted(way.streams.items())
    }
    return {"chunks": way.chunks, "sha256": hashlib.sha256(way.data).hexdigest(), "streams": streams}


def true_way_figures(way: dict[str, Any]) -> dict[str, Any]:
    """The same as the truth has it."""
    streams = {
        int(number): {
            "messages": stream["messages"],
            "bytes": stream["bytes"],
            "sha256": stream["sha256"],
            "ppids": sorted(int(ppid) for ppid in stream["ppid"]),
        }
        for number, stream in sorted(way["streams"].items(), key=lambda item: int(item[0]))
    }
    return {"chunks": way["contig_tsn"], "sha256": way["sha256"], "streams": streams}
