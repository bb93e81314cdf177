"""The HTTP cache: requests that wait for each other, its bounds, hostile backends."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from pathlib import Path

import pytest

from sluice.cli.common.errors import UsageError
from sluice.cli.common.services import checked_limits, with_cache
from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.cached import CACHE, HOUR, LIMITS, Client, Request, backend, cached, counts, response
from tests.service.peers import PATIENCE, Served, accepting, read_exactly
from tests.service.web import head_of, origin
from tests.support.bounded import until


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_for_the_same_wait_for_one(workers: int) -> None:
    gate = threading.Event()

    def answer(request: Request) -> bytes:
        assert gate.wait(PATIENCE)
        return response(b"body" * 5000, HOUR)

    with cached(answer, Limits(cache=4, workers=workers)) as (web, served, _):
        clients = [Client(served) for _ in range(12)]
        got: list[bytes] = []
        threads = [threading.Thread(target=lambda each=each: got.append(each.get("/").body)) for each in clients]
        for each in threads:
            each.start()
        until(lambda: web.requests)
        time.sleep(0.3)
        gate.set()
        for each in threads:
            each.join(PATIENCE)
        assert got == [b"body" * 5000] * 12 and len(web.requests) == 1
        found = counts(served)
        assert found["responses from the cache"] == 11
        assert found["requests that waited for another one for the same"] + 1 >= 8


def test_requests_do_not_wait_for_what_cannot_be_stored() -> None:
    started = threading.Barrier(1)

    def answer(request: Request) -> bytes:
        if request.uri == "/own":
            started.wait(PATIENCE)  # all of them are at the backend at the same time
        return response(b"own", "Cache-Control: private")

    with cached(answer) as (_, served, client):
        clients = [Client(served) for _ in range(6)]
        # the first one shows that the response of this URI is not stored
        client.get("/own")
        started = threading.Barrier(6)
        got: list[bytes] = []
        threads = [threading.Thread(target=lambda each=each: got.append(each.get("/own").body)) for each in clients]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE)
        assert got == [b"own"] * 6
        counts(served)


def test_a_leader_that_fails_does_not_hold_up_the_others() -> None:
    seen: list[int] = []

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError, AssertionError):
            accepted.settimeout(PATIENCE)
            while True:
                head_of(accepted)
                seen.append(1)
                if len(seen) == 1:
                    time.sleep(0.5)
                    accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n" + HOUR.encode() + b"\r\n\r\nhalf")
                    return
                accepted.sendall(response(b"good", HOUR))

    with accepting(one) as port, Served(CACHE, [port], LIMITS) as served:
        clients = [Client(served) for _ in range(4)]
        got: list[bytes] = []

        def ask(client: Client) -> None:
            with contextlib.suppress(http.client.HTTPException, OSError):
                got.append(client.get("/").body)

        threads = [threading.Thread(target=ask, args=(each,)) for each in clients]
        for each in threads:
            each.start()
            time.sleep(0.05)
        for each in threads:
            each.join(PATIENCE)
        assert got == [b"good"] * 3 and len(seen) == 2
        found = served.stop()
        assert found["cache: responses stored"] == 1


def test_memory_is_bounded() -> None:
    with cached(lambda request: response(request.uri.encode() * 3000, HOUR), Limits(cache=1)) as (web, served, client):
        for number in range(300):
            assert client.get(f"/{number:05}").body == f"/{number:05}".encode() * 3000
        web.requests.clear()
        assert client.get("/00299").body == b"/00299" * 3000 and not web.requests
        assert client.get("/00000").body == b"/00000" * 3000 and len(web.requests) == 1
        found = counts(served)
        assert found["responses replaced: the memory was full"] >= 230


def test_a_response_that_is_too_large_passes() -> None:
    big = bytes(range(256)) * 2000
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n%s\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
        HOUR.encode(),
        len(big),
        big,
    )

    def answer(request: Request) -> bytes:
        return chunks if request.uri == "/chunks" else response(big, HOUR)

    with cached(answer, Limits(cache=1)) as (web, served, client):
        for uri in ("/length", "/chunks"):
            assert [client.get(uri).body for _ in range(2)] == [big] * 2
        assert len(web.requests) == 4
        assert "responses stored" not in counts(served)


HOSTILE = {
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000,
    "no message": b"\0\1\2\3 garbage\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a chunk without a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + HOUR.encode() + b"\r\n\r\nzz\r\n",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n" + HOUR.encode() + b"\r\n\r\nhalf",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + HOUR.encode() + b"\r\n\r\n9\r\nhalf",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_response_that_is_no_message_is_not_stored(name: str) -> None:
    def give(accepted: socket.socket, _: bytes) -> None:
        accepted.sendall(HOSTILE[name])
        accepted.shutdown(socket.SHUT_WR)

    with origin(give) as port, Served(CACHE, [port], LIMITS) as served:
        for _ in range(2):
            with served.connect() as client:
                client.settimeout(PATIENCE)
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    while client.recv(1 << 16):
                        pass
        found = served.stop()
        assert found["cache: responses stored"] == 0 and found["cache: responses from the cache"] == 0


def test_a_program_gives_the_size_of_its_cache() -> None:
    example = load_file(str(Path(__file__).parents[2] / "examples" / "http_cache" / "cache.fk"))
    assert (example.cache, CACHE.cache, load_file("http_failover").cache) == (16, 64, 0)
    assert with_cache(example, Limits(), False).cache == 16 and with_cache(example, LIMITS, True).cache == LIMITS.cache
    assert with_cache(CACHE, Limits(), True).cache == 0, "--cache 0"
    with backend(lambda request: response(request.uri.encode() * 9000, HOUR)) as (web, port):
        with Served(example, [port], LIMITS) as served:
            with served.connect() as other:
                other.settimeout(PATIENCE)
                for number in (1, 2, 1, 1):  # rules in parallel send all requests before an answer has come
                    other.sendall(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
                for number in (1, 2, 1, 1):
                    assert b"Content-Length: 18000" in head_of(other)
                    assert read_exactly(other, 18000) == b"/%d" % number * 9000
            assert [each.uri for each in web.requests] == ["/1", "/2"]
            counts(served)


def test_pipelined_requests_are_answered_in_order() -> None:
    with cached(lambda request: response(request.uri.encode() * 2000, HOUR)) as (web, served, client):
        client.get("/2", Host="a")
        with served.connect() as other:
            other.settimeout(PATIENCE)
            other.sendall(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(5)))
            for number in range(5):
                assert b"Content-Length: 4000" in head_of(other)
                assert read_exactly(other, 4000) == b"/%d" % number * 2000
        assert len(web.requests) == 5
        counts(served)


def test_bytes_that_no_request_has_asked_for_are_dropped() -> None:
    extra = response(b"poison", HOUR)
    with cached(lambda request: response(request.uri.encode(), HOUR) + extra) as (web, served, client):
        assert [client.get(uri).body for uri in ("/a", "/b", "/a", "/b")] == [b"/a", b"/b", b"/a", b"/b"]
        assert len(web.requests) == 2
        counts(served)


def test_a_size_of_a_cache_is_checked() -> None:
    for limits, program in ({"cache": 1, "buffer_size": 1024}, "http_failover"), ({"buffer_size": 1024}, "http_cache"):
        with pytest.raises(UsageError, match="--buffer-size 1024: at least 4096 bytes with a cache"):
            with_cache(load_file(program), checked_limits(limits), "cache" in limits)
    with pytest.raises(UsageError, match="--cache 2000000"):
        checked_limits({"cache": 2000000})


def test_a_response_that_varies_with_many_fields_is_not_stored() -> None:
    def answer(request: Request) -> bytes:
        names = int(request.uri[1:])
        return response(b"x", HOUR, "Vary: " + ", ".join(f"x-{number}" for number in range(names)))

    with cached(answer) as (web, served, client):
        for names in (16, 17):
            assert [client.get(f"/{names}").status for _ in range(2)] == [200, 200]
        assert [each.uri for each in web.requests] == ["/16", "/17", "/17"]
        counts(served)
