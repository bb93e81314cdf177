"""The PROXY protocol: trusted proxies, hostile headers, headers that backends are sent; HAProxy on either side."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.service.bounds import Limits
from sluice.service.load import load_file, load_source
from sluice.service.serve import Backend, Tls, read_networks
from tests.service.certificates import make_certificate, needs_tls
from tests.service.harness import mutated, run_harness
from tests.service.peers import PATIENCE, Served, accepting, faults, free_port, read_exactly, read_to_end, wait_for
from tests.service.proxy_headers import GOOD, HOSTILE, SAID, SIGNATURE, version_2
from tests.service.web import GET, HEAD

LOCAL = read_networks("127.0.0.0/8")
BAD = "faults: malformed PROXY header"
WEB = load_file("http_round_robin")
needs_haproxy = pytest.mark.skipif(shutil.which("haproxy") is None, reason="there is no haproxy")

WHO = load_source(
    """\
type request: record
  method : string

type response: record
  version : string
  status  : string
  reason  : string
  headers : string
  body    : string

proc Who: (request/response client)
  local text : string := int_to_string(address_to_int src_address(client)) @ " " @ int_to_string(src_port(client))
  let req = ? client
  client ! response("HTTP/1.1", "200", "OK", "Content-Length: " @ int_to_string(len(text)) @ "\\r\\n", text)
""",
    ["http"],
)
"""Answers with the client's address and port, as they are when its state gets its first value."""


def ask(served: Served, header: bytes, cut: int = 0) -> bytes:
    with served.connect() as client:
        if cut:
            client.sendall(header[:cut])
            time.sleep(0.02)
        client.sendall(header[cut:] + GET.replace(b"Host", b"Connection: close\r\nHost"))
        return read_to_end(client).rpartition(b"\r\n\r\n")[2]


def test_a_trusted_proxy_says_where_the_client_is() -> None:
    with Served(WHO, [], trusted=LOCAL) as served:
        for header, said in GOOD:
            for cut in {0, 1, 5, len(header) // 2, len(header) - 1}:
                got = ask(served, header, cut)
                assert got == said or (not said and got.startswith(str(127 << 24 | 1).encode()))
        counters = served.stop()
    assert not faults(counters) and counters["connections with a PROXY header"] > 4 * len(GOOD)


def test_hostile_headers_are_counted_next_to_good_ones() -> None:
    with Served(WHO, [], Limits(message_time=1, instances=64), trusted=LOCAL) as served:
        with served.connect() as slow, served.connect() as half:
            slow.sendall(SIGNATURE)
            half.sendall(b"PROXY TCP4 10.0.0.1")
            half.shutdown(socket.SHUT_WR)
            assert read_to_end(half) == b""
            for header in HOSTILE:
                assert ask(served, header) == b"", header
                assert ask(served, GOOD[0][0]) == SAID
            assert read_to_end(slow) == b""
        counters = served.stop()
    assert faults(counters) == {
        BAD: len(HOSTILE),
        "faults: a connection ended within a message": 1,
        "faults: a message did not arrive in time": 1,
    }


def test_headers_of_others_are_no_headers() -> None:
    """A client that is not trusted cannot claim an address; without a header it is served."""
    with Served(WHO, [], trusted=read_networks("10.0.0.0/8,::1")) as served:
        assert ask(served, b"").startswith(str(127 << 24 | 1).encode())
        assert ask(served, GOOD[0][0]) == b""
        assert faults(served.stop()) == {"faults: malformed message": 1}


@pytest.mark.parametrize("version", [1, 2])
def test_a_backend_gets_the_addresses_of_each_client_and_of_no_other(version: int) -> None:
    got: list[bytes] = []

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            accepted.settimeout(PATIENCE)
            data = b""
            while GET not in data:
                data += accepted.recv(4096)
            got.append(data)
            accepted.sendall(HEAD % 2 + b"ok")
            accepted.recv(1)

    with accepting(one) as port, Served(WEB, [port], Limits(backend_proxy=version)) as served:
        names: list[tuple[str, int]] = []
        for _ in range(3):
            with served.connect() as client:
                client.sendall(GET)
                assert read_exactly(client, len(HEAD % 2) + 2).endswith(b"ok")
                names.append(client.getsockname())
        served.stop()
        for (host, number), data in zip(names, got, strict=True):
            pair = socket.inet_aton(host) * 2 + struct.pack(">HH", number, served.port)
            text = f"PROXY TCP4 {host} {host} {number} {served.port}\r\n".encode()
            assert data == (text if version == 1 else version_2(pair)) + GET


@contextlib.contextmanager
def haproxy(folder: Path, frontend: str, server: str) -> Iterator[int]:
    """HAProxy in front of a server; its port."""
    port = free_port()
    (folder / "haproxy.cfg").write_text(f"""\
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend f
  bind 127.0.0.1:{port} {frontend}
  http-request set-header X-Client %[src]:%[src_port]
  default_backend b
backend b
  server s {server}
""")
    process = subprocess.Popen(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield port
    finally:
        process.kill()
        process.wait()


@needs_haproxy
@pytest.mark.parametrize("send", ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"])
def test_haproxy_in_front(send: str, tmp_path: Path) -> None:
    with Served(WHO, [], trusted=LOCAL) as served:
        with haproxy(tmp_path, "", f"127.0.0.1:{served.port} {send}") as port:
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
                own = client.getsockname()[1]
                client.sendall(GET.replace(b"Host", b"Connection: close\r\nHost"))
                assert read_to_end(client).endswith(f"{127 << 24 | 1} {own}".encode())
        assert served.stop()["connections with a PROXY header"] == 1


@needs_haproxy
@pytest.mark.parametrize("version", [1, 2])
def test_haproxy_as_a_backend_with_health_checks(version: int, tmp_path: Path) -> None:
    """HAProxy writes the address that the header has into a field of the request."""
    heads: list[bytes] = []

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            accepted.settimeout(PATIENCE)
            data = b""
            while b"\r\n\r\n" not in data:
                data += accepted.recv(4096)
            heads.append(data)
            accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    limits = Limits(backend_proxy=version, health=1, health_path="/health", health_fall=1)
    with accepting(one) as web, haproxy(tmp_path, "accept-proxy", f"127.0.0.1:{web}") as port:
        with Served(WEB, [port], limits) as served:
            end = time.monotonic() + PATIENCE
            while not any(b"GET /health" in head for head in heads):
                assert time.monotonic() < end
                time.sleep(0.05)
            with served.connect() as client:
                client.sendall(GET)
                assert client.recv(100).startswith(b"HTTP/1.1 200")
                own = client.getsockname()[1]
            counters = served.stop()
    assert any(f"x-client: 127.0.0.1:{own}\r\n".encode() in head.lower() for head in heads)
    assert counters["health checks that succeeded"] >= 1 and not faults(counters)


@needs_tls
def test_the_header_comes_before_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "localhost")
    tls = Tls((certificate,), ("http/1.1",), certificate[0])
    with Served(WHO, [], tls=tls, trusted=LOCAL) as inner:
        place = Backend("127.0.0.1", inner.port, "localhost")
        with Served(WEB, [place], Limits(backend_proxy=2), Tls(authorities=certificate[0])) as served:
            with served.connect() as client:
                client.sendall(GET)
                assert str(client.getsockname()[1]).encode() in client.recv(1000)
            served.stop()
        assert inner.stop()["connections with a PROXY header"] == 1


def test_the_fuzzer_with_mutated_headers(tmp_path: Path) -> None:
    """All cuts and some mutations of headers that are good and of hostile ones."""
    headers = [*(each for each, _ in GOOD), *HOSTILE]
    cuts = [header[:cut] for header in headers for cut in range(len(header) + 1)]
    run_harness("fuzz_proxy_header", tmp_path, [*cuts, *mutated(headers, 50)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--proxy-protocol", "10.0.0.0/33"], "'10.0.0.0/33' is no address or network"),
        (["--proxy-protocol", "proxy.example"], "'proxy.example' is no address or network"),
        (["--backend-proxy", "3"], "--backend-proxy 3: version 1 or 2, or 0 for none"),
    ],
)
def test_wrong_usage(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "http_failover", "--listen", "127.0.0.1:0", "--backends", "127.0.0.1:1", *options]) == 2
    assert message in capsys.readouterr().err
