"""SCTP with partial reliability (RFC 3758): what the sender says will not come; and chunks that are passed over."""

from __future__ import annotations

import struct

import pytest

from sluice.lang.events import GAP_CAUSES
from tests.differential.both import Packet
from tests.protocols.test_sctp import (
    BEGIN,
    COOKIE_ACK,
    COOKIE_ECHO,
    END,
    INIT_ACK,
    TAGS,
    TSN,
    A,
    B,
    associations,
    chunk,
    data,
    handshake,
    hear,
    init,
    packet,
    state_of,
)

FORWARD_TSN, AUTH, RE_CONFIG, ASCONF = 192, 15, 130, 193
SKIPPED = GAP_CAUSES.index("skipped")
LAYER = "sctp_over_ipv4_sctp_packet"


def forward(tsn: int, src: str = A, streams: bytes = b"") -> bytes:
    """Number `tsn`, counted from the first of its sender, and all before it will not come."""
    return chunk(FORWARD_TSN, struct.pack(">I", (TSN[src] + tsn) % 2**32) + streams)


def test_what_is_skipped_is_a_gap_at_once_and_the_rest_goes_on() -> None:
    """3.6: what is at or before the new cumulative TSN counts as received; what is held goes on."""
    packets = [
        *handshake(),
        packet(data(0, b"zero")),
        packet(data(3, b"three", stream=2)),
        packet(data(6, b"six", stream=1)),
        packet(data(7, b"seven", stream=2)),
        packet(forward(5, streams=struct.pack(">HHHH", 0, 1, 1, 0))),
    ]
    heard = hear(packets)
    assert heard.bodies == [b"zero", b"three", b"six", b"seven"]
    assert heard.gaps == [(0, 1, 2, SKIPPED), (0, 4, 2, SKIPPED)] and not heard.lost
    assert heard.counters[LAYER]["units:given up"] == 4
    more = hear([*packets, packet(data(8, b"eight")), packet(data(5, b"five, which comes late"))])
    assert more.bodies == [*heard.bodies, b"eight"] and more.gaps == heard.gaps


def test_both_sides_skip_their_own() -> None:
    packets = [*handshake(), packet(data(0, b"zero")), packet(data(0, b"answer", src=B), B)]
    heard = hear([*packets, packet(forward(4, B), B), packet(data(1, b"one")), packet(data(5, b"five", src=B), B)])
    assert heard.bodies == [b"zero", b"answer", b"one", b"five"] and heard.gaps == [(1, 1, 4, SKIPPED)]


def test_what_is_skipped_at_the_end_is_a_gap_too() -> None:
    heard = hear([*handshake(), packet(data(0, b"zero")), packet(forward(3)), packet(data(4, b"four"))])
    assert heard.bodies == [b"zero", b"four"] and heard.gaps == [(0, 1, 3, SKIPPED)]


def test_what_is_missing_after_may_come_yet() -> None:
    packets = [*handshake(), packet(data(0, b"zero")), packet(data(5, b"five")), packet(forward(2))]
    heard = hear([*packets, packet(data(4, b"four")), packet(data(3, b"three"))])
    assert heard.bodies == [b"zero", b"three", b"four", b"five"] and heard.gaps == [(0, 1, 2, SKIPPED)]


def test_data_in_the_same_packet() -> None:
    packets = [packet(data(0, b"zero")), packet(data(4, b"four") + forward(3) + data(5, b"five"))]
    heard = hear([*handshake(), *packets])
    assert heard.bodies == [b"zero", b"four", b"five"] and heard.gaps == [(0, 1, 3, SKIPPED)]


@pytest.mark.parametrize("tsn", [0, -1, -5, -(2**30), 2**31 + 1], ids=str)
def test_backwards_nothing_is_skipped(tsn: int) -> None:
    packets = [*handshake(), packet(data(0, b"zero")), packet(data(2, b"two")), packet(forward(tsn))]
    heard = hear([*packets, packet(data(1, b"one"))])
    assert heard.bodies == [b"zero", b"one", b"two"] and heard.gaps == []


def test_far_ahead_no_more_is_skipped_than_it_says() -> None:
    far = 2**31 - 2
    heard = hear([*handshake(), packet(data(0, b"zero")), packet(forward(far)), packet(data(far + 1, b"far"))])
    assert heard.bodies == [b"zero", b"far"] and heard.gaps == [(0, 1, far, SKIPPED)]


@pytest.mark.parametrize(
    "stranger",
    [packet(forward(5), tag=0xDEAD), packet(forward(5), tag=TAGS[A]), packet(forward(5, B), B)],
    ids=["unknown tag", "the sender's own tag", "the other side"],
)
def test_under_a_wrong_tag_nothing_is_skipped(stranger: Packet) -> None:
    packets = [*handshake(), packet(data(0, b"zero")), packet(data(2, b"two")), stranger, packet(data(1, b"one"))]
    heard = hear(packets)
    assert heard.bodies == [b"zero", b"one", b"two"] and not [gap for gap in heard.gaps if gap[0] == 0]


def test_an_association_that_is_picked_up_may_begin_with_a_skip() -> None:
    heard = hear([packet(forward(5)), packet(data(7, b"seven")), packet(data(6, b"six")), packet(data(4, b"four"))])
    assert heard.bodies == [b"six", b"seven"] and heard.gaps == []


def test_a_chunk_that_is_too_short_skips_nothing() -> None:
    short = chunk(FORWARD_TSN, b"\0\0")
    heard = hear([*handshake(), packet(data(0, b"zero")), packet(short), packet(data(1, b"one"))])
    assert heard.bodies == [b"zero", b"one"] and heard.gaps == [] and len(heard.lost) == 1


@pytest.mark.parametrize(
    ("there", "begun", "strays"),
    [([], 0, 0), ([0], 5, 0), ([1], 0, 1), ([2], 0, 1), ([0, 1], 11, 0), ([0, 2], 5, 1), ([1, 2], 0, 2)],
    ids=str,
)
def test_fragments_of_a_skipped_message_are_dropped(there: list[int], begun: int, strays: int) -> None:
    """Bytes of a message that had begun are discarded; each fragment that follows none ends by itself."""
    parts = [data(0, b"begin", BEGIN), data(1, b"middle", 0), data(2, b"end", END)]
    after = [data(3, b"ne", BEGIN), data(4, b"xt", END)]
    heard = hear([*handshake(), *map(packet, [*(parts[number] for number in there), forward(2), *after])])
    counters = heard.counters["sctp_message"]
    assert heard.bodies == [b"next"]
    assert (counters["bytes:discarded"], counters["bytes:delivered"]) == (begun, 4)
    assert counters["ended"] == strays + 1  # that with the end of `next`


def test_fragments_after_a_skip_are_put_together() -> None:
    parts = [data(3, b"a", BEGIN), data(4, b"b", 0), data(5, b"c", END)]
    heard = hear([*handshake(), packet(data(0, b"lost", BEGIN)), *map(packet, parts), packet(forward(2))])
    assert heard.bodies == [b"abc"]


@pytest.mark.parametrize("kind", [AUTH, RE_CONFIG, ASCONF])
def test_other_chunks_are_passed_over(kind: int) -> None:
    """RFC 4895, 6.3: an AUTH chunk lies before those that it authenticates. RFC 6525 and 5061: other chunks."""
    other = chunk(kind, struct.pack(">HHI", 1, 3, (TSN[A] + 9) % 2**32) + bytes(21))
    packets = [packet(init(A), tag=0), packet(init(B, INIT_ACK), B), packet(other + chunk(COOKIE_ECHO, b"biscuit"))]
    packets += [packet(other + chunk(COOKIE_ACK), B), packet(other + data(0, b"zero") + other + data(1, b"one"))]
    heard = hear(packets)
    assert heard.bodies == [b"zero", b"one"] and heard.gaps == [] and heard.lost == []
    assert state_of(packets) == "ESTABLISHED" and associations(heard) == 1
