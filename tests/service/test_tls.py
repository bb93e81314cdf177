"""TLS of clients and of backends: real clients, wrong certificates, and peers that delay, break off or flood."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.service.bounds import Limits
from sluice.service.build import build_program
from sluice.service.load import load_file, load_source
from sluice.service.lower.program import lower
from sluice.service.serve import Backend, Tls
from tests.service.certificates import client, make_certificate, needs_tls, secure_origin
from tests.service.peers import PATIENCE, Served, faults, read_exactly, read_to_end
from tests.service.programs import ROUTER
from tests.service.web import BODY, GET, HEAD, give_body, head_of, origin

pytestmark = needs_tls

FAILED = "faults: TLS handshake failed"
SLOW = "faults: TLS handshake not done in time"
FULL = "faults: TLS handshake ended by newer ones: as many at once as may be"
UNVERIFIED = "faults: the certificate of a backend is not valid"
WEB = load_file("http_round_robin")


@pytest.fixture(scope="module")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return make_certificate(tmp_path_factory.mktemp("localhost"), "localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return make_certificate(tmp_path_factory.mktemp("other"), "other.example", "*.other.example")


def s_client(port: int, *options: str) -> str:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *options]
    done = subprocess.run(command, input="Q\n", capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout + done.stderr


def test_sni_chooses_the_certificate_and_alpn_the_protocol(
    localhost: tuple[str, str], other: tuple[str, str], tmp_path: Path
) -> None:
    tls = Tls((localhost, other), ("http/1.1",))
    with Served(WEB, [1], tls=tls) as served:
        for name, found in (
            ("localhost", "localhost"), ("other.example", "other.example"), ("a.other.example", "other.example"),
            ("unknown.example", "localhost"),
        ):  # fmt: skip
            assert f"CN = {found}" in s_client(served.port, "-servername", name)
        assert "CN = localhost" in s_client(served.port, "-noservername")
        assert "ALPN protocol: http/1.1" in s_client(served.port, "-alpn", "h2,http/1.1")
        assert "alert no application protocol" in s_client(served.port, "-alpn", "h2")
        assert "No ALPN negotiated" in s_client(served.port)
        assert "TLSv1.2" in s_client(served.port, "-tls1_2")
        assert "alert" in s_client(served.port, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
        session = str(tmp_path / "session")
        assert "New, TLSv1.2" in s_client(served.port, "-tls1_2", "-sess_out", session)
        assert "Reused, TLSv1.2" in s_client(served.port, "-tls1_2", "-sess_in", session)
        counters = served.stop()
    assert counters["TLS handshakes that resumed a session"] == 1
    assert faults(counters) == {FAILED: 2}


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("events", ["epoll", "io_uring"])
def test_curl_through_two_services_with_tls_between_them(localhost: tuple[str, str], events: str) -> None:
    tls, limits = Tls((localhost,), ("http/1.1",), localhost[0]), Limits(events=events, workers=2)
    with (
        origin(give_body) as port,
        Served(WEB, [port], limits, tls) as inner,
        Served(WEB, [Backend("127.0.0.1", inner.port, "localhost")], limits, tls) as outer,
    ):
        for _ in range(2):
            url = f"https://localhost:{outer.port}/"
            command = ["curl", "--silent", "--fail", "--cacert", localhost[0], url, url]
            assert subprocess.run(command, capture_output=True, timeout=PATIENCE).stdout == 2 * BODY
        counters = outer.stop()
        assert not faults(counters) and not faults(inner.stop())
    assert counters["connections accepted"] == 2
    assert counters["messages received"] == 8


def test_a_connection_to_a_backend_is_used_again_with_its_tls(localhost: tuple[str, str]) -> None:
    def answer(end: ssl.SSLSocket) -> None:
        with contextlib.suppress(AssertionError):  # at the end
            while head_of(end):
                end.sendall(HEAD % 2 + b"ok")

    with secure_origin(localhost, answer) as port:
        backend = Backend("127.0.0.1", port, "127.0.0.1")
        with Served(WEB, [backend], tls=Tls(authorities=localhost[0])) as served:
            for _ in range(3):
                with served.connect() as end:
                    end.sendall(GET.replace(b"Host", b"Connection: close\r\nHost"))
                    assert read_to_end(end).endswith(b"ok")
            counters = served.stop()
    assert not faults(counters)
    assert counters["TLS handshakes"] == 1
    assert counters["idle connections to backends used again"] == 2


def test_backends_that_are_not_who_they_should_be(localhost: tuple[str, str], other: tuple[str, str]) -> None:
    def good(end: ssl.SSLSocket) -> None:
        head_of(end)
        end.sendall(HEAD % 2 + b"ok")

    def answer_of(backend: Backend, authority: str, seconds: int = 20) -> tuple[bytes, dict[str, int]]:
        limits = Limits(handshake=seconds)
        with Served(WEB, [backend], limits, Tls(authorities=authority)) as served, served.connect() as end:
            end.sendall(GET.replace(b"Host", b"Connection: close\r\nHost"))
            return read_to_end(end)[-2:], faults(served.stop())

    with secure_origin(localhost, good) as port:
        wrong = {UNVERIFIED: 1}
        assert answer_of(Backend("127.0.0.1", port, "localhost"), localhost[0]) == (b"ok", {})
        assert answer_of(Backend("127.0.0.1", port, "other.example"), localhost[0]) == (b"", wrong)
        assert answer_of(Backend("127.0.0.1", port, "127.0.0.2"), localhost[0]) == (b"", wrong)
        assert answer_of(Backend("127.0.0.1", port, "localhost"), other[0]) == (b"", wrong)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_port: int = silent.getsockname()[1]
        assert answer_of(Backend("127.0.0.1", silent_port, "localhost"), localhost[0], 1) == (b"", {SLOW: 1})


def test_a_body_to_the_end_whose_end_was_not_announced_is_truncated(localhost: tuple[str, str]) -> None:
    """RFC 9112, section 9.8: an attacker can close a connection of TCP at any byte."""

    passed = threading.Event()  # the head: else the service may see the end before the message

    def cut(end: ssl.SSLSocket) -> None:
        path = head_of(end).split()[1]
        end.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + 1000 * b"x")
        if path == b"/whole":
            with contextlib.suppress(OSError):
                end.unwrap()
        else:
            passed.wait(PATIENCE)

    with secure_origin(localhost, cut) as port:
        backend = Backend("127.0.0.1", port, "localhost")
        with Served(WEB, [backend], tls=Tls(authorities=localhost[0])) as served:
            for path in (b"/whole", b"/"):
                with served.connect() as end:
                    end.sendall(GET.replace(b"/", path, 1))
                    head_of(end)
                    if path == b"/":
                        passed.set()
                    got = read_to_end(end).count(b"x")
                    assert got == 1000 if path == b"/whole" else got <= 1000
            counters = served.stop()
    assert faults(counters) == {"faults: a connection ended within a message": 1}
    assert counters["TLS connections whose end was not announced"] == 1


def test_a_connection_that_a_backend_has_ended_is_not_used_again(localhost: tuple[str, str]) -> None:
    """The response and close_notify come at once, and the connection of TCP stays open."""
    asked = threading.Semaphore(0)

    def answer(end: ssl.SSLSocket) -> None:
        head_of(end)
        asked.release()
        time.sleep(0.2)  # the service is stopped
        end.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + 1000 * b"x")
        with contextlib.suppress(OSError):
            end.unwrap()

    with secure_origin(localhost, answer) as port:
        backend = Backend("127.0.0.1", port, "localhost")
        with Served(WEB, [backend], tls=Tls(authorities=localhost[0])) as served:
            for _ in range(2):
                with served.connect() as end:
                    end.sendall(GET)
                    assert asked.acquire(timeout=PATIENCE)
                    served.pause(0.5)
                    assert read_to_end(end).count(b"x") == 1000
            counters = served.stop()
    assert counters["connections to backends"] == 2 and not faults(counters)


def test_handshakes_that_hang_or_are_none_next_to_good_traffic(localhost: tuple[str, str]) -> None:
    limits = Limits(handshake=3, handshakes=8)
    with origin(give_body) as port, Served(WEB, [port], limits, Tls((localhost,))) as served:
        with contextlib.ExitStack() as stack:
            hanging = [stack.enter_context(served.connect()) for _ in range(20)]
            for each in hanging:
                each.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
            plain = stack.enter_context(served.connect())
            plain.sendall(GET)
            assert b"HTTP" not in read_to_end(plain)
            with client(served.port, localhost[0]) as good:
                for _ in range(2):
                    good.sendall(GET)
                    assert head_of(good) == HEAD % len(BODY)
                    assert read_exactly(good, len(BODY)) == BODY
            for each in hanging:
                each.settimeout(PATIENCE)
                assert read_to_end(each) == b""
        counters = served.stop()
    found = faults(counters)
    assert found.pop(FAILED) == 1
    assert found[FULL] >= 12 and sum(found.values()) == 20 and set(found) == {FULL, SLOW}
    assert counters["TLS handshakes"] == 1


def test_messages_of_the_handshake_protocol_without_data_end_a_connection(localhost: tuple[str, str]) -> None:
    with Served(WEB, [1], tls=Tls((localhost,))) as served:
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{served.port}"]
        flood = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert flood.stdin is not None
        with contextlib.suppress(OSError):
            for _ in range(400):
                flood.stdin.write(b"K\n")  # a KeyUpdate that requests another one
                flood.stdin.flush()
                time.sleep(0.005)
                if flood.poll() is not None:
                    break
        flood.kill()
        flood.communicate()
        counters = served.stop()
    assert faults(counters) == {"faults: bytes that are no TLS": 1}


def test_the_memory_of_tls_is_bounded_and_refusals_are_counted(localhost: tuple[str, str]) -> None:
    with origin(give_body) as port, Served(WEB, [port], Limits(tls_memory=1), Tls((localhost,))) as served:
        before = served.memory()
        with contextlib.ExitStack() as stack:
            refused = 0
            for _ in range(100):
                try:
                    stack.enter_context(client(served.port, localhost[0]))
                except OSError:
                    refused += 1
            assert 0 < refused < 100
            assert served.memory() - before < 8 << 20 or "sanitize" in os.environ.get("SLUICE_CFLAGS", "")
        deadline = time.monotonic() + PATIENCE
        while served.open_connections() > 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        with client(served.port, localhost[0]) as good:
            good.sendall(GET)
            assert head_of(good) == HEAD % len(BODY)
            assert read_exactly(good, len(BODY)) == BODY
        counters = served.stop()
    no_memory = faults(counters).get("faults: no memory left for TLS", 0)
    assert counters["connections refused: no memory left for TLS"] + no_memory == refused


def test_a_protocol_without_a_name_negotiates_none() -> None:
    assert WEB.protocols(WEB.process()) == ("http/1.1",)
    router = load_file(str(ROUTER), ["memcached_binary"])
    assert router.protocols(router.process()) == ()
    assert load_source("type a: record\n  b : string\n").units == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tls", "absent.pem"], "'absent.pem': No such file or directory; give PEM files"),
        (["--tls", __file__], "is no chain of certificates with its key"),
        (["--backend-ca", __file__], "has no certificates; give a PEM file"),
        (["--alpn", "a,,b"], "--alpn a,,b: names such as http/1.1"),
        (["--tls-memory", "0"], "--tls-memory 0: from 1 to"),
        (["--backends", "tls://:443"], "has no name that a certificate could have"),
    ],
)
def test_wrong_usage(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["serve", "http_round_robin", "--listen", "127.0.0.1:0", "--backends", "127.0.0.1:1", *options]
    assert main(given) == 2
    assert message in capsys.readouterr().err


def test_a_backend_of_tls_without_a_name_is_refused_by_the_program_too() -> None:
    """Without a name nothing of its certificate would be compared."""
    process = WEB.process()
    program = build_program(process.name, lower(WEB, process).source, tls=True)
    command = [str(program), "--listen", "127.0.0.1", "0", "--ca", "", "--tls-backend", "1", "127.0.0.1", "1", ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "has no name that its certificate could have" in done.stderr
