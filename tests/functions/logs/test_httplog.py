"""httplog: which rows exchanges give, and what hostile or broken ones come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.engine import functions
from sluice.engine.functions import READY, FunctionError, find_functions
from tests.functions.logs.boxes import Row, Talk, connection, needs_parsers, run_packets

pytestmark = needs_parsers

GET = b"GET /%d HTTP/1.1\r\nHost: a.example\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def rows(talk: Talk, cut: int = 1460, port: int = 80) -> list[Row]:
    return run_packets(connection(talk, cut, port=port))["httplog"]


def without(talk: Talk, side: str, offset: int, size: int) -> list[bytes]:
    """The frames of a connection without those that bring `size` bytes from `offset` of a side, in segments of 10."""
    frames = connection(talk, 10)
    sent = {">": 0, "<": 0}
    kept: list[bytes] = frames[:3]
    at = 3
    for who, said in talk:
        for begin in range(0, len(said), 10):
            length = len(said[begin : begin + 10])
            if who != side or not offset <= sent[who] < offset + size:
                kept.append(frames[at])
            sent[who] += length
            at += 1
    return kept + frames[at:]


def test_requests_are_paired_with_their_responses_in_order() -> None:
    pipelined = b"".join(GET % number for number in range(3))
    answers = b"".join(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + b"x" * n for n in range(3))
    found = rows([(">", pipelined), ("<", answers)])
    assert [(row["path"], row["response_body"]) for row in found] == [("/0", 0), ("/1", 1), ("/2", 2)]
    assert all(row["request_complete"] and row["response_complete"] for row in found)


def test_interim_responses_are_listed_with_the_final_one() -> None:
    post = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    talk = [
        (">", post),
        ("<", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (">", b"ok"),
        ("<", b"HTTP/1.1 103 Early Hints\r\n\r\n" + EMPTY),
    ]
    (row,) = rows(talk)
    assert (row["status"], row["interim"], row["request_body"]) == (204, [100, 103], 2)


def test_methods_and_targets_that_are_no_standard() -> None:
    lines = b"MKTHING /a HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /\xc3\xa9\xff HTTP/1.1\r\nHost: a\r\n\r\n", GET % 3
    for cut in (1, 6, 1460):
        found = rows([(">", b"".join(lines)), ("<", EMPTY * 3)], cut)
        said = [("MKTHING", "/a", 204), ("GET", "/\xe9\xff", 204), ("GET", "/3", 204)]
        assert [(row["method"], row["path"], row["status"]) for row in found] == said
    assert rows([(">", b"CWD /pub\r\nRETR /a\r\n"), ("<", b"250 ok\r\n")], port=21) == []


@pytest.mark.parametrize("before", [b"", GET % 1])
def test_a_target_is_refused_for_what_follows_it(before: bytes) -> None:
    for cut in (1, 6, 1460):
        *_, row = rows([(">", before + b"GET /a\rX HTTP/1.1\r\nHost: a\r\n\r\n")], cut)
        assert (row["method"], row["path"], row["request_error"]) == ("GET", "/a", "INVALID_URL")


def test_a_method_begins_after_a_body_of_the_same_segment() -> None:
    """Each byte of this body may be one of a method."""
    said = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n" + b"a" * 40
    said += b"MKTHING /2 HTTP/1.1\r\nHost: a\r\n\r\nGETTING /3 HTTP/1.1\r\nHost: a\r\n\r\n"
    for cut in (1, 7, said.index(b"KTHING"), said.index(b"TING /3"), 1460):
        found = rows([(">", said)], cut)
        assert [(row["method"], row["path"]) for row in found] == [("POST", "/1"), ("MKTHING", "/2"), ("GETTING", "/3")]


def test_a_response_to_head_has_no_body() -> None:
    head = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
    found = rows([(">", head + GET % 1), ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + EMPTY)])
    assert [(row["method"], row["status"], row["response_length"], row["response_body"]) for row in found] == [
        ("HEAD", 200, 5, 0),
        ("GET", 204, None, 0),
    ]


def test_a_body_may_end_with_the_connection() -> None:
    (row,) = rows([(">", GET % 1), ("<", b"HTTP/1.0 200 OK\r\n\r\nabc")])
    assert (row["response_body"], row["response_complete"]) == (3, True)


def test_what_follows_connect_is_a_tunnel_when_it_is_granted() -> None:
    connect = b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"
    granted = run_packets(connection([(">", connect), ("<", b"HTTP/1.1 200 OK\r\n\r\n"), (">", b"\x16\x03GET / HTTP")]))
    (row,) = granted["httplog"]
    assert (row["method"], row["path"], row["upgrade"]) == ("CONNECT", "a:443", "tunnel")
    assert granted.reports["http_tunnels"] == 1
    refused = rows([(">", connect + GET % 1), ("<", b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n" + EMPTY)])
    assert [(row["method"], row["status"], row["upgrade"]) for row in refused] == [
        ("CONNECT", 403, None),
        ("GET", 204, None),
    ]


def test_what_follows_an_upgrade_is_the_protocol_that_the_response_names() -> None:
    ask = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    (row,) = rows([(">", ask), ("<", switch + b"\x81\x02hi"), (">", b"\x81\x02ho")])
    assert (row["status"], row["upgrade"]) == (101, "websocket")
    found = rows([(">", ask), ("<", EMPTY), (">", GET % 2), ("<", EMPTY)])
    assert [(row["path"], row["upgrade"]) for row in found] == [("/chat", None), ("/2", None)]


def test_a_gap_in_a_body_costs_its_bytes_alone() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    talk: Talk = [(">", GET % 1 + GET % 2), ("<", head + bytes(100) + EMPTY)]
    found = run_packets(without(talk, "<", 60, 30))["httplog"]
    assert [(row["path"], row["status"], row["response_body"], row["response_missing"]) for row in found] == [
        ("/1", 200, 70, 30),
        ("/2", 204, 0, 0),
    ]


def test_a_gap_in_a_chunk_costs_its_bytes_alone() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n" + b"x" * 80 + b"\r\n0\r\n\r\n"
    found = run_packets(without([(">", GET % 1 + GET % 2), ("<", chunked + EMPTY)], "<", 70, 20))["httplog"]
    assert [(row["status"], row["response_body"], row["response_missing"]) for row in found] == [
        (200, 60, 20),
        (204, 0, 0),
    ]


def test_after_a_gap_in_a_head_the_next_message_is_found() -> None:
    long = b"HTTP/1.1 200 OK\r\nServer: " + b"s" * 40 + b"\r\nContent-Length: 0\r\n\r\n"
    logs = run_packets(without([(">", GET % 1 + GET % 2), ("<", long + EMPTY)], "<", 30, 20))
    assert [(row["path"], row["status"], row["response_error"]) for row in logs["httplog"]] == [
        ("/1", 200, "GAP"),
        ("/2", 204, None),
    ]
    assert logs.reports["http_gaps"] == 1


def test_http_is_found_after_other_bytes_and_on_any_port() -> None:
    talk: Talk = [
        (">", b"\x05\x01\x00"),
        ("<", b"\x05\x00"),
        (">", b"\x05\x01\x00\x01\x0a\0\0\1\0\x50"),
        (">", GET % 7),
        ("<", b"\x05\0\0\x01\0\0\0\0\0\0" + EMPTY),
    ]
    (row,) = rows(talk, port=1080)
    assert (row["path"], row["status"]) == ("/7", 204)


def test_other_protocols_give_no_rows() -> None:
    assert rows([(">", b"HELO a.example\r\n" * 20), ("<", b"250 hello\r\n" * 20)]) == []
    assert rows([(">", b"OPTIONS sip:a@b SIP/2.0\r\n\r\n"), ("<", b"SIP/2.0 200 OK\r\n\r\n")]) == []


def test_contradicting_lengths_are_refused() -> None:
    """Request smuggling: which length the receiver takes is not known."""
    post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
    both = post + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /in HTTP/1.1\r\n\r\n"
    twice = post + b"Content-Length: 5\r\n\r\n"
    for request in (both, twice):
        logs = run_packets(connection([(">", request), ("<", EMPTY)]))
        (row,) = logs["httplog"]
        assert row["request_error"] and row["path"] == "/" and logs.reports["http_refused"] == 1


def test_an_endless_head_is_bounded() -> None:
    lines = b"GET / HTTP/1.1\r\n" + b"X-%d: " % 1 + b"a" * 1000 + b"\r\n"
    logs = run_packets(connection([(">", lines + (b"X: " + b"a" * 1000 + b"\r\n") * 300)]))
    (row,) = logs["httplog"]
    assert row["request_error"] == "HEAD_TOO_LONG" and logs.reports["http_long_heads"] == 1
    logs = run_packets(connection([(">", b"GET /\xff" + b"a" * 300000)]))
    assert [row["request_error"] for row in logs["httplog"]] == ["HEAD_TOO_LONG"]


def test_values_are_bounded() -> None:
    request = b"GET /" + b"p" * 9000 + b" HTTP/1.1\r\nHost: " + b"h" * 3000 + b"\r\n\r\n"
    logs = run_packets(connection([(">", request), ("<", EMPTY)]))
    (row,) = logs["httplog"]
    assert (len(row["path"]), len(row["host"]), logs.reports["http_cut_values"]) == (8192, 2048, 1)


def test_open_exchanges_are_bounded() -> None:
    requests = b"".join(GET % number for number in range(20))
    logs = run_packets(connection([(">", requests)]), {"httplog": ",pipelined=8"})
    assert len(logs["httplog"]) == 8 and logs.reports["http_too_many"] == 1


def test_connections_are_bounded() -> None:
    logs = run_packets(connection([(">", GET % 1)]), {"httplog": ",connections=0"})
    assert logs["httplog"] == [] and logs.reports["http_connections_left_out"] == 1


def test_memory_is_bounded() -> None:
    requests = b"".join(GET % number for number in range(200))
    logs = run_packets(connection([(">", requests)]), {"httplog": ",memory=20000"})
    assert 1 < len(logs["httplog"]) < 100 and logs.reports["http_too_many"] == 1


def test_http_2_is_counted() -> None:
    logs = run_packets(connection([(">", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(40))]))
    assert logs["httplog"] == [] and logs.reports["http_version_2"] == 1


def test_bytes_that_are_no_text_are_escaped() -> None:
    (row,) = rows([(">", b'GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: \xff"\\\xc3\xa9\r\n\r\n'), ("<", EMPTY)])
    assert row["user_agent"] == '\xff"\\é'


def test_a_missing_parser_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    for file in ("httplog.c", "http_side.h", "log_text.h"):
        (ready / file).write_text((READY / file).read_text())
    monkeypatch.setattr(functions, "READY", ready)
    monkeypatch.setattr(functions, "VENDOR", tmp_path / "vendor")
    with pytest.raises(
        FunctionError, match=r"httplog reads with a parser of others that is not there: run `scripts/setup.sh`"
    ):
        find_functions(["httplog"])
