"""The HTTP cache: what RFC 9111 lets a shared cache store and use, requests that wait for each other, its bounds."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest

from sluice.cli.common.errors import UsageError
from sluice.cli.common.services import checked_limits, with_cache
from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.peers import PATIENCE, Served, accepting, faults, free_port, read_exactly, wait_for
from tests.service.web import head_of, origin

CACHE = load_file("http_cache")
LIMITS = Limits(cache=4, down=0)
HOUR = "Cache-Control: max-age=3600"


@dataclass
class Request:
    method: str
    uri: str
    fields: dict[str, str]
    body: bytes


@dataclass
class Web:
    """A backend: `answer` gives the bytes for each request; `requests` are those that have come."""

    answer: Callable[[Request], bytes]
    requests: list[Request] = field(default_factory=list[Request])

    def one(self, accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError, AssertionError):
            accepted.settimeout(PATIENCE)
            while True:
                first, *lines = head_of(accepted).decode().strip().split("\r\n")
                fields = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
                body = read_exactly(accepted, int(fields.get("content-length", 0)))
                request = Request(first.split()[0], first.split()[1], fields, body)
                self.requests.append(request)
                accepted.sendall(self.answer(request))


@contextlib.contextmanager
def backend(answer: Callable[[Request], bytes]) -> Iterator[tuple[Web, int]]:
    web = Web(answer)
    with accepting(web.one) as port:
        yield web, port


def response(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    head = "".join(f"{each}\r\n" for each in fields)
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


@dataclass
class Answer:
    status: int
    fields: dict[str, str]
    body: bytes


class Client:
    """A connection that stays open."""

    def __init__(self, served: Served) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)

    def get(self, uri: str = "/", method: str = "GET", body: bytes | None = None, **fields: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        self.connection.request(method, uri, body, named)
        got = self.connection.getresponse()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())


@contextlib.contextmanager
def cached(answer: Callable[[Request], bytes], limits: Limits = LIMITS) -> Iterator[tuple[Web, Served, Client]]:
    with backend(answer) as (web, port), Served(CACHE, [port], limits) as served:
        client = Client(served)
        yield web, served, client
        client.connection.close()


def counts(served: Served) -> dict[str, int]:
    found = served.stop()
    assert not faults(found)
    return {
        name.removeprefix("cache: "): value for name, value in found.items() if name.startswith("cache: ") and value
    }


def test_a_stored_response_is_used_until_it_is_not_fresh() -> None:
    def answer(request: Request) -> bytes:
        return response(request.uri.encode() * 9000, "Cache-Control: max-age=1", "Content-Type: text/x", "Age: 0")

    with cached(answer) as (web, served, client):
        first, second = client.get("/a"), client.get("/a")
        assert first.body == second.body == b"/a" * 9000
        assert second.fields["content-type"] == "text/x" and second.fields["age"] in "01"
        assert "date" in second.fields and second.fields["cache-control"] == "max-age=1"
        assert client.get("/b").body == b"/b" * 9000
        assert [each.uri for each in web.requests] == ["/a", "/b"]
        time.sleep(2.1)
        assert client.get("/a").body == first.body
        assert [each.uri for each in web.requests] == ["/a", "/b", "/a"]
        found = counts(served)
        assert found["responses from the cache"] == 1 and found["responses stored"] >= 2


def test_no_connection_is_made_for_what_is_stored() -> None:
    with cached(lambda _: response(b"x", HOUR)) as (web, served, client):
        client.get("/")
        with socket.create_connection(("127.0.0.1", served.port)) as other:
            other.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % served.port)
            assert b"200 OK" in head_of(other)
        assert served.stop()["connections to backends"] == 1 and len(web.requests) == 1


NOT_STORED = {
    "no-store": ["Cache-Control: max-age=60, no-store"],
    "private": ["Cache-Control: max-age=60, private"],
    "quoted private": ['Cache-Control: max-age=60, private="x, y"'],
    "set-cookie": [HOUR, "Set-Cookie: a=b"],
    "set-cookie twice": [HOUR, "Set-Cookie:", "Set-Cookie: a=b"],
    "vary": [HOUR, "Vary: *"],
    "nothing": [],
    "expired": ["Expires: 0"],
    "s-maxage": ["Cache-Control: s-maxage=0, max-age=60"],
    "no number": ["Cache-Control: max-age=soon"],
    "two": ["Cache-Control: max-age=60", "Cache-Control: max-age=0"],
    "age": [HOUR, "Age: 3600"],
    "date": [HOUR, "Date: Mon, 01 Jan 2001 00:00:00 GMT"],
}
STORED = {
    "max-age": [HOUR],
    "quoted": ['Cache-Control: x="no-store, a", max-age="60"'],
    "huge": ["Cache-Control: max-age=99999999999999999999"],
    "expires": ["Expires: " + formatdate(time.time() + 3600, usegmt=True)],
    "expires of RFC 850": ["Expires: Sunday, 06-Nov-60 08:49:37 GMT"],
    "expires of asctime": ["Expires: Sun Nov  6 08:49:37 2060"],
    "guessed": ["Last-Modified: " + formatdate(time.time() - 86400, usegmt=True)],
    "public": ["Cache-Control: public, s-maxage=60, max-age=0"],
    "connection": [HOUR, "Connection: x-hop", "X-Hop: 1"],
}


def test_what_is_stored() -> None:
    cases = {name: fields for group in (NOT_STORED, STORED) for name, fields in group.items()}
    names = list(cases)

    def answer(request: Request) -> bytes:
        return response(b"body", *cases[names[int(request.uri[1:])]])

    with cached(answer) as (web, served, client):
        for number, name in enumerate(names):
            web.requests.clear()
            answers = [client.get(f"/{number}") for _ in range(2)]
            assert [each.body for each in answers] == [b"body"] * 2
            assert len(web.requests) == (1 if name in STORED else 2), name
            if name == "connection":
                assert "x-hop" not in answers[1].fields
        counts(served)


def test_requests_that_are_not_for_a_cache() -> None:
    with cached(lambda request: response(request.body, HOUR)) as (web, served, client):
        client.get("/")
        for fields in ({"Authorization": "Basic eDp5"}, {"Range": "bytes=0-1"}, {"Cache_Control": "no-cache"},
                       {"Pragma": "no-cache"}, {"Expect": "x"}, {"If_Match": '"a"'}):  # fmt: skip
            web.requests.clear()
            client.get("/", "GET", None, **fields)
            assert len(web.requests) == 1, fields
        web.requests.clear()
        assert client.get("/", Cache_Control="max-age=0, min-fresh=1").status == 200
        assert client.get("/", Cache_Control="min-fresh=7200").status == 200
        assert client.get("/", method="OPTIONS").status == 200
        assert client.get("/x", Cache_Control="no-store").status == 200
        assert client.get("/x", Cache_Control="only-if-cached").status == 504
        assert client.get("/", Cache_Control="only-if-cached").status == 200
        assert client.get("/", Cache_Control="max-age=60", Pragma="no-cache").status == 200
        assert [each.uri for each in web.requests] == ["/", "/", "/x"]
        counts(served)


def test_head_is_answered_from_a_get() -> None:
    with cached(lambda request: response(b"body" if request.method == "GET" else b"", HOUR)) as (web, served, client):
        client.get("/")
        got = client.get("/", method="HEAD")
        assert (got.status, got.fields["content-length"], got.body) == (200, "4", b"")
        assert client.get("/").body == b"body"
        assert [each.method for each in web.requests] == ["GET"]
        counts(served)


def test_a_response_is_confirmed_by_its_entity_tag() -> None:
    def answer(request: Request) -> bytes:
        if request.fields.get("if-none-match") == '"one"':
            return b'HTTP/1.1 304 Not Modified\r\nETag: "one"\r\nX-More: 1\r\n\r\n'
        return response(b"body" * 20000, 'ETag: "one"', "Cache-Control: no-cache")

    with cached(answer) as (web, served, client):
        first = client.get("/")
        assert client.get("/").body == first.body == b"body" * 20000
        assert client.get("/").status == 200
        same = client.get("/", If_None_Match='W/"zero", W/"one"')
        assert (same.status, same.body, same.fields["etag"]) == (304, b"", '"one"')
        other = client.get("/", If_None_Match='"two"')
        assert other.body == first.body
        assert [each.fields.get("if-none-match") for each in web.requests] == [None, *['"one"'] * 4]
        found = counts(served)
        assert found["stored responses that the backend confirmed"] == 4 and "responses from the cache" not in found


def test_a_304_gives_a_new_lifetime() -> None:
    modified = "Sun, 06 Nov 1994 08:49:37 GMT"

    def answer(request: Request) -> bytes:
        if request.fields.get("if-modified-since") == modified:
            return b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=3600\r\nExpires: 0\r\n\r\n"
        return response(b"body", f"Last-Modified: {modified}", "Cache-Control: max-age=0")

    with cached(answer) as (web, served, client):
        client.get("/")
        client.get("/")
        third = client.get("/")
        assert third.fields["cache-control"] == "max-age=3600" and third.fields["last-modified"] == modified
        assert client.get("/", If_Modified_Since=modified).status == 304
        assert client.get("/", If_Modified_Since="Sun, 06 Nov 1994 08:49:36 GMT").status == 200
        assert len(web.requests) == 2
        counts(served)


def test_a_changed_response_replaces_the_stored_one() -> None:
    state = {"number": 0}

    def answer(request: Request) -> bytes:
        state["number"] += 1
        if state["number"] == 3:
            return response(b"failed", status="503 Service Unavailable")
        return response(b"%d" % state["number"], f'ETag: "{state["number"]}"', "Cache-Control: max-age=0")

    with cached(answer) as (web, served, client):
        assert [client.get("/").body for _ in range(4)] == [b"1", b"2", b"failed", b"4"]
        assert [each.fields.get("if-none-match") for each in web.requests] == [None, '"1"', '"2"', '"2"']
        counts(served)


def test_responses_vary_with_request_fields() -> None:
    def answer(request: Request) -> bytes:
        return response(request.fields.get("accept-language", "none").encode(), HOUR, "Vary: Accept-Language, X-A")

    with cached(answer) as (web, served, client):
        for language in ("de", "en", "de", "en", "de, en"):
            assert client.get("/", Accept_Language=language).body == language.encode()
        assert client.get("/").body == b"none"
        assert client.get("/", X_A="1").body == b"none"
        assert client.get("/", X_A="1").body == b"none"
        assert len(web.requests) == 5
        counts(served)


def test_hosts_do_not_share_responses() -> None:
    with cached(lambda request: response(request.fields["host"].encode(), HOUR)) as (web, served, client):
        assert [client.get("/", Host=host).body for host in ("a", "b", "A", "B")] == [b"a", b"b", b"a", b"b"]
        assert client.get("http://b/", Host="a").body == b"b"
        with served.connect() as other:  # two of them: the backend may take another one than the cache
            other.settimeout(PATIENCE)
            other.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nHost: c\r\n\r\n")
            assert b"400 Bad Request" in head_of(other)
        assert len(web.requests) == 2
        assert faults(served.stop()) == {"faults: malformed message": 1}


def test_chunks_are_stored_as_they_came() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (size, b"c" * size) for size in (1, 70000, 16384, 3)) + b"0\r\nX-T: 1\r\n\r\n"

    with cached(lambda _: head + body) as (web, served, client):
        for _ in range(3):
            assert client.get("/").body == b"c" * 86388
        assert len(web.requests) == 1
        counts(served)


def test_an_unsafe_request_removes_what_is_stored() -> None:
    def answer(request: Request) -> bytes:
        status = "500 Internal Server Error" if request.body == b"bad" else "200 OK"
        return response(b"x" * 10, HOUR, status=status)

    with cached(answer) as (web, served, client):
        client.get("/")
        client.get("/", method="POST", body=b"bad")
        client.get("/")
        assert [each.method for each in web.requests] == ["GET", "POST"]
        client.get("/", method="POST", body=b"good" * 50000)
        client.get("/")
        assert [each.method for each in web.requests] == ["GET", "POST", "POST", "GET"]
        assert counts(served)["responses removed by a request that changes them"] == 1


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
        end = time.monotonic() + PATIENCE
        while not web.requests and time.monotonic() < end:
            time.sleep(0.01)
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
    assert with_cache(example, Limits()).cache == 16 and with_cache(example, LIMITS).cache == LIMITS.cache
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
            with_cache(load_file(program), checked_limits(limits))
    with pytest.raises(UsageError, match="--cache 2000000"):
        checked_limits({"cache": 2000000})


@pytest.mark.skipif(not (shutil.which("nginx") and shutil.which("curl")), reason="there is no nginx, or no curl")
def test_curl_and_nginx(tmp_path: Path) -> None:
    """A file of nginx's comes from it once, and then from the cache; nginx confirms it."""
    port = free_port()
    (tmp_path / "page.html").write_bytes(b"<p>page" * 9000)
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"user root; worker_processes 1; daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error; events {{}}\n"
        f"http {{ access_log {tmp_path}/access; server {{ listen 127.0.0.1:{port}; root {tmp_path};\n"
        "location / { expires 1h; } location /old/ { alias " + f"{tmp_path}/; expires -1; }} }} }}\n"
    )
    server = subprocess.Popen(["nginx", "-p", str(tmp_path), "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        with Served(CACHE, [port], LIMITS) as served:
            for uri in ("/page.html", "/page.html", "/old/page.html", "/old/page.html", "/old/page.html"):
                command = ["curl", "-sS", "-m", "20", f"http://127.0.0.1:{served.port}{uri}"]
                assert subprocess.run(command, capture_output=True, check=True, timeout=60).stdout == b"<p>page" * 9000
            counts(served)
        lines = [each.split('"')[1:3] for each in (tmp_path / "access").read_text().splitlines()]
        assert [(line.split()[1], rest.split()[0]) for line, rest in lines] == [
            ("/page.html", "200"), ("/old/page.html", "200"), ("/old/page.html", "304"), ("/old/page.html", "304")
        ]  # fmt: skip
    finally:
        server.terminate()
        server.wait(timeout=60)
