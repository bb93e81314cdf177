"""The Memcached router between real clients and real servers, on loopback."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.service.bounds import Limits
from tests.service.peers import (
    PATIENCE,
    Served,
    faults,
    memcached,
    needs_clients,
    needs_memcached,
    read_answer,
    read_exactly,
    read_to_end,
)
from tests.service.programs import command
from tests.service.programs import router as router_service

pytestmark = needs_memcached

GET, SET, NOOP = 0, 1, 10
EXTRAS = bytes(8)
"""Flags and expiry of a SET."""


@pytest.fixture(scope="module")
def servers() -> Iterator[list[int]]:
    with memcached(4) as found:
        yield list(found)


def serve(backends: list[int], **limits: Any) -> Served:
    return Served(router_service(), backends, Limits(**limits))


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_clients
def test_libmemcacheds_own_programs_store_and_read(servers: list[int], tmp_path: Path) -> None:
    files = [tmp_path / f"file{i}" for i in range(20)]
    for i, path in enumerate(files):
        path.write_bytes(f"content {i}\n".encode() * 100)
    with serve(servers) as router:
        at = f"--servers=127.0.0.1:{router.port}"
        run("memccp", "--binary", at, *map(str, files))
        assert run("memccat", "--binary", at, *(path.name for path in files)) == "".join(
            f"{path.read_text()}\n" for path in files
        )
        run("memcrm", "--binary", at, files[0].name)
        counters = router.stop()
    assert not faults(counters)
    assert counters["messages received"] == counters["messages sent"] > 80


@needs_clients
def test_libmemcacheds_load_tool(servers: list[int]) -> None:
    with serve(servers, workers=2) as router:
        load = ("--concurrency=4", "--execute-number=500", "--initial-load=500", "--test=get")
        text = run("memcslap", "--binary", f"--servers=127.0.0.1:{router.port}", *load)
        counters = router.stop()
    assert "2000 keys" in text
    assert not faults(counters)
    ended = counters["instances ended by their program"] + counters["instances ended by the end of the service"]
    assert ended == counters["connections accepted"]


def test_a_keys_hash_chooses_the_server(servers: list[int]) -> None:
    keys = [f"key {i}".encode() for i in range(100)]
    with serve(servers) as router, router.connect() as client:
        for i, key in enumerate(keys):
            client.sendall(command(key, b"value of " + key, EXTRAS, SET, opaque=i))
            assert read_answer(client)[:2] == (0, i)
    found: list[list[bytes]] = []
    for port in servers:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as direct:
            found.append([])
            for key in keys:
                direct.sendall(command(key))
                status, _, value = read_answer(direct)
                if status == 0:
                    assert value == b"value of " + key
                    found[-1].append(key)
    assert sorted(key for each in found for key in each) == sorted(keys)
    assert all(each for each in found)


def test_large_values_and_many_requests_in_flight(servers: list[int]) -> None:
    value = bytes(range(256)) * 3000
    with serve(servers, buffer_size=4096) as router, router.connect() as client:
        client.sendall(command(b"large", value, EXTRAS, SET))
        assert read_answer(client)[0] == 0
        client.sendall(b"".join(command(b"large", opaque=i) for i in range(20)))
        for i in range(20):
            assert read_answer(client) == (0, i, value)
        assert not faults(router.stop())


def test_a_slow_reader_stops_its_writers_and_memory_stays_bounded(servers: list[int]) -> None:
    value, requests = b"v" * 500_000, 200
    with serve(servers) as router, router.connect() as client:
        client.sendall(command(b"slow", value, EXTRAS, SET))
        assert read_answer(client)[0] == 0
        before = router.memory()
        client.sendall(b"".join(command(b"slow", opaque=i) for i in range(requests)))
        with router.connect() as other:  # another client is served meanwhile
            for i in range(50):
                other.sendall(command(b"slow", opaque=i))
                assert read_answer(other)[1] == i
        assert router.memory() - before < 1 << 20
        for i in range(requests):
            assert read_answer(client) == (0, i, value)
        assert not faults(router.stop())


def test_a_client_that_shuts_its_half_has_all_answers(servers: list[int]) -> None:
    with serve(servers) as router, router.connect() as client:
        client.sendall(b"".join(command(f"absent {i}".encode(), opaque=i) for i in range(50)))
        client.shutdown(socket.SHUT_WR)
        answers = sorted(read_answer(client)[1] for _ in range(50))
        assert answers == list(range(50))
        assert client.recv(1) == b""
        counters = router.stop()
    assert not faults(counters) and counters["instances ended by their program"] == 1


def test_a_malformed_request_ends_its_connection_and_no_other(servers: list[int]) -> None:
    bad = bytearray(command(b"key", b"value"))
    bad[8:12] = bytes(4)
    with serve(servers) as router, router.connect() as good, router.connect() as client:
        client.sendall(bytes(bad))
        assert read_to_end(client) == b""
        good.sendall(command(b"absent"))
        assert read_answer(good)[0] == 1
        assert faults(router.stop()) == {"faults: malformed message": 1}


def test_a_request_cut_short_is_counted(servers: list[int]) -> None:
    with serve(servers) as router:
        with router.connect() as client:
            client.sendall(command(b"key", b"value", EXTRAS, SET)[:-1])  # to which no server answers before its end
            client.shutdown(socket.SHUT_WR)
            assert read_to_end(client) == b""
        assert faults(router.stop()) == {"faults: a connection ended within a message": 1}


def test_a_backend_that_refuses_ends_the_connection() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with serve([closed.getsockname()[1]]) as router, router.connect() as client:
            client.sendall(command(b"key"))
            assert read_to_end(client) == b""
            assert faults(router.stop()) == {"faults: a backend could not be connected": 1}


@pytest.mark.parametrize("answered", [False, True])
def test_a_backend_that_closes(answered: bool) -> None:
    """With an answer due it is a fault; with none the next request opens another connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        with serve([listener.getsockname()[1]]) as router, router.connect() as client:
            for _ in range(2):
                client.sendall(command(b"key"))
                backend, _ = listener.accept()
                backend.settimeout(PATIENCE)
                assert read_exactly(backend, 27) == command(b"key")
                if answered:
                    backend.sendall(command(b"", b"answer", magic=0x81))
                    assert read_answer(client)[2] == b"answer"
                backend.close()
                if not answered:
                    assert read_to_end(client) == b""
                    break
            counters = router.stop()
    assert faults(counters) == ({} if answered else {"faults: a backend closed while answers were due": 1})
    assert counters["connections to backends"] == (2 if answered else 1)


def test_an_answer_that_breaks_off_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        with serve([listener.getsockname()[1]]) as router, router.connect() as client:
            client.sendall(command(b"key"))
            backend, _ = listener.accept()
            backend.settimeout(PATIENCE)
            read_exactly(backend, 27)
            answer = command(b"", b"answer" * 100, magic=0x81)
            backend.sendall(answer[:200])
            backend.close()
            assert answer.startswith(read_to_end(client))
            assert faults(router.stop()) == {"faults: a connection ended within a message": 1}


def test_more_connections_than_instances_wait(servers: list[int]) -> None:
    with serve(servers, instances=2, buffers=64) as router:
        clients = [router.connect() for _ in range(6)]
        for i, client in enumerate(clients):
            client.sendall(command(b"absent", opaque=i))
        for i, client in enumerate(clients):
            assert read_answer(client)[1] == i
            client.close()
        counters = router.stop()
    assert not faults(counters)
    assert counters["waits of the listener: all instances were in use"] > 0


def test_idle_connections_end(servers: list[int]) -> None:
    with serve(servers, idle=1) as router, router.connect() as client:
        assert read_to_end(client) == b""
        assert faults(router.stop()) == {"faults: nothing happened for the idle time": 1}
