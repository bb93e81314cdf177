"""The memory of idle connections: a program's variables take none between two requests."""

from __future__ import annotations

import contextlib

import pytest

from sluice.service.bounds import Limits, bounds_of
from sluice.service.build import build_program
from sluice.service.load import load_file
from sluice.service.lower.program import lower
from tests.service.peers import Served, free_port

NAMES = ("memcached_text_router", "memcached_multiget", "memcached_binary_failover", "http_failover", "redis_router")
COUNT = 400


@pytest.mark.parametrize("name", NAMES)
def test_an_idle_connection_takes_less_than_a_kilobyte(name: str) -> None:
    """With four backends, as `sluice serve --check` prints it; the variables are part of what is reserved."""
    service = load_file(name)
    process = service.process()
    program = build_program(process.name, lower(service, process).source)
    few, many = (bounds_of(program, 5, Limits(instances=count)) for count in (1000, 2000))
    assert few.instance < 1024
    variables = few.busy - few.instance - 10 * 16448
    assert variables > 0 and many.total - few.total >= 1000 * (few.instance + variables)


def test_idle_connections_use_the_memory_of_variables_in_turn() -> None:
    """What a process takes for connections that have all had an answer, most of which idle."""
    with Served(load_file("memcached_multiget"), [free_port()]) as served, contextlib.ExitStack() as stack:

        def connect(count: int) -> int:
            for _ in range(count):
                client = stack.enter_context(served.connect())
                client.sendall(b"stats\r\n")
                found = b""
                while not found.endswith(b"END\r\n"):
                    found += client.recv(4096)
            return served.memory()

        before = connect(20)
        assert (connect(COUNT) - before) / COUNT < 1400
