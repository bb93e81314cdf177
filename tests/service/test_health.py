"""Active health checks: backends that die, hang, or answer garbage or half are taken out until they answer."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from sluice.cli.main import main
from sluice.service.bounds import Limits
from sluice.service.load import load_file
from sluice.service.serve import Backend, Tls
from tests.service.certificates import make_certificate, needs_tls, secure_origin
from tests.service.peers import PATIENCE, Served, faults, free_port, read_to_end
from tests.service.web import GET, HEAD, head_of, origin

ASK = GET.replace(b"Host", b"Connection: close\r\nHost")
FAILOVER = load_file("http_failover")
LIMITS = Limits(health=1, health_fall=2, health_rise=2)


def until(served: Served, text: str) -> None:
    """Until a service prints a text to its standard error."""
    deadline = time.monotonic() + PATIENCE
    while text not in served.errors():
        assert time.monotonic() < deadline, served.errors()
        time.sleep(0.05)


def ask(served: Served) -> bytes:
    with served.connect() as client:
        client.sendall(ASK)
        return read_to_end(client)


@contextlib.contextmanager
def named(name: bytes, port: int = 0) -> Iterator[int]:
    """A web server that answers with its name, at a port."""
    with origin(lambda end, _: end.sendall(HEAD % len(name) + name), port) as found:
        yield found


def test_a_backend_that_dies_is_taken_out_before_a_request_needs_it_and_comes_back() -> None:
    port = free_port()
    with named(b"always") as always:
        with Served(FAILOVER, [always, port], LIMITS) as served:
            until(served, f"port {port}, is down: Connection refused")
            answers = {ask(served)[-6:] for _ in range(4)}
            assert answers == {b"always"}
            with named(b"again!", port):
                until(served, f"port {port}, is up")
                assert {ask(served)[-6:] for _ in range(4)} == {b"always", b"again!"}
            counters = served.stop()
    assert not faults(counters) and counters["faults handled by the program"] == 0
    assert counters["backends taken out by health checks"] == counters["backends put back by health checks"] == 1
    assert counters["health checks that failed"] >= 2 and counters["health checks that succeeded"] >= 4


@pytest.mark.parametrize(
    "name",
    [
        "http_round_robin",
        pytest.param("http_least_connections", marks=pytest.mark.slow_matrix),
        pytest.param("http_consistent_hash", marks=pytest.mark.slow_matrix),
    ],
)
def test_balancers_choose_among_the_backends_that_are_up(name: str) -> None:
    ports = [free_port() for _ in range(3)]
    with named(b"first", ports[0]), named(b"third", ports[2]):
        with Served(load_file(name), ports, Limits(health=1, health_fall=1)) as served:
            until(served, f"port {ports[1]}, is down")
            found = {ask(served)[-5:] for _ in range(6)}
            assert found <= {b"first", b"third"} and (found != {b"third"} or name == "http_consistent_hash")
            assert not faults(served.stop())


def test_only_a_backend_that_answers_well_passes_a_check_by_http() -> None:
    wrong: list[tuple[Callable[[socket.socket], object], str]] = [
        (lambda end: end.sendall(b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"), "status 503"),
        (lambda end: end.sendall(b"220 mail.example ESMTP\r\n"), "its answer is not one of HTTP"),
        (lambda end: (end.sendall(b"HTTP/1"), end.shutdown(socket.SHUT_RDWR)), "it has closed the connection"),
        (lambda end: end.sendall(b"HTTP/1"), "no answer in time"),
    ]
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r"
    wrong += [
        (lambda end: [end.sendall(hints + b"\n") for _ in range(1000)], "its interim responses do not end"),
        (lambda end: end.sendall(hints + b"\nHTTP/1.1 500 Error\r\n\r\n"), "status 500"),
    ]
    limits = Limits(health=1, health_fall=1, health_path="/health?x")
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(origin(lambda end, _, answer=answer: answer(end))) for answer, _ in wrong]
        ports.append(stack.enter_context(origin(interim_and_good)))
        served = stack.enter_context(Served(FAILOVER, ports, limits))
        for port, (_, why) in zip(ports, wrong, strict=False):
            until(served, f"port {port}, is down: {why}")
        for _ in range(6):
            assert ask(served).endswith(b"good")
        counters = served.stop()
    assert not faults(counters) and counters["faults handled by the program"] == 0
    assert counters["backends taken out by health checks"] == 6


def interim_and_good(end: socket.socket, _: bytes) -> None:
    """Interim responses before the one that counts (RFC 9110, section 15.2), in pieces."""
    for part in (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r", b"\nHTTP/1.1 10", b"0 Continue\r\n\r\nHTTP/"):
        end.sendall(part)
        time.sleep(0.01)
    end.sendall((HEAD % 4 + b"good")[5:])


@needs_tls
def test_a_check_verifies_the_certificate(tmp_path_factory: pytest.TempPathFactory) -> None:
    certificate = make_certificate(tmp_path_factory.mktemp("localhost"), "localhost")

    def answer(end: object) -> None:
        assert isinstance(end, socket.socket)
        head_of(end)
        end.sendall(HEAD % 2 + b"ok")

    limits = Limits(health=1, health_fall=1, health_path="/")
    with secure_origin(certificate, answer) as port:
        backends = [Backend("127.0.0.1", port, name) for name in ("localhost", "other.example")]
        with Served(FAILOVER, backends, limits, Tls(authorities=certificate[0])) as served:
            until(served, "backend 1 of 'backends'")
            assert "its certificate is not valid" in served.errors()
            assert {ask(served)[-2:] for _ in range(3)} == {b"ok"}
            assert "backend 0" not in served.errors()
            assert not faults(served.stop())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--health-path", "/x"], "give --health, the seconds between two checks, too"),
        (["--health", "1", "--health-path", "no path"], "--health-path no path: a path such as /health"),
        (["--health", "1", "--health-rise", "0"], "--health-rise 0: from 1 to 1000"),
    ],
)
def test_wrong_usage(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "http_failover", "--listen", "127.0.0.1:0", "--backends", "127.0.0.1:1", *options]) == 2
    assert message in capsys.readouterr().err
