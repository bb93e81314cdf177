"""The ready services between real clients and real servers, and what hostile or broken peers do to them."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.service.bounds import Limits
from sluice.service.grammar.scan import vint
from sluice.service.load import load_file, load_source, ready_services
from sluice.service.lower.program import lower
from tests.service.peers import PATIENCE, Served, free_port, memcached, needs_memcached, nginx, read_to_end, redis
from tests.service.programs import ROOT
from tests.service.test_ready import kv, segment
from tests.service.web import HEAD, head_of, origin
from tests.support.bounded import killed_after

needs_nginx = pytest.mark.skipif(
    not (shutil.which("nginx") and shutil.which("curl")), reason="there is no nginx or curl"
)


@pytest.mark.parametrize("name", ready_services())
def test_ready_services_are_compiled(name: str) -> None:
    service = load_file(name)
    assert lower(service, service.process()).source


@contextlib.contextmanager
def two_servers(folder: Path) -> Iterator[list[int]]:
    """Two web servers, which answer with their number; /data is a file."""
    ports = [free_port(), free_port()]
    (folder / "data").write_bytes(bytes(range(256)) * 4000)
    servers = "".join(
        f"server {{ listen 127.0.0.1:{port}; root {folder}; location = / {{ return 200 'number {number}\\n'; }} }}"
        for number, port in enumerate(ports)
    )
    with nginx(folder, f"access_log off; {servers}", *ports):
        yield ports


def curl(port: int, *arguments: str) -> bytes:
    command = ["curl", "-s", "-S", "-m", "20", *arguments, f"http://127.0.0.1:{port}/"]
    return subprocess.run(command, capture_output=True, check=True, timeout=300).stdout


@needs_nginx
def test_curl_and_nginx_through_the_balancer(tmp_path: Path) -> None:
    with two_servers(tmp_path) as ports, Served(load_file("http_round_robin"), ports) as balancer:
        assert {curl(balancer.port) for _ in range(4)} == {b"number 0\n", b"number 1\n"}
        head = curl(balancer.port, "-I")
        assert head.startswith(b"HTTP/1.1 200") and b"Content-Length: 9" in head
        twice = [
            "-s",
            "-S",
            "-m",
            "20",
            f"http://127.0.0.1:{balancer.port}/data",
            f"http://127.0.0.1:{balancer.port}/data",
        ]
        data = (tmp_path / "data").read_bytes()
        assert subprocess.run(["curl", *twice], capture_output=True, check=True, timeout=300).stdout == data * 2
        assert b"Connection: close" in curl(balancer.port, "-i", "-H", "Connection: close")
        counters = balancer.stop()
    assert counters["idle connections to backends used again"] > 0
    assert not any(value for name, value in counters.items() if name.startswith("faults"))


def test_the_aggregator_adds_the_counts_of_sorted_segments() -> None:
    rng = random.Random(4)
    counts: dict[bytes, int] = {}
    segments: list[bytes] = []
    for _ in range(3):
        words = sorted(rng.sample([b"word%d" % i for i in range(200)] + [b"long" * 50], 120))
        values = [rng.randrange(1000) for _ in words]
        for word, value in zip(words, values, strict=True):
            counts[word] = counts.get(word, 0) + value
        segments.append(segment([kv(word, value) for word, value in zip(words, values, strict=True)]))
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in segments]
        threads = [
            threading.Thread(target=_give, args=(each, data), daemon=True)
            for each, data in zip(listeners, segments, strict=True)
        ]
        for thread in threads:
            thread.start()
        ports = [each.getsockname()[1] for each in listeners]
        service = stack.enter_context(Served(load_file("aggregator"), ports))
        client = stack.enter_context(service.connect())
        merged = read_to_end(client)
        assert not any(value for name, value in service.stop().items() if name.startswith("faults"))
    body, total = merged[:-4], struct.unpack(">I", merged[-4:])[0]
    assert zlib.crc32(body) == total
    assert _pairs(body) == sorted(counts.items())


def _give(listener: socket.socket, data: bytes) -> None:
    listener.settimeout(PATIENCE)
    accepted, _ = listener.accept()
    with accepted:
        accepted.sendall(data)


def _pairs(body: bytes) -> list[tuple[bytes, int]]:
    found: list[tuple[bytes, int]] = []
    at = 0
    while body[at:] != b"\xff\xff":
        _, at = vint(body, at)
        _, at = vint(body, at)
        size, at = vint(body, at)
        found.append((body[at : at + size], struct.unpack(">i", body[at + size : at + size + 4])[0]))
        at += size + 4
    return found


@needs_memcached
def test_the_text_router_and_memcached() -> None:
    with memcached(2) as servers, Served(load_file("memcached_text_router"), list(servers)) as router:
        with router.connect() as client:
            stored = b"".join(b"set key%d 0 0 5 noreply\r\nabcd%d\r\n" % (i, i) for i in range(5))
            client.sendall(stored + b"".join(b"get key%d\r\n" % i for i in range(5)) + b"delete absent\r\n")
            client.shutdown(socket.SHUT_WR)
            wanted = b"".join(b"VALUE key%d 0 5\r\nabcd%d\r\nEND\r\n" % (i, i) for i in range(5))
            assert read_to_end(client) == wanted + b"NOT_FOUND\r\n"


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")
def test_the_redis_router_and_redis(tmp_path: Path) -> None:
    with redis(tmp_path) as port, Served(load_file("redis_router"), [port]) as router, router.connect() as client:
        client.sendall(b"\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nhi\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n")
        client.shutdown(socket.SHUT_WR)
        assert read_to_end(client) == b"+OK\r\n$2\r\nhi\r\n+PONG\r\n"


HANDLING = """\
type request: record
  uri : string

type response: record
  version : string
  status  : string
  reason  : string
  headers : string
  body    : string

proc P: (request/response client, response/request backend)
  let req = ? client
  req => backend
  (? backend) => client
  except broken_connection: client ! answer("502")
  except timeout: client ! answer("504")

fun answer: (status: string) -> (response)
  response("HTTP/1.1", status, "Sorry", "Content-Length: 0\\r\\n", "")
"""
LIMITS = Limits(timeout=1, message_time=1)
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def test_a_backend_that_hangs_is_answered_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as backend:
        service = load_source(HANDLING, ["http"])
        with Served(service, [backend.getsockname()[1]], LIMITS) as served, served.connect() as client:
            client.settimeout(PATIENCE)
            client.sendall(GET)
            assert client.recv(100).startswith(b"HTTP/1.1 504 Sorry\r\n")
            assert served.stop()["faults handled by the program"] == 1


def test_a_backend_that_refuses_is_answered_for() -> None:
    service = load_source(HANDLING, ["http"])
    with Served(service, [free_port()], LIMITS) as served, served.connect() as client:
        client.settimeout(PATIENCE)
        for _ in range(2):
            client.sendall(GET)
            assert client.recv(100).startswith(b"HTTP/1.1 502 Sorry\r\n")
        assert served.stop()["faults handled by the program"] == 2


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HT", "faults: a message did not arrive in time"),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", "faults: malformed message"),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "faults: malformed message"),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "faults: malformed message"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "faults: malformed message"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;\nabc\r\n", "faults: malformed message"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na\nb\r\n", "faults: malformed message"),
        (b"GET / HTTP/1.1\nContent-Length: 60\r\nHost: a\r\n\r\n", "faults: malformed message"),
        (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "faults: malformed message"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 20000, "faults: message larger than a buffer"),
    ],
    ids=["slow", "space", "lengths", "both", "chunk", "extension", "trailer", "line feed", "version", "huge"],
)
def test_hostile_clients_are_counted(sent: bytes, reason: str, hostile: Served) -> None:
    REASONS.append(reason)
    with hostile.connect() as client:
        client.settimeout(PATIENCE)
        client.sendall(sent)
        answer = read_to_end(client)
        assert answer.startswith(b"HTTP/1.1 400 ") if reason == "faults: malformed message" else answer == b""


REASONS: list[str] = []
"""What the service has to count."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as backend:
        with Served(load_file("http_balancer"), [backend.getsockname()[1]], LIMITS) as served:
            yield served
            counters = served.stop()
    for reason in set(REASONS):
        assert counters[reason] == REASONS.count(reason)


def test_what_waits_for_a_buffer_ends_in_time_and_goes_on_when_one_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as backend:
        limits = Limits(buffers=1, idle=1, message_time=0)
        with Served(load_file("http_balancer"), [backend.getsockname()[1]], limits) as served:
            with served.connect() as holder, served.connect() as starved:
                holder.sendall(b"GET / HTTP/1.1\r\nX: ")
                time.sleep(0.2)
                starved.sendall(GET)
                starved.settimeout(0.1)
                with pytest.raises(ConnectionResetError):
                    for _ in range(int(10 * PATIENCE)):
                        holder.sendall(b"x")  # it is not idle
                        with contextlib.suppress(TimeoutError):
                            starved.recv(1)
                time.sleep(1)
                with served.connect() as waiting:
                    waiting.sendall(b"GET\n / HTTP/1.1\r\n\r\n")
                    waiting.settimeout(PATIENCE)
                    assert read_to_end(waiting).startswith(b"HTTP/1.1 400 ")
            counters = served.stop()
    assert counters["waits for a buffer: the pool was empty"] >= 1
    assert counters["faults: nothing happened for the idle time"] == 2
    assert counters["faults: malformed message"] == 1


def test_several_services_in_one_process(tmp_path: Path) -> None:
    config = tmp_path / "services.toml"
    config.write_text(
        'workers = 2\n[web]\nprogram = "http_balancer"\nlisten = "127.0.0.1:0"\nbackends = ["127.0.0.1:1"]\n'
        '[cache]\nprogram = "memcached_router"\nlisten = "127.0.0.1:0"\nbackends = ["127.0.0.1:1"]\nshare = 2\n'
    )
    command = [sys.executable, "-m", "sluice", "serve", "--config", str(config), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    with killed_after(process, PATIENCE):
        ready = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [each["service"] for each in ready] == ["web", "cache"]
    for each in ready:
        with socket.create_connection(("127.0.0.1", int(each["ready"].rpartition(":")[2])), PATIENCE):
            pass
    process.send_signal(signal.SIGTERM)
    with killed_after(process, PATIENCE):
        counters = [json.loads(line)["counters"] for line in process.stdout]
    assert process.wait(PATIENCE) == 0
    assert [each["connections accepted"] for each in counters] == [1, 1]


def test_metrics_are_read_next_to_clients_that_send_nothing_or_slowly() -> None:
    command = [sys.executable, "-m", "sluice", "serve", "http_balancer", "--listen", "127.0.0.1:0", "--json"]
    command += ["--backends", f"127.0.0.1:{free_port()}", "--metrics", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    with killed_after(process, PATIENCE):
        metrics, served = [json.loads(process.stdout.readline())[name] for name in ("metrics", "ready")]
    host, _, port = metrics.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as silent:
        with socket.create_connection((host, int(served.rpartition(":")[2])), PATIENCE) as client:
            client.sendall(GET)
            assert read_to_end(client) == b""
        with socket.create_connection((host, int(port)), PATIENCE) as reader:
            reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            head, _, body = read_to_end(reader).partition(b"\r\n\r\n")
        silent.settimeout(0.01)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # also one that sends a byte at a time
            for _ in range(200):
                with contextlib.suppress(TimeoutError):
                    assert silent.recv(1) == b""
                silent.sendall(b"x")
                time.sleep(0.1)
    with socket.create_connection((host, int(port)), PATIENCE) as silent:
        silent.settimeout(PATIENCE)
        silent.sendall(b"x")
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionResetError):  # the byte was not read before
            assert silent.recv(1) == b""
    with killed_after(process, PATIENCE):
        counters = json.loads(process.stdout.readline())["counters"]
    assert process.wait(PATIENCE) == 0
    assert head.startswith(b"HTTP/1.1 200 OK")
    lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    for event, value in counters.items():
        assert lines[f'sluice_events_total{{service="Balancer",number="0",event="{event}"}}'] == str(value)
    assert counters["faults: a backend could not be connected"] == 1
    assert lines['sluice_backend_up{service="Balancer",number="0",channel="backends",backend="0"}'] == "0"


def test_metrics_say_what_each_backend_has_done() -> None:
    def slow(accepted: socket.socket, _: bytes) -> None:
        time.sleep(0.06)
        accepted.sendall(HEAD % 0)

    with origin(lambda accepted, _: accepted.sendall(HEAD % 0)) as quick, origin(slow) as other:
        command = [sys.executable, "-m", "sluice", "serve", "http_failover", "--listen", "127.0.0.1:0", "--json"]
        command += ["--backends", f"127.0.0.1:{quick},127.0.0.1:{other},127.0.0.1:1", "--metrics", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        with killed_after(process, PATIENCE):
            metrics, served = [json.loads(process.stdout.readline())[name] for name in ("metrics", "ready")]
        try:
            with socket.create_connection(("127.0.0.1", int(served.rpartition(":")[2])), PATIENCE) as client:
                for _ in range(7):
                    client.sendall(GET)
                    assert b"200 OK" in head_of(client)
            with socket.create_connection(("127.0.0.1", int(metrics.rpartition(":")[2])), PATIENCE) as reader:
                reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
                text = read_to_end(reader).decode()
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("sluice_backend"))

    def values(name: str, more: str = "") -> list[float]:
        labels = 'service="Balancer",number="0",channel="backends",backend="%d"'
        return [float(found[f"sluice_backend_{name}{{{labels % number}{more}}}"]) for number in range(3)]

    assert sum(values("answers_total")) == 7 and values("answers_total")[2] == 0
    assert values("requests_total")[:2] == values("answers_total")[:2] == values("answer_seconds_count")[:2]
    assert values("failures_total")[:2] == [0, 0] and values("failures_total")[2] >= 1
    assert values("answer_seconds_bucket", ',le="+Inf"') == values("answer_seconds_count")
    assert values("answer_seconds_bucket", ',le="0.05"')[1] == 0, "it takes 60 ms at least"
    assert values("answer_seconds_sum")[1] >= 0.06 * values("answers_total")[1] > 0
    for number, count in enumerate(values("answer_seconds_count")):
        buckets = [float(value) for name, value in found.items() if f'"{number}",le=' in name]
        assert buckets == sorted(buckets) and buckets[-1] == count
