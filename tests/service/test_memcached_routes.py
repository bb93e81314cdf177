"""Routes of Memcached as mcrouter names them: real servers, those that die, and answers that are misses or errors."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import load_file
from sluice.service.serve import Backend
from tests.service.peers import PATIENCE, Served, accepting, faults, memcached, needs_memcached

pytestmark = needs_memcached


class Client:
    """A client of the text protocol."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)

    def __call__(self, command: bytes) -> bytes:
        """The answer to a command: as far as a line that ends one."""
        self.socket.sendall(command)
        got = b""
        ends = (b"END", b"STORED", b"DELETED", b"FOUND", b"ERROR", b"EN", b"HD", b"answers", b"failed", b"VERSION")
        while not (got.endswith(b"\r\n") and got[:-2].rpartition(b"\n")[2].endswith(ends)):
            part = self.socket.recv(1 << 16)
            assert part, got
            got += part
        return got


@contextlib.contextmanager
def clients(*ports: int) -> Iterator[list[Client]]:
    found = [Client(port) for port in ports]
    try:
        yield found
    finally:
        for each in found:
            each.socket.close()


def failing(end: socket.socket) -> None:
    with end, contextlib.suppress(OSError):
        while end.recv(4096):
            end.sendall(b"SERVER_ERROR out of order\r\n")


def test_miss_failover_answers_with_the_best_result() -> None:
    service = load_file("memcached_miss_failover")
    with memcached(2) as servers, accepting(failing) as broken:
        first, second = servers
        with Served(service, [first, 1, second, broken], Limits(down=0)) as served:
            with clients(served.port, first, second) as (client, one, two):
                assert client(b"get a\r\n") == b"END\r\n", "a miss is better than an error"
                assert client(b"mg a v\r\n") == b"EN\r\n"
                assert two(b"set a 5 0 3\r\nxyz\r\n") == b"STORED\r\n"
                assert client(b"get a\r\n") == b"VALUE a 5 3\r\nxyz\r\nEND\r\n"
                assert client(b"set b 0 0 1\r\nx\r\n") == b"STORED\r\n" and b"VALUE b" in one(b"get b\r\n")
                assert client(b"delete c\r\n") == b"NOT_FOUND\r\n", "only reads fail over at a miss"
                for server in servers.values():
                    server.kill()
                    server.wait()
                assert client(b"get a\r\n") == b"SERVER_ERROR no server answers\r\n"
            assert not faults(served.stop())


def test_failover_goes_to_the_first_server_that_sends_no_error() -> None:
    service = load_file("memcached_failover")
    with memcached(2) as servers, accepting(failing) as broken, accepting(silent) as hangs:
        first, second = servers
        with Served(service, [hangs, 1, broken, first, second], Limits(down=30, timeout=1)) as served:
            with clients(served.port, first, second) as (client, one, two):
                assert client(b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
                assert one(b"get a\r\n") == client(b"get a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"
                assert two(b"set b 0 0 1\r\nx\r\n") == b"STORED\r\n"
                assert client(b"get b\r\n") == b"END\r\n", "a miss is an answer"
                for server in servers.values():
                    server.kill()
                    server.wait()
                assert client(b"get a\r\n") == b"SERVER_ERROR no server answers\r\n"
            counters = served.stop()
    assert not faults(counters) and counters["backends marked as down"] >= 3


def test_all_sync_answers_with_the_worst_result() -> None:
    service = load_file("memcached_all_sync")
    with memcached(3) as servers:
        with Served(service, list(servers)) as served, clients(served.port, *servers) as (client, *all_of_them):
            assert client(b"set a 0 0 2000\r\n" + b"x" * 2000 + b"\r\n") == b"STORED\r\n"
            assert all(b"x" * 2000 in each(b"get a\r\n") for each in all_of_them)
            assert b"x" * 2000 in client(b"get a\r\n")
            assert client(b"set q 0 0 1 noreply\r\ny\r\nget q\r\n").startswith(b"VALUE q")
            assert all_of_them[1](b"delete a\r\n") == b"DELETED\r\n"
            assert client(b"get a\r\n") == b"END\r\n" and client(b"delete a\r\n") == b"NOT_FOUND\r\n"
            assert not faults(served.stop())
    with memcached(1) as servers, accepting(failing) as broken, Served(service, [*servers, broken]) as served:
        with clients(served.port) as (client,):
            client.socket.sendall(b"get a\r\n")
            assert client.socket.recv(100) == b"SERVER_ERROR out of order\r\n"


def closing(end: socket.socket) -> None:
    with end:
        end.recv(4096)


def garbage(end: socket.socket) -> None:
    with end, contextlib.suppress(OSError):
        while end.recv(4096):
            end.sendall(b"\0" * 5000)


def silent(end: socket.socket) -> None:
    with end, contextlib.suppress(OSError):
        while end.recv(4096):
            pass


@pytest.mark.parametrize("how", [None, closing, garbage, silent])
def test_all_sync_has_an_answer_when_a_server_has_none(how: Callable[[socket.socket], None] | None) -> None:
    service = load_file("memcached_all_sync")
    with memcached(2) as servers, accepting(how or silent) as port:
        first, second = servers
        backends = [first, port if how else 1, second]
        with Served(service, backends, Limits(down=0, timeout=1)) as served:
            with clients(served.port, first, second) as (client, one, two):
                for value in (b"x", b"y"):
                    assert client(b"set a 0 0 1\r\n%s\r\n" % value) == b"SERVER_ERROR a server failed\r\n"
                    assert one(b"get a\r\n") == two(b"get a\r\n") == b"VALUE a 0 1\r\n%s\r\nEND\r\n" % value
                assert client(b"get a\r\n") == b"SERVER_ERROR a server failed\r\n"
            assert not faults(served.stop())


def answering(name: bytes, delay: float = 0.0) -> Callable[[socket.socket], None]:
    """A server that has a value for each key: the key, and its own name."""

    def one(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            got = b""
            while part := end.recv(4096):
                got += part
                while b"\r\n" in got:
                    line, _, got = got.partition(b"\r\n")
                    key = line.split()[1]
                    time.sleep(delay)
                    value = key + b" of " + name
                    end.sendall(b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value))

    return one


def test_the_fastest_answer_wins_and_the_others_answer_nothing() -> None:
    service = load_file("memcached_all_fastest")
    with contextlib.ExitStack() as stack:
        fast = stack.enter_context(accepting(answering(b"fast")))
        slow = stack.enter_context(accepting(answering(b"slow", 0.05)))
        broken, hanging, junk = (stack.enter_context(accepting(each)) for each in (failing, silent, garbage))
        served = stack.enter_context(Served(service, [hanging, slow, broken, 1, junk, fast], Limits(timeout=2, down=1)))
        (client,) = stack.enter_context(clients(served.port))
        for number in range(30):
            assert b"\r\nkey%d of fast\r\n" % number in client(b"get key%d\r\n" % number)
        time.sleep(2.5)  # what has come of the slow ones is not overdue
        assert b"\r\nkey of fast\r\n" in client(b"get key\r\n")
        assert not faults(served.stop())


def test_a_slow_answer_is_better_than_an_error() -> None:
    service = load_file("memcached_all_fastest")
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(accepting(answering(b"slow", 0.02)))
        broken = stack.enter_context(accepting(failing))
        served = stack.enter_context(Served(service, [1, slow, broken], Limits(down=0)))
        (client,) = stack.enter_context(clients(served.port))
        for number in range(20):
            assert b"\r\nkey%d of slow\r\n" % number in client(b"get key%d\r\n" % number)
        other = stack.enter_context(Served(service, [1, broken, broken], Limits(down=0)))
        (second,) = stack.enter_context(clients(other.port))
        for _ in range(2):
            assert second(b"get a\r\n") == b"SERVER_ERROR no server answers\r\n"
        assert not faults(other.stop()) and not faults(served.stop())


def test_all_servers_have_what_the_fastest_one_has() -> None:
    with memcached(3) as servers, Served(load_file("memcached_all_fastest"), list(servers)) as served:
        with clients(served.port, *servers) as (client, *all_of_them):
            for number in range(50):
                command = b"set k%d 0 0 1 %s\r\nx\r\n" % (number, b"noreply" if number % 5 == 0 else b"")
                if number % 5 == 0:
                    client.socket.sendall(command)
                else:
                    assert client(command) == b"STORED\r\n"
            assert client(b"get k0\r\n").startswith(b"VALUE k0 0 1")
            for each in all_of_them:
                end = time.monotonic() + PATIENCE
                while each(b"get k49\r\n") == b"END\r\n" and time.monotonic() < end:
                    time.sleep(0.01)
                assert each(b"get k0\r\n").startswith(b"VALUE k0 0 1")
            assert not faults(served.stop())


def wired(name: str, **channels: list[int]) -> Served:
    """A service whose channels have names."""
    service = load_file(name)
    return Served(service, {key: [Backend("127.0.0.1", port) for port in ports] for key, ports in channels.items()})


def test_a_shadow_gets_copies_and_changes_no_answer() -> None:
    with memcached(3) as servers:
        first, second, shadow = servers
        with wired("memcached_shadow", backends=[first, second], shadow=[shadow]) as served:
            with clients(served.port, shadow) as (client, other):
                for number in range(20):
                    assert client(b"set k%d 0 0 1\r\nx\r\n" % number) == b"STORED\r\n"
                end = time.monotonic() + PATIENCE
                while b"VALUE k19" not in other(b"get k19\r\n"):
                    assert time.monotonic() < end
                assert all(b"VALUE" in other(b"get k%d\r\n" % number) for number in range(20))
            assert not faults(served.stop())


@pytest.mark.parametrize("how", ["dead", "garbage"])
def test_a_shadow_that_fails_changes_no_answer(how: str) -> None:
    with memcached(1) as servers, accepting(failing) as broken:
        shadow = 1 if how == "dead" else broken
        with wired("memcached_shadow", backends=list(servers), shadow=[shadow]) as served:
            with clients(served.port) as (client,):
                for _ in range(5):
                    assert client(b"set k 0 0 1\r\nx\r\n") == b"STORED\r\n"
                    assert client(b"get k\r\n") == b"VALUE k 0 1\r\nx\r\nEND\r\n"
            assert not faults(served.stop())


def test_a_cold_server_is_warmed_up() -> None:
    with memcached(2) as servers:
        first, second = servers
        with wired("memcached_warm_up", cold=[first], warm=[second]) as served:
            with clients(served.port, first, second) as (client, cold, warm):
                assert warm(b"set a 7 0 5\r\nhe\r\no\r\n") == b"STORED\r\n"
                assert client(b"get a\r\n") == b"VALUE a 7 5\r\nhe\r\no\r\nEND\r\n"
                end = time.monotonic() + PATIENCE
                while cold(b"get a\r\n") != b"VALUE a 7 5\r\nhe\r\no\r\nEND\r\n":
                    assert time.monotonic() < end
                assert client(b"get absent\r\n") == b"END\r\n"
                for key in (b"x", b"y", b"z"):
                    assert cold(b"set %s 0 0 1\r\n1\r\n" % key) == b"STORED\r\n"
                assert client(b"gat 0 x y z\r\n").count(b"VALUE") == client(b"get x y z\r\n").count(b"VALUE") == 3
                assert client(b"set b 0 0 1\r\nx\r\n") == b"STORED\r\n" and warm(b"get b\r\n") == b"END\r\n"
                servers[second].kill()
                servers[second].wait()
                assert client(b"get absent\r\n") == b"END\r\n"
            assert not faults(served.stop())


def test_statistics_of_a_pool() -> None:
    with memcached(2) as servers, Served(load_file("memcached_multiget"), list(servers)) as served:
        with clients(served.port) as (client,):
            assert client(b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
            lines = client(b"stats\r\n").splitlines()
            found = dict(line.split()[1:] for line in lines[:-1])
            assert lines[-1] == b"END" and len(found) == 10
            assert sum(int(found[b"backend_%d_answers" % number]) for number in range(2)) == 1
            assert found[b"backend_1_failures"] == b"0"
            assert b"STAT maxbytes" in client(b"stats settings\r\n")
