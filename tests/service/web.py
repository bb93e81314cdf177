"""A web server of which a test decides each answer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from tests.service.peers import PATIENCE, accepting, read_exactly

BODY = bytes(range(256)) * 16384
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


@contextlib.contextmanager
def origin(answer: Callable[[socket.socket, bytes], object], port: int = 0) -> Iterator[int]:
    """A server that reads the head of a request, and calls `answer`, for each connection; its port."""

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            accepted.settimeout(PATIENCE)
            got = b""
            while True:
                while b"\r\n\r\n" not in got:
                    part = accepted.recv(1 << 16)
                    if not part:
                        return
                    got += part
                _, _, got = got.partition(b"\r\n\r\n")
                answer(accepted, got)
                got = b""

    with accepting(one, port=port) as found:
        yield found


def give_body(accepted: socket.socket, _: bytes) -> None:
    accepted.sendall(HEAD % len(BODY) + BODY)


def head_of(client: socket.socket) -> bytes:
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += read_exactly(client, 1)
    return got
