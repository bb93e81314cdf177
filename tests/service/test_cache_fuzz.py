"""The fuzzer of the HTTP cache with a bounded number of inputs."""

from __future__ import annotations

import random
from pathlib import Path

from tests.service.harness import mutated, run_harness

REQUESTS = [
    b"GET /%d HTTP/1.1\r\nHost: a",
    b"GET http://b/%d HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nAccept-Language: de, en",
    b'GET /%d HTTP/1.0\r\nIf-None-Match: "x", W/"y"\r\nCache-Control: max-age=60, min-fresh=1',
    b"HEAD /%d HTTP/1.1\r\nHost: a\r\nCache-Control: no-cache\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
]
RESPONSES = [
    b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60, stale-if-error=10, stale-while-revalidate=5",
    b"HTTP/1.1 200 OK\r\nCache-Control: s-maxage=9999999999\r\nVary: x-a, Accept-Language\r\nAge: 5",
    b'HTTP/1.1 200 OK\r\nETag: "x"\r\nLast-Modified: Sunday, 06-Nov-94 08:49:37 GMT\r\nDate: Sun Nov  6 08:49:37 1994',
    b"HTTP/1.1 200 OK\r\nExpires: Fri, 01 Jan 2060 00:00:00 GMT\r\nVary: " + b"x-b," * 16,
    b'HTTP/1.1 304 Not Modified\r\nCache-Control: "a, b", private="x"\r\nSet-Cookie: a=b',
]


def test_the_fuzzer_of_the_cache(tmp_path: Path) -> None:
    chance, inputs = random.Random(1), list[bytes]()
    for _ in range(300):
        actions: list[bytes] = []
        for _ in range(chance.randrange(1, 40)):
            request = chance.choice(REQUESTS) % chance.randrange(8)
            size = chance.choice((0, 1, 4000, 5000, 12000, 12300)).to_bytes(2, "little")
            action = bytes([chance.choice((0, 1, 1, 1, 2, 3))]) + size
            actions.append(action + request + b"\0" + chance.choice(RESPONSES) + b"\0")
        inputs.append(b"".join(actions))
    run_harness("fuzz_cache", tmp_path, [*inputs, *mutated(inputs, 10)])
