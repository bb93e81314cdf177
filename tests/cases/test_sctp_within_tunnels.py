"""Errors of existing stacks in SCTP, within tunnels and without.

They processed one chunk of five, and delivered the bytes of a cookie as data. tests/protocols/test_sctp.py tests more.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.cases.tunnel import TUNNELS, Wrap
from tests.differential.both import Packet
from tests.protocols.test_sctp import (
    BEGIN,
    COOKIE_ACK,
    COOKIE_ECHO,
    END,
    HEARTBEAT,
    SACK,
    SHUTDOWN,
    A,
    B,
    chunk,
    data,
    handshake,
    packet,
)
from tests.support.run import Result, run
from tests.support.stacks import all_protocols

everywhere = pytest.mark.parametrize("wrap", TUNNELS.values(), ids=TUNNELS)


def through(wrap: Wrap, packets: Iterable[Packet]) -> Result:
    """Run stack everything on the packets, each inside the tunnel."""
    return run(all_protocols(), [wrap(one.data) for one in packets])


def messages(result: Result) -> list[tuple[int, bytes]]:
    """The stream and the bytes of each message."""
    return [(event.stream, event.data) for event in result.named("message")]


@everywhere
def test_each_of_several_chunks_in_a_packet_is_seen(wrap: Wrap) -> None:
    """Numbers count chunks, one each, and wrap between them."""
    chunks = [data(number, b"message %d" % number, stream=number % 3) for number in range(5)]
    result = through(wrap, [*handshake(), packet(chunk(SACK, bytes(12)) + b"".join(chunks)), packet(data(5, b"six"))])
    assert messages(result) == [*((number % 3, b"message %d" % number) for number in range(5)), (0, b"six")]
    row = next(row for row in result.rows if row["proto"] == "sctp")
    assert (row["src_stream"], row["dst_stream"], row["gaps"]) == (5 * len(b"message 0") + 3, 0, [])


@everywhere
def test_packets_in_another_order(wrap: Wrap) -> None:
    parts = [data(1, b"a" * 700, BEGIN), data(2, b"b" * 700, 0), data(3, b"c" * 700, END), data(4, b"next")]
    result = through(wrap, [*handshake(), *map(packet, parts[::-1]), packet(data(0, b"first")), packet(parts[1])])
    assert messages(result) == [(0, b"first"), (0, b"a" * 700 + b"b" * 700 + b"c" * 700), (0, b"next")]
    row = next(row for row in result.rows if row["proto"] == "sctp")
    assert row["gaps"] == [] and row["src_rexmit"] == 1


@everywhere
def test_what_is_no_data_is_not_delivered(wrap: Wrap) -> None:
    """Neither a cookie nor the content of a heartbeat, SACK, or shutdown is delivered."""
    others = [chunk(kind, b"no data at all..") for kind in (COOKIE_ECHO, COOKIE_ACK, HEARTBEAT, SACK, SHUTDOWN)]
    packets = [*handshake(), packet(b"".join(others)), packet(b"".join(others), B)]
    result = through(wrap, packets)
    assert messages(result) == [] and not [event for event in result.named("data") if event.layer.startswith("sctp")]
    row = next(row for row in result.rows if row["proto"] == "sctp")
    assert {row[f"{side}_{what}"] for side in ("src", "dst") for what in ("stream", "rexmit")} == {0}
    assert (row["src"], row["dst"], row["state"]) == (A, B, "SHUTDOWN_SENT")
