"""The access log: its lines, for good and hostile requests, its rotation, and what it loses."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.peers import PATIENCE, Served, read_exactly, read_to_end
from tests.service.programs import ROOT
from tests.service.web import BODY, GET, HEAD, give_body, head_of, origin

WEB = load_file("http_round_robin")
LINES = "access log lines"
UNWRITTEN = "access log lines lost: the file could not be written"
FULL = "access log lines lost: they came faster than they could be written, or were too long"


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *headers, "", ""]).encode("latin-1")


def answer(accepted: socket.socket, _: bytes) -> None:
    accepted.sendall(HEAD % 5 + b"hello")


def wait_for_line(path: Path, text: str) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < end, f"{path} has no {text}"
        time.sleep(0.02)


def test_lines_of_nginx(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with origin(answer) as port, Served(WEB, [port], Limits(access_log=str(path))) as served:
        with served.connect() as client:
            for headers in (("Referer: http://x/", "User-Agent: t/1"), ('User-Agent: "\\\xe9', "Referer:"), ()):
                client.sendall(get("/a?b", *headers))
                assert read_exactly(client, len(HEAD % 5) + 5).endswith(b"hello")
        counters = served.stop()
    lines = path.read_text().splitlines()
    when = r"\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]"
    begin = rf'127\.0\.0\.1 - - {when} "GET /a\?b HTTP/1\.1" 200 5 '
    assert [bool(re.fullmatch(begin + each, line)) for each, line in zip(
        (r'"http://x/" "t/1"', r'"-" "\\x22\\x5C\\xE9"', '"-" "-"'), lines, strict=True
    )] == [True] * 3  # fmt: skip
    assert counters[LINES] == 3


def test_json_has_the_upstream_and_durations_and_why_a_connection_ended(tmp_path: Path) -> None:
    path = tmp_path / "access.log"

    requests = iter((give_body, lambda accepted, _: accepted.close()))

    def late(accepted: socket.socket, rest: bytes) -> None:
        accepted.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        time.sleep(0.05)
        next(requests)(accepted, rest)

    limits = Limits(access_log=str(path), access_log_format="json", splice=0)
    with origin(late) as port, Served(WEB, [port], limits) as served:
        with served.connect() as client:
            client.sendall(get("/first", "User-Agent: caf\xe9"))
            head_of(client)
            assert int(re.findall(rb"Length: (\d+)", head_of(client))[0]) == len(BODY)
            assert read_exactly(client, len(BODY)) == BODY
            client.sendall(get("/second"))
            read_to_end(client)
        served.stop()
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["status"] == 200 and first["body"] == len(BODY) and first["upstream"] == f"127.0.0.1:{port}"
    assert first["request"] == "GET /first HTTP/1.1" and first["agent"] == "caf\xe9" and first["host"] == "a"
    assert 0.05 <= first["upstream_header_time"] <= first["request_time"] and first["end"] == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", first["time"])
    assert second["status"] is None and second["end"] == "faults: a backend closed while answers were due"


def test_spliced_responses_have_their_sizes(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    limits = Limits(access_log=str(path), access_log_format="$request_time $request $status $body_bytes_sent")
    with origin(give_body) as port, Served(WEB, [port], limits) as served:
        with served.connect() as client:
            for _ in range(2):
                client.sendall(GET)
                head_of(client)
                assert read_exactly(client, len(BODY)) == BODY
        assert served.stop()["bytes of bodies that passed in the kernel"] > 0
    assert [line.split()[-2:] for line in path.read_text().splitlines()] == [["200", str(len(BODY))]] * 2


def test_a_full_ring_loses_lines_and_counts_them(tmp_path: Path) -> None:
    """The file is a pipe whose reader reads nothing."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    limits = Limits(access_log=str(path), access_log_buffer=1)
    try:
        with origin(answer) as port, Served(WEB, [port], limits) as served:
            with served.connect() as client:
                for _ in range(400):
                    client.sendall(get("/" + "x" * 900))
                    read_exactly(client, len(HEAD % 5) + 5)
            os.set_blocking(reader, True)
            thread = threading.Thread(target=drain, args=(reader,), daemon=True)
            thread.start()
            counters = served.stop()
            thread.join(PATIENCE)
    finally:
        os.close(reader)
    assert counters[FULL] > 0 and counters[FULL] + counters[LINES] == 400


def drain(fd: int) -> None:
    """Read a pipe until its writer has ended."""
    while os.read(fd, 1 << 16):
        pass


def test_neither_a_pipe_nor_a_lock_blocks_the_writer(tmp_path: Path) -> None:
    """A pipe is full, and its reader reads nothing; and the file that is too large is locked."""
    pipe, path = tmp_path / "pipe", tmp_path / "access.log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with origin(answer) as port, Served(WEB, [port], Limits(access_log=str(pipe))) as served:
            with served.connect() as client:
                for _ in range(200):
                    client.sendall(get("/" + "x" * 900))
                    read_exactly(client, len(HEAD % 5) + 5)
            counters = served.stop()
    finally:
        os.close(reader)
    assert counters[UNWRITTEN] > 0 and counters[FULL] == 0
    limits = Limits(access_log=str(path), access_log_size=1, access_log_buffer=8192)
    with origin(answer) as port, Served(WEB, [port], limits) as served:
        with served.connect() as client, path.open() as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            for number in range(1500):
                client.sendall(get(f"/{number}/" + "x" * 900))
                read_exactly(client, len(HEAD % 5) + 5)
            wait_for_line(path, "/1499/")
            assert f"the access log {path} cannot be locked to be renamed" in served.errors()
            assert not (tmp_path / "access.log.1").exists()
            fcntl.flock(locked, fcntl.LOCK_UN)
            wait_for_line(tmp_path / "access.log.1", "/1499/")
        assert served.stop()[LINES] == 1500


def test_a_pipe_that_no_one_reads_is_reported_once_and_the_file_before_goes_on(tmp_path: Path) -> None:
    path, old = tmp_path / "access.log", tmp_path / "old"
    with origin(answer) as port, Served(WEB, [port], Limits(access_log=str(path))) as served:
        with served.connect() as client:
            path.rename(old)
            os.mkfifo(path)
            time.sleep(2.5)  # two looks at the name
            client.sendall(get("/goes-on"))
            read_exactly(client, len(HEAD % 5) + 5)
            wait_for_line(old, "/goes-on")
        assert served.errors().count(f"the access log {path} cannot be opened: No such device or address") == 1
        assert served.stop()[LINES] == 1


def test_an_access_log_that_cannot_be_opened_is_named_with_the_reason() -> None:
    command = [sys.executable, "-m", "sluice", "serve", "http_round_robin", "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--backends", "127.0.0.1:1", "--access-log", "/proc/absent"],
        capture_output=True, text=True, cwd=ROOT, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert "the access log /proc/absent cannot be opened: No such file or directory" in done.stderr


def test_a_full_disk_is_reported_and_counted() -> None:
    with origin(answer) as port, Served(WEB, [port], Limits(access_log="/dev/full")) as served:
        with served.connect() as client:
            client.sendall(GET)
            read_exactly(client, len(HEAD % 5) + 5)
        counters = served.stop()
        assert "the access log /dev/full cannot be written: No space left on device" in served.errors()
    assert counters[UNWRITTEN] == 1


def test_the_file_is_renamed_when_it_is_large(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    limits = Limits(access_log=str(path), access_log_size=1, access_log_keep=2, access_log_buffer=8192)
    count = 5000
    with origin(answer) as port, Served(WEB, [port], limits) as served:
        with served.connect() as client:
            for number in range(count):
                client.sendall(get(f"/{number}/" + "x" * 900))
                read_exactly(client, len(HEAD % 5) + 5)
                if number in (2000, 4000):  # a busy machine would write all at once, and rename once
                    wait_for_line(tmp_path / f"access.log.{number // 2000}", "GET")
        counters = served.stop()
    files = sorted(each.name for each in tmp_path.iterdir())
    assert counters[LINES] == count and files == ["access.log", "access.log.1", "access.log.2"]
    kept = [line for each in ("access.log.2", "access.log.1", "access.log") for line in (tmp_path / each).open()]
    numbers = [int(re.findall(r"GET /(\d+)/", line)[0]) for line in kept]
    assert numbers == list(range(count - len(numbers), count))


def test_sigusr1_opens_the_file_anew(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with origin(answer) as port:
        command = ["serve", "http_round_robin", "--listen", "127.0.0.1:0", "--backends", f"127.0.0.1:{port}", "--json"]
        process = subprocess.Popen(
            [sys.executable, "-m", "sluice", *command, "--access-log", str(path)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert process.stdout is not None
        place = int(json.loads(process.stdout.readline())["ready"].rpartition(":")[2])
        try:
            with socket.create_connection(("127.0.0.1", place), PATIENCE) as client:
                client.sendall(get("/before"))
                read_exactly(client, len(HEAD % 5) + 5)
                wait_for_line(path, "/before")
                path.rename(tmp_path / "old")
                process.send_signal(signal.SIGUSR1)
                end = time.monotonic() + PATIENCE
                while not path.exists() and time.monotonic() < end:
                    time.sleep(0.02)
                client.sendall(get("/after"))
                read_exactly(client, len(HEAD % 5) + 5)
                wait_for_line(path, "/after")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
    assert "/after" not in (tmp_path / "old").read_text()


@pytest.mark.parametrize(
    ("program", "options", "message"),
    [
        ("http_round_robin", ["--access-log", "/absent/x"], "give a file in a folder that exists"),
        ("http_round_robin", ["--access-log", "/"], "give a file in a folder that exists"),
        ("http_round_robin", ["--access-log-format", "$unknown"], "$unknown is not known; known are $remote_addr"),
        ("http_round_robin", ["--access-log-format", "plain"], "combined, json, or 1 to 63 variables"),
        ("http_round_robin", ["--access-log-buffer", "0"], "from 1 to 1048576 KiB"),
        ("memcached_router", ["--access-log", "/tmp/x.log"], "the clients of this service do not use HTTP"),
    ],
)
def test_wrong_usage(program: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", program, "--listen", "127.0.0.1:0", "--backends", "127.0.0.1:1", *options]) == 2
    assert message in capsys.readouterr().err
