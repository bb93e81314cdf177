"""filelog: files that HTTP/2 carries."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cache

from sluice.engine.box import CompiledStack
from tests.functions.logs.boxes import Row, Talk, connection, lasting, needs_parsers
from tests.functions.logs.http2 import (
    CLIENT,
    DATA,
    END_STREAM,
    PADDED,
    RST_STREAM,
    SERVER,
    compiled_with,
    frame,
    headers,
    needs_nghttp2,
    request,
    response,
    run,
    run_packets,
)
from tests.functions.logs.test_http2 import CAPTURE
from tests.support.connection import pair

pytestmark = [needs_parsers, needs_nghttp2]


@cache
def program() -> CompiledStack:
    return compiled_with("filelog")


def files(frames: Sequence[bytes]) -> list[Row]:
    return run_packets(frames, program=program()).rows


ONE, TWO = bytes(range(256)) * 3, b"%PDF-1.4\n"
UPLOAD = request(1, "/up/form", ("content-type", "a/b"), method="POST", ends=False)
NAMED = ("content-disposition", 'attachment; filename="a b.bin"')
TALK: Talk = [
    (">", CLIENT + UPLOAD + request(3, "/dir/report.pdf?x=/y") + frame(DATA, 0, 1, ONE[:100]) + request(5, "/named")),
    ("<", SERVER + headers(3, [(":status", "103"), ("content-type", "none")]) + response(3, 200, ends=False)),
    ("<", frame(DATA, 0, 3, TWO[:4])),
    (
        "<",
        response(
            5, 200, ("content-disposition", 'attachment; filename="a b.bin"'), ("content-length", "768"), ends=False
        ),
    ),
    (">", frame(DATA, PADDED | END_STREAM, 1, b"\5" + ONE[100:] + bytes(5))),
    ("<", frame(DATA, 0, 5, ONE) + frame(DATA, END_STREAM, 3, TWO[4:]) + response(1, 204)),
    ("<", headers(5, [("trailer", "x")], 4 | END_STREAM)),
]


def test_files_of_streams() -> None:
    upload, report, named = files(connection(TALK))
    assert (upload["name"], upload["declared_type"], upload["src"]) == ("form", "a/b", "10.0.0.1")
    assert (upload["length"], upload["complete"], upload["sha256"]) == (768, True, hashlib.sha256(ONE).hexdigest())
    assert (report["name"], report["declared_type"], report["src"]) == ("report.pdf", None, "10.0.0.2")
    assert (report["length"], report["sha256"]) == (9, hashlib.sha256(TWO).hexdigest())
    assert (named["name"], named["expected"], named["complete"]) == ("a b.bin", 768, True)


def test_segments_of_any_size() -> None:
    whole = lasting(files(connection(TALK)))
    for cut in (1, 2, 3, 7, 20, 61):
        assert lasting(files(connection(TALK, cut))) == whole, cut


def test_a_reset_a_gap_and_an_end_leave_files_incomplete() -> None:
    reset = frame(RST_STREAM, 0, 3, bytes(3) + b"\x08")
    begin: Talk = [*TALK[:3]]
    for last in ([("<", reset)], []):
        found = files(connection([*begin, *last]))
        assert {(row["name"], row["length"], row["complete"]) for row in found} == {
            ("form", 100, False),
            ("report.pdf", 4, False),
        }
    client, server = pair()
    frames = [client.send("S"), server.send("SA"), client.send("A"), client.data(CLIENT + request(1, "/big"))]
    body = frame(DATA, END_STREAM, 1, bytes(3000))
    frames += [server.data(SERVER + response(1, 200, ends=False) + body[:1000]), server.data(body[1000:2000])]
    frames += [server.data(body[2000:]), client.send("FA"), server.send("FA"), client.send("A")]
    del frames[5]
    (row,) = files(frames)
    assert (row["length"], row["missing"], row["complete"], row["md5"]) == (2000, 1000, False, None)


def test_frames_after_a_reset_begin_no_stream() -> None:
    """A server's frames are under way when the client resets their stream; 256 streams may be open."""
    cancel = bytes(3) + b"\x08"
    talk: Talk = [(">", CLIENT), ("<", SERVER)]
    for stream in range(1, 601, 2):
        talk += [(">", request(stream, "/cancelled") + frame(RST_STREAM, 0, stream, cancel))]
        talk += [("<", response(stream, 200, ends=False) + frame(DATA, 0, stream, TWO))]
    talk += [(">", request(601, "/last")), ("<", response(601, 200, ends=False) + frame(DATA, END_STREAM, 601, TWO))]
    (row,) = files(connection(talk))
    assert (row["name"], row["length"], row["complete"]) == ("last", 9, True)


def test_responses_without_their_requests() -> None:
    late = [response(3, 200, ends=False), frame(DATA, END_STREAM, 3, ONE)]
    soon = [response(5, 200, ends=False), frame(DATA, END_STREAM, 5, TWO)]
    rows = files(connection([("<", SERVER + b"".join(soon + late))]))
    assert [(row["name"], row["length"], row["complete"]) for row in rows] == [(None, 9, True), (None, 768, True)]


def test_a_side_that_is_not_read_further_is_counted() -> None:
    wrong = frame(DATA, 0, 0, TWO)
    found = run_packets(connection([(">", CLIENT + request(1, "/a")), ("<", SERVER + wrong)]), program=program())
    assert found.reports["sides of HTTP/2 not read further after a gap, an error, or at a bound"] == 1


def test_the_capture_has_the_bodies_that_httplog_counts() -> None:
    rows = run(lambda box: box.run(CAPTURE)).rows
    ours = run(lambda box: box.run(CAPTURE), program=program()).rows
    expected = Counter(row[name] for row in rows for name in ("request_body", "response_body") if row[name])
    assert Counter(row["length"] for row in ours) == expected and expected.total() > 15
