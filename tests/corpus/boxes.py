"""What ready stacks make of the captures of the corpus: rows of flows, datagrams, payloads of UDP."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sluice.engine.box import Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.events import PythonFunction, Seen
from sluice.engine.functions import find_functions
from sluice.ir.hook import Hook
from sluice.lang import Assign, Bit, Callback, UInt, layout
from sluice.stacks.find import find_stack
from tests.support.corpus import captures
from tests.support.law import check_law

Row = dict[str, Any]


class Run(NamedTuple):
    """What one run of `sluice flows` came to."""

    rows: list[Row]
    outcome: Outcome


def capture(name: str) -> Path:
    """A capture of the corpus."""
    return next(path for path in captures() if path.name == name)


@cache
def flow_stack(stack: str, passes: str = "all") -> CompiledStack:
    """The stack as `sluice flows` compiles it."""
    wanted = find_functions(["flow_log"])
    return compile_stack(find_stack(stack), tuple(wanted.c), wanted.python_hooks(), passes)


@cache
def flows_of(stack: str, name: str) -> Run:
    """`sluice flows --stack STACK -r NAME`, in this process."""
    return flows_with(flow_stack(stack), name)


def flows_with(stack: CompiledStack, name: str) -> Run:
    """What a stack that was compiled so makes of a capture."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "flows.jsonl")
        with Box(stack, Settings(timeouts=False, seed=1), [], [f"out={out}"]) as box:
            outcome = box.run(capture(name))
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    check_law(rows)
    return Run(rows, outcome)


PAYLOAD = "payload_seen"


def tell_payloads(udp: Any) -> None:
    """Has a parser of UDP tell the payload of each datagram."""

    class payload_seen(layout):
        src = Bit(16)
        dst = Bit(16)
        content = Bit(1 << 12)  # bytes, as many as there are

    setattr(
        udp.event,
        PAYLOAD,
        Assign(payload_seen.src, udp.header.sport)
        + Assign(payload_seen.dst, udp.header.dport)
        + Assign(payload_seen.content, udp.payload[: udp.header.length - 8])
        + Callback(payload_seen),
    )


PACKET = "packet_seen"


def tell_packets(quic: Any) -> None:
    """Has the parser of QUIC tell each packet."""

    class packet_seen(layout):
        kind = UInt(8)
        version = UInt(32)
        dcid = Bit(2040)
        scid_start = UInt(64)
        scid_length = UInt(8)
        scid_rest = Bit(2040)
        scid_4 = UInt(32)
        scid_after_4 = Bit(2040)
        short_scid = Bit(2040)
        connection = UInt(64)

    header = quic.header
    setattr(
        quic.event,
        PACKET,
        Assign(packet_seen.kind, quic.temp.kind)
        + Assign(packet_seen.version, header.version)
        + Assign(packet_seen.dcid, header.dcid)
        + Assign(packet_seen.scid_start, header.scid_start)
        + Assign(packet_seen.scid_length, header.scid_length)
        + Assign(packet_seen.scid_rest, header.scid_rest)
        + Assign(packet_seen.scid_4, header.scid_4)
        + Assign(packet_seen.scid_after_4, header.scid_after_4)
        + Assign(packet_seen.short_scid, header.scid)
        + Assign(packet_seen.connection, quic.instance)
        + Callback(packet_seen),
    )


@cache
def looked_into(stack: str) -> CompiledStack:
    """The stack with a look at datagrams put together, what TCP delivers, the payload of each UDP datagram, SCTP's
    associations and messages, and QUIC's packets, hellos and streams: one for all of these, as `everything` takes long
    to compile.
    """
    described = find_stack(stack)
    if udp := described.layers.get("udp"):
        tell_payloads(udp.prototype)
    if quic := described.layers.get("quic"):
        tell_packets(quic.prototype)
    looks = {
        **{"ipv4": ("data",), "frag": ("data",), "tcp": ("created", "data"), "udp": (PAYLOAD,)},
        **{"sctp": ("created", "data", "gap"), "sctp_message": ("message",)},
        **{"quic": (PACKET,), "tls_client_hello": ("hello",), "quic_stream": ("data", "gap")},
    }
    hooks = (Hook(layer, event) for layer in looks.keys() & described.layers.keys() for event in looks[layer])
    return compile_stack(described, (), frozenset(hooks))


class Datagrams(NamedTuple):
    """Datagrams that were put together: of each the completing frame and SHA-256, in order; and by version of IP."""

    found: list[tuple[int, str]]
    versions: dict[int, int]


@cache
def datagrams_of(stack: str, name: str) -> Datagrams:
    """The datagrams of a capture that came in fragments."""
    found: list[tuple[int, str]] = []

    def saw(event: Seen) -> None:
        found.append((event.packet, hashlib.sha256(event.bytes).hexdigest()))

    look = PythonFunction("look", [("ipv4", "data", saw), ("frag", "data", saw)], [])
    with Box(looked_into(stack), Settings(timeouts=False, seed=1), [look]) as box:
        counters = box.run(capture(name)).counters
    return Datagrams(found, {4: counters["ipv4"]["ended:accept"], 6: counters["frag"]["ended:accept"]})


Ends = tuple[str, int, str, int]


def streams_of(stack: str, name: str) -> dict[Ends, list[bytes]]:
    """What TCP delivered without a gap, by sender and receiver: a stream for each connection, in their order."""
    found: dict[int, dict[Ends, bytearray]] = {}

    def ends(event: Seen) -> Ends:
        return str(address(event.src)), event.sport, str(address(event.dst)), event.dport

    def created(event: Seen) -> None:
        src, sport, dst, dport = ends(event)
        found[event.instance] = {(src, sport, dst, dport): bytearray(), (dst, dport, src, sport): bytearray()}

    def data(event: Seen) -> None:
        stream = found[event.instance][ends(event)]
        if event.offset == len(stream):
            stream += event.bytes

    look = PythonFunction("look", [("tcp", "created", created), ("tcp", "data", data)], [])
    with Box(looked_into(stack), Settings(timeouts=False, seed=1), [look]) as box:
        box.run(capture(name))
    streams: dict[Ends, list[bytes]] = {}
    for sides in found.values():
        for key, stream in sides.items():
            streams.setdefault(key, []).append(bytes(stream))
    return streams


def address(key: int | bytes | IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An address as instances have it in their keys, or as events have it."""
    if isinstance(key, (IPv4Address, IPv6Address)):
        return key
    return IPv6Address(key) if isinstance(key, bytes) else IPv4Address(key)


def payloads_of(stack: str, name: str) -> list[tuple[int, bytes]]:
    """Source port and payload of each UDP datagram of a capture."""
    found: list[tuple[int, bytes]] = []
    look = PythonFunction("look", [("udp", PAYLOAD, lambda event: found.append((event.src, event.content)))], [])
    with Box(looked_into(stack), Settings(timeouts=False, seed=1), [look]) as box:
        box.run(capture(name))
    return found
