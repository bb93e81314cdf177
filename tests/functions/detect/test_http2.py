"""HTTP/2 in the buffers of HTTP, and rules on data within TLS whose secrets are known."""

from __future__ import annotations

import random
import ssl
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.functions.detect.boxes import Alerts, Talk, connection, needs_ids, numbered, packets, rule, run
from tests.functions.detect.test_actions import ran
from tests.functions.logs.boxes import connection as logged
from tests.functions.logs.hellos import other_keys
from tests.functions.logs.http2 import (
    CLIENT,
    DATA,
    END_HEADERS,
    END_STREAM,
    RST_STREAM,
    SERVER,
    Fields,
    block,
    frame,
    headers,
    needs_nghttp2,
    request,
    response,
    run_packets,
)
from tests.functions.logs.test_http2 import CAPTURE, talks
from tests.functions.logs.test_http_tls import needs_libcrypto, needs_openssl, secured_talk
from tests.support.connection import shuffled
from tests.support.corpus import corpus

pytestmark = [needs_ids, needs_nghttp2]

COOKIE, AGENT = ("cookie", "a=1"), ("user-agent", "Evil/1.0")
ASK: Fields = (
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "www.example"),
    (":path", "/a/..%2fetc/passwd"),
    AGENT,
    COOKIE,
    ("cookie", "b=2"),
    ("content-length", "9"),
)
RULES = numbered(
    'content:"/etc/passwd"; http_uri;',
    'content:"..%2f"; http_raw_uri;',
    'content:"POST"; http_method;',
    'content:"User-Agent: Evil/1.0|0d 0a|"; http_header;',
    'content:"Host: www.example|0d 0a|"; http_header;',
    'content:"a=1|3b| b=2"; http_cookie; content:"evil"; http_client_body; pcre:"/^evil body$/P";',
    'content:"404"; http_stat_code; flow:to_client;',
    'content:"x=y"; http_cookie; flow:to_client,established;',
    'content:"Set-Cookie"; http_header;',
    'content:"Content-Type: text/plain"; http_header; flow:to_client;',
    'urilen:18; content:"Evil"; http_user_agent;',
    'content:"www.example"; http_host;',
)
EXPECTED = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]
BODY = b"evil body"
ONE: Talk = [
    (
        ">",
        b"POST /a/..%2fetc/passwd HTTP/1.1\r\nHost: www.example\r\nUser-Agent: Evil/1.0\r\n"
        b"Cookie: a=1; b=2\r\nContent-Length: 9\r\n\r\n" + BODY,
    ),
    ("<", b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nSet-Cookie: x=y\r\nContent-Length: 0\r\n\r\n"),
]
TWO: Talk = [
    (">", CLIENT + headers(1, ASK) + frame(DATA, 0, 1, BODY[:3]) + frame(DATA, END_STREAM, 1, BODY[3:])),
    ("<", SERVER + response(1, 404, ("content-type", "text/plain"), ("set-cookie", "x=y"))),
]


def alerts(talk: Talk, rules: str = RULES, cut: int = 1460, parameters: str = "") -> Alerts:
    return packets(connection(talk, cut, port=443), rules, parameters)


def test_the_same_rules_on_http_1_and_2() -> None:
    for talk in (ONE, TWO):
        for cut in (1, 7, 1460):
            assert sorted(alerts(talk, cut=cut).sids) == EXPECTED, cut
    rows = {row["alert"]["signature_id"]: row for row in alerts(TWO).rows}
    expected = {
        "http_method": "POST",
        "hostname": "www.example",
        "url": "/a/..%2fetc/passwd",
        "http_user_agent": "Evil/1.0",
    }
    assert rows[1]["http"] == expected and rows[1]["app_proto"] == "http"
    assert rows[8]["http"] == {"status": 404, "http_content_type": "text/plain"} and rows[8]["direction"] == "to_client"


def test_http_2_out_of_order_and_again() -> None:
    for seed in range(4):
        found = packets(shuffled(connection(TWO, 23, port=80), seed, 9), RULES)
        assert sorted(found.sids) == EXPECTED


def test_http_2_after_an_upgrade() -> None:
    """The request of the upgrade is that of stream 1 (RFC 7540, 3.2)."""
    ask = (
        b"GET /first HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABk\r\n\r\n"
    )
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    rules = rule('content:"/first"; http_uri;', sid=90) + RULES
    asks = CLIENT + headers(3, ASK) + frame(DATA, END_STREAM, 3, BODY)
    answer = response(3, 404, ("content-type", "text/plain"), ("set-cookie", "x=y"))
    talk = [(">", ask), ("<", switch + SERVER + response(1, 200)), (">", asks), ("<", answer)]
    for cut in (1, 1460):
        assert sorted(alerts(talk, rules, cut).sids) == [*EXPECTED, 90], cut
    early = [(">", ask + asks), ("<", switch + SERVER + response(1, 200) + answer)]
    assert sorted(alerts(early, rules).sids) == [*EXPECTED, 90]


def test_streams_of_http_2_together() -> None:
    """Bodies of two requests in turn; trailers; a stream that is reset; a second request on a finished one's number."""
    body = rule('content:"evil body"; http_client_body;')
    asks = headers(1, ASK) + headers(3, ASK) + frame(DATA, 0, 1, b"evil") + frame(DATA, 0, 3, b"good")
    rest = frame(DATA, 0, 1, b" body") + frame(DATA, END_STREAM, 3, b" body")
    trailers = frame(1, END_HEADERS | END_STREAM, 1, block([("x", "evil")]))
    assert alerts([(">", CLIENT + asks + rest + trailers), ("<", SERVER)], body).sids == [1]
    for who in "><":
        reset = frame(RST_STREAM, 0, 1, bytes(4))
        talk = [(">", CLIENT + asks + rest), ("<", SERVER), (who, reset)]
        found = alerts(talk, body)
        assert found.sids == [1] and found.reports["ids_http_incomplete"] == 1
    assert alerts([(">", CLIENT + asks + rest), ("<", SERVER)], body).sids == [1]  # the connection ends
    each = rule('content:"GET"; http_method;')
    many = b"".join(request(number, "/", ends=False) for number in range(1, 601, 2))
    found = alerts([(">", CLIENT + many), ("<", SERVER)], each)
    assert found.sids == [1] * 300 and found.reports["ids_http_streams_left_out"] == 44
    ends = [frame(1, END_HEADERS | END_STREAM, number, block([("x", "y")])) for number in range(1, 601, 2)]
    always = each + rule('content:!"HEAD"; http_method;', sid=2)  # trailers are no requests
    found = alerts([(">", CLIENT + many + b"".join(ends)), ("<", SERVER)], always)
    assert found.counts == Counter({1: 300, 2: 300}) and found.reports["ids_http_messages"] == 300


def test_http_2_that_ends_at_an_error_or_gap() -> None:
    found = alerts([(">", CLIENT + headers(1, ASK) + frame(9, 0, 7)), ("<", SERVER)])
    assert set(found.sids) == {1, 2, 3, 4, 5, 11, 12} and found.reports["ids_http_2_ended"] == 1
    frames = connection(TWO, 60, port=80)
    del frames[5]
    found = packets(frames, RULES)
    assert set(found.sids) == {7, 8, 10} and found.reports["ids_http_2_ended"] == 1


def test_requests_of_the_capture() -> None:
    """nginx, nghttpd and others: as many messages as httplog has, but for three requests that a server promises."""
    rules = rule('content:"/"; http_uri;') + rule('pcre:"/^[2-5]/S";', sid=2)
    rows = [row for talk in talks(CAPTURE) for row in run_packets(logged(talk)).rows]
    found = sum((alerts(talk, rules).counts for talk in talks(CAPTURE)), Counter[int]())
    assert found[1] == sum(bool(row["request"] and row["path"]) for row in rows) - 3
    assert found[2] == sum(row["status"] is not None for row in rows)


@pytest.mark.parametrize("memory", [1 << 30, 60000])
def test_hostile_frames(memory: int) -> None:
    """Changed, left out and added bytes of HTTP/2, with and without room: each run gives its memory back."""
    dice, frames = random.Random(memory), list[bytes]()
    many = CLIENT + b"".join(headers(number, ASK) + frame(DATA, 0, number, BODY) for number in range(1, 41, 2))
    for number in range(60):
        talk: Talk = []
        for who, said in (*TWO, (">", many)):
            changed = bytearray(said)
            for _ in range(dice.randrange(4)):
                at = dice.randrange(len(changed))
                changed[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
            talk = [*talk, (who, bytes(changed))]
        frames += connection(talk, dice.choice((7, 100, 1460)), client_port=1000 + number, close=number % 2 > 0)
        if number % 3 == 0:
            del frames[-8]
    found = packets(frames, RULES, f"memory={memory}")
    assert found.sids and found.reports["ids_http_2_ended"]
    assert bool(found.reports["ids_no_room"]) == (memory < 1 << 30)


# --- within TLS ---


def test_a_flow_without_room_for_tls_is_counted_once(tmp_path: Path) -> None:
    """Not with each of its segments."""
    keys = other_keys(tmp_path / "keys")
    for memory in range(30000, 60000, 1000):
        found = alerts([(">", b"x" * 900)], rule('content:"never";'), 10, f"keylog={keys},memory={memory}")
        assert found.reports["ids_no_room"] < 5, memory


CONTENTS = (
    rule('content:"evil body";', sid=20)
    + rule('pcre:"/evil \\w+/"; content:!"never";', sid=21)
    + rule('content:"POST /a"; depth:7;', sid=22)
    + rule('content:"404"; flow:to_client;', sid=23)
)
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@cache
def secured(version: str, two: bool, cbc: bool = False) -> tuple[Talk, Path]:
    folder = TemporaryDirectory()
    FOLDERS.append(folder)
    ciphers = "ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0" if cbc else ""
    return secured_talk(Path(folder.name), VERSIONS[version], list(TWO if two else ONE), ciphers)


FOLDERS: list[TemporaryDirectory[str]] = []


@needs_openssl
@needs_libcrypto
@pytest.mark.parametrize("version", VERSIONS)
def test_rules_within_tls(version: str) -> None:
    for two in (False, True):
        talk, keys = secured(version, two)
        contents = [23] if two else [20, 21, 22, 23]  # frames of HTTP/2 divide the body
        for cut in (1, 7, 1460):
            found = alerts(talk, RULES + CONTENTS, cut, f"keylog={keys}")
            assert sorted(found.sids) == [*EXPECTED, *contents], (two, cut)
            assert found.reports["ids_tls_opened"] == 1
        without = alerts(talk, RULES + CONTENTS)
        assert not without.sids and not without.reports["ids_tls_opened"]
    talk, keys = secured("1.2", False, True)
    assert sorted(alerts(talk, RULES, parameters=f"keylog={keys}").sids) == EXPECTED


@needs_openssl
@needs_libcrypto
def test_rules_within_tls_after_connect_and_with_hellos() -> None:
    talk, keys = secured("1.3", False)
    connect = [(">", b"CONNECT a.example:443 HTTP/1.1\r\n\r\n"), ("<", b"HTTP/1.1 200 OK\r\n\r\n")]
    more = rule('content:"CONNECT"; http_method;', sid=30) + rule("ssl_version:tls1.3; flow:to_server;", sid=31)
    for cut in (1, 1460):
        found = alerts([*connect, *talk], RULES + more, cut, f"keylog={keys}")
        assert sorted(found.sids) == [*EXPECTED, 30, 31], cut


@needs_openssl
@needs_libcrypto
def test_the_packets_of_an_alert_within_tls(tmp_path: Path) -> None:
    talk, keys = secured("1.3", False)
    found = alerts(talk, RULES, parameters=f"keylog={keys},packets={tmp_path}/out.pcap")
    assert sorted(found.sids) == EXPECTED
    size = len((tmp_path / "out.pcap").read_bytes())
    assert 24 < size < sum(16 + len(one) for one in connection(talk))  # those that complete a match, once each


@needs_libcrypto
@pytest.mark.corpus
def test_the_capture_of_a_browser() -> None:
    """Chrome with HTTP/2 in TLS; the secrets are in the file."""
    capture = corpus() / "FoxIO-LLC_ja4__chrome-cloudflare-quic-with-secrets.pcapng"
    if not capture.is_file():
        pytest.skip("the capture is in the shared corpus alone")
    rules = rule('content:"GET"; http_method;') + rule('content:"200"; http_stat_code;', sid=2)
    rows = run(lambda box: box.run(capture), rules).rows
    assert [(row["alert"]["signature_id"], row["http"].get("hostname")) for row in rows] == [
        (1, "cloudflare-quic.com"), (2, None)
    ]  # fmt: skip


@needs_openssl
@needs_libcrypto
def test_drop_stops_the_segment_that_completes_the_record(tmp_path: Path) -> None:
    talk, keys = secured("1.3", False)
    asks = max(at for at, (who, _) in enumerate(talk) if who == ">")
    frames = connection(talk, port=443)  # a segment for each record, after three of the handshake
    text = rule('content:"evil body"; http_client_body;').replace("alert", "drop", 1)
    passed, rows = ran(frames, text, tmp_path, "--keylog", str(keys))
    assert passed == frames[: 3 + asks]
    assert [(row["pcap_cnt"], row["alert"]["action"]) for row in rows] == [(4 + asks, "blocked")]
    assert ran(frames, text, tmp_path)[0] == frames


@needs_openssl
@needs_libcrypto
def test_gaps_and_changes_within_tls() -> None:
    talk, keys = secured("1.3", False)
    asks = [at for at, (who, _) in enumerate(talk) if who == ">"]
    changed = [*talk]
    changed[asks[-1]] = (">", talk[asks[-1]][1][:-1] + b"\0")
    found = alerts(changed, RULES + CONTENTS, parameters=f"keylog={keys}")
    assert found.reports["ids_tls_refused"] == 1 and not {1, 20} & set(found.sids)
    frames = connection(talk, port=443)
    del frames[-5]
    found = packets(frames, RULES + CONTENTS, f"keylog={keys}")
    assert found.reports["ids_tls_gaps"] == 1 and not {1, 20} & set(found.sids) and 8 in found.sids
    no_keys = other_keys(keys.with_name("none"))
    found = alerts(talk, RULES, parameters=f"keylog={no_keys}")
    assert found.reports["ids_tls_without_key"] == 2 and not found.sids
