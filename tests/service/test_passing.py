"""Bodies that pass: through buffers or in the kernel, too slowly, or not to their end; with epoll and io_uring."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import socket
import struct
import subprocess
import time

import pytest

from sluice.service.bounds import Limits, bounds_of
from sluice.service.build import build_program
from sluice.service.load import load_file, load_source
from sluice.service.lower.program import lower
from sluice.service.serve import Backend, command_of, wire
from tests.service.peers import PATIENCE, Served, faults, read_exactly, read_to_end
from tests.service.web import BODY, GET, HEAD, give_body, head_of, origin
from tests.support.bounded import killed_after

KERNEL, BUFFERS = "bytes of bodies that passed in the kernel", "bytes of bodies that passed through buffers"
SLOW_BODY = "faults: the rest of a message did not pass fast enough"
SLOW_READER = "faults: a connection did not take fast enough what was sent"
SILENT = "faults: a backend did not answer in time"


@pytest.mark.parametrize(
    ("events", "splice"), [("epoll", 65536), ("epoll", 0), ("io_uring", 65536)], ids=["kernel", "buffers", "io_uring"]
)
def test_large_bodies_pass_unchanged_and_the_counters_say_how(events: str, splice: int) -> None:
    with origin(give_body) as port:
        with Served(load_file("http_balancer"), [port], Limits(events=events, splice=splice)) as served:
            with served.connect() as client:
                for _ in range(3):
                    client.sendall(GET)
                    assert head_of(client) == HEAD % len(BODY)
                    assert read_exactly(client, len(BODY)) == BODY
            counters = served.stop()
    assert not faults(counters)
    if splice:
        assert counters[KERNEL] > 2.9 * len(BODY)
        assert counters[BUFFERS] < 0.1 * len(BODY)
    else:
        assert counters[KERNEL] == 0
        assert counters[BUFFERS] == 3 * (len(BODY) + len(HEAD % len(BODY))) + 3 * len(GET)


def test_an_upload_passes_in_the_kernel_in_both_directions() -> None:
    def echo(accepted: socket.socket, got: bytes) -> None:
        body = got + read_exactly(accepted, len(BODY) - len(got))
        accepted.sendall(HEAD % len(body) + body)

    with origin(echo) as port, Served(load_file("http_balancer"), [port]) as served:
        with served.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
            assert head_of(client) == HEAD % len(BODY)
            assert read_exactly(client, len(BODY)) == BODY
        counters = served.stop()
    assert not faults(counters)
    assert counters[KERNEL] > 1.8 * len(BODY)


def test_a_body_to_the_end_of_the_connection_that_comes_with_its_end() -> None:
    def give(accepted: socket.socket, _: bytes) -> None:
        accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + 1000 * b"x")
        accepted.shutdown(socket.SHUT_RDWR)

    with origin(give) as port, Served(load_file("http_balancer"), [port]) as served:
        for _ in range(20):  # in some of them both come at once
            with served.connect() as client:
                client.sendall(GET)
                assert read_to_end(client).count(b"x") == 1000
        assert not faults(served.stop())


def test_a_body_that_breaks_off_in_the_kernel_is_counted() -> None:
    def half(accepted: socket.socket, _: bytes) -> None:
        accepted.sendall(HEAD % len(BODY) + BODY[: len(BODY) // 2])
        accepted.close()

    with origin(half) as port, Served(load_file("http_balancer"), [port]) as served:
        with served.connect() as client:
            client.sendall(GET)
            got = read_to_end(client).partition(b"\r\n\r\n")[2]
            assert BODY.startswith(got)
        with served.connect() as client:  # what was left in the pipe reaches no other connection
            client.sendall(GET)
            assert BODY.startswith(read_to_end(client).partition(b"\r\n\r\n")[2])
        counters = served.stop()
    assert sum(faults(counters).values()) == 2


SLOW = Limits(body_time=1, body_rate=1000, timeout=1, message_time=60, idle=60)


def test_slow_clients_and_silent_backends_end_next_to_good_traffic() -> None:
    def answer(accepted: socket.socket, got: bytes) -> None:
        if got:  # an upload: it takes what comes
            with contextlib.suppress(OSError):
                while accepted.recv(1000):
                    pass
        elif not begun:
            begun.append("silent")
            accepted.sendall(HEAD % 1000 + b"half")
        elif len(begun) == 1:
            begun.append("still")
            accepted.sendall(HEAD % (8 * len(BODY)) + 8 * BODY)
        else:
            give_body(accepted, b"")

    begun: list[str] = []
    with origin(answer) as port, Served(load_file("http_balancer"), [port], SLOW) as served:
        with served.connect() as silent, served.connect() as slow, served.connect() as still, served.connect() as good:
            silent.sendall(GET)
            assert head_of(silent) == HEAD % 1000
            still.sendall(GET)
            assert head_of(still) == HEAD % (8 * len(BODY))  # and it reads no more
            slow.settimeout(0.01)
            slow.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx")
            for _ in range(2):
                good.sendall(GET)
                head_of(good)
                assert read_exactly(good, len(BODY)) == BODY
            with pytest.raises(OSError):
                for _ in range(400):
                    time.sleep(0.02)
                    slow.sendall(b"x")
            assert read_to_end(silent) == b"half"
            deadline = time.monotonic() + PATIENCE
            while served.open_connections() > 2 and time.monotonic() < deadline:
                time.sleep(0.1)
        counters = served.stop()
    assert faults(counters) == {SLOW_BODY: 1, SLOW_READER: 1, SILENT: 1}


def test_the_time_to_answer_begins_when_an_upload_is_complete() -> None:
    def answer(accepted: socket.socket, got: bytes) -> None:
        body = got + read_exactly(accepted, 8 - len(got))
        accepted.sendall(HEAD % len(body) + body)

    limits = Limits(timeout=1, body_time=10, body_rate=1)
    with origin(answer) as port, Served(load_file("http_balancer"), [port], limits) as served:
        with served.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n")
            for _ in range(8):
                time.sleep(0.2)
                client.sendall(b"x")
            assert head_of(client) == HEAD % 8
            assert read_exactly(client, 8) == b"xxxxxxxx"
        counters = served.stop()
    assert not faults(counters)


def test_the_announced_memory_has_idle_connections() -> None:
    service = load_file("http_balancer")
    program = build_program("Balancer", lower(service, service.process()).source)
    few, many = (bounds_of(program, 3, Limits(keep=keep, workers=2)).total for keep in (0, 100))
    assert many - few >= 2 * 100 * 3 * 16


def test_the_announced_memory_has_the_readers_of_files() -> None:
    service = load_file("http_balancer")
    program = build_program("Balancer", lower(service, service.process()).source)
    without, folders = (bounds_of(program, 3, Limits(instances=10), folders=each).total for each in (False, True))
    assert folders - without >= 10 * 3 * 768


def _refuse_io_uring() -> None:
    """Seccomp's filter by which io_uring_setup, 425 on all processors, is not permitted."""
    code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, 425)
    code += struct.pack("HBBI", 6, 0, 0, 0x00050001) + struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)
    held = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(held)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the filter is for 64-bit processors")
def test_where_the_kernel_refuses_io_uring_epoll_is_used_and_the_reason_is_said() -> None:
    service = load_file("http_balancer")
    program = build_program("Balancer", lower(service, service.process()).source)
    wiring = wire(service.process(), ("", ("127.0.0.1", 0)), [("", [Backend("127.0.0.1", 1)])])
    command = command_of(program, (wiring, Limits(events="io_uring")))
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_refuse_io_uring
    )
    assert process.stdout is not None and process.stderr is not None
    with killed_after(process, PATIENCE):
        assert process.stdout.readline().startswith("ready")
    process.terminate()
    assert (
        "io_uring cannot be used: Operation not permitted; connections use epoll" in process.communicate(timeout=60)[1]
    )
    assert process.returncode == 0


BUSY = """\
type t = unit { n : uint32; };
type t: record
  n : integer

process P: (t/t c)
  let m = ? c
  let x = for i in 0 .. 20000 initially a = 0: hash(a + i)
  if x != 0: c ! m
"""


@pytest.mark.parametrize("events", ["epoll", "io_uring"])
def test_an_idle_worker_takes_over_instances_of_a_busy_one(events: str) -> None:
    """Three connections keep two workers busy; the one that ends first gets an instance of the other."""
    messages, clients = 400, 3
    with Served(load_source(BUSY), [], Limits(workers=2, events=events)) as served:
        for _ in range(10):  # all connections can fall to one worker each by chance, and end at once
            with contextlib.ExitStack() as stack:
                ends = [stack.enter_context(served.connect()) for _ in range(clients)]
                for end in ends:
                    end.sendall(b"".join(number.to_bytes(4, "big") for number in range(messages)))
                for end in ends:
                    end.shutdown(socket.SHUT_WR)
                    got = read_to_end(end)
                    assert got == b"".join(number.to_bytes(4, "big") for number in range(messages))
        counters = served.stop()
    assert not faults(counters)
    assert counters["instances taken over from busy workers"] > 0
    assert counters["instances ended by their program"] == 10 * clients
