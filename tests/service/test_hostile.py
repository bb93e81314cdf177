"""Hostile clients and backends, all at once and next to good traffic: each has a bound and a counter, and each good
request has its own answer.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.peers import PATIENCE, Served, accepting, faults, read_exactly, read_to_end, reset
from tests.service.web import GET, HEAD, head_of
from tests.support.bounded import joined

WEB = load_file("http_round_robin")
POST = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
SLOW, IDLE = "faults: a message did not arrive in time", "faults: nothing happened for the idle time"
SLOW_BODY = "faults: the rest of a message did not pass fast enough"
MALFORMED, TRUNCATED = "faults: malformed message", "faults: a connection ended within a message"
LARGE, RESET = "faults: message larger than a buffer", "faults: connection reset"
INTERIM = "faults: a backend sent too many interim responses to a request"
SILENT, CLOSED = "faults: a backend did not answer in time", "faults: a backend closed while answers were due"


@contextlib.contextmanager
def good_traffic(served: Served) -> Iterator[list[int]]:
    """Requests, one after the other, each of which has to have its own answer; the number of them, when it is over."""
    done, answered, wrong = threading.Event(), [0], list[object]()

    def ask() -> None:
        try:
            with served.connect() as client:
                while not done.is_set():
                    name = b"good-%d" % answered[0]
                    client.sendall(GET.replace(b"/", b"/" + name, 1))
                    assert head_of(client) == HEAD % len(name)
                    assert read_exactly(client, len(name)) == name
                    answered[0] += 1
                    time.sleep(0.002)
        except Exception as error:
            wrong.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield answered
    finally:
        done.set()
        joined(thread)
    assert not wrong and answered[0] > 10


def give_name(end: socket.socket, name: bytes) -> None:
    end.sendall(HEAD % len(name) + name)


def send_until_the_end(client: socket.socket, first: bytes, again: bytes, pause: float = 0) -> None:
    """Sends the second text again and again, until the other side ends the connection."""
    deadline = time.monotonic() + 3 * PATIENCE
    with contextlib.suppress(OSError):
        client.sendall(first)
        while time.monotonic() < deadline:
            client.sendall(again)
            time.sleep(pause)
    assert time.monotonic() < deadline, again


def then_wait(client: socket.socket, sent: bytes, shut: bool = False) -> None:
    client.sendall(sent)
    if shut:
        client.shutdown(socket.SHUT_WR)
    assert read_to_end(client) == b""


CLIENTS: list[tuple[Callable[[socket.socket], object], str | None]] = [
    (lambda client: send_until_the_end(client, b"GET / HTTP/1.1\r\nA: ", b"a", 0.1), SLOW),
    (lambda client: send_until_the_end(client, b"GET / HTTP/1.1\r\n", b"A: b\r\n", 0.1), SLOW),
    (lambda client: then_wait(client, b""), IDLE),
    (lambda client: then_wait(client, b"GET / HT", shut=True), TRUNCATED),
    (lambda client: then_wait(client, POST + b"5\r\nabc", shut=True), TRUNCATED),
    (lambda client: send_until_the_end(client, b"GET / HTTP/1.1\r\n", 100 * b"Some: header\r\n"), LARGE),
    (lambda client: send_until_the_end(client, POST, b"8000\r\n" + 0x8000 * b"x" + b"\r\n"), MALFORMED),
    (lambda client: send_until_the_end(client, POST + b"0\r\n", 8000 * b"A: trailer\r\n"), MALFORMED),
    (lambda client: send_until_the_end(client, POST, b"1;" + 5000 * b"x"), MALFORMED),
    (lambda client: send_until_the_end(client, POST, b"1\r\nx\r\n", 0.1), SLOW_BODY),
    (reset, None),
]
"""What a client does, and the fault that is counted; the last one resets its connection at once."""


def test_hostile_clients_next_to_good_traffic() -> None:
    limits = Limits(message_time=1, body_time=1, body_rate=1000, idle=3, body=64)
    with named_server(give_name) as port, Served(WEB, [port], limits) as served:
        with good_traffic(served) as answered, contextlib.ExitStack() as stack:
            threads: list[threading.Thread] = []
            for act, _ in CLIENTS:
                client = stack.enter_context(served.connect())
                threads.append(threading.Thread(target=act, args=(client,), daemon=True))
            for each in threads:
                each.start()
            joined(*threads)
        assert served.memory() < 100 << 20
        counters = served.stop()
    expected: dict[str, int] = {}
    for _, reason in CLIENTS:
        if reason is not None:
            expected[reason] = expected.get(reason, 0) + 1
    found = faults(counters)
    assert found.pop(RESET, 0) <= 1
    assert found == expected
    assert counters["connections accepted"] == len(CLIENTS) + 1
    assert counters["messages received"] >= 2 * answered[0]


@contextlib.contextmanager
def named_server(answer: Callable[[socket.socket, bytes], object]) -> Iterator[int]:
    """A server that calls `answer` with the name in the path of a GET, and reads what follows the head of a POST."""

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError, AssertionError):
            accepted.settimeout(3 * PATIENCE)
            while True:
                head = head_of(accepted)
                if head.startswith(b"POST"):
                    while accepted.recv(1 << 20):
                        pass
                    return
                answer(accepted, head.split()[1][1:])

    with accepting(one) as port:
        yield port


def drop(end: socket.socket, first: bytes) -> None:
    end.sendall(first)
    time.sleep(0.2)  # a reset drops what was not read before
    reset(end)


def send_then_close(end: socket.socket, first: bytes) -> None:
    end.sendall(first)
    end.shutdown(socket.SHUT_RDWR)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"8000\r\n" + 0x8000 * b"x" + b"\r\n"
BACKENDS: dict[bytes, tuple[Callable[[socket.socket], object], str]] = {
    b"dies": (lambda end: drop(end, HEAD % 1000 + b"half"), RESET),
    b"resets": (lambda end: drop(end, b""), RESET),
    b"hangs": (lambda end: end.recv(1), SILENT),
    b"hangs-within": (lambda end: (end.sendall(HEAD % 1000 + b"half"), end.recv(1)), SILENT),
    b"closes": (lambda end: send_then_close(end, b""), CLOSED),
    b"half-a-head": (lambda end: send_then_close(end, b"HTTP/1.1 200"), TRUNCATED),
    b"half-a-body": (lambda end: send_then_close(end, HEAD % 1000 + b"half"), TRUNCATED),
    b"half-a-chunk": (lambda end: send_then_close(end, CHUNKED + b"5\r\nabc"), TRUNCATED),
    b"garbage": (lambda end: end.sendall(bytes(range(256))), MALFORMED),
    b"two-lengths": (lambda end: end.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + HEAD[17:] % 2), MALFORMED),
    b"huge-head": (lambda end: send_until_the_end(end, b"HTTP/1.1 200 OK\r\n", 100 * b"Some: field\r\n"), LARGE),
    b"endless-chunks": (lambda end: send_until_the_end(end, CHUNKED, CHUNK), MALFORMED),
    b"only-continues": (lambda end: send_until_the_end(end, b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02), INTERIM),
}
"""What a backend does with a request of such a name, and the fault that is counted."""


def test_hostile_backends_next_to_good_traffic() -> None:
    def answer(end: socket.socket, name: bytes) -> None:
        if name in BACKENDS:
            BACKENDS[name][0](end)
        else:
            end.sendall(HEAD % len(name) + name)

    def ask(served: Served, name: bytes) -> None:
        with served.connect() as client:
            client.settimeout(3 * PATIENCE)
            client.sendall(GET.replace(b"/", b"/" + name, 1))
            while client.recv(1 << 20):
                pass

    def quietly(served: Served, name: bytes) -> None:
        with contextlib.suppress(ConnectionResetError):
            ask(served, name)

    with named_server(answer) as port, Served(WEB, [port], Limits(timeout=2, down=0, body=64)) as served:
        with good_traffic(served) as answered:
            threads = [threading.Thread(target=quietly, args=(served, name), daemon=True) for name in BACKENDS]
            for each in threads:
                each.start()
            joined(*threads)
        counters = served.stop()
    expected: dict[str, int] = {}
    for _, reason in BACKENDS.values():
        expected[reason] = expected.get(reason, 0) + 1
    assert faults(counters) == expected
    assert counters["messages received"] >= 2 * answered[0] + len(BACKENDS)


def test_a_body_cut_by_a_reset_is_not_complete_for_its_client() -> None:
    def answer(end: socket.socket, name: bytes) -> None:
        drop(end, (CHUNKED + b"4\r\nhalf\r\n") if name == b"chunks" else b"HTTP/1.1 200 OK\r\n\r\nhalf")

    with named_server(answer) as port, Served(WEB, [port], Limits(down=0)) as served:
        for name in (b"chunks", b"to-the-end"):
            with served.connect() as client:
                client.sendall(GET.replace(b"/", b"/" + name, 1))
                head_of(client)
                got = b""
                try:
                    while part := client.recv(4096):
                        got += part
                    assert name == b"chunks", "only a reset says that it is not complete"
                except ConnectionResetError:
                    assert name == b"to-the-end"
                assert not got.endswith(b"0\r\n\r\n")
        assert faults(served.stop()) == {RESET: 2}


@pytest.mark.parametrize("service", ["http_failover", "http_tap"])
def test_too_many_interim_responses_are_a_bad_gateway_and_answer_no_later_request(service: str) -> None:
    def answer(end: socket.socket, name: bytes) -> None:
        interim = b"HTTP/1.1 100 Continue\r\n\r\n" * (16 if name == b"good" else 17)
        end.sendall(interim + HEAD % len(name) + name)

    with named_server(answer) as port, Served(load_file(service), [port], Limits(down=0)) as served:
        with served.connect() as client:
            for name, status in ((b"good", b"200"), (b"many", b"502"), (b"good", b"200"), (b"many", b"502")):
                client.sendall(GET.replace(b"/", b"/" + name, 1))
                head, count = head_of(client), 0
                while head.split()[1] == b"100":
                    head, count = head_of(client), count + 1
                assert head.split()[1] == status and count % 16 == 0
                assert status == b"502" or read_exactly(client, 4) == b"good"
        assert not set(faults(counters := served.stop())) - {INTERIM, "faults handled by the program"}
    attempts = 2 if service == "http_failover" else 1
    assert counters["faults handled by the program"] == 2 * attempts


def test_no_request_is_answered_twice() -> None:
    def answer(end: socket.socket, name: bytes) -> None:
        end.sendall(2 * (HEAD % len(name) + name))

    with named_server(answer) as port, Served(WEB, [port]) as served:
        with served.connect() as client:
            for name in (b"first", b"second", b"third"):
                client.sendall(GET.replace(b"/", b"/" + name, 1))
                assert head_of(client) == HEAD % len(name)
                assert read_exactly(client, len(name)) == name
                client.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    assert client.recv(1) == b"nothing"
                client.settimeout(PATIENCE)
        counters = served.stop()
    assert not faults(counters)
    assert counters["connections to backends closed: bytes came while no answer was due"] == 3
    assert counters["connections to backends"] == 3
