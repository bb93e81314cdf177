"""httplog: rows of HTTP/3, of a capture of real clients and servers and of single streams."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pylsqpack
import pytest

from sluice.engine.box import Box
from tests.functions.logs.boxes import SECOND, START, Row, lasting, needs_parsers
from tests.functions.logs.http2 import Found
from tests.functions.logs.http3 import (
    CONTROL,
    DATA,
    DECODER,
    ENCODER,
    GOAWAY,
    HEADERS,
    MAX_PUSH_ID,
    PUSH,
    PUSH_PROMISE,
    Piece,
    asked,
    block,
    compiled,
    controls,
    counted,
    exchange,
    frame,
    needs_nghttp3,
    packets,
    read,
    request,
    response,
    run,
    run_packets,
    settings,
    varint,
)
from tests.functions.logs.truth import fields_of
from tests.quic.traffic import Link, Run, make
from tests.support.connection import shuffled

pytestmark = [needs_parsers, needs_nghttp3]

CAPTURE = Path(__file__).with_name("http3.pcap")
"""On loopback. Port 14433: aioquic 1.7 as client and server, the second connection with its request in early data. Port
14434: the same, after a Retry. Port 14435: gtlsserver of ngtcp2 0.12 with nghttp3 0.8, by gtlsclient and by aioquic.
"""
KEYS = CAPTURE.with_suffix(".keys")
GOLDEN = CAPTURE.with_suffix(".jsonl")

SERVED = [
    ("GET", "/hello", 200, 0, 13),
    ("GET", "/none", 404, 0, 13),
    ("POST", "/echo", 200, 3000, 3000),
    ("HEAD", "/hello", 200, 0, 0),
    ("GET", "/big", 200, 0, 20000),
    ("GET", "/moved", 301, 0, 0),
    ("GET", "/hello", 200, 0, 13),
    ("GET", "/hints", 200, 0, 7),
    ("GET", "/trailers", 200, 0, 14),
    ("GET", "/push", 200, 0, 8),
    ("GET", "/pushed.css", 200, 0, 17),
    ("PUT", "/echo", 200, 0, 0),
    ("GET", "/hello", 200, 0, 13),
    ("GET", "/hello", 200, 0, 13),
]
"""What aioquic's servers have logged about the exchanges that they completed: method, path, status, bytes of bodies.
"""


@cache
def captured() -> Found:
    return run(lambda box: box.run(CAPTURE), "", compiled("quic"), KEYS)


def test_rows_of_the_capture() -> None:
    found = captured()
    lines = "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in found.rows)
    if os.environ.get("SLUICE_UPDATE_GOLDEN"):
        GOLDEN.write_text(lines)
    assert lines == GOLDEN.read_text()
    assert counted(found) == {"http_version_3": 5, "http_3_resets": 2, "http_unanswered_requests": 2}


def test_the_capture_has_the_exchanges_that_its_servers_logged() -> None:
    names = ("method", "path", "status", "request_body", "response_body")
    rows = [row for row in captured().rows if row["dport"] != 14435]
    ours = [tuple(row[name] for name in names) for row in rows if row["response_complete"]]
    assert sorted(ours) == sorted(SERVED)
    broken = {
        row["path"]: (row["request_error"], row["response_error"]) for row in rows if not row["response_complete"]
    }
    assert broken == {"/reset": (None, "INTERNAL_ERROR"), "/echo": ("REQUEST_CANCELLED", None)}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which frames are compared")
def test_the_capture_has_the_header_blocks_that_tshark_shows() -> None:
    """tshark 4.0 does not decode them, and opens nothing of the connection after a Retry (port 14434)."""
    theirs, ours = Counter[str](), Counter[str]()
    names = ("udp.srcport", "udp.dstport", "http3.frame_type")
    for packet in fields_of(CAPTURE, names, "-o", f"tls.keylog_file:{KEYS}"):
        port = min(packet[names[0]][0], packet[names[1]][0])
        theirs[port] += packet[names[2]].count(str(HEADERS))
    for row in captured().rows:
        if row["dport"] != 14434:
            asks = row["path"] != "/pushed.css"  # else the block is in a PUSH_PROMISE
            ours[str(row["dport"])] += asks + row["response"] + len(row["interim"]) + (row["path"] == "/trailers")
    assert ours == theirs and ours.total() > 30


def in_quic(early: bool, retry: bool, folder: Path) -> Found:
    """A connection of aioquic whose request may be sent in early data, and again after a Retry."""
    tickets: dict[bytes, Any] = {}
    first = make(lambda run: run.send(0, b"any"), tickets=tickets)
    run_of = Run(1, "aes128", Link(), retry, first.ticket if early else None, tickets)

    def asks(run: Run) -> None:
        run.send(0, request("/early", method="POST") + frame(DATA, b"body"))
        run.send(2, CONTROL + settings())

    def answers(run: Run) -> None:
        run.send(0, response(200) + frame(DATA, b"answer"), from_server=True)
        run.send(3, CONTROL + settings(), from_server=True)

    if early:
        asks(run_of)
    traffic = run_of.run([answers] if early else [asks, answers])
    keys = folder / "keys"
    keys.write_text(traffic.keylog)

    def feed(box: Box) -> None:
        for data, time in zip(traffic.packets, traffic.times, strict=True):
            box.packet(data, START + int(time * SECOND), 1, len(data))

    return run(feed, "", compiled("quic"), keys)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("retry", [False, True])
def test_early_data_and_a_retry(early: bool, retry: bool, tmp_path: Path) -> None:
    found = in_quic(early, retry, tmp_path)
    assert [brief(row) for row in found.rows] == [("POST", "/early", 200, 4, 6, [])]
    assert counted(found) == {"http_version_3": 1}


# --- single streams ---

PAGE: list[Piece] = [
    *controls(),
    (">", 2, frame(MAX_PUSH_ID, varint(7)) + frame(0x21, b"grease"), False),
    (">", 6, ENCODER, False),
    ("<", 11, DECODER, False),
    ("<", 15, varint(0x21) + b"a stream of an unknown type", True),
    (">", 0, request("/first", ("content-length", "5"), ("content-type", "a/b"), method="POST"), False),
    (">", 0, frame(0x40, b"unknown") + frame(DATA, b"he") + frame(DATA) + frame(DATA, b"llo"), True),
    ("<", 0, response(103, ("server", "interim")) + response(200, ("content-type", "text/plain")), False),
    (">", 4, request("/second", ("user-agent", "agent/1"), ("referer", "/first")), True),
    ("<", 4, response(204), True),
    ("<", 0, frame(PUSH_PROMISE, varint(3) + block(asked("/pushed"))) + frame(DATA, b"body"), False),
    ("<", 19, PUSH + varint(3) + response(200, ("server", "s")) + frame(DATA, b"pushed bytes"), True),
    ("<", 0, frame(HEADERS, block([("x-sum", "1"), (":status", "500")])), True),
    ("<", 3, frame(GOAWAY, varint(8)), False),
]


def brief(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("method", "path", "status", "request_body", "response_body", "interim"))


def test_all_that_a_connection_may_have() -> None:
    found = read(PAGE)
    assert [brief(row) for row in found.rows] == [
        ("GET", "/second", 204, 0, 0, []),
        ("GET", "/pushed", 200, 0, 12, []),
        ("POST", "/first", 200, 5, 4, [103]),
    ]
    assert all(row["request_complete"] and row["response_complete"] for row in found.rows)
    assert {row["request_version"] for row in found.rows} == {row["response_version"] for row in found.rows} == {"3"}
    second, pushed, first = found.rows
    assert (first["host"], first["request_length"], first["request_type"]) == ("a.example", 5, "a/b")
    assert (first["server"], first["response_type"], pushed["server"]) == (None, "text/plain", "s")
    assert (second["user_agent"], second["referrer"]) == ("agent/1", "/first")
    assert counted(found) == {"http_version_3": 1}


def key(row: Row) -> str:
    return json.dumps(row, sort_keys=True)


def test_frames_of_any_size() -> None:
    for pieces in (PAGE, table()):
        whole = lasting(read(pieces).rows)
        assert len(whole) == 3
        for cut in (1, 2, 3, 7, 20):
            assert lasting(read(pieces, cut).rows) == whole, cut


def test_packets_out_of_order_and_again() -> None:
    for pieces in (PAGE, table()):
        expected = sorted(map(key, lasting(read(pieces).rows)))
        for seed in range(12):
            found = run_packets(shuffled(packets(pieces, 11 + seed), seed, 2 + seed * 5, first=1, last=0))
            assert sorted(map(key, lasting(found.rows))) == expected, seed


def test_streams_in_any_order() -> None:
    """Each piece of a stream may be the first one that is received, so also the control streams the last ones."""
    expected = sorted(map(key, lasting(read(PAGE).rows)))
    for seed in range(12):
        found = run_packets(shuffled(packets(PAGE), seed, 100, first=1, last=0))
        assert sorted(map(key, lasting(found.rows))) == expected, seed


# --- header compression: blocks by pylsqpack's encoder, whose table the decoder has to follow ---


def table(count: int = 3) -> list[Piece]:
    """Requests and responses whose blocks refer to the tables, with the encoders' streams after the blocks."""
    out: list[Piece] = [(">", 2, CONTROL + settings(400), False), ("<", 3, CONTROL + settings(4096, (7, 16)), False)]
    encoders, sizes = (pylsqpack.Encoder(), pylsqpack.Encoder()), (4096, 400)
    decoders = [pylsqpack.Decoder(size, 16) for size in sizes]
    for side, encoder in enumerate(encoders):
        opened = encoder.apply_settings(sizes[side], 16)
        decoders[side].feed_encoder(opened)
        out.append(("><"[side], 6 + side, ENCODER + opened, False))
    for number in range(count):
        more = f"x{number // 3}" * 10
        heads = (
            asked("/table", ("user-agent", "agent/1"), ("x-more", more)),
            ((":status", "200"), ("server", "table/1"), ("x-more", more)),
        )
        for side, encoder in enumerate(encoders):
            fields = [(name.encode(), value.encode()) for name, value in heads[side]]
            inserts, made = encoder.encode(4 * number, fields)
            decoders[side].feed_encoder(inserts)
            acknowledged, _ = decoders[side].feed_header(4 * number, made)
            encoder.feed_decoder(acknowledged)  # so that entries of its table may be replaced
            body = frame(DATA, b"body") if side else b""
            out.append(("><"[side], 4 * number, frame(HEADERS, made) + body, True))
            out.append(("><"[side], 6 + side, inserts, False))
    return out


def test_blocks_wait_for_the_table() -> None:
    pieces = table()
    blocks = [piece[2] for piece in pieces if piece[1] % 4 == 0]
    assert sum(one[2] != 0 for one in blocks) >= 4, "the encoder does not use its table"
    found = read(pieces)
    assert [brief(row) for row in found.rows] == [("GET", "/table", 200, 0, 4, [])] * 3
    assert {row["user_agent"] for row in found.rows} == {"agent/1"}
    assert {row["server"] for row in found.rows} == {"table/1"}
    assert counted(found) == {"http_version_3": 1}


def test_the_decoder_takes_the_size_of_the_table_from_the_peers_settings() -> None:
    """The number of insertions that a block needs is relative to it (RFC 9204, 4.5.1.1)."""
    right = table(90)
    wrong = [(who, number, data.replace(settings(400), settings(900)), end) for who, number, data, end in right]
    assert not any(row["response_error"] for row in read(right).rows)
    assert any(row["response_error"] == "COMPRESSION_ERROR" for row in read(wrong).rows)


def test_two_interim_responses_and_a_body_that_wait() -> None:
    encoder = pylsqpack.Encoder()
    opened = encoder.apply_settings(4096, 16)
    made = [encoder.encode(0, [(b":status", status), (b"x-name", b"value" * 5)]) for status in (b"103", b"103", b"200")]
    found = read(
        [
            (">", 2, CONTROL + settings(4096), False),
            (">", 0, request("/"), True),
            ("<", 0, b"".join(frame(HEADERS, head) for _, head in made) + frame(DATA, b"abc"), True),
            ("<", 7, ENCODER + opened + b"".join(inserts for inserts, _ in made), False),
        ]
    )
    assert [brief(row) for row in found.rows] == [("GET", "/", 200, 0, 3, [103, 103])]


def test_one_row_for_each_stream_of_many() -> None:
    pieces = controls() + [piece for number in range(300) for piece in exchange(4 * number, f"/{number}", b"b")]
    found = read(pieces)
    assert [row["path"] for row in found.rows] == [f"/{number}" for number in range(300)]
    assert counted(found) == {"http_version_3": 1}
