"""httplog: rows of HTTP/2, of a capture of real clients and servers and of single frames."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.functions.logs.boxes import Row, Talk, connection, lasting, needs_parsers
from tests.functions.logs.http2 import (
    CLIENT,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SERVER,
    SETTINGS,
    block,
    frame,
    headers,
    literal,
    needs_nghttp2,
    request,
    response,
    run,
    run_packets,
)
from tests.functions.logs.truth import fields_of
from tests.support.connection import shuffled

pytestmark = [needs_parsers, needs_nghttp2]

CAPTURE = Path(__file__).with_name("http2.pcap")
"""On loopback, curl 7.88 and nghttp 1.52 as clients. Port 18080: nginx 1.22. Port 18082: `nghttpd --no-tls -p
/index.html=/a.txt --echo-upload`, with server push. Port 18081: nghttpx in the clear, where both clients upgrade from
HTTP/1 (`nghttp -u`, `curl --http2`), with nghttpd after it.
"""
GOLDEN = CAPTURE.with_suffix(".jsonl")


def rows(talk: Talk, cut: int = 1460) -> list[Row]:
    return run_packets(connection(talk, cut)).rows


def test_rows_of_the_capture() -> None:
    found = run(lambda box: box.run(CAPTURE)).rows
    lines = "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in found)
    if os.environ.get("SLUICE_UPDATE_GOLDEN"):
        GOLDEN.write_text(lines)
    assert lines == GOLDEN.read_text()


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which rows are compared")
def test_the_capture_has_the_messages_that_tshark_shows() -> None:
    """But for the request of an upgrade, which is one of HTTP/1."""
    names = ("http2.headers.method", "http2.headers.path", "http2.headers.status")
    options = [word for port in (18080, 18082) for word in ("-d", f"tcp.port=={port},http2")]
    theirs: Counter[tuple[str, ...]] = Counter()
    for packet in fields_of(CAPTURE, names, *options):
        theirs.update((method, path) for method, path in zip(packet[names[0]], packet[names[1]], strict=True))
        theirs.update((status,) for status in packet[names[2]])
    found = run(lambda box: box.run(CAPTURE)).rows
    asked = Counter((row["method"], row["path"]) for row in found if row["request_version"] == "2")
    ours = asked + Counter((str(row["status"]),) for row in found)
    assert ours == theirs and theirs.total() > 30


def talks(capture: Path = CAPTURE) -> list[Talk]:
    """What the connections of a capture carry, in the order of its packets (none is out of order)."""
    found: dict[frozenset[bytes], list[tuple[str, bytes]]] = defaultdict(list)
    first: dict[frozenset[bytes], bytes] = {}
    sent: dict[bytes, int] = defaultdict(int)
    data, at = capture.read_bytes(), 24
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        ip = data[at + 16 + 14 : at + 16 + size]
        tcp = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big")]
        ends = frozenset((tcp[:2], tcp[2:4]))
        payload = tcp[(tcp[12] >> 4) * 4 :]
        first.setdefault(ends, tcp[:2])
        sequence = int.from_bytes(tcp[4:8], "big")
        if payload and sequence >= sent[tcp[:4]]:  # else it is sent again
            found[ends].append((">" if tcp[:2] == first[ends] else "<", payload))
            sent[tcp[:4]] = sequence + len(payload)
        at += 16 + size
    return list(found.values())


def key(row: Row) -> str:
    return json.dumps(row, sort_keys=True)


def test_segments_of_any_size() -> None:
    for talk in talks():
        whole = lasting(rows(talk))
        assert whole
        for cut in (1, 2, 3, 7, 20, 61):
            assert lasting(rows(talk, cut)) == whole, cut


def test_segments_out_of_order_and_again() -> None:
    """But where the client resets a pushed stream: then it depends on the order whether the response is complete."""
    for talk in talks():
        expected = sorted(lasting(rows(talk)), key=key)
        if any(row["path"] == "/a.txt" and not row["user_agent"] for row in expected):
            continue
        for seed in range(4):
            packets = shuffled(connection(talk, 31), seed)
            assert sorted(lasting(run_packets(packets).rows), key=key) == expected, seed


def test_a_response_that_is_captured_before_its_request() -> None:
    talk: Talk = [
        ("<", SERVER + response(1, 200) + response(3, 404)),
        (">", CLIENT + request(1, "/1") + request(3, "/3")),
    ]
    assert [(row["path"], row["status"]) for row in rows(talk)] == [("/1", 200), ("/3", 404)]


def test_a_side_that_was_not_captured() -> None:
    talk: Talk = [(">", CLIENT + request(1, "/1")), ("<", SERVER + response(1, 200))]
    frames = connection(talk)
    (row,) = run_packets([one for one in frames if one[34:36] != b"\0\x50"]).rows
    assert (row["path"], row["response"], row["dport"]) == ("/1", False, 80)
    (row,) = run_packets([one for one in frames if one[34:36] == b"\0\x50"]).rows
    assert (row["request"], row["status"], row["dport"]) == (False, 200, 80)


def test_padding_priority_and_continuations() -> None:
    fields = block([(":method", "GET"), (":path", "/long"), (":authority", "a")])
    first = frame(HEADERS, PADDED | PRIORITY | END_STREAM, 1, b"\x03" + bytes(5) + fields[:4] + bytes(3))
    more = frame(CONTINUATION, 0, 1, fields[4:9]) + frame(CONTINUATION, END_HEADERS, 1, fields[9:])
    body = frame(DATA, PADDED, 1, b"\x05hello" + bytes(5)) + frame(PING, 0, 0, bytes(8)) + frame(DATA, END_STREAM, 1)
    talk: Talk = [(">", CLIENT + first + more), ("<", SERVER + response(1, 200, ends=False) + body)]
    for cut in (1, 5, 1460):
        (row,) = rows(talk, cut)
        assert (row["path"], row["response_body"], row["response_complete"]) == ("/long", 5, True)


def test_interim_responses_and_trailers() -> None:
    trailers = headers(1, [("x-checksum", "1"), ("content-type", "none")], END_HEADERS | END_STREAM)
    final = response(1, 200, ("content-type", "text/plain"), ends=False) + frame(DATA, 0, 1, b"abc") + trailers
    (row,) = rows([(">", CLIENT + request(1, "/")), ("<", SERVER + response(1, 103, ends=False) + final)])
    assert (row["interim"], row["status"], row["response_type"]) == ([103], 200, "text/plain")
    assert (row["response_body"], row["response_complete"]) == (3, True)


def test_a_reset_ends_the_messages_of_its_stream() -> None:
    client = CLIENT + request(1, "/1") + request(3, "/3") + request(5, "/5")
    server = SERVER + response(1, 200, ends=False) + frame(RST_STREAM, 0, 3, b"\0\0\0\x07") + response(5, 200)
    found = run_packets(connection([(">", client), ("<", server), (">", frame(RST_STREAM, 0, 1, b"\0\0\0\x08"))]))
    errors = {row["path"]: (row["response"], row["response_error"]) for row in found.rows}
    assert errors == {"/1": (True, "CANCEL"), "/3": (False, "REFUSED_STREAM"), "/5": (True, None)}
    assert found.reports["http_2_resets"] == 2


def test_a_pushed_response_has_the_promised_request() -> None:
    promised = b"\0\0\0\x02" + block([(":method", "GET"), (":path", "/style"), (":authority", "a")])
    server = SERVER + frame(PUSH_PROMISE, END_HEADERS, 1, promised) + response(1, 200) + response(2, 204)
    found = rows([(">", CLIENT + request(1, "/")), ("<", server)])
    assert [(row["path"], row["status"]) for row in found] == [("/", 200), ("/style", 204)]


def test_tunnels() -> None:
    connect = headers(1, [(":method", "CONNECT"), (":authority", "b:443")])
    socket = headers(3, [(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/ws"), (":authority", "a")])
    server = SERVER + response(1, 200, ends=False) + response(3, 200, ends=False)
    found = run_packets(connection([(">", CLIENT + connect + socket), ("<", server)]))
    assert [(row["host"], row["path"], row["upgrade"]) for row in found.rows] == [
        ("b:443", None, "tunnel"),
        ("a", "/ws", "websocket"),
    ]
    assert found.reports["http_tunnels"] == 2


def test_an_upgrade_from_http_1() -> None:
    ask = b"GET /up HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n"
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    talk: Talk = [(">", ask + CLIENT + request(3, "/3")), ("<", switch + SERVER + response(1, 200) + response(3, 204))]
    for cut in (1, 7, 1460):
        up, other = rows(talk, cut)
        assert (up["path"], up["request_version"], up["interim"], up["status"]) == ("/up", "1.1", [101], 200)
        assert (up["response_version"], up["upgrade"]) == ("2", "h2c")
        assert (other["path"], other["status"], other["upgrade"]) == ("/3", 204, None)
    refused = b"HTTP/1.1 204 No Content\r\n\r\n"
    (row,) = rows([(">", ask), ("<", refused)])
    assert (row["path"], row["status"], row["upgrade"]) == ("/up", 204, None)


def test_the_table_of_header_compression() -> None:
    """A field of an earlier block is referred to by its index."""
    first = frame(
        HEADERS, END_HEADERS | END_STREAM, 1, block([(":path", "/1")]) + literal("user-agent", "agent/9", True)
    )
    second = frame(HEADERS, END_HEADERS | END_STREAM, 3, block([(":path", "/3")]) + bytes([0x80 | 62]))
    found = rows([(">", CLIENT + first + second), ("<", SERVER)])
    assert [(row["path"], row["user_agent"]) for row in found] == [("/1", "agent/9"), ("/3", "agent/9")]


def test_http_2_is_found_after_other_bytes() -> None:
    talk: Talk = [
        (">", b"\x05\x01\x00"),
        ("<", b"\x05\x00"),
        (">", CLIENT + request(1, "/1")),
        ("<", b"\x05\0\0\x01\0\0\0\0\0\0" + SERVER + response(1, 200)),
    ]
    assert [(row["path"], row["status"]) for row in rows(talk)] == [("/1", 200)]


def test_other_protocols_are_no_http_2() -> None:
    """A server may begin with bytes that look like SETTINGS."""
    logs = run_packets(connection([("<", frame(SETTINGS, 0, 0) + b"other bytes" * 9), (">", b"\0" * 50)]))
    assert logs.rows == [] and not any(logs.reports[name] for name in logs.reports if name.startswith("http_"))
