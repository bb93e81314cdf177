"""Clients and load tools of others through services, in front of real servers: redis-cli and redis-benchmark, curl, wrk
and ab.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.service.load import load_file
from tests.service.peers import Served, faults, free_port, nginx, redis

PAGE = b"page\n" * 4000


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [each for each in programs if shutil.which(each) is None]
    return pytest.mark.skipif(bool(missing), reason=f"there is no {', '.join(missing)}")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs("redis-server", "redis-cli", "redis-benchmark")
def test_programs_of_redis(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for each in folders:
        each.mkdir()
    with redis(folders[0]) as first, redis(folders[1]) as second:
        with Served(load_file("redis_router"), [first, second]) as served:
            at = ["redis-cli", "-p", str(served.port)]
            for number in range(20):
                assert run(*at, "set", f"key{number}", f"a value {number}") == "OK\n"
            assert [run(*at, "get", f"key{number}") for number in (0, 19)] == ["a value 0\n", "a value 19\n"]
            assert (
                run(*at, "rpush", "list", "a", "b", "c") == "3\n" and run(*at, "lrange", "list", "1", "-1") == "b\nc\n"
            )
            sizes = [int(run("redis-cli", "-p", str(port), "dbsize")) for port in (first, second)]
            assert sum(sizes) == 21 and min(sizes) > 0, "the keys are divided among the servers"
            load = ["redis-benchmark", "-p", str(served.port), "-n", "2000", "-c", "20", "-r", "500", "-q"]
            for depth in ("1", "16"):
                out = run(*load, "-P", depth, "-d", "100", "-t", "set,get,incr,lpush,rpop,sadd,hset")
                assert out.count("requests per second") == 7 and "Error" not in out, out
            assert not faults(served.stop())


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Served]:
    """Two web servers of nginx after a balancer."""
    (tmp_path / "page").write_bytes(PAGE)
    ports = free_port(), free_port()
    http = "".join(f"server {{ listen 127.0.0.1:{port}; root {tmp_path}; }}" for port in ports)
    with nginx(tmp_path, http, *ports), Served(load_file("http_round_robin"), list(ports)) as served:
        yield served


def address(balancer: Served) -> str:
    return f"http://127.0.0.1:{balancer.port}/page"


@needs("nginx", "curl")
def test_curl(balancer: Served) -> None:
    url = address(balancer)
    assert run("curl", "-s", url, url, url).encode() == PAGE * 3
    assert run("curl", "-s", "-r", "5-9", "--http1.0", url).encode() == b"page\n"
    assert not faults(balancer.stop())


@needs("nginx", "ab")
@pytest.mark.parametrize("more", [[], ["-k"]])
def test_ab(balancer: Served, more: list[str]) -> None:
    """It uses HTTP/1.0."""
    out = run("ab", "-q", "-n", "500", "-c", "8", *more, address(balancer))
    assert re.search(r"Complete requests:\s+500\n", out) and re.search(r"Failed requests:\s+0\n", out), out
    assert "Non-2xx" not in out and not faults(balancer.stop())


@needs("nginx", "wrk")
@pytest.mark.parametrize("more", [[], ["-H", "Connection: close"]])
def test_wrk(balancer: Served, more: list[str]) -> None:
    out = run("wrk", "-t", "1", "-c", "8", "-d", "1s", *more, address(balancer))
    assert "requests in" in out and "Non-2xx" not in out and "Socket errors" not in out, out
    assert set(faults(balancer.stop())) <= {"faults: connection reset"}, "it ends within requests"
