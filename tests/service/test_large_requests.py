"""Requests that are larger than a buffer, and clients that go on sending after a malformed one."""

from __future__ import annotations

import contextlib
import http.client
import socket

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import load_file, load_source
from tests.service.peers import PATIENCE, Served, accepting, faults, read_to_end
from tests.service.test_http2 import echo
from tests.service.trial import Compiled, interpreted
from tests.service.web import HEAD, origin

FAILOVER = load_file("http_failover")
BODY = bytes(range(256)) * 1000


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_put_is_forwarded_and_a_small_one_also_to_another_backend(chunked: bool) -> None:
    def breaks(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            end.recv(4096)

    def put(served: Served, body: bytes) -> tuple[int, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request("PUT", "/", iter([body]) if chunked else body, encode_chunked=chunked)
            got = client.getresponse()
            return got.status, got.read()

    with accepting(echo) as port, Served(FAILOVER, [port], Limits(down=0)) as served:
        for body in (BODY, b"small"):
            status, got = put(served, body)
            assert status == 200 and got.startswith(b"PUT / ") and body in (got if not chunked else got + body)
        assert not faults(served.stop())
    with accepting(echo) as port, accepting(breaks) as broken:
        with Served(FAILOVER, [broken, port], Limits(down=0)) as served:
            assert {put(served, b"small")[0] for _ in range(4)} == {200}
            for _ in range(4):  # a part of it may have been sent, and it cannot be sent again
                with contextlib.suppress(OSError):
                    assert put(served, BODY)[0] in (200, 502)


PROGRAM = """
type cmd: record
  key : string

process P: (cmd/- from, -/cmd small, -/cmd large)
  let m = ? from
  if whole(m): m => small
  else: m => large
"""


def test_whole_tests_whether_a_message_is_in_the_buffer() -> None:
    program = Compiled(load_source(PROGRAM, ["memcached_text"]))
    messages = [b"set k 0 0 %d\r\n%s\r\n" % (size, b"x" * size) for size in (10, 500, 20)]
    sent = program.run({("from", 0): b"".join(messages)}, {}, buffer_size=256).sent
    assert sent["small", 0] == messages[0] + messages[2] and sent["large", 0] == messages[1]
    given = {("from", 0): b"".join(messages)}
    assert interpreted(program.service, given).sent["small", 0] == b"".join(messages), "its buffers have no bound"


@pytest.mark.parametrize("after", [100, 300_000, 5_000_000])
def test_the_answer_to_a_malformed_request_reaches_a_client_that_goes_on_to_send(after: int) -> None:
    with origin(lambda end, _: end.sendall(HEAD % 0)) as port, Served(FAILOVER, [port]) as served:
        with served.connect() as client:
            client.settimeout(PATIENCE)
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
            with contextlib.suppress(OSError):  # there is a bound for what is dropped
                client.sendall(bytes(after))
                client.shutdown(socket.SHUT_WR)
            if after < 1 << 20:
                assert read_to_end(client).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert served.stop()["faults: malformed message"] == 1


def test_a_client_that_stays_after_a_malformed_request_is_closed_soon() -> None:
    with origin(lambda end, _: end.sendall(HEAD % 0)) as port, Served(FAILOVER, [port], Limits(instances=2)) as served:
        clients = [served.connect() for _ in range(2)]
        for client in clients:
            client.sendall(b"GET / HTTP/3.9\r\n\r\n")
            assert read_to_end(client).startswith(b"HTTP/1.1 400 ")
        with served.connect() as other:  # when one of them has ended
            other.settimeout(PATIENCE)
            other.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert read_to_end(other).startswith(b"HTTP/1.1 200 ")
        for client in clients:
            client.close()
        served.stop()


@pytest.mark.parametrize("form", ["length", "chunks", "end"])
@pytest.mark.parametrize("service", ["http_round_robin", "http_cache"])
def test_a_body_of_more_than_64_mib_passes(service: str, form: str) -> None:
    part, count = bytes(1 << 20), 70

    def one(end: socket.socket, _: bytes) -> None:
        fields = {
            "length": b"Content-Length: %d\r\n" % (len(part) * count),
            "chunks": b"Transfer-Encoding: chunked\r\n",
        }
        end.sendall(b"HTTP/1.1 200 OK\r\n" + fields.get(form, b"") + b"\r\n")
        for _number in range(count):
            end.sendall(b"%x\r\n%b\r\n" % (len(part), part) if form == "chunks" else part)
        if form == "chunks":
            end.sendall(b"0\r\n\r\n")
        elif form == "end":
            end.shutdown(socket.SHUT_WR)

    limits = Limits(cache=4) if service == "http_cache" else Limits()
    with origin(one) as port, Served(load_file(service), [port], limits) as served:
        client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request("GET", "/")
            got = client.getresponse()
            assert sum(map(len, iter(lambda: got.read(1 << 20), b""))) == len(part) * count
        assert not faults(served.stop())
