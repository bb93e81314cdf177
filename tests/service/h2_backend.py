"""A backend of HTTP/2 of which a test decides each frame, and requests to the service in front of it."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sluice.service import serve
from tests.service.frames import PREFACE, frame, literal
from tests.service.peers import PATIENCE, Served, accepting, read_exactly
from tests.support.bounded import joined

GOAWAY, REFUSED_STREAM, INTERNAL_ERROR = 7, 7, 2
ASKED, UPLINKS = "requests of HTTP/2 to backends", "connections of HTTP/2 to backends"


def plain(port: int) -> serve.Backend:
    return serve.Backend("127.0.0.1", port, "", True)


def get(served: Served, path: str = "/", method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    try:
        connection.request(method, path, body)
        got = connection.getresponse()
        return got.status, got.read()
    finally:
        connection.close()


def answer(stream: int, body: bytes | None = b"ok", status: int = 200, *fields: tuple[bytes, bytes]) -> bytes:
    """A response; without a body, it is one that ends with its head."""
    block = b"".join(literal(*each) for each in ((b":status", b"%d" % status), *fields))
    if body is None:
        return frame(1, 5, stream, block)
    parts = [body[at : at + 16384] for at in range(0, len(body), 16384)] or [b""]
    return frame(1, 4, stream, block) + b"".join(
        frame(0, int(number == len(parts) - 1), stream, part) for number, part in enumerate(parts)
    )


@dataclass
class Connection:
    """A connection to the backend: the streams whose heads have come, in their order, and the data of each."""

    socket: socket.socket
    streams: list[int] = field(default_factory=list[int])
    data: dict[int, bytes] = field(default_factory=dict[int, bytes])
    ended: set[int] = field(default_factory=set[int])
    reset: dict[int, int] = field(default_factory=dict[int, int])
    window: dict[int, int] = field(default_factory=dict[int, int])
    """What each stream may be sent beyond the initial window; 0: all of them."""

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))


@dataclass
class Backend:
    """`opened` is called when the head of a request has come, in the thread of its connection."""

    opened: Callable[[Connection, int], object]
    settings: bytes = b""
    connections: list[Connection] = field(default_factory=list[Connection])

    @property
    def requests(self) -> int:
        return sum(len(each.streams) for each in self.connections)

    def one(self, accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError, AssertionError):
            accepted.settimeout(PATIENCE)
            connection = Connection(accepted)
            self.connections.append(connection)
            assert read_exactly(accepted, len(PREFACE)) == PREFACE
            connection.send(frame(4, 0, 0, self.settings))
            while True:
                self._take(connection)

    def _take(self, connection: Connection) -> None:
        head = read_exactly(connection.socket, 9)
        size, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")
        payload = read_exactly(connection.socket, size)
        if kind == 0:
            connection.data[stream] = connection.data.get(stream, b"") + payload
            if size:  # the window of the connection is always open
                connection.send(frame(8, 0, 0, size.to_bytes(4, "big")))
        if kind in (0, 1) and flags & 1:
            connection.ended.add(stream)
        if kind == 1:
            connection.streams.append(stream)
            self.opened(connection, stream)
        elif kind == 3:
            connection.reset[stream] = int.from_bytes(payload, "big")
        elif kind == 4 and not flags & 1:
            connection.send(frame(4, 1, 0, b""))
        elif kind == 6 and not flags & 1:
            connection.send(frame(6, 1, 0, payload))
        elif kind == 8:
            grown = int.from_bytes(payload, "big")
            connection.window[stream] = connection.window.get(stream, 0) + grown


@contextlib.contextmanager
def h2_backend(opened: Callable[[Connection, int], object], settings: bytes = b"") -> Iterator[tuple[Backend, int]]:
    backend = Backend(opened, settings)
    with accepting(backend.one) as port:
        yield backend, port


def at_once(count: int, one: Callable[[int], object]) -> None:
    """Calls in threads of their own, all of which have to return."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            one(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for each in threads:
        each.start()
    joined(*threads)
    assert not failed, failed


def window(stream: int, by: int) -> bytes:
    return frame(8, 0, stream, by.to_bytes(4, "big"))


def goaway(last: int, error: int = 0) -> bytes:
    return frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + error.to_bytes(4, "big"))


def setting(*pairs: tuple[int, int]) -> bytes:
    return b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in pairs)
