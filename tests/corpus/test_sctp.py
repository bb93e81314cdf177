"""Every SCTP association of the corpus is what truth.json says: chunks, data in their order, streams, messages.

The truth knows an association by its ends, and a new one by an INIT with another tag, as our layer does.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.events import PythonFunction, Seen
from sluice.ir.build import Hook
from sluice.stacks.find import find_stack
from tests.corpus.agreement import matched, sides
from tests.support.corpus import captures, truth

NAMES = [path.name for path in captures() if truth()[path.name].get("sctp")]


@dataclass
class Side:
    """What one end of an association sent."""

    messages: dict[int, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    data: bytearray = field(default_factory=bytearray)
    units: int = 0
    broken: bool = False


@cache
def stack() -> CompiledStack:
    hooks = frozenset({Hook("sctp", name) for name in ("data", "gap")} | {Hook("sctp_message", "message")})
    return compile_stack(find_stack("everything"), (), hooks)


@cache
def associations(name: str) -> dict[int, tuple[Side, Side]]:
    """By number of the instance, the active side first."""
    found: dict[int, tuple[Side, Side]] = defaultdict(lambda: (Side(), Side()))

    def data(event: Seen) -> None:
        side = found[event.instance][event.side]
        if not side.broken:
            side.units += 1
            side.data += event.bytes

    def gap(event: Seen) -> None:
        found[event.instance][event.side].broken = True

    def message(event: Seen) -> None:
        side = found[event.association][event.to_active]
        if not side.broken:
            side.messages[event.stream].append((event.ppid, event.data))

    handlers = [("sctp", "data", data), ("sctp", "gap", gap), ("sctp_message", "message", message)]
    path = next(path for path in captures() if path.name == name)
    with Box(stack(), Settings(timeouts=False, seed=1), [PythonFunction("all", handlers, [])]) as box:
        box.run(path)
    return found


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    """A row for each association: packets, and the data of each direction in the order of their numbers."""
    compared = 0
    for flow, row in matched("everything", name, "sctp"):
        assert flow is not None and row is not None, (flow, row)
        for side, way in sides(flow, row):
            figures = {key: row[f"{side}_{key}"] for key in ("pkts", "stream", "sha256")}
            assert figures == {"pkts": way["packets"], "stream": way["bytes"], "sha256": way["sha256"]}, (side, flow)
            assert row[f"{side}_rexmit"] == way["dup_tsn"]
        compared += 1
    assert compared


@pytest.mark.parametrize("name", NAMES)
def test_messages(name: str) -> None:
    """Of each stream: how many messages, their bytes, the payload protocols."""
    wanted = Counter[Any]()
    for flow in truth()[name]["sctp"]:
        for way in (flow["a2b"], flow["b2a"]):
            if way["contig_tsn"]:
                wanted[way["contig_tsn"], way["sha256"], streams_of(way)] += 1
    got = Counter[Any]()
    for pair in associations(name).values():
        for side in pair:
            if side.units:
                streams = tuple(
                    (
                        stream,
                        len(messages),
                        digest(b"".join(data for _, data in messages)),
                        tuple(sorted({ppid for ppid, _ in messages})),
                    )
                    for stream, messages in sorted(side.messages.items())
                )
                got[side.units, digest(bytes(side.data)), streams] += 1
    assert got == wanted


def streams_of(way: dict[str, Any]) -> tuple[Any, ...]:
    """The streams of one direction as the truth has them."""
    return tuple(
        (int(number), stream["messages"], stream["sha256"], tuple(sorted(int(ppid) for ppid in stream["ppid"])))
        for number, stream in sorted(way["streams"].items(), key=lambda item: int(item[0]))
    )
