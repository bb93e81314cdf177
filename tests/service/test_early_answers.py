"""A backend that answers a request before its end, and ends the connection: no other connection gets the rest of the
request, which would be taken as the next request there.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.peers import PATIENCE, Served, accepting, read_to_end, reset
from tests.service.web import head_of

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n%s\r\nearly"
ENDS = {
    "it closes": ANSWER % b"",
    "it says that it closes": ANSWER % b"Connection: close\r\n",
    "bytes follow the answer": ANSWER % b"" + b"more",
}
BODY = bytes(90_000)
"""More than fits into a buffer, so that it is forwarded before its end is there."""
REST = b"GET /rest HTTP/1.1\r\nHost: a\r\n\r\n"

SERVICES = [
    ("http_failover", Limits(splice=0, down=0)),
    ("http_failover", Limits(down=0)),
    ("http_cache", Limits(cache=1, down=0)),
]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize(("service", "limits"), SERVICES)
def test_the_rest_of_a_request_is_no_request(service: str, limits: Limits, how: str) -> None:
    heads: list[bytes] = []

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError, AssertionError):
            accepted.settimeout(PATIENCE)
            heads.append(head_of(accepted))
            left = len(BODY)
            while heads[-1].startswith(b"POST") and left > 0:
                left -= len(accepted.recv(left))
            accepted.sendall(ENDS[how])

    with accepting(one) as port, Served(load_file(service), [port], limits) as served:
        with served.connect() as client:
            client.settimeout(PATIENCE)
            size = len(BODY) + len(REST)
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + BODY)
            assert head_of(client).startswith(b"HTTP/1.1 200 OK")
            with contextlib.suppress(OSError):
                client.sendall(REST + b"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                read_to_end(client)
        served.stop()
    assert [each.split()[1] for each in heads] in ([b"/"], [b"/", b"/next"])


@pytest.mark.parametrize(("service", "limits"), SERVICES[:2])
def test_an_answer_before_a_reset_reaches_the_client(service: str, limits: Limits) -> None:
    """The backend answers, and resets the connection, while the client sends; the service finds all of that at once."""
    asked = threading.Event()

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError, AssertionError):
            head_of(accepted)
            asked.set()
            time.sleep(0.1)
            accepted.sendall(ENDS["it closes"])
            reset(accepted)

    with accepting(one) as port, Served(load_file(service), [port], limits) as served:
        with served.connect() as client:
            client.settimeout(PATIENCE)
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (4 * len(BODY)) + BODY)
            assert asked.wait(PATIENCE)
            served.pause(0.3, lambda: client.sendall(BODY))
            assert read_to_end(client) == ENDS["it closes"]
        served.stop()
