"""httplog: what broken or hostile HTTP/2 comes to, each with a counted reason; and what is read without libnghttp2."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sluice.engine.functions import READY
from tests.functions.logs.boxes import Talk, connection, needs_parsers
from tests.functions.logs.http2 import (
    CLIENT,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PREFACE,
    PUSH_PROMISE,
    RST_STREAM,
    SERVER,
    SETTINGS,
    Found,
    block,
    compiled_with,
    frame,
    headers,
    integer,
    literal,
    needs_nghttp2,
    request,
    response,
    run_packets,
)
from tests.functions.logs.test_httplog import without

pytestmark = [needs_parsers, needs_nghttp2]

BIG = 1200
"""Bytes of a frame's payload, so that the input lies in few segments."""


def client(data: bytes, parameters: str = "") -> Found:
    """A client with one whole exchange, and then some bytes."""
    talk: Talk = [(">", CLIENT + request(1, "/1")), ("<", SERVER + response(1, 200)), (">", data)]
    return run_packets(connection(talk), parameters)


def counted(found: Found) -> dict[str, int]:
    """The reasons that are counted."""
    names = {name: count for name, count in found.reports.items() if name.startswith("http_") and count}
    assert names.pop("http_version_2") == 1
    return names


def ended(found: Found, why: str, counter: str) -> None:
    """The client's side has ended within its second request, after a whole exchange."""
    first, second = found.rows
    assert (first["path"], first["status"], first["request_error"]) == ("/1", 200, None)
    assert (second["request"], second["request_error"]) == (True, why)
    assert counted(found)[counter] == 1


def test_endless_continuations() -> None:
    more = frame(CONTINUATION, 0, 3, literal("x", "y" * BIG))
    begin = headers(3, [(":method", "GET"), (":path", "/3")], 0)
    ended(client(begin + more * 300), "HEAD_TOO_LONG", "http_2_long_heads")
    ended(client(begin + frame(CONTINUATION, 0, 3) * 40000), "HEAD_TOO_LONG", "http_2_long_heads")


def test_a_header_block_that_expands() -> None:
    """A field of 4 KB, to which each further byte of the block refers."""
    fields = block([(":path", "/3")]) + literal("x", "y" * 3900, True)
    begin = frame(HEADERS, END_STREAM, 3, fields[:BIG]) + frame(CONTINUATION, 0, 3, fields[BIG:])
    bomb = frame(CONTINUATION, END_HEADERS, 3, bytes([0x80 | 62]) * BIG)
    ended(client(begin + bomb), "HEAD_TOO_LONG", "http_2_long_heads")


def test_names_of_64_kb() -> None:
    fields = block([(":path", "/3")]) + literal("n" * 65536, "v") + literal("user-agent", "after")
    found = client(frame(HEADERS, END_STREAM | END_HEADERS, 3, fields) + request(5, "/5"))
    assert [(row["path"], row["user_agent"]) for row in found.rows[1:]] == [("/3", "after"), ("/5", None)]
    fields = block([(":path", "/3")]) + literal("n" * 70000, "v")
    ended(client(frame(HEADERS, END_STREAM, 3, fields)), "COMPRESSION_ERROR", "http_2_undecodable")


def test_values_are_bounded() -> None:
    found = client(request(3, "/" + "p" * 9000, ("user-agent", "u" * 3000)))
    assert (len(found.rows[1]["path"]), len(found.rows[1]["user_agent"])) == (8192, 2048)
    assert counted(found)["http_cut_values"] == 1


def test_a_large_table() -> None:
    begin = frame(HEADERS, END_HEADERS | END_STREAM, 3, integer(65536, 5, 0x20) + block([(":path", "/3")]))
    assert client(begin).rows[1]["path"] == "/3"
    for size in (65537, 1 << 40):
        begin = frame(HEADERS, END_HEADERS | END_STREAM, 3, integer(size, 5, 0x20) + block([(":path", "/3")]))
        ended(client(begin), "TABLE_TOO_LARGE", "http_2_large_tables")


def test_a_block_that_cannot_be_decoded() -> None:
    found = client(frame(HEADERS, END_HEADERS | END_STREAM, 3, bytes([0x80 | 100])) + request(5, "/5"))
    ended(found, "COMPRESSION_ERROR", "http_2_undecodable")


@pytest.mark.parametrize(
    "data",
    [
        frame(CONTINUATION, END_HEADERS, 3),
        frame(HEADERS, 0, 3) + frame(DATA, 0, 3),
        frame(HEADERS, 0, 3) + frame(CONTINUATION, 0, 5),
        frame(HEADERS, END_HEADERS, 0),
        frame(HEADERS, END_HEADERS, 2),
        frame(HEADERS, PADDED | END_HEADERS, 3, b"\x05abc"),
        frame(HEADERS, PADDED | END_HEADERS, 3),
        frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02"),
        frame(RST_STREAM, 0, 1, b"\0\0"),
        frame(SETTINGS, 0, 0, b"\0"),
        frame(SETTINGS, 0, 1),
        frame(DATA, 0, 0, b"x"),
    ],
)
def test_frames_against_the_rules(data: bytes) -> None:
    found = client(data + request(7, "/7"))
    assert counted(found)["http_2_refused"] == 1 and "/7" not in {row["path"] for row in found.rows}


def test_a_broken_preface() -> None:
    found = run_packets(connection([(">", PREFACE[:20] + b"else" + request(1, "/1")), ("<", SERVER)]))
    assert found.rows == [] and counted(found) == {"http_2_refused": 1}


def test_streams_are_bounded() -> None:
    found = client(b"".join(request(2 * n + 3, f"/{n}") for n in range(20)), ",pipelined=8")
    assert len(found.rows) == 9 and counted(found)["http_2_streams_left_out"] == 12


def test_memory_is_bounded() -> None:
    fields = [("user-agent", f"{n:02000}") for n in range(2)]
    found = client(b"".join(request(2 * n + 3, f"/{n}", *fields) for n in range(200)), ",memory=200000")
    assert 1 < len(found.rows) < 200
    assert {"http_cut_values", "http_no_memory"} <= counted(found).keys()
    assert counted(client(b"", ",memory=2000"))["http_no_memory"] >= 1


BODY: Talk = [
    (">", CLIENT + request(1, "/1") + request(3, "/3")),
    ("<", SERVER + response(1, 200, ends=False) + frame(DATA, END_STREAM, 1, bytes(100)) + response(3, 204)),
]
BEGIN = len(SERVER + response(1, 200, ends=False)) + 9
"""Where the body begins on its side."""


def test_a_gap_in_a_body_costs_its_bytes_alone() -> None:
    found = run_packets(without(BODY, "<", BEGIN + 10, 30))
    (first, second) = found.rows
    assert (first["response_body"], first["response_missing"], first["response_complete"]) == (70, 30, True)
    assert second["status"] == 204 and counted(found) == {}


def test_a_gap_elsewhere_ends_the_rows_of_its_side() -> None:
    """The messages of the other side still have rows."""
    found = run_packets(without(BODY, "<", BEGIN + 80, 30))
    first, second = found.rows
    assert (first["path"], first["status"], first["response_error"]) == ("/1", 200, "GAP")
    assert (second["path"], second["response"]) == ("/3", False)
    assert counted(found) == {"http_2_gaps": 1, "http_gaps": 1, "http_unanswered_requests": 1}
    found = run_packets(without(BODY, ">", 60, 10))
    assert [row["status"] for row in found.rows] == [200, 204] and not found.rows[1]["request"]
    assert counted(found)["http_2_gaps"] == 1


def test_the_end_of_the_connection() -> None:
    found = client(request(3, "/3", ends=False) + frame(DATA, 0, 3, b"abc"))
    assert (found.rows[1]["request_error"], found.rows[1]["request_body"]) == ("EOF", 3)
    assert counted(found) == {"http_incomplete": 1, "http_unanswered_requests": 1}


def test_without_the_library_http_1_is_read_and_http_2_is_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    (tmp_path / "vendor").symlink_to(READY.parent / "vendor")
    for pattern in ("http*.[ch]", "log_*.h", "tls_*.h"):
        for file in READY.glob(pattern):
            shutil.copy(file, ready)
    loader = ready / "http2_hpack.h"
    loader.write_text(loader.read_text().replace("libnghttp2.so.14", "libnghttp2-missing.so"))
    program = compiled_with(str(ready / "httplog.c"))
    one: Talk = [(">", b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"), ("<", b"HTTP/1.1 204 No Content\r\n\r\n")]
    two: Talk = [(">", CLIENT + request(1, "/2")), ("<", SERVER + response(1, 200))]
    three = [one[0], ("<", b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + SERVER)]
    found = run_packets(connection(one), program=program)
    assert [(row["path"], row["status"]) for row in found.rows] == [("/1", 204)]
    assert "libnghttp2" not in capfd.readouterr().err
    for _ in range(2):
        found = run_packets(connection(two), program=program)
        assert found.rows == [] and found.reports["http_2_not_read"] == 1
    assert capfd.readouterr().err.count("libnghttp2 (Debian, Ubuntu: apt install libnghttp2-14)") == 1
    (row,) = run_packets(connection(three), program=program).rows
    assert (row["status"], row["upgrade"]) == (101, "h2c")


def test_a_client_does_not_hide_the_response_by_a_status() -> None:
    """An interim status is one of a response."""
    late = frame(HEADERS, END_HEADERS, 1, block([(":method", "POST"), (":path", "/1"), (":status", "100")]))
    talk: Talk = [(">", CLIENT), ("<", SERVER + response(1, 200)), (">", late + frame(DATA, 1, 1))]
    first = {row["path"]: row for row in run_packets(connection(talk)).rows}["/1"]
    assert (first["status"], first["interim"], first["request_complete"]) == (200, [], True)


def test_a_reset_of_a_stream_whose_request_is_read_as_http_1() -> None:
    """The exchange is not freed as long as bytes of its request follow."""
    ask = b"POST /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 8\r\n\r\n1234"
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    reset = frame(RST_STREAM, 0, 1, b"\0\0\0\x08")
    talk: Talk = [(">", ask), ("<", switch + SERVER + reset), (">", b"5678" + CLIENT)]
    (row,) = run_packets(connection(talk)).rows
    assert (row["path"], row["request_body"], row["request_complete"], row["request_error"]) == ("/up", 8, True, None)
    assert row["response_error"] == "CANCEL"


def test_a_response_of_http_1_to_a_request_of_http_2() -> None:
    """It belongs to no request: it waits for one of HTTP/1, and is written when the connection ends."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    found = run_packets(connection([(">", CLIENT + request(1, "/1")), ("<", answer), (">", request(3, "/3"))]))
    rows = {(row.get("path"), row.get("status")) for row in found.rows}
    assert rows == {("/1", None), ("/3", None), (None, 200)}
