"""Clients of HTTP/1.0 and the HTTP cache: they read no chunks (RFC 9112, section 6.1)."""

from __future__ import annotations

from tests.service.cached import HOUR, Request, cached, counts, response
from tests.service.peers import PATIENCE, Served, read_to_end


def old(served: Served, uri: bytes) -> bytes:
    """The response to a request of HTTP/1.0."""
    with served.connect() as client:
        client.settimeout(PATIENCE)
        client.sendall(b"GET %s HTTP/1.0\r\nHost: a\r\n\r\n" % uri)
        return read_to_end(client)


def test_stored_chunks_are_not_for_http_1_0() -> None:
    def answer(request: Request) -> bytes:
        if request.uri == "/length" or len(web.requests) > 1:
            return response(b"length", HOUR)
        return f"HTTP/1.1 200 OK\r\n{HOUR}\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nchunks\r\n0\r\n\r\n".encode()

    with cached(answer) as (web, served, client):
        assert client.get("/", Host="a").body == client.get("/", Host="a").body == b"chunks"
        for _ in range(2):
            got = old(served, b"/")
            assert got.endswith(b"\r\n\r\nlength") and b"chunked" not in got
        assert client.get("/", Host="a").body == b"length"
        assert [client.get("/length", Host="a").body, old(served, b"/length")[-6:]] == [b"length"] * 2
        assert [each.uri for each in web.requests] == ["/", "/", "/length"]
        counts(served)
