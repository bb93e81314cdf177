"""httplog: what broken or hostile HTTP/3 comes to, each with a counted reason; and what is read without libnghttp3."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluice.engine.functions import READY
from tests.functions.logs.boxes import needs_parsers
from tests.functions.logs.http2 import Found, integer
from tests.functions.logs.http3 import (
    CANCEL_PUSH,
    CONTROL,
    DATA,
    ENCODER,
    GOAWAY,
    HEADERS,
    MAX_PUSH_ID,
    PUSH,
    PUSH_PROMISE,
    SETTINGS,
    Piece,
    asked,
    block,
    compiled,
    controls,
    counted,
    exchange,
    frame,
    needs_nghttp3,
    packet,
    packets,
    read,
    request,
    reset,
    response,
    run_packets,
    settings,
    stream_frame,
    varint,
)

pytestmark = [needs_parsers, needs_nghttp3]

ERRORS = "request_error", "response_error"
REFUSED = [
    (">", request("/") + frame(kind), "FRAME_UNEXPECTED")
    for kind in (2, 6, 8, 9, CANCEL_PUSH, SETTINGS, GOAWAY, MAX_PUSH_ID, PUSH_PROMISE)
]
REFUSED += [
    (">", frame(DATA, b"x") + request("/"), "FRAME_UNEXPECTED"),
    (">", request("/") + frame(DATA) + frame(HEADERS, block([("a", "b")])) + frame(DATA), "FRAME_UNEXPECTED"),
    (">", request("/") + frame(DATA) + 2 * frame(HEADERS, block([("a", "b")])), "FRAME_UNEXPECTED"),
    (">", request("/") + b"\x00\x05abc", "FRAME_ERROR"),
    (">", request("/") + b"\x40", "FRAME_ERROR"),
    ("<", response(200) + frame(PUSH_PROMISE, b"\xc0"), "FRAME_ERROR"),
    ("<", response(200) + frame(PUSH_PROMISE), "FRAME_ERROR"),
    ("<", b"", "REQUEST_INCOMPLETE"),
    ("<", frame(0x21, b"grease"), "REQUEST_INCOMPLETE"),
    ("<", response(103), "REQUEST_INCOMPLETE"),
    ("<", frame(HEADERS), "COMPRESSION_ERROR"),
    ("<", frame(HEADERS, b"\0\0\xff"), "COMPRESSION_ERROR"),
    ("<", frame(HEADERS, b"\0\0\x20"), "COMPRESSION_ERROR"),
    ("<", frame(HEADERS, block([("n" * 300, "v")])), "COMPRESSION_ERROR"),
    ("<", b"\1" + varint((1 << 18) + 1), "HEAD_TOO_LONG"),
    ("<", frame(HEADERS, b"\0\0" + b"\xd9" * 7000), "HEAD_TOO_LONG"),
]


def without(frames: Sequence[bytes], *numbers: int) -> list[bytes]:
    """Packets but for some, which are counted from 0."""
    return [one for number, one in enumerate(frames) if number not in numbers]


@pytest.mark.parametrize(("who", "data", "why"), REFUSED)
def test_a_stream_that_is_refused_ends_only_itself(who: str, data: bytes, why: str) -> None:
    client = data if who == ">" else request("/")
    server = data if who == "<" else response(200)
    found = read([*controls(), (">", 0, client, True), ("<", 0, server, True), *exchange(4, "/next")])
    row = next(row for row in found.rows if row["path"] != "/next")
    assert [row[name] for name in ERRORS] == ([why, None] if who == ">" else [None, why])
    assert {row["path"] for row in found.rows if row["response_complete"] and row["request_complete"]} == {"/next"}
    counter = {"COMPRESSION_ERROR": "http_3_undecodable", "HEAD_TOO_LONG": "http_3_long_heads"}.get(
        why, "http_3_refused"
    )
    assert found.reports[counter] == 1


@pytest.mark.parametrize(
    ("control", "why"),
    [
        (settings() + settings(), "http_3_refused"),
        (settings() + frame(DATA), "http_3_refused"),
        (settings() + request("/"), "http_3_refused"),
        (settings() + frame(PUSH_PROMISE, b"\0" + block([])), "http_3_refused"),
        (settings() + frame(2), "http_3_refused"),
        (frame(SETTINGS, b"\1\0\1\0"), "http_3_refused"),
        (frame(SETTINGS, b"\1"), "http_3_refused"),
        (frame(SETTINGS, b"\1\x40"), "http_3_refused"),
        (frame(SETTINGS, bytes(5000)), "http_3_refused"),
        (frame(GOAWAY, b"\0"), "http_3_refused"),
    ],
)
def test_a_control_stream_that_is_refused(control: bytes, why: str) -> None:
    """Blocks that need no table are still read."""
    found = read([controls()[0], ("<", 3, CONTROL + control, False), *exchange(0, "/")])
    assert [(row["path"], row["status"]) for row in found.rows] == [("/", 200)]
    assert counted(found) == {"http_version_3": 1, why: 1}


def test_a_second_control_stream_and_a_second_encoder() -> None:
    second = [(">", 6, CONTROL + settings(), False), (">", 10, ENCODER, False), (">", 14, ENCODER + b"\x3f", False)]
    found = read([*controls(), *second, *exchange(0, "/")])
    assert [row["path"] for row in found.rows] == ["/"]
    assert counted(found) == {"http_version_3": 1, "http_3_refused": 2}


# --- the table ---


FIELDS = asked("/x")
INSERTS = b"".join(
    integer(len(name), 5, 0x40) + name.encode() + integer(len(value), 7) + value.encode() for name, value in FIELDS
)
"""Instructions that insert these fields, with literal names (RFC 9204, 4.3.3)."""


def needing(table: int = 4096, count: int = 1, inserts: bool = True) -> list[Piece]:
    """A connection whose requests need the client's table: all insertions, in their order (RFC 9204, 4.5.1)."""
    out: list[Piece] = [(">", 2, CONTROL + settings(), False), ("<", 3, CONTROL + settings(table), False)]
    head = bytes([len(FIELDS) + 1, 0, *(0x80 | len(FIELDS) - 1 - number for number in range(len(FIELDS)))])
    for number in range(count):
        out.append((">", 4 * number, frame(HEADERS, head), True))
        out.append(("<", 4 * number, response(200), True))
    told = ENCODER + integer(4096, 5, 0x20) + INSERTS
    return [*out, (">", 6, told, False)] if inserts else out


def test_a_gap_in_the_table() -> None:
    assert [row["path"] for row in read([*needing(), *exchange(4, "/next")]).rows] == ["/x", "/next"]
    table = without(packets(needing()[-1:], 9), 1)
    found = run_packets([*table, *packets([*needing(inserts=False), *exchange(4, "/next")])])
    errors = {row["path"]: (row["request_error"], row["status"]) for row in found.rows}
    assert errors == {None: ("GAP", 200), "/next": (None, 200)}
    assert counted(found) == {"http_version_3": 1, "http_3_gaps": 2}


def test_a_table_that_never_comes() -> None:
    found = read(needing(inserts=False))
    assert [(row["request_error"], row["status"]) for row in found.rows] == [("BLOCKED", 200)]
    assert counted(found) == {"http_version_3": 1, "http_3_blocked": 1}


def test_settings_that_never_come() -> None:
    found = read([piece for piece in needing() if piece[1] != 3])
    assert [(row["request_error"], row["status"]) for row in found.rows] == [("BLOCKED", 200)]


def test_more_streams_wait_than_are_permitted() -> None:
    found = read(needing(count=300, inserts=False), parameters=",pipelined=400")
    assert len(found.rows) == 300 and {row["request_error"] for row in found.rows} == {"BLOCKED"}
    assert found.reports["http_3_blocked"] == 300


def test_a_table_that_is_too_large() -> None:
    found = read([*needing(1 << 40), *exchange(4, "/next")])
    errors = {row["path"]: (row["request_error"], row["status"]) for row in found.rows}
    assert errors == {None: ("TABLE_TOO_LARGE", 200), "/next": (None, 200)}
    assert counted(found) == {"http_version_3": 1, "http_3_large_tables": 1}


def test_instructions_for_the_table_that_are_not_valid() -> None:
    wrong: list[Piece] = [(">", 6, ENCODER + b"\x3f\xe1\xff\x03", False)]  # a size beyond that of SETTINGS
    found = read([*needing(inserts=False), *wrong, *exchange(4, "/next")])
    errors = {row["path"]: (row["request_error"], row["status"]) for row in found.rows}
    assert errors == {None: ("COMPRESSION_ERROR", 200), "/next": (None, 200)}
    assert counted(found) == {"http_version_3": 1, "http_3_undecodable": 2}


def test_a_small_block_that_becomes_large() -> None:
    """An entry of the table, repeated."""
    value = b"v" * 4000
    insert = ENCODER + integer(4096, 5, 0x20) + integer(1, 5, 0x40) + b"n" + integer(len(value), 7) + value
    bomb = frame(HEADERS, b"\2\0" + b"\x80" * 100)
    opened: list[Piece] = [(">", 2, CONTROL + settings(), False), ("<", 3, CONTROL + settings(4096), False)]
    found = read([*opened, (">", 6, insert, False), (">", 0, bomb, True), ("<", 0, response(200), True)])
    assert [row["request_error"] for row in found.rows] == ["HEAD_TOO_LONG"]


# --- gaps, resets, ends ---

BODY: list[Piece] = [
    *controls(),
    (">", 0, request("/"), True),
    ("<", 0, response(200) + frame(DATA, b"0123456789" * 10) + frame(HEADERS, block([("a", "b")])), True),
]


def test_a_gap_within_a_body_loses_only_its_bytes() -> None:
    frames = packets(BODY, 40)
    lost = next(n for n, one in enumerate(frames) if b"0123456789" * 4 in one or one.count(b"0123456789") == 3)
    found = run_packets(without(frames, lost))
    (row,) = found.rows
    assert row["response_missing"] > 0 and row["response_body"] + row["response_missing"] == 100
    assert (row["response_complete"], row["response_error"]) == (True, None)
    assert "http_3_gaps" not in counted(found)


def test_a_gap_at_the_end_of_a_body() -> None:
    """The end of the stream has a frame of its own."""
    pieces: list[Piece] = [
        *BODY[:3],
        ("<", 0, response(200) + b"\0\x05", False),
        ("<", 0, b"01234", False),
        ("<", 0, b"", True),
    ]
    found = run_packets(without(packets(pieces), 4))
    assert [(row["response_missing"], row["response_complete"]) for row in found.rows] == [(5, True)]


def test_a_gap_elsewhere_ends_the_stream() -> None:
    frames = packets([*BODY, *exchange(4, "/next")], 10)
    heads = [n for n, one in enumerate(frames) if one[30:34] == frames[2][30:34]]
    for lost in (len(controls()), heads[-1]):
        found = run_packets(without(frames, lost))
        broken = [row for row in found.rows if row["path"] != "/next"]
        assert len(found.rows) == 2 and sum(row[name] is not None for row in broken for name in ERRORS) <= 1
    found = run_packets(without(packets(BODY, 1000), 2))
    assert [(row["request"], row["response_body"]) for row in found.rows] == [(False, 100)]


@pytest.mark.parametrize(
    ("code", "why"), [(0x10B, "REQUEST_REJECTED"), (0x110, "VERSION_FALLBACK"), (0x111, "UNKNOWN_ERROR")]
)
def test_a_reset(code: int, why: str) -> None:
    opened = packets([*controls(), (">", 0, request("/"), True), ("<", 0, response(200) + frame(DATA, b"abc"), False)])
    size = len(response(200) + frame(DATA, b"abc"))
    found = run_packets([*opened, packet("<", reset(0, code, size)), packet("<", stream_frame(0, size, b"more", True))])
    assert [(row["response_error"], row["response_body"], row["status"]) for row in found.rows] == [(why, 3, 200)]
    assert counted(found) == {"http_version_3": 1, "http_3_resets": 1}


def test_a_reset_of_a_response_that_has_not_begun() -> None:
    frames = packets([*controls(), (">", 0, request("/"), True)])
    for order in (
        [*frames, packet("<", reset(0, 0x10B, 0))],
        [*frames[:2], packet("<", reset(0, 0x10B, 0)), frames[2]],
    ):
        found = run_packets(order)
        assert [(row["path"], row["response_error"], row["response"]) for row in found.rows] == [
            ("/", "REQUEST_REJECTED", False)
        ]


def test_the_end_of_the_connection() -> None:
    found = read([*controls(), (">", 0, request("/") + frame(DATA, b"abc"), False)])
    assert [(row["request_error"], row["request_body"]) for row in found.rows] == [("EOF", 3)]
    assert counted(found) == {"http_version_3": 1, "http_incomplete": 1, "http_unanswered_requests": 1}


def test_a_client_does_not_hide_the_response_by_a_status() -> None:
    """An interim status is one of a response."""
    late = frame(HEADERS, block([*asked("/1"), (":status", "100")])) + frame(DATA, b"x")
    found = read([*controls(), ("<", 0, response(200), True), (">", 0, late, True)])
    assert [(row["status"], row["interim"], row["request_complete"]) for row in found.rows] == [(200, [], True)]


# --- bounds ---


def test_what_is_no_http_3() -> None:
    """As DNS over QUIC, whose messages have a length of two bytes."""
    found = read([(">", 0, b"\0\x05query", True), ("<", 0, b"\0\x06answer", True)])
    assert found.rows == [] and counted(found) == {"http_3_unknown": 1}


def test_bytes_before_settings_that_are_too_many() -> None:
    large: list[Piece] = [(">", 0, request("/") + frame(DATA, bytes(70_000)), True)]
    found = read([*large, *exchange(4, "/next"), *controls()])
    assert [row["path"] for row in found.rows] == ["/next"]
    assert counted(found) == {"http_version_3": 1, "http_3_streams_left_out": 1}


@pytest.mark.parametrize("first", [False, True])
def test_a_client_that_pushes_is_refused(first: bool) -> None:
    """RFC 9114, 6.2.2. It has no row, as it is no request, and not the response that the server has pushed."""
    promised = frame(PUSH_PROMISE, b"\0" + block(asked("/pushed")))
    forged = [(">", 6, PUSH + b"\0" + request("/forged"), True)]
    pushed = [("<", 0, promised + response(200), True), ("<", 7, PUSH + b"\0" + response(200), True)]
    found = read([*controls(), *(forged if first else []), (">", 0, request("/"), True), *pushed, *forged])
    assert sorted(row["path"] for row in found.rows) == ["/", "/pushed"]
    assert all(row["request_complete"] and row["response_complete"] for row in found.rows)
    assert counted(found) == {"http_version_3": 1, "http_3_refused": 1}


def test_a_stream_whose_first_bytes_come_after_settings() -> None:
    """Its first packet brings none that can be delivered."""
    asks = request("/late", ("a", "b" * 50))
    frames = [
        packet(">", stream_frame(0, 9, asks[9:], True)),
        *packets(controls()),
        packet(">", stream_frame(0, 0, asks[:9], False)),
        *packets([("<", 0, response(200), True)]),
    ]
    found = run_packets(frames)
    assert [(row["path"], row["status"], row["request_complete"]) for row in found.rows] == [("/late", 200, True)]
    assert counted(found) == {"http_version_3": 1}


def test_streams_before_settings_that_are_too_many() -> None:
    many = [piece for number in range(200) for piece in exchange(4 * number, f"/{number}")]
    found = read([*many, *controls()])
    assert len(found.rows) == 128 and found.reports["http_3_streams_left_out"] == 2 * 72


def test_exchanges_that_are_too_many() -> None:
    asks: list[Piece] = [(">", 4 * number, request(f"/{number}"), True) for number in range(9)]
    answers: list[Piece] = [("<", 4 * number, response(200), True) for number in range(9)]
    found = read([*controls(), *asks, *answers], parameters=",pipelined=4")
    assert [row["path"] for row in found.rows][:4] == ["/0", "/1", "/2", "/3"]
    assert found.reports["http_3_streams_left_out"] >= 5


@pytest.mark.parametrize("memory", [100, 5000, 20_000, 40_000])
def test_memory_is_bounded(memory: int) -> None:
    """Whatever there is memory for: what is not read is counted."""
    found = read(needing(count=40), parameters=f",memory={memory}")
    complete = [row for row in found.rows if row["request_complete"] and row["response_complete"]]
    assert len(complete) == 40 or found.reports["http_no_memory"] + found.reports["http_3_streams_left_out"] > 0


def test_a_stream_of_webtransport() -> None:
    found = read([*controls(), (">", 0, b"\x40\x41\0any bytes", True), *exchange(4, "/next")])
    assert [row["path"] for row in found.rows] == ["/next"]


def test_bytes_that_are_changed() -> None:
    """Nothing is stored afterwards, which each run checks."""
    for seed in range(60):
        dice = random.Random(seed)
        pieces: list[Piece] = []
        for who, stream, data, fin in [*needing(count=3), *BODY[2:]]:
            changed = bytearray(data)
            for _ in range(dice.choice([0, 0, 1, 3])):
                changed[dice.randrange(len(changed))] = dice.randrange(256)
            pieces.append((who, stream, bytes(changed), fin))
        read(pieces, dice.choice([1, 5, 1000]))


# --- without the library ---


def test_without_the_library_http_3_is_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    (tmp_path / "vendor").symlink_to(READY.parent / "vendor")
    for pattern in ("http*.[ch]", "log_*.h", "tls_*.h"):
        for file in READY.glob(pattern):
            shutil.copy(file, ready)
    loader = ready / "http3_qpack.h"
    loader.write_text(loader.read_text().replace("libnghttp3.so", "libnghttp3-missing.so"))
    program = compiled("quic_deciphered", str(ready / "httplog.c"))

    def found() -> Found:
        return run_packets(packets([*exchange(0, "/"), *controls(), *exchange(4, "/next")]), program=program)

    for _ in range(2):
        assert found().rows == [] and counted(found()) == {"http_version_3": 1, "http_3_not_read": 1}
    assert capfd.readouterr().err.count("libnghttp3 (Debian 13: apt install libnghttp3-9") == 1


def test_streams_that_are_refused_before_settings_are_counted() -> None:
    """Where SETTINGS follow, or come from the other side alone; and where none do."""
    refused = [(">", 2, CONTROL + frame(GOAWAY, b"\0"), False), (">", 6, PUSH + varint(0), False)]
    for settled in (controls()[1:], [*controls()[1:], *exchange(0, "/")]):
        found = counted(read([*refused, *settled]))
        assert found == {"http_version_3": 1, "http_3_refused": 2}
    assert counted(read(refused)) == {"http_3_unknown": 1}
    for size, why in ((10, "http_3_refused"), (1, "http_3_streams_left_out")):  # SETTINGS have begun, or have not
        sent = packets([(">", 2, CONTROL + frame(SETTINGS, bytes(40)), False)], size)
        found = run_packets([sent[0], packet(">", reset(2, 0x100, 40)), *packets(controls()[1:])])
        assert counted(found) == {"http_version_3": 1, why: 1}
