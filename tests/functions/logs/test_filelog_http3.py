"""filelog: files that HTTP/3 carries, of a capture of real clients and servers and of single streams."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from functools import cache

from sluice.engine.box import CompiledStack
from tests.functions.logs.boxes import lasting, needs_parsers
from tests.functions.logs.http2 import Found
from tests.functions.logs.http3 import (
    CONTROL,
    DATA,
    HEADERS,
    PUSH,
    PUSH_PROMISE,
    Piece,
    asked,
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
    run,
    run_packets,
    settings,
    stream_frame,
    varint,
)
from tests.functions.logs.test_http3 import CAPTURE, KEYS, captured
from tests.functions.logs.test_http3_hostile import needing
from tests.support.connection import shuffled

pytestmark = [needs_parsers, needs_nghttp3]

ENDED = "streams of HTTP/3 not read further after a gap, an error, or at a bound"


def program() -> CompiledStack:
    return compiled("quic_deciphered", "filelog")


def read(pieces: Iterable[Piece], cut: int = 1000, parameters: str = "") -> Found:
    return run_packets(packets(pieces, cut), parameters, program())


@cache
def files() -> Found:
    return run(lambda box: box.run(CAPTURE), "", compiled("quic", "filelog"), KEYS)


def test_files_of_the_capture_are_the_bodies_of_httplog() -> None:
    bodies = Counter[tuple[str, int]]()
    for row in captured().rows:
        name = row["path"].rsplit("/", 1)[1]
        for part in ("request", "response"):
            if row[f"{part}_body"] and row[f"{part}_complete"]:
                bodies[name, row[f"{part}_body"]] += 1
    rows = files().rows
    assert Counter((row["name"], row["length"]) for row in rows if row["complete"]) == bodies
    assert bodies.total() > 10 and all(row["source"] == "http" for row in rows)
    hello = [row for row in rows if row["name"] == "hello"]
    assert hashlib.sha256(b"hello, world\n").hexdigest() in {row["sha256"] for row in hello}


def test_names_types_and_lengths() -> None:
    body = bytes(range(256)) * 20
    fields = (("content-type", "image/png"), ("content-length", str(len(body))))
    disposed = ("content-disposition", 'attachment; filename="b c.bin"')
    pieces: list[Piece] = [
        *controls(),
        (">", 0, request("/dir/a.png?x=1", method="POST") + frame(DATA, b"up"), True),
        ("<", 0, response(103, disposed) + response(200, *fields) + frame(DATA, body), True),
        (">", 4, request("/b"), True),
        ("<", 4, response(200, disposed) + frame(DATA, b"one") + frame(DATA) + frame(DATA, b"two"), True),
        (">", 8, request("/none"), True),
        ("<", 8, response(204) + frame(HEADERS, block([("x", "y")])), True),
    ]
    expected = [
        ("a.png", None, None, 2, "10.0.0.1"),
        ("a.png", "image/png", len(body), len(body), "10.0.0.2"),
        ("b c.bin", None, None, 6, "10.0.0.2"),
    ]
    for cut in (1, 7, 1000):
        rows = read(pieces, cut).rows
        found = [(row["name"], row["declared_type"], row["expected"], row["length"], row["src"]) for row in rows]
        assert found == expected and all(row["complete"] for row in rows), cut
    assert rows[1]["md5"] == hashlib.md5(body).hexdigest()


def test_packets_out_of_order_and_again() -> None:
    pieces = [*controls(), *(each for at in range(0, 40, 4) for each in exchange(at, f"/{at}", bytes([at]) * 300))]
    whole = lasting(read(pieces).rows)
    assert len(whole) == 10
    for seed in range(3):
        assert lasting(run_packets(shuffled(packets(pieces, 97), seed, 9), "", program()).rows) == whole


def test_a_pushed_file() -> None:
    promise = frame(PUSH_PROMISE, varint(0) + block(asked("/style.css")))
    pieces = [
        *controls(),
        (">", 0, request("/"), True),
        ("<", 0, promise + response(200) + frame(DATA, b"page"), True),
        ("<", 15, PUSH + varint(0) + response(200) + frame(DATA, b"body {}"), True),
    ]
    assert {(row["name"], row["length"]) for row in read(pieces).rows} == {(None, 4), ("style.css", 7)}


def test_files_that_do_not_end() -> None:
    """A reset, missing bytes of a body, a stream that is refused, and the end of the capture."""
    sent = packets(
        [*controls(), (">", 0, request("/a"), True), ("<", 0, response(200) + frame(DATA, b"x" * 50), False)]
    )
    found = run_packets([*sent, packet("<", reset(0, 0x102, 60))], "", program())
    assert [(row["name"], row["length"], row["complete"]) for row in found.rows] == [("a", 50, False)]
    assert found.reports[ENDED] == 0
    head = response(200) + frame(DATA, b"x" * 300)[:-300]
    holed = [
        *packets([*controls(), (">", 0, request("/a"), True), ("<", 0, head, False)]),
        packet("<", stream_frame(0, len(head), b"x" * 100, False)),
        packet("<", stream_frame(0, len(head) + 200, b"x" * 100, True)),
    ]
    (row,) = run_packets(holed, "", program()).rows
    assert (row["length"], row["missing"], row["complete"]) == (200, 100, False)
    refused: list[Piece] = [
        (">", 4, request("/b"), True),
        ("<", 4, response(200) + frame(DATA, b"yy") + frame(2), False),
    ]
    found = read(
        [*controls(), *refused, (">", 8, request("/c"), True), ("<", 8, response(200) + frame(DATA, b"z"), False)]
    )
    assert {(row["name"], row["length"], row["complete"]) for row in found.rows} == {("b", 2, False), ("c", 1, False)}
    assert found.reports[ENDED] == 1


def test_a_request_whose_head_waits_for_its_table() -> None:
    """Its response has ended before."""
    begun = needing()
    pieces: list[Piece] = [
        *begun[:2],
        (">", 0, begun[2][2] + frame(DATA, b"up"), True),
        ("<", 0, response(200) + frame(DATA, b"down"), True),
        begun[-1],
    ]
    rows = read(pieces).rows
    assert {(row["name"], row["length"], row["complete"]) for row in rows} == {("x", 2, True), (None, 4, True)}


def test_files_that_are_left_out_need_no_streams() -> None:
    """One is read, so that the bound is reached, while more are left out than a connection may have streams."""
    upload: list[Piece] = [(">", 0, request("/up", method="POST") + frame(DATA, b"u"), False)]
    others = [each for number in range(1, 300) for each in exchange(4 * number, "/", b"x")]
    after: list[Piece] = [(">", 0, frame(DATA, b"p"), True), ("<", 0, response(204), True)]
    (ask, answer), (ask_too, answer_too) = exchange(1200, "/a", b"y"), exchange(1204, "/b", b"z")
    last = [ask, ask_too, answer, answer_too]
    rows = read([*controls(), *upload, *others, *after, *last], parameters=",files=1").rows
    assert [row["name"] for row in rows] == ["up", "a", "b"] and all(row["complete"] for row in rows)


def test_bounds() -> None:
    many = [
        each
        for at in range(0, 1200, 4)
        for each in ((">", at, request(f"/{at}"), False), ("<", at, response(200), False))
    ]
    bodies: list[Piece] = [("<", at, frame(DATA, b"x"), True) for at in range(0, 1200, 4)]
    found = read([*controls(), *many, *bodies])
    assert len(found.rows) == 256 and found.reports["files left out, as too many were open"] == 88
    found = read([*controls(), *many, *bodies], parameters=",memory=100000")
    assert len(found.rows) < 256 and found.reports["files left out, as too many were open"]
    assert read([("<", 3, CONTROL + frame(7, b"\0"), False), *exchange(0, "/", b"x")]).rows == []
    assert read([(">", 2, CONTROL + settings(), False), *exchange(0, "/a", b"x")]).rows[0]["name"] == "a"
