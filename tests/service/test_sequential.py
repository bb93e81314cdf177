"""Programs that receive and send in turn: large messages pass, answers are merged, requests are sent again."""

from __future__ import annotations

import random
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.service.bounds import Limits
from sluice.service.load import load_file, load_source
from tests.service.peers import (
    PATIENCE,
    Served,
    faults,
    free_port,
    memcached,
    needs_memcached,
    read_exactly,
    read_to_end,
    redis,
)
from tests.service.trial import Compiled, interpreted
from tests.service.web import BODY, GET, HEAD, give_body, head_of, origin
from tests.support.budget import examples

COUNTS = {"backends": 3}
PARTS = st.lists(
    st.sampled_from([b"END\r\n", b"VALUE a 0 3\r\nabc\r\nEND\r\n", b"VALUE b 1 0\r\n\r\nEND\r\n", b"ERROR\r\n"]),
    max_size=60,
).map(b"".join)
REQUESTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from([b"a", b"bb", b"ccc", b"d"]), min_size=1, max_size=25).map(
            lambda keys: b"get " + b" ".join(keys) + b"\r\n"
        ),
        st.binary(max_size=300).map(lambda data: b"set k 0 0 %d noreply\r\n%b\r\n" % (len(data), data)),
    ),
    max_size=4,
).map(b"".join)


@pytest.fixture(scope="module")
def multiget() -> Compiled:
    return Compiled(load_file("memcached_multiget"))


@given(REQUESTS, PARTS, PARTS, PARTS, st.integers(1, 100))
@settings(max_examples=examples(60, 25), deadline=None)
def test_merged_answers_are_those_of_the_interpreter(
    multiget: Compiled, requests: bytes, first: bytes, second: bytes, third: bytes, budget: int
) -> None:
    data = {("client", 0): requests, ("backends", 0): first, ("backends", 1): second, ("backends", 2): third}
    found, wanted = multiget.run(data, COUNTS, budget=budget), interpreted(multiget.service, data, COUNTS)
    assert bool(found.fault) == bool(wanted.fault)
    if not found.fault:
        assert found.sent == wanted.sent


@given(st.binary(max_size=2000), st.integers(1, 100))
@settings(max_examples=examples(30, 15), deadline=None)
def test_a_request_larger_than_a_buffer_passes_where_it_is_only_forwarded(
    multiget: Compiled, value: bytes, budget: int
) -> None:
    request = b"set key 0 0 %d noreply\r\n%b\r\n" % (len(value), value)
    given = {("client", 0): request * 3, **{("backends", number): b"STORED\r\n" * 3 for number in range(3)}}
    outcome = multiget.run(given, COUNTS, buffer_size=256, budget=budget)
    assert outcome.ended and b"".join(outcome.sent.values()) == request.replace(b"noreply", b" " * 7, 1) * 3


def test_one_that_is_used_otherwise_is_a_fault(multiget: Compiled) -> None:
    given = {("client", 0): b"get " + b"key " * 100 + b"\r\n"}
    assert multiget.run(given, COUNTS, buffer_size=256).fault == "TOO_LARGE"


@pytest.fixture(scope="module")
def caches() -> Iterator[list[int]]:
    with memcached(3) as servers:
        yield list(servers)


@needs_memcached
@pytest.mark.parametrize("name", ["memcached_multiget", "memcached_text_router"])
def test_large_values_and_memcached(name: str, caches: list[int]) -> None:
    with Served(load_file(name), caches) as router, router.connect() as client:
        value = BODY[:1_000_000]
        client.sendall(b"set %b 0 0 %d\r\n%b\r\nget %b\r\n" % (name.encode(), len(value), value, name.encode()))
        wanted = b"STORED\r\nVALUE %b 0 %d\r\n%b\r\nEND\r\n" % (name.encode(), len(value), value)
        assert read_exactly(client, len(wanted)) == wanted
        assert not faults(router.stop())


@needs_memcached
def test_a_get_of_many_keys_is_split_and_merged_in_order(caches: list[int]) -> None:
    rng = random.Random(2)
    values = {b"key%d" % i: rng.randbytes(rng.choice([0, 10, 1000, 90_000])) for i in range(60)}
    with Served(load_file("memcached_multiget"), caches) as router, router.connect() as client:
        for key, value in values.items():
            client.sendall(b"set %b 0 0 %d noreply\r\n%b\r\n" % (key, len(value), value))
        asked = [rng.choice([*values, b"absent"]) for _ in range(150)]
        wanted = b"".join(
            b"VALUE %b 0 %d\r\n%b\r\n" % (key, len(values[key]), values[key]) for key in asked if key in values
        )
        client.sendall(b"get " + b" ".join(asked) + b"\r\nget key1\r\nversion\r\n")
        assert read_exactly(client, len(wanted) + 5) == wanted + b"END\r\n"
        assert read_exactly(client, 11) == b"VALUE key1 "
        counters = router.stop()
    assert not faults(counters)
    for port in caches:  # each server was asked
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as direct:
            direct.sendall(b"stats\r\nquit\r\n")
            stats = dict(line.split()[1:3] for line in read_to_end(direct).splitlines() if line.startswith(b"STAT"))
            assert int(stats[b"cmd_get"]) > 10


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")
def test_large_values_and_redis(tmp_path: Path) -> None:
    with redis(tmp_path) as port, Served(load_file("redis_router"), [port]) as router, router.connect() as client:
        bulk = b"$%d\r\n%b\r\n" % (len(BODY), BODY)
        client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n" + bulk + b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n%3 \r\nPING\r\n")
        assert read_exactly(client, 5 + len(bulk)) == b"+OK\r\n" + bulk
        assert read_exactly(client, 1) == b"-"  # no reply of another command
        assert not faults(router.stop())


def test_idempotent_requests_are_sent_to_another_backend() -> None:
    """One backend refuses, one closes when it is asked, and one answers."""

    def close(accepted: socket.socket, _: bytes) -> None:
        accepted.shutdown(socket.SHUT_RDWR)

    with origin(close) as closing, origin(give_body) as good:
        refusing = free_port()
        with Served(load_file("http_failover"), [refusing, closing, good]) as served:
            with served.connect() as client:
                for _ in range(6):
                    client.sendall(GET)
                    assert head_of(client) == HEAD % len(BODY)
                    assert read_exactly(client, len(BODY)) == BODY
            counters = served.stop()
    assert counters["backends marked as down"] == 2
    assert 1 <= counters["faults handled by the program"] <= 2


def test_others_are_not_and_are_answered_for() -> None:
    requests: list[bytes] = []

    def close(accepted: socket.socket, _: bytes) -> None:
        requests.append(b"")
        accepted.shutdown(socket.SHUT_RDWR)

    with origin(close) as closing, Served(load_file("http_failover"), [closing, closing]) as served:
        with served.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            assert head_of(client) == b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
            assert len(requests) == 1
            client.sendall(GET)
            assert head_of(client).startswith(b"HTTP/1.1 502 ")
            assert len(requests) == 3
        assert served.stop()["faults handled by the program"] == 3


def test_a_backend_has_no_more_connections_than_it_may() -> None:
    hold = threading.Event()

    def wait(accepted: socket.socket, _: bytes) -> None:
        hold.wait(PATIENCE)
        give_body(accepted, b"")

    with origin(wait) as port, Served(load_file("http_failover"), [port], Limits(most=1)) as served:
        with served.connect() as first, served.connect() as second:
            first.sendall(GET)
            end = time.monotonic() + PATIENCE
            while served.open_connections() < 3:  # two clients, and the backend
                assert time.monotonic() < end, "the backend has no connection"
            second.sendall(GET)
            assert head_of(second).startswith(b"HTTP/1.1 502 ")
            hold.set()
            assert head_of(first) == HEAD % len(BODY)
        served.stop()


KEEPING = """\
type t = unit { n : uint8; key : string &length = self.n; };
type t: record
  key : string

proc P: (t/t c, t/- d)
  let m = ? c
  let first = longest(d, m.key)
  c ! t(first)

fun longest: (t/- d, from: string) -> (string)
  local found : string := from
  for i in 1 .. 3:
    let m = ? d
    if len(m.key) > len(found): found := m.key
  found
"""


def test_bytes_that_a_loop_keeps_outlive_its_iterations() -> None:
    """A function's own state refers to messages: they must not be given back before the step ends."""
    service = load_source(KEEPING)
    data = b"".join(bytes([len(key)]) + key for key in (b"bbb", b"cc", b"dd") * 3)
    given = {("c", 0): b"\x01a" * 3, ("d", 0): data}
    compiled = Compiled(service)
    for budget in (1, 5, 1000):
        found = compiled.run(given, budget=budget)
        assert found == interpreted(service, given)
        assert found.sent["c", 0] == b"\x03bbb" * 3


LOOKING = """\
type t = unit { n : uint32; };
type t: record
  n : integer

process P: (t/t c)
  let m = ? c
  let x = for i in 1 .. 2 initially a = 0: a + look(c)
  if x > 0: c ! m

fun look: (t/t c) -> (integer)
  let p = ?? c
  p.n
"""


def test_a_loop_that_looks_at_a_message_does_not_give_back_the_one_before_it() -> None:
    service = load_source(LOOKING)
    given = {("c", 0): b"".join(n.to_bytes(4, "big") for n in range(1, 9))}
    compiled = Compiled(service)
    for budget in (5, 1000):
        found = compiled.run(given, budget=budget)
        assert found == interpreted(service, given)
        assert found.sent["c", 0] == given["c", 0][:28]


KEYED = """\
type t = unit { n : uint8; len_ : uint8; key : string &length = self.len_; };
type t: record
  n : integer
  len_ : integer
  key : string

"""
ESCAPES = {
    "what is returned": """\
process P: (t/t c, t/t d, t/t e)
  let r = pass(c, d)
  e ! r

fun pass: (t/- c, -/t d) -> (t)
  let m = ? c
  d ! m
""",
    "a branch assigns": """\
process P: (t/t c, t/t d, t/t e): go(c, d, e)

fun go: (t/- c, -/t d, -/t e) -> ()
  local s : string := "none"
  let m = ? c
  if m.n > 1:
    s := m.key
    d ! m
    let z = 0
  let k = ? c
  e ! t(1, 0, s)
""",
    "an iteration assigns": """\
process P: (t/t c, t/t d, t/t e): go(c, d, e)

fun go: (t/- c, -/t d, -/t e) -> ()
  local s : string := "none"
  for i in 1 .. 2:
    let m = ? c
    s := m.key
    d ! m
  e ! t(1, 0, s)
""",
    "a function assigns": """\
process P: (t/t c, t/t d, t/t e): go(c, d, e)

fun go: (t/- c, -/t d, -/t e) -> ()
  local s : string := "none"
  let m = ? c
  give(d, m, s)
  let k = ? c
  e ! t(1, 0, s)

fun give: (-/t d, m: t, s: ref string) -> ()
  s := m.key
  d ! m
""",
}


@pytest.mark.parametrize("source", ESCAPES.values(), ids=ESCAPES)
def test_a_message_whose_bytes_are_used_after_it_was_sent_is_not_forwarded(source: str) -> None:
    service = load_source(KEYED + source)
    given = {("c", 0): b"".join(bytes([n, n + 2]) + bytes([64 + n]) * (n + 2) for n in range(1, 7))}
    compiled = Compiled(service, ("-O0",))
    for budget in (1, 5, 1000):
        assert compiled.run(given, budget=budget) == interpreted(service, given)
