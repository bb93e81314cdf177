"""HTTP/2 to backends: streams of one connection, and backends that refuse, go away, hang, break off, or send garbage
(for real servers see test_http2_servers.py).
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time

import pytest

from sluice.cli.main import main
from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.frames import frame, literal, needs_http2
from tests.service.h2_backend import (
    ASKED,
    INTERNAL_ERROR,
    REFUSED_STREAM,
    UPLINKS,
    Connection,
    answer,
    at_once,
    get,
    goaway,
    h2_backend,
    plain,
    setting,
    window,
)
from tests.service.peers import PATIENCE, Served, faults, free_port, read_exactly, read_to_end, reset
from tests.service.web import GET, head_of
from tests.support.bounded import until

pytestmark = needs_http2

FAILOVER, WEB, CACHE = load_file("http_failover"), load_file("http_round_robin"), load_file("http_cache")
STEADY = Limits(down=0)
REPEATED = "requests of HTTP/2 sent again: the backend had not processed them"
GIVEN_UP = "streams of HTTP/2 to backends that did not end well"


def test_requests_of_many_clients_are_streams_of_one_connection() -> None:
    def opened(connection: Connection, _: int) -> None:
        if len(connection.streams) == 30:  # the first one is answered last
            connection.send(*[answer(stream, b"%d" % stream) for stream in reversed(connection.streams)])

    with h2_backend(opened) as (backend, port), Served(WEB, [plain(port)]) as served:
        found: list[bytes] = []
        at_once(30, lambda _: found.append(get(served)[1]))
        assert sorted(map(int, found)) == list(range(1, 61, 2))
        counters = served.stop()
    assert len(backend.connections) == counters[UPLINKS] == 1 and counters[ASKED] == 30 and not faults(counters)


def test_more_streams_than_a_backend_allows_open_more_connections() -> None:
    def opened(connection: Connection, stream: int) -> None:
        if backend.requests == 1 or backend.requests > 5:
            connection.send(answer(stream))
        elif backend.requests == 5:  # after two of each connection
            for each in backend.connections:
                each.send(*[answer(waiting) for waiting in each.streams if each is not first or waiting > 1])

    with h2_backend(opened, setting((3, 2))) as (backend, port), Served(WEB, [plain(port)]) as served:
        assert get(served) == (200, b"ok")
        first = backend.connections[0]
        at_once(6, lambda _: get(served))
        counters = served.stop()
    assert len(backend.connections) == counters[UPLINKS] >= 2 and backend.requests == 7 and not faults(counters)


def test_requests_that_come_at_once_open_more_connections() -> None:
    """The service finds all of them in one turn, when none has taken its place yet."""
    held: list[tuple[Connection, int]] = []

    def opened(connection: Connection, stream: int) -> None:
        held.append((connection, stream))
        if backend.requests == 1:
            connection.send(answer(stream))

    with contextlib.ExitStack() as stack:
        backend, port = stack.enter_context(h2_backend(opened, setting((3, 1))))
        served = stack.enter_context(Served(WEB, [plain(port)]))
        assert get(served) == (200, b"ok")
        clients = [stack.enter_context(served.connect()) for _ in range(6)]
        served.pause(0.1, lambda: [each.sendall(GET) for each in clients])
        until(lambda: len(backend.connections) > 1 and len(held) > 2)
        for number in range(1, 7):
            until(lambda number=number: len(held) > number)
            held[number][0].send(answer(held[number][1]))
        for each in clients:
            assert head_of(each).startswith(b"HTTP/1.1 200 OK")
        counters = served.stop()
    assert len(backend.connections) == counters[UPLINKS] > 1 and counters[ASKED] == 7 and not faults(counters)


def test_requests_whose_clients_leave_are_not_sent_to_a_busy_backend() -> None:
    answers = True

    def opened(connection: Connection, stream: int) -> None:
        if answers:
            connection.send(answer(stream))

    with contextlib.ExitStack() as stack:
        backend, port = stack.enter_context(h2_backend(opened, setting((3, 1))))
        served = stack.enter_context(Served(WEB, [plain(port)]))
        assert get(served) == (200, b"ok")
        answers, first = False, backend.connections[0]
        clients: list[socket.socket] = []
        while len(backend.connections) < 8 or len(clients) < 16:  # each connection has a stream, and others wait
            seen = backend.requests
            clients.append(stack.enter_context(served.connect()))
            clients[-1].sendall(GET)
            if len(clients) < 9:
                until(lambda: backend.requests > seen)  # noqa: B023
        open_now = 8 + 3 * len(clients)  # with the pair of sockets of each
        until(lambda: served.open_connections() == open_now)
        leaving = [served.connect() for _ in range(40)]
        for each in leaving:
            each.sendall(GET)
        until(lambda: served.open_connections() >= open_now + 120)
        for each in leaving:
            reset(each)  # one that only ends its output still reads
        until(lambda: served.open_connections() <= open_now)
        held = [(each, each.streams[each is first :]) for each in backend.connections]
        answers = True
        for each, streams in held:
            each.send(*[answer(stream) for stream in streams])
        for each in clients:
            assert head_of(each).startswith(b"HTTP/1.1 200 OK")
        counters = served.stop()
    assert counters[ASKED] == backend.requests == 1 + len(clients)
    assert counters["requests of HTTP/2 to backends that waited for room for a stream"] >= 40
    assert len(backend.connections) == 8


def test_what_a_response_of_http_2_is_in_http_1() -> None:
    informed = frame(1, 4, 1, literal(b":status", b"103") + literal(b"link", b"x"))
    cases = [
        (b"GET", lambda s: informed + answer(s, b"body", 200, (b"content-length", b"4"), (b"x-a", b"1")), b"body"),
        (b"GET", lambda s: answer(s, b"", 200), b""),
        (b"GET", lambda s: answer(s, None, 404), b""),
        (b"GET", lambda s: answer(s, None, 204), None),
        (b"GET", lambda s: answer(s, None, 304, (b"content-length", b"9")), None),
        (b"HEAD", lambda s: answer(s, None, 200, (b"content-length", b"9")), None),
        (b"HEAD", lambda s: answer(s, b"", 200), None),
        (b"GET", lambda s: answer(s)[:-11] + frame(0, 0, s, b"ok") + frame(1, 5, s, literal(b"x-t", b"1")), b"ok"),
    ]  # fmt: skip

    def opened(connection: Connection, stream: int) -> None:
        connection.send(cases[stream // 2][1](stream))

    with h2_backend(opened) as (_, port), Served(WEB, [plain(port)]) as served, served.connect() as client:
        for number, (method, _, body) in enumerate(cases):
            client.sendall(method + b" / HTTP/1.1\r\nHost: a\r\n\r\n")
            head = head_of(client)
            if number == 0:
                assert head == b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
                head = head_of(client)
                assert head == b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx-a: 1\r\n\r\n"
            lengths = re.findall(rb"(?i)\r\ncontent-length: (\d+)", head)
            if body is None:
                continue
            got = b""
            if lengths:
                while len(got) < int(lengths[0]):
                    got += client.recv(int(lengths[0]) - len(got))
            else:
                while not got.endswith(b"0\r\n\r\n"):
                    got += client.recv(1)
                got = b"".join(re.findall(rb"(?s)[0-9a-f]+\r\n(.+?)\r\n", got[:-5]))
            assert got == body, number
        assert not faults(served.stop())


def test_clients_of_http_1_0_and_pipelined_requests() -> None:
    def opened(connection: Connection, stream: int) -> None:
        connection.send(answer(stream, b"x" * 30000 + b"%d" % stream))

    with h2_backend(opened) as (_, port), Served(WEB, [plain(port)]) as served:
        with served.connect() as client:
            client.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            head, _, body = read_to_end(client).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n") and body == b"x" * 30000 + b"1"
        with served.connect() as client:
            client.sendall(GET * 9 + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            got = read_to_end(client)
            assert re.findall(rb"x(\d+)\r\n", got) == [b"%d" % number for number in range(3, 23, 2)]
        assert not faults(served.stop())


@pytest.mark.parametrize("cache", [0, 4])
def test_a_body_that_is_cut_is_not_complete_for_any_client(cache: int) -> None:
    def opened(connection: Connection, stream: int) -> None:
        half = frame(1, 4, stream, literal(b":status", b"200")) + frame(0, 0, stream, b"half")
        connection.send(half)
        time.sleep(0.1)
        connection.send(frame(3, 0, stream, INTERNAL_ERROR.to_bytes(4, "big")))

    limits = Limits(down=0, cache=cache)
    with h2_backend(opened) as (_, port), Served(CACHE if cache else WEB, [plain(port)], limits) as served:
        for version in (b"1.1", b"1.0"):
            with served.connect() as client:
                client.sendall(b"GET / HTTP/%s\r\nHost: a\r\n\r\n" % version)
                got = b""
                with pytest.raises(ConnectionResetError) if version == b"1.0" else pytest.raises(EOFError):
                    while part := client.recv(1 << 16):
                        got += part
                    raise EOFError
                assert b"half" in got and not got.endswith(b"0\r\n\r\n")
        assert served.stop()[GIVEN_UP] == 2


@pytest.mark.parametrize(
    "broken",
    [
        lambda c, s: c.send(frame(3, 0, s, INTERNAL_ERROR.to_bytes(4, "big"))),
        lambda c, s: c.socket.shutdown(socket.SHUT_RDWR),
        lambda c, s: c.send(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9),
        lambda c, s: c.send(frame(1, 4, s, b"\xff\xff\xff\xff\xff\xff")),
        lambda c, s: c.send(answer(s, b"", 200, *[(b"a%d" % n, b"") for n in range(300)])),
        lambda c, s: c.send(answer(s, b"", 200, (b"a", b"x" * 9000), (b"b", b"x" * 7500))),
        lambda c, s: c.send(answer(s, b"", 200, (b"connection", b"close"))),
        lambda c, s: c.send(answer(s, b"more", 200, (b"content-length", b"3"))),
        lambda c, s: c.send(frame(0, 1, s, b"no head")),
        lambda c, s: c.send(frame(5, 4, s, bytes(3) + b"\x02")),
        lambda c, s: c.send(*[frame(6, 0, 0, bytes(8))] * 3000),
        lambda c, s: c.send(*[frame(1, 4, s, literal(b":status", b"103"))] * 20),
        lambda c, s: c.send(goaway(0, 2)),
        lambda c, s: None,
    ],
)
def test_a_backend_that_breaks_its_protocol_or_hangs_is_answered_with_an_error(broken: object) -> None:
    def opened(connection: Connection, stream: int) -> None:
        assert callable(broken)
        broken(connection, stream) if backend.requests == 1 else connection.send(answer(stream))

    limits = Limits(down=0, timeout=1)
    with h2_backend(opened) as (backend, port), Served(FAILOVER, [plain(port)], limits) as served:
        with contextlib.suppress(http.client.HTTPException):  # a part of the answer has passed before
            assert get(served, "/", "POST", b"once")[0] in (103, 502, 504)
        assert get(served) == (200, b"ok")
        served.stop()


def test_a_backend_that_cannot_be_connected() -> None:
    with h2_backend(lambda connection, stream: connection.send(answer(stream))) as (_, port):
        chosen = [plain(free_port()), plain(port)]
        with Served(FAILOVER, chosen, Limits(down=60)) as served:
            assert all(get(served) == (200, b"ok") for _ in range(6))
            counters = served.stop()
        assert counters["backends marked as down"] == 1
        with Served(FAILOVER, chosen[:1], STEADY) as served:
            assert get(served)[0] == 502


def test_refused_requests_are_sent_again_a_number_of_times() -> None:
    def opened(connection: Connection, stream: int) -> None:
        refuses = backend.requests in (1, 3, 4) or backend.requests > 5
        connection.send(frame(3, 0, stream, REFUSED_STREAM.to_bytes(4, "big")) if refuses else answer(stream))

    with h2_backend(opened) as (backend, port), Served(FAILOVER, [plain(port)], STEADY) as served:
        assert [get(served)[0] for _ in range(2)] == [200, 200]
        assert get(served, "/", "POST", b"")[0] == get(served, "/", "POST", b"body")[0] == 502
        counters = served.stop()
    assert counters[REPEATED] == 3 + 16 and counters[GIVEN_UP] == 2 and backend.requests == 5 + 17 + 1


def test_requests_that_a_backend_has_not_seen_before_it_goes_away_are_sent_again() -> None:
    def opened(connection: Connection, stream: int) -> None:
        if len(backend.connections) > 1:
            connection.send(answer(stream))
        elif len(connection.streams) == 10:
            connection.send(goaway(9), *[answer(number) for number in range(1, 11, 2)])

    with h2_backend(opened) as (backend, port), Served(WEB, [plain(port)], STEADY) as served:
        at_once(10, lambda _: get(served))
        counters = served.stop()
    assert [len(each.streams) for each in backend.connections] == [10, 5]
    assert counters[REPEATED] == 5 and not faults(counters)


def test_connections_that_end_in_the_turn_that_gives_a_stream_up() -> None:
    def opened(connection: Connection, stream: int) -> None:
        bad = len(backend.connections) % 2
        fields = [(b"a%d" % number, b"") for number in range(300 if bad else 0)]
        connection.send(answer(stream, b"ok", 200, *fields) + goaway(stream))

    def several(_: int) -> None:
        for _number in range(20):
            assert get(served)[0] in (200, 502)  # both attempts can fail

    with h2_backend(opened) as (backend, port), Served(FAILOVER, [plain(port)] * 3, STEADY) as served:
        at_once(8, several)
        counters = served.stop()
    assert counters[GIVEN_UP] > 20


def test_a_response_that_has_come_before_a_reset_is_complete() -> None:
    stopped = threading.Event()

    def opened(connection: Connection, stream: int) -> None:
        stopped.wait(PATIENCE)
        time.sleep(0.1)
        connection.send(answer(stream))
        reset(connection.socket)

    with h2_backend(opened) as (backend, port), Served(WEB, [plain(port)], STEADY) as served:
        with served.connect() as client:
            client.sendall(GET)
            until(lambda: backend.requests == 1)
            time.sleep(0.1)  # it has read all that comes before
            stopped.set()
            served.pause(0.5)
            assert head_of(client).startswith(b"HTTP/1.1 200")
            assert read_exactly(client, 12) == b"2\r\nok\r\n0\r\n\r\n"
        served.stop()


def test_connections_that_only_end_their_streams_are_in_the_way_of_no_other_one() -> None:
    def opened(connection: Connection, stream: int) -> None:
        if len(backend.connections) > 9:
            connection.send(answer(stream))
        elif stream == 1:
            connection.send(goaway(1))

    with h2_backend(opened) as (backend, port), Served(WEB, [plain(port)], STEADY) as served:
        slow: list[socket.socket] = []
        for number in range(1, 10):
            slow.append(served.connect())
            slow[-1].sendall(GET)
            until(lambda number=number: len(backend.connections) == number and backend.connections[-1].streams)
        assert get(served) == (200, b"ok")
        for each in backend.connections[:9]:
            each.send(answer(1))
        for each in slow:
            assert head_of(each).startswith(b"HTTP/1.1 200") and read_exactly(each, 12) == b"2\r\nok\r\n0\r\n\r\n"
            each.close()
        assert not faults(served.stop())


def test_slow_clients_hold_up_no_other_one_and_hold_a_buffer_each() -> None:
    def opened(connection: Connection, stream: int) -> None:
        if stream <= 161:
            head = frame(1, 4, stream, literal(b":status", b"200"))
            connection.send(head, frame(0, 0, stream, bytes(8192)), frame(0, 0, stream, bytes(8192)))
        else:
            connection.send(answer(stream))

    with h2_backend(opened) as (backend, port), Served(WEB, [plain(port)]) as served:
        slow = [served.connect() for _ in range(81)]  # together more than the window of the connection
        for each in slow:
            each.sendall(GET)
        until(lambda: backend.requests == 81)
        assert get(served) == (200, b"ok")
        for each in slow:
            each.close()
        served.stop()
    assert len(backend.connections) == 1


def test_a_client_that_leaves_resets_its_stream() -> None:
    with h2_backend(lambda connection, stream: None) as (backend, port), Served(WEB, [plain(port)]) as served:
        client = served.connect()
        client.sendall(GET)
        until(lambda: backend.requests == 1)
        reset(client)
        until(lambda: backend.connections[0].reset)
        assert backend.connections[0].reset == {1: 8}, "CANCEL"
        served.stop()


def test_an_upload_waits_for_the_window_of_its_stream() -> None:
    def opened(connection: Connection, stream: int) -> None:
        if stream == 3:
            connection.send(answer(stream), window(1, 1 << 20))

    with h2_backend(opened) as (backend, port), Served(WEB, [plain(port)]) as served:
        client = served.connect()
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + bytes(200000))
        until(lambda: len(backend.connections) == 1 and len(backend.connections[0].data.get(1, b"")) == 65535)
        assert get(served) == (200, b"ok")
        until(lambda: len(backend.connections[0].data[1]) == 200000)
        until(lambda: 1 in backend.connections[0].ended)
        backend.connections[0].send(answer(1, None, 201))
        assert b"201" in head_of(client)
        client.close()
        assert not faults(served.stop())


def test_responses_are_cached_and_health_is_checked() -> None:
    def opened(connection: Connection, stream: int) -> None:
        status = 503 if backend.requests < 3 else 200
        connection.send(answer(stream, b"page", status, (b"cache-control", b"max-age=60")))

    limits = Limits(cache=4, health=1, health_path="/h", health_fall=1, health_rise=1)
    with h2_backend(opened) as (backend, port), Served(CACHE, [plain(port)], limits) as served:
        until(lambda: backend.requests >= 3)
        assert [get(served) for _ in range(3)] == [(200, b"page")] * 3
        counters = served.stop()
        assert counters["health checks that failed"] == 2 and counters["cache: responses from the cache"] >= 2
        assert "status 503" in served.errors() and "is up" in served.errors()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["http_round_robin", "--backend-proxy", "1"], "a connection of HTTP/2 to a backend has requests of several"),
        (["http_round_robin", "--buffer-size", "4096"], "at least 16384 bytes with backends of HTTP/2"),
        (["memcached_router"], "this service does not use HTTP"),
    ],
)
def test_wrong_usage(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *options, "--listen", "127.0.0.1:0", "--backends", "h2c://127.0.0.1:1"]) == 2
    assert message in capsys.readouterr().err


def test_memory_has_the_connections_to_backends(capsys: pytest.CaptureFixture[str]) -> None:
    found: list[int] = []
    for scheme in ("", "h2c://"):
        assert main(["serve", "http_round_robin", "--check", "--backends", f"{scheme}127.0.0.1:1"]) == 0
        found += [
            int(each.replace(",", "")) for each in re.findall(r"at most ([\d,]+)\n", capsys.readouterr().out)[-1:]
        ]
    assert len(found) == 2 and found[1] > found[0] + (64 << 20)
