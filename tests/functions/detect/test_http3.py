"""HTTP/3 in the buffers of HTTP; TLS and DNS over QUIC and SCTP; flowbits of their connections."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from sluice.engine.box import Box
from tests.functions.detect.boxes import START, Alerts, needs_ids, rule, run
from tests.functions.detect.test_http2 import ASK, BODY, EXPECTED, RULES
from tests.functions.detect.traffic import client_hello, dns_query
from tests.functions.logs.http3 import (
    DATA,
    HEADERS,
    Piece,
    block,
    compiled,
    controls,
    exchange,
    frame,
    needs_nghttp3,
    packet,
    packets,
    request,
    reset,
    response,
    stream_frame,
)
from tests.functions.logs.http3 import run_packets as logged
from tests.functions.logs.test_http3 import CAPTURE, KEYS, captured
from tests.protocols.test_sctp import data as chunk
from tests.protocols.test_sctp import handshake as associated
from tests.protocols.test_sctp import packet as sctp_packet
from tests.support.connection import shuffled

pytestmark = [needs_ids, needs_nghttp3]

ANSWER = response(404, ("content-type", "text/plain"), ("set-cookie", "x=y"))
THREE: list[Piece] = [
    *controls(),
    (">", 0, frame(HEADERS, block(ASK)) + frame(DATA, BODY[:3]) + frame(DATA, BODY[3:]), True),
    ("<", 0, ANSWER, True),
]


def alerts(pieces: Sequence[Piece], rules: str = RULES, cut: int = 1000, parameters: str = "") -> Alerts:
    return given(packets(pieces, cut), rules, parameters)


def given(frames: Sequence[bytes], rules: str, parameters: str = "", stack: str = "quic_deciphered") -> Alerts:
    def feed(box: Box) -> None:
        for number, data in enumerate(frames):
            box.packet(data, START + number * 10**6, 1, len(data))

    return run(feed, rules, parameters, stack=stack)


def test_the_same_rules_as_on_http_1_and_2() -> None:
    for cut in (1, 7, 1000):
        found = alerts(THREE, cut=cut)
        assert sorted(found.sids) == EXPECTED, cut
    rows = {row["alert"]["signature_id"]: row for row in found.rows}
    assert rows[1]["http"] == {
        "http_method": "POST", "hostname": "www.example", "url": "/a/..%2fetc/passwd", "http_user_agent": "Evil/1.0",
    }  # fmt: skip
    assert (rows[1]["proto"], rows[1]["direction"]) == ("QUIC", "to_server")
    assert rows[8]["http"] == {"status": 404, "http_content_type": "text/plain"} and rows[8]["direction"] == "to_client"
    assert alerts(THREE, parameters="streams=no").rows == []


def test_packets_out_of_order_and_again() -> None:
    for seed in range(4):
        assert sorted(given(shuffled(packets(THREE, 23), seed, 9), RULES).sids) == EXPECTED


def test_interim_responses_trailers_and_resets() -> None:
    status = rule('content:"103"; http_stat_code;') + rule('content:"200"; http_stat_code;', sid=2)
    body = rule('content:"evil body"; http_client_body;', sid=3)
    trailers = frame(HEADERS, block([("x", "evil body")]))
    pieces: list[Piece] = [
        *controls(),
        (">", 0, frame(HEADERS, block(ASK)) + frame(DATA, BODY) + trailers, True),
        ("<", 0, response(103) + response(200) + frame(DATA, b"x") + trailers, True),
    ]
    assert alerts(pieces, status + body).counts == Counter({1: 1, 2: 1, 3: 1})
    sent = packets([*controls(), (">", 0, frame(HEADERS, block(ASK)) + frame(DATA, BODY), False)])
    found = given([*sent, packet(">", reset(0, 0x10C, 100))], body)
    assert found.sids == [3] and found.reports["ids_http_incomplete"] == 1 and not found.reports["ids_http_3_ended"]
    refused: list[Piece] = [
        *controls(),
        (">", 0, request("/etc/passwd") + frame(2), False),
        *exchange(4, "/etc/passwd"),
    ]
    found = alerts(refused, rule('content:"/etc/passwd"; http_uri;'))
    assert found.sids == [1, 1] and found.reports["ids_http_3_ended"] == 1


def test_a_head_that_does_not_end_is_counted() -> None:
    found = alerts([*controls(), (">", 0, frame(HEADERS, block(ASK))[:-3], False)])
    assert found.sids == [] and found.reports["ids_http_incomplete"] == 1 and not found.reports["ids_http_messages"]


def test_a_gap_in_a_body() -> None:
    head = frame(HEADERS, block(ASK)) + frame(DATA, b"x" * 300)[:-300]
    frames = [
        *packets([*controls(), (">", 0, head, False)]),
        packet(">", stream_frame(0, len(head), b"evil body" + b"x" * 91, False)),
        packet(">", stream_frame(0, len(head) + 200, b"x" * 100, True)),
    ]
    found = given(frames, rule('content:"evil body"; http_client_body;'))
    assert found.sids == [1] and found.reports["ids_http_incomplete"] == 1 and found.reports["ids_gaps"] == 1


def test_flowbits_are_those_of_the_connection() -> None:
    """A request sets a bit that rules on the response, and on another stream, test."""
    rules = (
        rule('content:"/first"; http_uri; flowbits:set,asked; flowbits:noalert;')
        + rule('content:"404"; http_stat_code; flowbits:isset,asked;', sid=2)
        + rule('content:"later"; flowbits:isset,asked;', sid=3)
    )
    first: list[Piece] = [
        (">", 0, request("/first"), True),
        ("<", 0, response(404), True),
        (">", 6, b"\x21later", False),
    ]
    assert alerts([*controls(), *first], rules).counts == Counter({2: 1, 3: 1})
    assert alerts([*controls(), *first[1:]], rules).sids == []


def test_rules_about_a_message_and_its_stream() -> None:
    """Both parts hold on one stream."""
    both = rule('content:"|00|later"; content:"/first"; http_uri;')
    pieces: list[Piece] = [*controls(), (">", 0, request("/first", method="POST") + frame(DATA, b"\0later"), True)]
    assert alerts(pieces, both).sids == [1]
    apart: list[Piece] = [
        *pieces[:-1],
        *exchange(0, "/first"),
        (">", 4, request("/other") + frame(DATA, b"\0later"), True),
    ]
    assert alerts(apart, both).sids == []


def test_requests_of_the_capture() -> None:
    """As many messages as httplog has, but for the request that a server promises."""
    rules = rule('content:"/"; http_uri;') + rule('pcre:"/^[1-5]/S";', sid=2)
    program = compiled("quic", "ids")
    found = run(lambda box: box.run(CAPTURE), rules, stack="quic", program=program, keylog=KEYS)
    rows = captured().rows
    assert found.counts[1] == sum(bool(row["path"]) for row in rows) - 1
    assert found.counts[2] == sum(row["status"] is not None for row in rows) + sum(len(row["interim"]) for row in rows)


@pytest.mark.parametrize("memory", [1 << 30, 60000])
def test_hostile_streams(memory: int) -> None:
    """Changed, left out and added bytes, with and without room: each run gives its memory back."""
    dice = random.Random(memory)
    for _ in range(40):
        pieces: list[Piece] = []
        for who, stream, said, fin in (*THREE, *exchange(4, "/x", b"y" * 200), *exchange(8, "/z", b"evil body")):
            changed = bytearray(said)
            for _ in range(dice.randrange(3)):
                at = dice.randrange(len(changed) + 1)
                changed[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
            pieces.append((who, stream, bytes(changed), fin and dice.random() < 0.8))
        frames = packets(pieces, dice.choice((7, 100, 1000)))
        del frames[dice.randrange(len(frames))]
        found = given(frames, RULES, f"memory={memory}")
        assert memory == 1 << 30 or len(found.sids) <= len(EXPECTED) + 9


# --- TLS and DNS ---

SNI = rule('tls.sni; content:"evil.example";', "tls any any -> any any")
DNS = rule('dns.query; content:"evil.example";', "dns any any -> any any", sid=2)


def test_names_in_messages_of_sctp() -> None:
    frames = [each.data for each in associated()]
    hello, query = client_hello(b"www.evil.example"), dns_query(b"www.evil.example")
    assert given([*frames, sctp_packet(chunk(0, hello)).data], SNI + DNS, stack="sctp").sids == [1]
    named = [each.replace(b"\x8e\x3c", b"\0\x35") for each in [*frames, sctp_packet(chunk(0, query)).data]]  # port 53
    assert given(named, SNI + DNS, "", stack="sctp").sids == [2]
    assert given([*frames, sctp_packet(chunk(0, query)).data], SNI + DNS, stack="sctp").sids == []
    bits = rule('content:"USER"; flowbits:set,in; flowbits:noalert;') + rule(
        'content:"evil"; flowbits:isset,in;', sid=2
    )
    said = [sctp_packet(chunk(0, b"USER x")).data, sctp_packet(chunk(1, b"evil", ssn=1)).data]
    assert given([*frames, *said], bits, stack="sctp").sids == [2]
    assert given([*frames, said[1]], bits, stack="sctp").sids == []


def test_dns_over_quic() -> None:
    query = dns_query(b"www.evil.example")
    pieces: list[Piece] = [(">", 0, len(query).to_bytes(2, "big") + query, True)]
    doq = [each.replace((443).to_bytes(2, "big"), (853).to_bytes(2, "big"), 1) for each in packets(pieces, 5)]
    assert given(doq, SNI + DNS).sids == [2]
    assert given(packets(pieces, 5), SNI + DNS).sids == []
    assert logged(packets(pieces, 5)).rows == []
