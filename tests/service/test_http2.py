"""HTTP/2 of clients: curl and h2load as real peers, messages of any size, and hostile frames next to good traffic."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.service.bounds import Limits
from sluice.service.load import load_file
from sluice.service.serve import Tls, read_networks
from tests.service.certificates import make_certificate, needs_tls
from tests.service.frames import PREFACE, Client, frame, needs_http2, request
from tests.service.peers import PATIENCE, Served, accepting, faults, read_to_end, reset
from tests.service.web import BODY, HEAD, give_body, origin

pytestmark = needs_http2

WEB = load_file("http_round_robin")
ON = Limits(http2=100)
REQUESTS = "requests of HTTP/2"
UNANSWERED = "streams of HTTP/2 reset: the program gave no answer, or a part of one"
BROKEN = "faults: a connection of HTTP/2 that breaks its protocol"
FLOOD = "faults: a connection of HTTP/2 with too many frames that bring nothing"
needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None
    or "HTTP2" not in subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout,
    reason="there is no curl with HTTP/2",
)
needs_h2load = pytest.mark.skipif(shutil.which("h2load") is None, reason="there is no h2load (nghttp2-client)")


def curl(*options: str) -> bytes:
    command = ["curl", "-sS", "--max-time", "20", *options]
    return subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE * 2).stdout


def echo(accepted: socket.socket) -> None:
    """A server that answers with the head and the body of a request, in chunks as they come."""
    with accepted:
        accepted.settimeout(PATIENCE)
        got = b""
        while b"\r\n\r\n" not in got:
            got += accepted.recv(1 << 16)
        head, _, rest = got.partition(b"\r\n\r\n")
        lengths = re.findall(rb"(?i)content-length: (\d+)", head)
        body = rest
        if lengths:
            while len(body) < int(lengths[0]):
                body += accepted.recv(1 << 16)
        elif b"chunked" in head.lower():
            while not body.endswith(b"0\r\n\r\n"):
                body += accepted.recv(1 << 16)
        text = head + b"\n\n" + body
        accepted.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Upper: 1\r\nConnection: close\r\n\r\n")
        for at in range(0, len(text), 5000):
            part = text[at : at + 5000]
            accepted.sendall(b"%x;x=y\r\n%s\r\n" % (len(part), part))
        accepted.sendall(b"0\r\nTrailer: dropped\r\n\r\n")


@needs_curl
def test_curl_by_prior_knowledge_and_http_1_at_the_same_port() -> None:
    with origin(give_body) as port, Served(WEB, [port], ON) as served:
        url = f"http://127.0.0.1:{served.port}/"
        for option, version in (("--http2-prior-knowledge", b"2"), ("--http1.1", b"1.1")):
            assert curl(option, "-w", "%{http_version}", url) == BODY + version
        counters = served.stop()
    assert counters["connections of HTTP/2"] == counters[REQUESTS] == 1 and not faults(counters)


@needs_curl
def test_a_request_is_one_of_http_1_for_the_backend(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(BODY[:300_000])
    with accepting(echo) as port, Served(WEB, [port], ON) as served:
        url = f"http://127.0.0.1:{served.port}/a/b?c"
        option = "--http2-prior-knowledge"
        got = curl(option, "-i", "-H", "Cookie: a=1", "-A", "t", url)
        assert b"x-upper: 1\r\n" in got and b"connection" not in got.partition(b"\r\n\r\n")[0]
        assert got.partition(b"\r\n\r\n")[2] == (
            b"GET /a/b?c HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nuser-agent: t\r\naccept: */*\r\nCookie: a=1\n\n"
            % served.port
        )
        got = curl(option, "--data-binary", f"@{tmp_path / 'body'}", url)
        assert got.endswith(BODY[:300_000]) and b"content-length: 300000\r\n" in got
        got = curl(option, "-H", "Content-Length:", "-T", str(tmp_path / "body"), url)
        assert got.startswith(b"PUT ") and b"Transfer-Encoding: chunked" in got and got.endswith(b"0\r\n\r\n")
        assert curl(option, "-I", url).startswith(b"HTTP/2 200")
        assert not faults(served.stop())


@needs_curl
@needs_tls
def test_curl_by_alpn_with_a_proxy_header_and_an_access_log(tmp_path: Path) -> None:
    chain, key = make_certificate(tmp_path, "localhost")
    log = tmp_path / "log"
    tls = Tls(((chain, key),), ("h2", "http/1.1"))
    limits = Limits(http2=100, access_log=str(log), access_log_format="$remote_addr $request $status $body_bytes_sent")
    networks = read_networks("127.0.0.1")
    with origin(give_body) as port, Served(WEB, [port], limits, tls, networks) as served:
        url = f"https://localhost:{served.port}/x"
        for option, version in (("--http2", b"2"), ("--http1.1", b"1.1")):
            got = curl(option, "--cacert", chain, "--haproxy-protocol", "-4", "-w", "%{http_version}", url)
            assert got == BODY + version
        counters = served.stop()
    assert counters["connections with a PROXY header"] == 2 and not faults(counters)
    assert log.read_text().splitlines() == [f"127.0.0.1 GET /x HTTP/1.1 200 {len(BODY)}"] * 2


@needs_h2load
@pytest.mark.parametrize("events", ["epoll", pytest.param("io_uring", marks=pytest.mark.slow_matrix)])
def test_h2load_with_many_streams(events: str) -> None:
    limits = Limits(http2=50, workers=2, events=events)
    answer = HEAD % 5 + b"hello"
    with origin(lambda end, _: end.sendall(answer)) as port, Served(WEB, [port], limits) as served:
        command = ["h2load", "-n", "3000", "-c", "4", "-m", "20", f"http://127.0.0.1:{served.port}/"]
        out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        assert "3000 succeeded, 0 failed, 0 errored" in out
        counters = served.stop()
    assert counters[REQUESTS] == 3000 and not faults(counters)


def test_a_client_that_reads_nothing_bounds_memory_and_other_streams_go_on() -> None:
    with origin(give_body) as port, Served(WEB, [port], ON) as served, Client(served.port) as client:
        client.send(request(1, window=True), request(3))
        client.read_until(lambda got: got.data.get(3))
        before = served.memory()
        for stream in range(5, 21, 2):
            client.send(request(stream))
        time.sleep(0.3)
        assert served.memory() - before < 8 * (1 << 20)
        for stream in range(3, 21, 2):
            client.send(frame(8, 0, stream, (1 << 24).to_bytes(4, "big")))
        client.send(frame(8, 0, 0, (1 << 30).to_bytes(4, "big")))
        client.read_until(lambda got: len(got.ended) == 9)
        assert all(client.got.data[stream] == BODY for stream in range(3, 21, 2))
        served.stop()


def test_interim_responses_and_those_without_a_body() -> None:
    heads = iter(
        [
            b"103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            b"304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        ]
    )
    with origin(lambda end, _: end.sendall(b"HTTP/1.1 " + next(heads))) as port, Served(WEB, [port], ON) as served:
        with Client(served.port) as client:
            client.send(request(1))
            client.read_until(lambda got: 1 in got.ended)
            client.send(request(3))
            client.read_until(lambda got: 3 in got.ended)
            assert client.got.heads == {1: 2, 3: 1} and not client.got.reset
        assert not faults(served.stop())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_backend_that_dies_resets_its_stream_only(answer: bytes) -> None:
    turn = iter(range(9))

    def one(end: socket.socket, _: bytes) -> None:
        end.sendall(answer if next(turn) == 0 else HEAD % 2 + b"ok")
        if next(turn) == 1:
            end.close()

    with origin(one) as port, Served(WEB, [port], ON) as served, Client(served.port) as client:
        client.send(request(1))
        client.read_until(lambda got: 1 in got.reset)
        client.send(request(3))
        client.read_until(lambda got: 3 in got.ended)
        assert client.got.data[3] == b"ok"
        assert served.stop()[UNANSWERED] == 1


def test_a_body_that_ends_with_its_connection_is_whole_only_without_a_reset() -> None:
    turn = iter(range(9))

    def one(end: socket.socket, _: bytes) -> None:
        end.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        time.sleep(0.2)  # the half has passed when the rest is missing
        if next(turn) == 0:
            reset(end)
        else:
            end.close()

    with origin(one) as port, Served(WEB, [port], ON) as served, Client(served.port) as client:
        client.send(request(1))
        client.read_until(lambda got: 1 in got.reset or 1 in got.ended)
        assert client.got.reset == {1: 2} and client.got.data[1] == b"half", "INTERNAL_ERROR"
        client.send(request(3))
        client.read_until(lambda got: 3 in got.ended)
        assert client.got.data[3] == b"half" and 3 not in client.got.reset
        assert served.stop()[UNANSWERED] == 1


def test_endless_interim_responses_of_a_backend_bound_memory_and_end_their_stream() -> None:
    informed = b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 8000 + b"\r\n\r\n"

    def one(end: socket.socket, _: bytes) -> None:
        with contextlib.suppress(OSError):
            for _count in range(10_000):
                end.sendall(informed)

    with origin(one) as port, Served(WEB, [port], ON) as served, Client(served.port) as client:
        for stream in range(1, 41, 2):
            client.send(request(stream))
        client.read_until(lambda got: len(got.reset) == 20)
        assert max(client.got.heads.values()) <= 16
        assert faults(served.stop()) == {"faults: a backend sent too many interim responses to a request": 20}


def test_a_process_that_drains_ends_its_streams_and_opens_no_more() -> None:
    def late(end: socket.socket, _: bytes) -> None:
        time.sleep(0.5)
        end.sendall(HEAD % 2 + b"ok")

    with origin(late) as port, Served(WEB, [port], ON) as served, Client(served.port) as client:
        client.send(request(1))
        time.sleep(0.2)
        served.drain()
        client.read_until(lambda got: got.goaway is not None)
        client.send(request(3))
        client.read_to_end()
        assert client.got.data == {1: b"ok"} and client.got.ended == {1}
        assert not faults(served.stop())


def post(stream: int, length: int) -> bytes:
    return request(stream, end=False, more=[(b"content-length", b"%d" % length)])


HOSTILE: list[tuple[Callable[[Client], None], str]] = [
    (lambda c: c.send(frame(0, 0, 0, b"x")), BROKEN),
    (lambda c: c.send(frame(1, 4, 2, b"\x82")), BROKEN),
    (lambda c: c.send(frame(1, 4, 1, b"\xff\xff\xff\xff\xff\xff")), BROKEN),
    (lambda c: c.send(frame(9, 4, 1, b"")), BROKEN),
    (lambda c: c.send((1 << 24).to_bytes(4, "big")[:3] + bytes(6)), BROKEN),
    (lambda c: c.send(*[frame(6, 0, 0, bytes(8))] * 3000), FLOOD),
    (lambda c: c.send(*[frame(2, 0, 1, bytes(5))] * 3000), FLOOD),
    (lambda c: c.send(*[request(n) + frame(3, 0, n, bytes(4)) for n in range(1, 2000, 2)]), FLOOD),
    (lambda c: c.send(request(1, end=False), *[frame(0, 0, 1, b"")] * 3000), FLOOD),
    (lambda c: c.send(request(1, end=False), *[frame(0, 8, 1, b"\0")] * 3000), FLOOD),
    (lambda c: c.send(*[request(n) + frame(8, 0, n, b"\x7f" + b"\xff" * 3) for n in range(1, 2000, 2)]), FLOOD),
    (lambda c: c.send(*[post(n, 0) + frame(0, 0, n, b"x") for n in range(1, 2000, 2)]), FLOOD),
    (lambda c: c.send(*[request(n, end=False) for n in range(1, 3000, 2)]), FLOOD),
]


def test_hostile_connections_end_next_to_good_traffic() -> None:
    answer = HEAD % 2 + b"ok"
    limits = Limits(http2=100, instances=4096)
    with origin(lambda end, _: end.sendall(answer)) as port, Served(WEB, [port], limits) as served:
        with Client(served.port) as good:
            for number, (attack, _) in enumerate(HOSTILE):
                with Client(served.port) as client:
                    attack(client)
                    client.read_to_end()
                good.send(request(2 * number + 1))
                good.read_until(lambda got, number=number: 2 * number + 1 in got.ended)
        counters = served.stop()
    found = faults(counters)
    assert found[BROKEN] == sum(why == BROKEN for _, why in HOSTILE)
    assert found[FLOOD] == sum(why == FLOOD for _, why in HOSTILE)


def test_bodies_that_are_dropped_leave_the_window_of_the_connection() -> None:
    with origin(lambda end, _: end.sendall(HEAD % 2 + b"ok")) as port, Served(WEB, [port], ON) as served:
        with Client(served.port) as client:
            for stream in range(1, 261, 2):
                client.send(post(stream, 1 << 16), frame(0, 0, stream, bytes(16384)), frame(3, 0, stream, bytes(4)))
            client.send(request(261))
            client.read_until(lambda got: 261 in got.ended)
            assert client.got.goaway is None
        assert set(faults(served.stop())) == {"faults: a connection ended within a message"}


def test_streams_without_a_window_are_reset_and_what_finds_no_buffer_is_refused() -> None:
    answer = HEAD % 9000 + bytes(9000)
    limits = Limits(http2=100, buffers=64, body_time=1)
    with origin(lambda end, _: end.sendall(answer)) as port, Served(WEB, [port], limits) as served:
        with Client(served.port) as client:
            client.send(frame(4, 0, 0, b"\0\4" + bytes(4)), *[request(stream) for stream in range(1, 161, 2)])
            client.read_until(lambda got: len(got.reset) == 80)
            assert set(client.got.reset.values()) == {7, 8}, "REFUSED_STREAM and CANCEL"
            assert len(client.got.heads) == list(client.got.reset.values()).count(8)
            client.send(frame(4, 0, 0, b"\0\4\0\0\xff\xff"), request(161))
            client.read_until(lambda got: 161 in got.ended)
        counters = served.stop()
    refused = counters["requests of HTTP/2 refused: all instances, buffers or memory were in use"]
    assert refused + counters["faults: a connection did not take fast enough what was sent"] == 80


def test_a_head_of_a_response_is_as_large_as_a_buffer() -> None:
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(100))
    answer = b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 2\r\n\r\nok"
    limits = Limits(http2=100, buffer_size=1 << 18)
    with origin(lambda end, _: end.sendall(answer)) as port, Served(WEB, [port], limits) as served:
        with Client(served.port) as client:
            client.send(request(1))
            client.read_until(lambda got: 1 in got.ended)
            assert client.got.data == {1: b"ok"}
        assert not faults(served.stop())


def test_heads_that_are_too_large_or_no_head_of_http_1_are_refused() -> None:
    with origin(lambda end, _: end.sendall(HEAD % 2 + b"ok")) as port, Served(WEB, [port], ON) as served:
        with Client(served.port) as client:
            client.send(request(1, path=b"/" + b"x" * 15000, more=[(b"a", b"y" * 1500)]))
            client.send(request(3, more=[(b"a%d" % n, b"") for n in range(300)]))
            client.send(request(5, path=b"/a b"))
            client.send(request(7, more=[(b"transfer-encoding", b"chunked")]))
            client.send(request(9))
            client.read_until(lambda got: len(got.ended) + len(got.reset) >= 5)
            assert 9 in client.got.ended and client.got.data[9] == b"ok"
            assert all(not client.got.data.get(stream) for stream in (1, 3, 5, 7))
        counters = served.stop()
    assert counters[REQUESTS] == 1


def test_streams_beyond_the_instances_are_refused_and_slow_beginnings_end() -> None:
    limits = Limits(http2=100, instances=6, message_time=1)
    with accepting(lambda end: time.sleep(PATIENCE)) as port, Served(WEB, [port], limits) as served:
        with served.connect() as slow, served.connect() as half, Client(served.port) as client:
            slow.sendall(PREFACE[:10])
            half.sendall(PREFACE + frame(4, 0, 0, b"") + frame(1, 0, 1, b"\x82"))
            client.send(*[request(stream) for stream in range(1, 21, 2)])
            client.read_until(lambda got: len(got.reset) >= 7)
            assert read_to_end(slow) == b""
            read_to_end(half)
        counters = served.stop()
    assert counters["requests of HTTP/2 refused: all instances, buffers or memory were in use"] >= 7
    assert counters["faults: a message did not arrive in time"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["http_round_robin", "--http2", "1001"], "--http2 1001: at most 1000 streams"),
        (["http_round_robin", "--http2", "1", "--buffer-size", "4096"], "at least 16384 bytes with --http2"),
        (["memcached_router", "--http2", "1"], "the clients of this service do not use HTTP"),
    ],
)
def test_wrong_usage(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *options, "--listen", "127.0.0.1:0", "--backends", "127.0.0.1:1"]) == 2
    assert message in capsys.readouterr().err
