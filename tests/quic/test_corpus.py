"""QUIC in real captures: packets, versions, types and connection ids as the truth has them; the bytes that were sent.

TRUTH.md of the corpus says what its figures mean: what long headers show in the clear, and how many datagrams with a
short header came behind the first long one.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.events import PythonFunction, Seen
from sluice.ir.build import Hook
from sluice.lang import Assign, Bit, Callback, UInt, layout
from sluice.stacks.find import find_stack
from tests.support.conserve import check_conservation
from tests.support.corpus import corpus, truth

pytestmark = pytest.mark.corpus


class seen(layout):
    kind = UInt(8)
    version = UInt(32)
    dcid = Bit(2040)
    scid_start = UInt(64)
    scid_length = UInt(8)
    scid_rest = Bit(2040)
    short_scid = Bit(2040)
    number = UInt(64)


NAMES = ("initial", "0rtt", "handshake", "retry", "short", "vneg")
OWN = ("Q02", "Q03", "Q04")
"""Versions of Google's that have no long header of today's form."""


@cache
def library() -> CompiledStack:
    """Stack everything, telling of each packet."""
    stack = find_stack("everything")
    p: Any = stack.layers["quic"].prototype
    p.event.seen = (
        Assign(seen.kind, p.temp.kind)
        + Assign(seen.version, p.header.version)
        + Assign(seen.dcid, p.header.dcid)
        + Assign(seen.scid_start, p.header.scid_start)
        + Assign(seen.scid_length, p.header.scid_length)
        + Assign(seen.scid_rest, p.header.scid_rest)
        + Assign(seen.short_scid, p.header.scid)
        + Assign(seen.number, p.instance)
        + Callback(seen)
    )
    hooks = frozenset([Hook("quic", "seen"), Hook("tls_client_hello", "hello"), Hook("quic_stream", "data")])
    return compile_stack(stack, (), hooks | {Hook("quic_stream", "gap")})


def run(name: str, keylog: Path | None = None) -> tuple[list[Seen], dict[str, dict[str, int]]]:
    """Events of a capture, and the counters."""
    events: list[Seen] = []
    made = library()
    hooks = [(hook.layer, hook.event, events.append) for hook in made.functions.python]
    natives = {"keylog": str(keylog)} if keylog is not None else {}
    settings = Settings(seed=1, timeouts=False, natives=natives)
    with Box(made, settings, [PythonFunction("seen", hooks, [])]) as box:
        box.run(corpus() / name)
        counters = box.counters()
    check_conservation(made.program, counters)
    return events, counters


def version_name(number: int) -> str:
    """As the truth calls versions."""
    known = {0: "vneg", 1: "v1", 0x6B3343CF: "v2", 0x709A50C4: "v2-draft"}
    if number in known:
        return known[number]
    if number >> 8 == 0xFF0000:
        return f"draft-{number & 0xFF}"
    if number >> 8 == 0xFACEB0:
        return f"mvfst-{number:x}"
    if number & 0x0F0F0F0F == 0x0A0A0A0A:
        return "grease"
    return number.to_bytes(4, "big").decode()


def end_of(event: Seen, sender: bool) -> str:
    """Address and port of who sent a packet, or of whom it was sent to."""
    address, port = (event.src, event.sport) if sender else (event.dst, event.dport)
    return f"{ipaddress.ip_address(address)} {port}"


def scid(event: Seen) -> bytes:
    if event.scid_length < 8:
        return event.short_scid
    return event.scid_start.to_bytes(8, "big") + event.scid_rest


def by_flow(events: list[Seen]) -> dict[frozenset[str], dict[str, Any]]:
    """What was seen of each pair of ends."""
    found: dict[frozenset[str], dict[str, Any]] = defaultdict(
        lambda: {
            "versions": Counter[str](),
            "long": Counter[str](),
            "short": 0,
            "cids": defaultdict[str, list[str]](list),
        }
    )
    for event in events:
        if event.name != "seen" or not event.number:
            continue
        flow = found[frozenset((end_of(event, True), end_of(event, False)))]
        kind = NAMES[event.kind]
        if kind == "short":
            flow["short"] += 1
            continue
        flow["versions"][version_name(event.version)] += 1
        flow["long"][kind] += 1
        ids = flow["cids"][end_of(event, True)]
        for text in ("d" + event.dcid.hex(), "s" + scid(event).hex()):
            if text not in ids:
                ids.append(text)
    return found


def expected(name: str) -> dict[frozenset[str], dict[str, Any]]:
    """What the truth says of QUIC, without the versions before there was one of the IETF's."""
    found: dict[frozenset[str], dict[str, Any]] = {}
    for flow in truth()[name]["udp"]:
        quic = flow.get("quic")
        if quic is None or any(version.startswith(OWN) for version in quic["versions"]):
            continue
        ends = [f"{ipaddress.ip_address(flow[end][0])} {flow[end][1]}" for end in "ab"]
        quic["cids"] = dict(zip(ends, quic["cids"], strict=True))
        found[frozenset(ends)] = quic
    return found


GREASED = {("ntop_nDPI__quic-v2.pcapng", "::1 42086"): 1, ("ntop_nDPI__quic_0RTT.pcapng", "::1 60459"): 1}
"""Packets of a client behind others in their datagram whose fixed bit is greased (RFC 9287): none to truth.py."""

WITH_QUIC = [name for name in truth() if any("quic" in flow for flow in truth()[name]["udp"])]


@pytest.mark.parametrize("name", WITH_QUIC)
def test_headers(name: str) -> None:
    found = by_flow(run(name)[0])
    wanted = expected(name)
    assert set(found) == set(wanted)
    for ends, quic in wanted.items():
        own = found[ends]
        assert dict(own["versions"]) == quic["versions"]
        assert dict(own["long"]) == quic["long"]
        assert own["short"] == quic["short"] + sum(GREASED.get((name, end), 0) for end in ends)
        for end, ids in quic["cids"].items():
            assert sorted(own["cids"][end][:16]) == sorted(ids)


def test_nothing_else_is_taken_for_quic() -> None:
    """Of all other captures together, no connection begins."""
    others = [name for name in truth() if name not in WITH_QUIC]
    begun: dict[str, int] = {}
    for name in others:
        layers = run(name)[1].items()
        begun[name] = sum(own.get("instances", 0) for layer, own in layers if layer.startswith("quic_over"))
    assert {name: count for name, count in begun.items() if count} == {}


KEYED = [name for name in WITH_QUIC if (corpus() / "app" / f"{name}.keys").is_file()]


@pytest.mark.parametrize("name", KEYED)
def test_the_bytes_that_were_sent(name: str) -> None:
    """Lengths and hashes of every stream's two directions are those that the two applications tell."""
    events, counters = run(name, corpus() / "app" / f"{name}.keys")
    streams: dict[tuple[Any, int], list[Any]] = defaultdict(lambda: [hashlib.sha256(), hashlib.sha256(), 0, 0])
    for event in events:
        if event.layer == "quic_stream" and event.name == "data":
            key, sender = (event.key["connection"], event.key["stream"]), event.key["sender"]
            streams[key][sender].update(event.bytes)
            streams[key][2 + sender] += len(event.bytes)
    assert not [event for event in events if event.name == "gap"]
    found = Counter((s[2], s[3], s[0].hexdigest(), s[1].hexdigest()) for s in streams.values())
    told = json.loads((corpus() / "app" / f"{name}.app.json").read_text())
    assert found == Counter(tuple(stream) for connection in told for stream in connection["streams"])
    quic = next(own for layer, own in counters.items() if layer.startswith("quic_over") and own["packets"])
    assert quic["dropped:no key"] <= 5 and quic["dropped:not authentic"] == 0


# as tshark tells it
HELLOS = {
    "FoxIO-LLC_ja4__chrome-cloudflare-quic-with-secrets.pcapng": {b"cloudflare-quic.com"},
    "OISF_suricata-verify__quic-frag-input.pcap": {b"token.services.mozilla.com"},
    "wireshark_wireshark__quic_follow_multistream.pcapng": {b"www.youtube.com"},
}


@pytest.mark.parametrize("name", [name for name in HELLOS if name in WITH_QUIC])
def test_whom_a_client_wants(name: str) -> None:
    events, _ = run(name)
    assert {event.server_name for event in events if event.name == "hello"} == HELLOS[name]
