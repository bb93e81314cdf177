"""Routers of Memcached's binary protocol: gets of several keys, quiet commands, failover, statistics, against real
servers and those that fail."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import Service, load_file
from tests.service.peers import PATIENCE, Served, accepting, faults, memcached, needs_memcached, read_exactly
from tests.service.programs import command

pytestmark = needs_memcached

KETAMA, FAILOVER = load_file("memcached_binary_ketama"), load_file("memcached_binary_failover")
GET, SET, DELETE, QUIT, FLUSH, GETQ, NOOP, VERSION, GETK, GETKQ, STAT, SETQ, DELETEQ = (
    0, 1, 4, 7, 8, 9, 10, 11, 12, 13, 16, 17, 20,
)  # fmt: skip
STEADY = Limits(down=0, timeout=1)


def request(opcode: int, key: bytes = b"", value: bytes = b"", opaque: int = 0, extras: bytes = b"") -> bytes:
    return command(key, value, extras, opcode, opaque=opaque)


def put(key: bytes, value: bytes, opcode: int = SET, opaque: int = 0) -> bytes:
    return request(opcode, key, value, opaque, bytes(8))


class Client:
    """A client of the binary protocol."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def answer(self) -> tuple[int, int, int, bytes, bytes]:
        """Opcode, status, opaque number, key and value of the next answer."""
        magic, opcode, key, extras, _, status, size, opaque, _ = struct.unpack(
            ">BBHBBHIIQ", read_exactly(self.socket, 24)
        )
        assert magic == 129
        body = read_exactly(self.socket, size)
        return opcode, status, opaque, body[extras : extras + key], body[extras + key :]

    def __call__(self, *requests: bytes) -> tuple[int, int, int, bytes, bytes]:
        self.socket.sendall(b"".join(requests))
        return self.answer()

    def until(self, opcode: int, *requests: bytes) -> list[tuple[int, int, int, bytes, bytes]]:
        """All answers before one of an opcode."""
        found = [self(*requests)]
        while found[-1][0] != opcode:
            found.append(self.answer())
        return found[:-1]


@contextlib.contextmanager
def silent_server() -> Iterator[int]:
    def silent(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            while end.recv(4096):
                pass

    with accepting(silent) as port:
        yield port


def test_a_get_of_several_keys_is_split_and_its_end_comes_last() -> None:
    keys = [b"key-%d" % number for number in range(100)]
    with memcached(3) as servers, Served(KETAMA, list(servers)) as served, Client(served.port) as client:
        for number, key in enumerate(keys):
            if number % 3:
                assert client(put(key, b"v" * (number * 500)))[1] == 0
        for opcode in (GETKQ, GETQ):
            gets = [request(opcode, key, opaque=number) for number, key in enumerate(keys)]
            found = client.until(NOOP, *gets, request(NOOP))
            assert {opaque: value for _, _, opaque, _, value in found} == {
                number: b"v" * (number * 500) for number in range(100) if number % 3
            }
            assert all(each[:2] == (opcode, 0) for each in found)
        found = client.until(GETK, *[request(GETKQ, key) for key in keys[:9]], request(GETK, keys[10]))
        assert [each[3] for each in sorted(found, key=lambda each: each[3])] == [keys[n] for n in (1, 2, 4, 5, 7, 8)]
        for port in servers:
            with Client(port) as one:
                held = len(one.until(NOOP, *[request(GETKQ, key) for key in keys], request(NOOP)))
                assert 0 < held < 66, "the keys are divided among the servers"
        assert not faults(served.stop())


@pytest.mark.parametrize("service", [KETAMA, FAILOVER])
def test_quiet_commands_answer_only_errors(service: Service) -> None:
    with memcached(2) as servers, Served(service, list(servers)) as served, Client(served.port) as client:
        sets = [put(b"k%d" % number, b"x" * 40000, SETQ, number) for number in range(20)]
        assert client.until(NOOP, *sets, request(NOOP, opaque=9)) == []
        assert client(request(GET, b"k7"))[4] == b"x" * 40000
        found = client.until(NOOP, request(DELETEQ, b"k7", opaque=3), request(DELETEQ, b"k7", opaque=4), request(NOOP))
        assert [each[:3] for each in found] == [(DELETEQ, 1, 4)], "an error, and of the second one"
        found = client.until(NOOP, put(b"big", bytes(2 << 20), SETQ, 5), request(NOOP))
        assert [each[:3] for each in found] == [(SETQ, 3, 5)], "it is too large"
        assert client(request(VERSION))[4].startswith(b"1.")
        assert client(request(FLUSH, opaque=6))[:3] == (FLUSH, 0, 6)
        assert client(request(GET, b"k8", opaque=8))[:3] == (GET, 1, 8)
        assert client(request(QUIT, opaque=1))[:3] == (QUIT, 0, 1)
        assert not faults(served.stop())


def test_servers_that_fail_are_misses_or_errors() -> None:
    with memcached(1) as servers, silent_server() as hangs:
        with Served(KETAMA, [*servers, 1, hangs], STEADY) as served, Client(served.port) as client:
            keys = [b"key-%d" % number for number in range(14)]
            status = {key: client(put(key, b"v"))[1] for key in keys}
            assert set(status.values()) == {0, 132}
            found = client.until(NOOP, *[request(GETKQ, key) for key in keys], request(NOOP))
            assert {each[3] for each in found} == {key for key in keys if status[key] == 0}
            bad = next(key for key in keys if status[key])
            found = client.until(NOOP, put(bad, b"v", SETQ, 77), request(NOOP))
            assert [each[:3] for each in found] == [(SETQ, 132, 77)]
            assert client(request(FLUSH))[1] == 132
            assert not faults(served.stop())


def test_a_read_fails_over() -> None:
    with memcached(2) as servers, silent_server() as hangs:
        first, second = servers
        with Served(FAILOVER, [first, 1, hangs, second], STEADY) as served, Client(served.port) as client:
            with Client(second) as other:
                assert other(put(b"a", b"y" * 50000))[1] == 0
            assert client(request(GET, b"a", opaque=5))[1:] == (0, 5, b"", b"y" * 50000)
            found = client.until(NOOP, request(GETKQ, b"a", opaque=6), request(GETKQ, b"b"), request(NOOP))
            assert [each[1:] for each in found] == [(0, 6, b"a", b"y" * 50000)]
            assert client(request(GETK, b"b", opaque=7))[:3] == (GETK, 1, 7)
            assert client(request(DELETE, b"a"))[1] == 1, "only reads fail over at a miss"
            for server in servers.values():
                server.kill()
                server.wait()
            assert client(request(GET, b"a"))[:2] == (GET, 132)
            assert client(put(b"a", b""))[:2] == (SET, 132)
            assert not faults(served.stop())


def test_statistics_of_the_pool() -> None:
    with memcached(2) as servers, Served(KETAMA, [*servers, 1], STEADY) as served, Client(served.port) as client:
        results = [client(put(b"key-%d" % number, b"v"))[1] for number in range(40)]
        found = [client(request(STAT, opaque=3))]
        while found[-1][3]:
            found.append(client.answer())
        assert all(each[:3] == (STAT, 0, 3) for each in found)
        stats = {key: value for *_, key, value in found}
        assert stats.pop(b"backend_2_up") == b"1"
        assert sum(int(stats[b"backend_%d_answers" % number]) for number in (0, 1)) == results.count(0)
        assert int(stats[b"backend_2_failures"]) == results.count(132) > 0
        assert stats[b"backend_0_connections"] == b"1" and stats[b"backend_2_answers"] == b"0"
        assert client(request(NOOP))[0] == NOOP
        served.stop()


def test_statistics_of_a_server() -> None:
    with memcached(1) as servers, Served(KETAMA, list(servers)) as served, Client(served.port) as client:
        found = client.until(NOOP, request(STAT, b"settings"), request(NOOP))
        assert any(key == b"maxbytes" for *_, key, _ in found) and found[-1][3] == b""
        assert not faults(served.stop())


def test_all_lines_of_statistics_are_passed() -> None:
    """A server may have more of them than keys: `stats cachedump` has one for each stored value."""
    count = 5000

    def lines(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError, AssertionError):
            while True:
                read_exactly(end, 25)
                stats = [command(b"k%d" % i, b"v", opcode=STAT, magic=129) for i in range(count)]
                end.sendall(b"".join(stats) + command(b"", opcode=STAT, magic=129))

    with accepting(lines) as port, Served(KETAMA, [port]) as served, Client(served.port) as client:
        for _ in range(2):
            client.socket.sendall(request(STAT, b"x"))
            assert [client.answer()[3] for _ in range(count + 1)] == [*[b"k%d" % i for i in range(count)], b""]
        assert not faults(served.stop())
