"""Peers of the HTTP cache: a backend, the service in front of it, and a client."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.peers import PATIENCE, Served, accepting, faults, read_exactly
from tests.service.web import head_of

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
