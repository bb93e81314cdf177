"""HTTP, TLS, DTLS and files over SCTP: as over TCP and UDP, however messages and chunks are cut and ordered."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.sctp import PROTOCOL, sctp_layers
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from tests.functions.logs.boxes import START, Logs, Talk, connection, lasting, needs_parsers
from tests.functions.logs.boxes import run_packets as everything
from tests.functions.logs.dtls import datagrams, fragments, hello_of
from tests.functions.logs.dtls import handshake as handshake_of_dtls
from tests.functions.logs.hellos import other_keys
from tests.functions.logs.http2 import needs_nghttp2
from tests.functions.logs.sctp import GOODBYE, HELLO, A, Association, B, association
from tests.functions.logs.test_cuts import HTTP, TALKS, gre, gtp, vlan, vxlan
from tests.functions.logs.test_http2 import talks
from tests.functions.logs.test_http_tls import CAPTURE, KEYS, needs_libcrypto
from tests.functions.logs.truth import fields_of
from tests.support.capture import pcap
from tests.support.connection import shuffled
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.unoptimised import unoptimised

pytestmark = [needs_parsers, needs_nghttp2]

LOGS = ("httplog", "tlslog", "filelog", "sctplog")
CONTENTS = LOGS[:3]
"""Those of what is carried."""
CARRIED = [talk for name, (talk, _) in TALKS.items() if name != "dns"]
"""HTTP/1, HTTP/2 and TLS: a stream each."""
EMPTY = ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
ENDS = ("community_id", "src", "sport", "dst", "dport", "transport")
ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "sctp_logs"
WEB = ROOT / "tests" / "corpus" / "aol_moloch__sctp-www.pcap"
"""A browser and a server with HTTP over SCTP: a response is a message with its head, and one with its body."""


def stack() -> Stack:
    """TCP, UDP and SCTP over IPv4 on Ethernet."""
    s = Stack("carriers")
    s.eth, s.ipv4, s.tcp, s.udp = ethernet_parser(), ipv4_parser(), tcp_parser(), udp_parser()
    s += sctp_layers()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    for number, layer in ((6, s.tcp), (17, s.udp), (PROTOCOL, s.sctp_packet)):
        s += (s.ipv4 >> layer) + Pred(s.ipv4.header.protocol == number)
    return s


@cache
def compiled() -> CompiledStack:
    with unoptimised():
        return compile_stack(stack(), tuple(find_functions(list(LOGS)).c))


def run(feed: Callable[[Box], object], parameters: str = "") -> Logs:
    found = Logs()
    with tempfile.TemporaryDirectory() as folder:
        options = [f"out={folder}/{log}{parameters * (log in CONTENTS)}" for log in LOGS]
        with Box(compiled(), Settings(seed=1, timeouts=False), [], options) as box:
            feed(box)
            box.finish()
            found.reports = {name: count for name, count in box.reports().items() if count}
            check_conservation(compiled().program, box.counters())
            check_all_ended(compiled().program, box.counters())
        for log in LOGS:
            found.rows[log] = [json.loads(line) for line in Path(folder, log).read_text().splitlines()]
    return found


def run_packets(frames: Sequence[bytes], parameters: str = "") -> Logs:
    def feed(box: Box) -> None:
        for number, data in enumerate(frames):
            box.packet(data, START + number * 10**6, 1, len(data))

    return run(feed, parameters)


def said(logs: Logs, certain: bool = True) -> list[list[str]]:
    """The rows of all logs, in any order, without what depends on what carries them."""
    rows = [
        sorted(
            json.dumps({name: value for name, value in row.items() if name not in ENDS}, sort_keys=True)
            for row in lasting(logs[log])
        )
        for log in CONTENTS
    ]
    assert not certain or (rows[0] and rows[1])
    return rows


def over_tcp(talks: Sequence[Talk], parameters: str = "") -> list[list[str]]:
    """The rows of each talk over TCP, together."""
    logs = [run_packets(connection(talk, port=8000), parameters) for talk in talks]
    return [sorted(row for rows in each for row in rows) for each in zip(*map(said_of_one, logs), strict=True)]


def said_of_one(logs: Logs) -> list[list[str]]:
    return said(logs, certain=False)


def test_streams_say_what_connections_of_tcp_say() -> None:
    wanted = over_tcp(CARRIED)
    logs = run_packets(association(CARRIED))
    assert said(logs) == wanted
    assert {row["transport"] for row in logs["tlslog"]} == {"sctp"}
    assert all((row["src"], row["sport"], row["dport"]) == ("10.0.0.1", 5000, 36412) for row in logs["httplog"])
    assert len({row["flow"] for log in LOGS for row in logs[log]}) == 1


@pytest.mark.parametrize("interleaved", [False, True])
def test_messages_and_chunks_of_any_size(interleaved: bool) -> None:
    wanted = over_tcp(CARRIED)
    for cut, part in ((1200, 7), (1, 1), (3, 2), (61, 1200), (61, 20)):
        assert said(run_packets(association(CARRIED, cut, part, interleaved))) == wanted, (cut, part)


@pytest.mark.parametrize("interleaved", [False, True])
def test_chunks_out_of_order_and_again(interleaved: bool) -> None:
    wanted = over_tcp(CARRIED)
    frames = association(CARRIED, 61, 20, interleaved)
    for seed in range(4):
        moved = shuffled(frames, seed, 12, first=HELLO, last=GOODBYE)
        assert said(run_packets(moved)) == wanted, seed


@pytest.mark.parametrize("wrapped", [gtp, vxlan, gre, vlan])
def test_tunnels_and_tags(wrapped: Callable[[bytes], bytes]) -> None:
    frames = association(CARRIED, 61)
    plain, within = everything(frames), everything([wrapped(frame) for frame in frames])
    assert plain["httplog"] and plain["tlslog"]
    for log in ("httplog", "tlslog"):
        assert lasting(within[log]) == lasting(plain[log])


@needs_libcrypto
def test_tls_with_keys() -> None:
    """The connections of a capture with HTTP/1 and HTTP/2 in TLS 1.2 and 1.3: a stream each."""
    carried = talks(CAPTURE)
    wanted = over_tcp(carried, f",keylog={KEYS}")
    assert len(wanted[0]) == 15 and wanted[2]
    assert said(run_packets(association(carried, 900), f",keylog={KEYS}")) == wanted


@needs_libcrypto
def test_tls_without_its_keys_is_counted(tmp_path: Path) -> None:
    logs = run_packets(association(talks(CAPTURE)[:1]), f",keylog={other_keys(tmp_path / 'keys')}")
    assert logs["httplog"] == [] and len(logs["tlslog"]) == 1
    assert logs.reports["http_tls_without_key"] and logs.reports["file_tls_without_key"]


def test_dtls_is_a_connection_of_the_association() -> None:
    """RFC 6083: each message is a record, those of the handshake on stream 0; rows are those of the datagrams."""
    records = handshake_of_dtls()
    (wanted,) = run_packets(datagrams(records))["tlslog"]
    for part in (1200, 50):
        found = Association(part)
        for number, (who, one) in enumerate(records):
            found.say(A if who == ">" else B, 3 * (number == len(records) - 1), one, number == len(records) - 1)
        (row,) = run_packets(found.end())["tlslog"]
        assert row["transport"] == "sctp" and row["established"] and row["certificates"]
        assert {**row, **{name: wanted[name] for name in ENDS}} == {
            **wanted,
            **{name: row[name] for name in ("ts", "layers", "flow")},
        }


def test_a_hello_of_dtls_does_not_end_tls_in_streams() -> None:
    """Before it, within its handshake, between its messages, and after it; also a whole handshake of DTLS."""
    talk = TALKS["tls"][0]
    hello = [(">", fragments(hello_of(), 0)[0])]
    (wanted,) = run_packets(association([[], talk]))["tlslog"]
    for records in (hello, handshake_of_dtls()):
        for cut in (1200, 61):
            messages = [(who, said[at : at + cut]) for who, said in talk for at in range(0, len(said), cut)]
            for place in (0, 1, len(messages) // 2, len(messages)):
                found = Association()
                for stream, who, said in (
                    *((1, *one) for one in messages[:place]), *((0, *one) for one in records),
                    *((1, *one) for one in messages[place:]),
                ):  # fmt: skip
                    found.say(A if who == ">" else B, stream, said)
                rows = lasting(run_packets(found.end())["tlslog"])
                assert len(rows) == 2 and lasting([wanted])[0] in rows, (len(records), cut, place)


def test_a_missing_message_is_a_gap_of_its_stream_alone() -> None:
    talk: Talk = [
        (">", b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
        ("<", b"def"),
        ("<", b"ghi"),
        (">", b"GET /b HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("<", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    ]
    frames = association([talk, talk])
    lost = next(at for at, frame in enumerate(frames) if b"def" in frame)
    logs = run_packets(frames[:lost] + frames[lost + 1 :])
    rows = [(row["path"], row["status"], row["response_body"], row["response_error"]) for row in logs["httplog"]]
    assert sorted(rows, key=str) == [
        ("/a", 200, 3, "GAP"), ("/a", 200, 9, None), ("/b", 404, 0, None), ("/b", 404, 0, None),
    ]  # fmt: skip
    assert logs.reports["http_gaps"] == 1
    assert sorted((row["length"], row["complete"]) for row in logs["filelog"]) == [(3, False), (9, True)]
    to_the_end: Talk = [*talk[:1], ("<", b"HTTP/1.0 200 OK\r\n\r\nabc"), ("<", b"def"), ("<", b"ghi")]
    frames = association([to_the_end])
    (row,) = run_packets([frame for frame in frames if b"def" not in frame])["httplog"]
    assert (row["response_error"], row["response_body"], row["response_missing"]) == ("GAP", 3, 0)


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 18446744073709551615\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"],
)
def test_a_missing_message_is_no_body_of_the_longest_length(head: bytes) -> None:
    """Its length is not known, whatever length a body claims."""
    talk: Talk = [
        (">", b"POST /a HTTP/1.1\r\nHost: a\r\n" + head), (">", b"lost"), (">", b"GET /b HTTP/1.1\r\nHost: b\r\n\r\n"),
    ]  # fmt: skip
    logs = run_packets([frame for frame in association([talk]) if b"lost" not in frame])
    rows = [(row["path"], row["request_missing"], row["request_error"]) for row in logs["httplog"]]
    assert rows == [("/a", 0, "GAP"), ("/b", 0, None)]


def test_a_response_before_its_request_waits_for_it() -> None:
    talk: Talk = [(">", b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"), ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")]
    frames = association([talk])
    swapped = [*frames[:HELLO], frames[HELLO + 1], frames[HELLO], *frames[HELLO + 2 :]]
    for row in (*run_packets(frames)["httplog"], *run_packets(swapped)["httplog"]):
        assert (row["path"], row["status"], row["response_complete"]) == ("/a", 200, True)
    middle = Association()
    middle.messages.update({(A, 0): 5, (B, 0): 7})
    middle.say(B, 0, talk[1][1])
    middle.say(A, 0, talk[0][1])
    rows = run_packets(middle.end()[HELLO:])["httplog"]
    assert [(row["path"], row["status"]) for row in rows] == [(None, 200), ("/a", None)]


def test_numbers_of_messages_begin_again_after_the_last_one() -> None:
    found = Association()
    found.messages[A, 0] = 2**16 - 1
    found.say(A, 0, b"GET /a HTTP/1.1\r\nHo")
    found.say(A, 0, b"st: a\r\n\r\n")
    (row,) = run_packets(found.end())["httplog"]
    assert (row["host"], row["request_complete"], row["request_error"]) == ("a", True, None)


def test_messages_without_an_order_are_counted() -> None:
    found = Association()
    found.say(A, 0, HTTP[0][1], unordered=True)
    found.say(A, 0, b"\1\2\3 another protocol", unordered=True)
    logs = run_packets(found.end())
    assert logs["httplog"] == logs["filelog"] == []
    assert logs.reports["http_sctp_unordered"] == logs.reports["file_sctp_unordered"] == 1


def test_bounds() -> None:
    """Streams and connections are charged to `memory`, and limited by `connections`."""
    found = Association()
    for stream in range(0, 2**16, 64):
        found.say(A, stream, HTTP[0][1])
    logs = run_packets(found.end(), ",memory=100000,connections=20")
    reports = logs.reports
    assert reports["http_no_memory"] and reports["file_no_memory"] and reports["tls_no_memory"]
    assert reports["http_connections_left_out"] and len(logs["httplog"]) <= 20
    assert run_packets(found.frames, ",memory=1000")["httplog"] == []


def test_without_memory_for_a_stream_the_others_are_read() -> None:
    found = Association()
    found.say(A, 0, HTTP[0][1])
    found.say(B, 0, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    for stream in range(256, 2**16, 256):
        found.say(A, stream, b"x")
    found.say(B, 0, b"cd")
    logs = run_packets(found.end(), ",memory=400000")
    assert logs.reports["http_no_memory"] and logs.reports["file_no_memory"]
    assert [(row["request"], row["status"], row["response_body"]) for row in logs["httplog"]] == [(True, 200, 4)]
    assert [(row["length"], row["complete"]) for row in logs["filelog"]] == [(4, True)]


def test_an_association_leaves_room_for_other_connections() -> None:
    """One with more streams than are read of it, all of one direction, before connections of TCP."""
    found = Association()
    for stream in range(1200):
        found.say(A, stream, b"x")
    tcp = [frame for place, talk in enumerate(CARRIED) for frame in connection(talk, port=8000 + place)]
    logs = run_packets([*found.frames, *tcp], ",connections=1100")
    assert said(logs) == over_tcp(CARRIED)
    assert {logs.reports[f"{log}_connections_left_out"] for log in ("http", "file", "tls")} == {1200 - 1024}


def test_streams_that_are_over_make_room_for_others() -> None:
    found = Association()
    for stream in range(1200):
        for src in (A, B):
            found.say(src, stream, b"\1 no HTTP, and no TLS" * 20)
    found.say(A, 1200, HTTP[0][1])
    logs = run_packets(found.end(), ",search=256")
    assert len(logs["httplog"]) == 1
    assert not [name for name in logs.reports if name.endswith("connections_left_out")]


def test_a_captured_browser() -> None:
    rows = run(lambda box: box.run(WEB))
    paths = ["/", "/images/CPL@KOREN_logo_menu.gif", "/images/protocols_small.gif"]
    assert [row["path"] for row in sorted(rows["httplog"], key=lambda row: str(row["ts"]))] == paths
    assert all(row["status"] == 200 and row["response_length"] == row["response_body"] for row in rows["httplog"])
    assert sorted((row["name"], row["length"], row["complete"]) for row in rows["filelog"] if row["name"]) == [
        ("CPL@KOREN_logo_menu.gif", 12800, True), ("protocols_small.gif", 19071, True),
    ]  # fmt: skip


def test_the_example_shows_the_rows_of_its_logs() -> None:
    logs = run(lambda box: box.run(EXAMPLE / "capture.pcap"))
    found = [row for log in ("httplog", "filelog", "sctplog") for row in logs[log]]
    if os.environ.get("SLUICE_UPDATE_GOLDEN"):
        (EXAMPLE / "expected.jsonl").write_text("".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in found))
    expected = [json.loads(line) for line in (EXAMPLE / "expected.jsonl").read_text().splitlines()]
    for row in (*expected, *found):
        for name in ("magic", "type") if row["log"] == "file" else ():  # of libmagic, whose versions differ
            del row[name]
    assert found == expected


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which rows are compared")
def test_requests_are_those_that_tshark_shows(tmp_path: Path) -> None:
    plain: Talk = [each for page in (b"/a", b"/b") for each in ((">", b"GET %s HTTP/1.1\r\n\r\n" % page), EMPTY)]
    (tmp_path / "in.pcap").write_bytes(pcap(association([plain, plain])))
    for capture in (WEB, tmp_path / "in.pcap"):
        names = ("http.request.uri", "http.response.code")
        packets = list(fields_of(capture, names, "-d", "sctp.port==36412,http"))
        requests = sorted(uri for packet in packets for uri in packet["http.request.uri"])
        rows = run(lambda box, capture=capture: box.run(capture))["httplog"]
        assert requests and requests == sorted(row["path"] for row in rows)
