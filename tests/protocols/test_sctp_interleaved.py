"""SCTP with interleaved messages (RFC 8260): fragments in I-DATA chunks, and what I-FORWARD-TSN skips."""

from __future__ import annotations

import itertools
import random
import struct

import pytest

from sluice.lang.events import GAP_CAUSES
from tests.differential.both import run_compiled
from tests.protocols.test_sctp import (
    BEGIN,
    END,
    SETTINGS,
    TSN,
    UNORDERED,
    A,
    B,
    chunk,
    data,
    handshake,
    hear,
    packet,
    stack,
)

I_DATA, I_FORWARD_TSN = 64, 194
SKIPPED = GAP_CAUSES.index("skipped")
LAYER = "sctp_over_ipv4_sctp_packet"
PPID = 46


def idata(
    tsn: int, body: bytes, flags: int = BEGIN | END, stream: int = 0, mid: int = 0, fsn: int = PPID, src: str = A
) -> bytes:
    """An I-DATA chunk; the first fragment has the payload protocol where others have their number."""
    number = (TSN[src] + tsn) % 2**32
    return chunk(I_DATA, struct.pack(">IHHII", number, stream, 0, mid, fsn) + body, flags)


def forward(tsn: int, src: str = A) -> bytes:
    """All up to `tsn` will not come; of ordered message 0 of stream 1, says what follows."""
    return chunk(I_FORWARD_TSN, struct.pack(">IHHI", (TSN[src] + tsn) % 2**32, 1, 0, 0))


LATE = 2**32 - 1
SENT = [
    idata(0, b"a", BEGIN, 1),
    idata(1, b"A", BEGIN, 2),
    idata(2, b"u", BEGIN | UNORDERED, 1),
    idata(3, b"b" * 5, 0, 1, fsn=1),
    idata(4, b"z", BEGIN, 1, LATE),
    idata(5, b"B", END, 2, fsn=1),
    idata(6, b"whole", stream=3, mid=7),
    idata(7, b"v", END | UNORDERED, 1, fsn=1),
    idata(8, b"c", END, 1, fsn=2),
    idata(9, b"y", END, 1, LATE, fsn=1),
]
"""At once: two messages of stream 1 in order, one out of order, of the same identifier; and one of stream 2."""

MESSAGES = [
    (0, 2, 0, 0, b"AB"),
    (0, 3, 7, 0, b"whole"),
    (0, 1, 0, 1, b"uv"),
    (0, 1, 0, 0, b"abbbbbc"),
    (0, 1, LATE, 0, b"zy"),
]
PACKETS = [*handshake(), *map(packet, SENT), packet(forward(12)), packet(idata(13, b"behind", stream=1, mid=1))]


def test_fragments_of_several_messages_at_once() -> None:
    heard = hear([*handshake(), *map(packet, SENT)])
    assert heard.messages == MESSAGES and heard.gaps == [] and heard.lost == []


def test_in_any_order_and_several_in_a_packet() -> None:
    for seed in range(40):
        rnd = random.Random(seed)
        sent = SENT + rnd.choices(SENT, k=3)
        rnd.shuffle(sent)
        packets = []
        while sent:
            count = rnd.randrange(1, 4)
            packets.append(packet(b"".join(sent[:count])))
            sent = sent[count:]
        heard = hear([*handshake(), *packets])
        assert heard.messages == MESSAGES and heard.gaps == [], seed


def test_the_payload_protocol_is_that_of_the_first_fragment() -> None:
    events, _ = run_compiled(stack(), [*handshake(), *map(packet, SENT)], SETTINGS)
    protocols = [values[5] for layer, name, _, _, values in events if (layer, name) == ("sctp_message", "message")]
    assert protocols == [PPID] * len(MESSAGES)


def test_the_bytes_of_a_stream_are_those_after_the_chunks_heads() -> None:
    """Also of chunks that were held; and of an association with DATA chunks, whose heads are shorter."""
    for make, head in ((idata, I_DATA), (data, 0)):
        bodies = [b"one", b"two", b"three"]
        packets = [packet(make(tsn, bodies[tsn])) for tsn in (2, 0, 1)]
        events, _ = run_compiled(stack(), [*handshake(), *packets], SETTINGS)
        told = [values for layer, name, _, _, values in events if (layer, name) == (LAYER, "data")]
        assert [values[-1] for values in told] == bodies, head


def test_a_fragment_that_does_not_follow_ends_its_message_alone() -> None:
    sent = [
        idata(0, b"a", BEGIN, 1),
        idata(1, b"A", BEGIN, 2),
        idata(2, b"c", 0, 1, fsn=2),
        idata(3, b"d", END, 1, fsn=3),
        idata(4, b"B", END, 2, fsn=1),
    ]
    heard = hear([*handshake(), *map(packet, sent)])
    assert heard.messages == [(0, 2, 0, 0, b"AB")]
    assert heard.counters["sctp_message"]["bytes:discarded"] == 1


def test_what_is_skipped_is_a_gap_at_once() -> None:
    heard = hear(PACKETS)
    assert heard.messages == [*MESSAGES, (0, 1, 1, 0, b"behind")] and heard.gaps == [(0, 10, 3, SKIPPED)]


def test_fragments_of_a_skipped_message_are_dropped_and_others_go_on() -> None:
    sent = [
        packet(idata(0, b"a", BEGIN, 1)),
        packet(idata(1, b"A", BEGIN, 2)),
        packet(idata(3, b"c", END, 1, fsn=2)),
        packet(idata(4, b"B", END, 2, fsn=1)),
        packet(forward(3)),
        packet(idata(5, b"next", stream=1, mid=1)),
    ]
    heard = hear([*handshake(), *sent])
    assert heard.bodies == [b"AB", b"next"] and heard.gaps == [(0, 2, 1, SKIPPED)]


def test_what_never_ends_is_bounded() -> None:
    """Each message that begins is an instance, of which the box has 64: the oldest go."""
    sent = [packet(idata(number, b"begin", BEGIN, number % 7, number)) for number in range(300)]
    heard = hear([*handshake(), *sent, packet(idata(300, b"end", stream=1, mid=300))])
    assert heard.bodies == [b"end"]
    assert heard.counters["sctp_message"]["ended:evicted"] > 200


@pytest.mark.parametrize("src", [A, B])
def test_both_sides_have_their_own(src: str) -> None:
    other = B if src == A else A
    sent = [idata(0, b"a", BEGIN, 1, src=src), idata(1, b"b", END, 1, fsn=1, src=src)]
    answer = [idata(0, b"x", BEGIN, 1, src=other), idata(1, b"y", END, 1, fsn=1, src=other)]
    mixed = itertools.chain(*zip([(one, src) for one in sent], [(one, other) for one in answer], strict=True))
    heard = hear([*handshake(), *(packet(one, end) for one, end in mixed)])
    assert sorted(heard.bodies) == [b"ab", b"xy"]
