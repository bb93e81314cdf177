"""Stored responses that are not fresh: used when their backend fails, or while another request is there (RFC 5861)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from sluice.service.bounds import Limits
from tests.service.cached import CACHE, Client, Request, backend, cached, response
from tests.service.peers import Served
from tests.support.bounded import until

USED = "cache: responses from the cache that were not fresh: their backend failed, or was being asked"
TAG = 'ETag: "a"'


FAILURES = [("status", True), ("status", False), ("close", True), ("half", False), ("hang", True)]
"""What a backend does, and whether its response had a validator."""


def test_a_stored_response_is_used_when_its_backend_fails() -> None:
    """Side by side, as each waits for seconds until its response is old and its backend overdue."""
    with cached(lambda _: response(b"")):
        pass  # the program is compiled, once
    with ThreadPoolExecutor(len(FAILURES)) as pool:
        for case, done in [(case, pool.submit(uses_a_stored_response, *case)) for case in FAILURES]:
            assert done.exception() is None, case


def uses_a_stored_response(failure: str, validator: bool) -> None:
    fails = threading.Event()

    def answer(request: Request) -> bytes:
        if not fails.is_set():
            control = "Cache-Control: max-age=1, stale-if-error=60"
            return response(b"good" * 9000, control, *([TAG] if validator else []))
        if failure == "hang":
            time.sleep(30)
        if failure == "close":
            raise OSError
        return response(b"bad" * 9000, status="503 Service Unavailable") if failure == "status" else b"HTTP/1.1 200"

    with cached(answer, Limits(cache=4, down=0, timeout=1)) as (web, served, client):
        assert client.get("/").body == b"good" * 9000
        fails.set()
        time.sleep(2.1)
        for _ in range(2):
            got = client.get("/")
            assert got.status == 200 and got.body == b"good" * 9000 and int(got.fields["age"]) >= 2
        assert client.get("/other").status in (502, 503, 504)
        assert served.stop()[USED] == 2
        assert len(web.requests) >= 4 and ("if-none-match" in web.requests[1].fields) == validator


def test_a_backend_that_cannot_be_connected_any_more() -> None:
    control = "Cache-Control: max-age=1, stale-if-error=60"
    with backend(lambda request: response(b"good", control)) as (_, port):
        served = Served(CACHE, [port], Limits(cache=4, down=0, keep=0))
        assert Client(served).get("/").body == b"good"
    time.sleep(2.1)
    client = Client(served)
    assert [client.get(uri).status for uri in ("/", "/", "/x")] == [200, 200, 502]
    assert served.stop()[USED] == 2


NEVER_USED: list[tuple[list[str], dict[str, str]]] = [
    (["Cache-Control: max-age=1"], {}),
    (["Cache-Control: max-age=1, stale-if-error=60, must-revalidate"], {}),
    (["Cache-Control: s-maxage=1, stale-if-error=60"], {}),
    (["Cache-Control: no-cache, stale-if-error=60"], {}),
    (["Cache-Control: max-age=1, stale-if-error=0"], {}),
    (["Cache-Control: max-age=1, stale-if-error=60"], {"Cache_Control": "no-cache"}),
    (["Cache-Control: max-age=1, stale-if-error=60"], {"Cache_Control": "max-age=3600"}),
]
"""What a response says of itself, and what a request asks."""


def test_when_a_response_that_is_not_fresh_is_never_used() -> None:
    fails = threading.Event()

    def answer(request: Request) -> bytes:
        if fails.is_set():
            return response(b"bad", status="500 Internal Server Error")
        return response(b"good", TAG, *NEVER_USED[int(request.uri[1:])][0])

    with cached(answer) as (_, served, client):
        assert {client.get(f"/{number}").body for number in range(len(NEVER_USED))} == {b"good"}
        fails.set()
        time.sleep(2.1)
        for number, (_, asked) in enumerate(NEVER_USED):
            assert client.get(f"/{number}", "GET", None, **asked).status == 500, NEVER_USED[number]
        assert served.stop()[USED] == 0


def test_a_response_is_used_while_another_request_updates_it() -> None:
    slow, goes_on = threading.Event(), threading.Event()

    def answer(request: Request) -> bytes:
        if slow.is_set():
            goes_on.wait(20)
        return response(b"new" if slow.is_set() else b"old", "Cache-Control: max-age=1, stale-while-revalidate=60")

    with cached(answer) as (web, served, client):
        assert client.get("/").body == b"old"
        time.sleep(2.1)
        slow.set()
        found: list[bytes] = []
        first = threading.Thread(target=lambda: found.append(Client(served).get("/").body))
        first.start()
        until(lambda: len(web.requests) >= 2, 20)
        assert [client.get("/").body for _ in range(3)] == [b"old"] * 3
        goes_on.set()
        first.join(20)
        assert found == [b"new"] and client.get("/").body == b"new" and len(web.requests) == 2
        assert served.stop()[USED] == 3
