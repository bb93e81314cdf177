"""HTTP/2 to backends that are real servers: nginx and nghttpd."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import load_file
from sluice.service.serve import Backend, Tls
from tests.service.certificates import make_certificate, needs_tls
from tests.service.frames import needs_http2
from tests.service.h2_backend import ASKED, UPLINKS, get, plain
from tests.service.peers import PATIENCE, Served, faults, free_port, nghttpd, nginx, read_to_end
from tests.service.test_http2 import curl, needs_curl, needs_h2load

pytestmark = needs_http2

FAILOVER, WEB = load_file("http_failover"), load_file("http_round_robin")
BODY = bytes(range(256)) * 8192
needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx")
needs_nghttpd = pytest.mark.skipif(shutil.which("nghttpd") is None, reason="there is no nghttpd (nghttp2-server)")


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[int, int, str]]:
    """nginx with HTTP/2, without TLS and with it; the certificate. A connection has 50 requests at most."""
    chain, key = make_certificate(tmp_path, "localhost")
    (tmp_path / "page").write_bytes(BODY)
    (tmp_path / "index.html").write_bytes(b"hello")
    ports = free_port(), free_port()
    http = "".join(
        f"server {{ listen 127.0.0.1:{port} {more}; root {tmp_path}; keepalive_requests 50;"
        f" ssl_certificate {chain}; ssl_certificate_key {key}; access_log {tmp_path}/{name};"
        " location /upload { client_max_body_size 9m; proxy_pass http://127.0.0.1:1; error_page 502 =201 /index.html; }"
        " location /gone { return 204; } }"
        for port, more, name in zip(ports, ("http2", "ssl http2"), ("plain", "tls"), strict=True)
    )
    with nginx(tmp_path, http, *ports):
        yield (*ports, chain)


@needs_nginx
@needs_tls
@needs_curl
@pytest.mark.parametrize("workers", [1, 2])
def test_nginx_with_and_without_tls(pages: tuple[int, int, str], tmp_path: Path, workers: int) -> None:
    chosen = [plain(pages[0]), Backend("127.0.0.1", pages[1], "localhost", True)]
    limits = Limits(workers=workers, http2=100)
    with Served(FAILOVER, chosen, limits, Tls((), ("h2", "http/1.1"), pages[2])) as served:
        url = f"http://127.0.0.1:{served.port}"
        for option in ("--http1.1", "--http2-prior-knowledge", "--http1.0", "--http1.1"):
            assert curl(option, f"{url}/page") == BODY
        assert curl("-I", f"{url}/page").startswith(b"HTTP/1.1 200")
        assert curl("-r", "5-9", f"{url}/page") == BODY[5:10]
        assert curl("-w", "%{http_code}", f"{url}/gone") == b"204"
        assert curl("-w", "%{http_code}", "-o", "/dev/null", f"{url}/none") == b"404"
        for number in range(4):
            status, _ = get(served, "/upload", "POST", BODY[: 1 << (5 * number)])
            assert status in (201, 405), status
        assert not faults(served.stop())
    lines = (tmp_path / "plain").read_text() + (tmp_path / "tls").read_text()
    assert "HTTP/2.0" in lines and "HTTP/1" not in lines


@needs_nginx
@needs_tls
def test_a_backend_of_tls_is_not_offered_http_2(pages: tuple[int, int, str], tmp_path: Path) -> None:
    chosen = [Backend("127.0.0.1", pages[1], "localhost")]
    with Served(WEB, chosen, Limits(http2=100), Tls((), ("h2", "http/1.1"), pages[2])) as served:
        assert get(served) == (200, b"hello")
        assert not faults(served.stop())
    assert "HTTP/1.1" in (tmp_path / "tls").read_text()


@needs_nginx
@needs_tls
@needs_h2load
@pytest.mark.parametrize("events", ["epoll", pytest.param("io_uring", marks=pytest.mark.slow_matrix)])
def test_no_request_is_lost_when_connections_end_after_some_requests(pages: tuple[int, int, str], events: str) -> None:
    limits = Limits(http2=100, workers=2, events=events)
    with Served(WEB, [plain(pages[0])], limits) as served:
        url = f"http://127.0.0.1:{served.port}/"
        for more in (["-m", "20"], ["--h1"]):
            command = ["h2load", "-n", "2000", "-c", "8", *more, url]
            out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
            assert "2000 succeeded, 0 failed, 0 errored" in out, out
        counters = served.stop()
    assert counters[ASKED] == 4000 and counters[UPLINKS] >= 80 and not faults(counters)


@needs_nghttpd
def test_uploads_to_nghttpd(tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes(BODY)
    with nghttpd(tmp_path, "--echo-upload") as port, Served(WEB, [plain(port)]) as served:
        for body in (b"x", BODY, BODY[:70000]):
            assert get(served, "/", "POST", body) == (200, body)
        chunked = "Transfer-Encoding: chunked"
        assert curl("-T", str(tmp_path / "page"), "-H", chunked, f"http://127.0.0.1:{served.port}/") == BODY
        assert get(served, "/page") == (200, BODY)
        assert not faults(served.stop())


@needs_nghttpd
def test_a_target_that_is_a_uri(tmp_path: Path) -> None:
    """Its name counts and not Host; a path begins with a slash (RFC 9113, section 8.3.1)."""
    targets = [
        b"http://b.example?x=1",
        b"http://b.example",
        b"http://b.example/?",
        b"/p?y",
        b"http://b.example?" + b"q" * 9000,
    ]
    with nghttpd(tmp_path, "-v") as port, Served(WEB, [plain(port)]) as served:
        for target in targets:
            with served.connect() as client:
                client.settimeout(PATIENCE)
                client.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
                assert read_to_end(client).startswith(b"HTTP/1.1 404 Not Found")
        served.stop()
        text = (tmp_path / "log").read_text()
    assert re.findall(r":path: (\S+)", text) == ["/?x=1", "/", "/?", "/p?y", "/?" + "q" * 9000]
    assert re.findall(r":authority: (\S+)", text) == ["b.example"] * 3 + ["a.example", "b.example"]
