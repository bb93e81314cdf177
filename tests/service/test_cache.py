"""The HTTP cache: what RFC 9111 lets a shared cache store and use."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.service.cached import CACHE, HOUR, LIMITS, Request, cached, counts, response
from tests.service.peers import PATIENCE, Served, faults, free_port, nginx
from tests.service.web import head_of


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


@pytest.mark.skipif(not (shutil.which("nginx") and shutil.which("curl")), reason="there is no nginx, or no curl")
def test_curl_and_nginx(tmp_path: Path) -> None:
    """A file of nginx's comes from it once, and then from the cache; nginx confirms it."""
    port = free_port()
    (tmp_path / "page.html").write_bytes(b"<p>page" * 9000)
    http = (
        f"access_log {tmp_path}/access; server {{ listen 127.0.0.1:{port}; root {tmp_path};\n"
        "location / { expires 1h; } location /old/ { alias " + f"{tmp_path}/; expires -1; }} }}"
    )
    with nginx(tmp_path, http, port):
        with Served(CACHE, [port], LIMITS) as served:
            for uri in ("/page.html", "/page.html", "/old/page.html", "/old/page.html", "/old/page.html"):
                command = ["curl", "-sS", "-m", "20", f"http://127.0.0.1:{served.port}{uri}"]
                assert subprocess.run(command, capture_output=True, check=True, timeout=60).stdout == b"<p>page" * 9000
            counts(served)
        lines = [each.split('"')[1:3] for each in (tmp_path / "access").read_text().splitlines()]
        assert [(line.split()[1], rest.split()[0]) for line, rest in lines] == [
            ("/page.html", "200"), ("/old/page.html", "200"), ("/old/page.html", "304"), ("/old/page.html", "304")
        ]  # fmt: skip
