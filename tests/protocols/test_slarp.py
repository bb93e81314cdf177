"""SLARP over Cisco HDLC: addresses and keepalives, and what is none of these."""

from __future__ import annotations

import struct
from functools import cache

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang import Pred, Stack
from sluice.protocols.chdlc import chdlc_parser
from sluice.protocols.slarp import slarp_parser
from tests.support.headers import EVENT, tell_headers
from tests.support.run import Result, run, watch_all
from tests.support.stacks import all_protocols

HDLC = 104
FIELDS = ("type", "address", "mask", "number", "returned", "reliability")


@cache
def stack() -> CompiledStack:
    made = Stack("line")
    made.chdlc, made.slarp = chdlc_parser(), slarp_parser()
    made += (made.chdlc >> made.slarp) + Pred(made.chdlc.header.protocol == 0x8035)
    return watch_all(tell_headers(made), ("slarp", EVENT))


def slarp(kind: int, rest: bytes) -> bytes:
    return struct.pack(">BBHI", 0x8F, 0, 0x8035, kind) + rest


ADDRESS, MASK = 0xC0A80001, 0xFFFFFF00
KEEPALIVE = struct.pack(">IIH", 7, 5, 0xFFFF)
PACKETS = {
    "request": (slarp(0, struct.pack(">IIH", 0, 0, 0)), (0, 0, 0, 0, 0, 0)),
    "reply": (slarp(1, struct.pack(">IIH", ADDRESS, MASK, 0xFFFF)), (1, ADDRESS, MASK, 0, 0, 0)),
    "reply without an end": (slarp(1, struct.pack(">II", ADDRESS, MASK)), (1, ADDRESS, MASK, 0, 0, 0)),
    "keepalive": (slarp(2, KEEPALIVE), (2, 0, 0, 7, 5, 0xFFFF)),
    "keepalive with a time": (slarp(2, KEEPALIVE + bytes(4)), (2, 0, 0, 7, 5, 0xFFFF)),
}


def told(packet: bytes, length: int | None = None) -> tuple[Result, list[tuple[int, ...]]]:
    """What became of a packet, and the fields of SLARP in it."""
    result = run(stack(), [(packet, len(packet) if length is None else length)], link_type=HDLC)
    return result, [tuple(event.values[name] for name in FIELDS) for event in result.named(EVENT)]


@pytest.mark.parametrize("name", PACKETS)
def test_fields(name: str) -> None:
    packet, fields = PACKETS[name]
    result, found = told(packet)
    assert found == [fields] and result.count("slarp", "ended") == 1


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (slarp(3, bytes(10)), "malformed:type"),
        (slarp(2, KEEPALIVE[:9]), "malformed:header too short"),
        (slarp(1, bytes(7)), "malformed:header too short"),
        (slarp(0, b"")[:6], "malformed:header too short"),
    ],
)
def test_malformed(packet: bytes, reason: str) -> None:
    result, found = told(packet)
    assert found == [] and result.count("slarp", reason) == 1


def test_cut_by_the_snap_length() -> None:
    packet, _ = PACKETS["keepalive"]
    for size in range(4, len(packet)):
        result, found = told(packet[:size], len(packet))
        assert found == [] and result.count("slarp", "cut:header") == 1


def test_everything_has_it() -> None:
    result = run(all_protocols(), [packet for packet, _ in PACKETS.values()], link_type=HDLC)
    assert result.count("slarp", "ended") == len(PACKETS)
