"""The web server of a folder's files: curl, ranges, conditions, and requests that try to leave the folder."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import load_file
from sluice.service.serve import AddressError, Backend, read_backend
from tests.service.peers import PATIENCE, Served, faults, read_exactly, read_to_end
from tests.service.web import head_of

DATA = bytes(range(256)) * 8000
SECRET = b"secret"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("static")
    public = root / "public"
    (public / "sub").mkdir(parents=True)
    (root / "secret.txt").write_bytes(SECRET)
    (public / "data.bin").write_bytes(DATA)
    (public / "index.html").write_text("<p>Hello")
    (public / "sub" / "index.html").write_text("sub")
    (public / "two words.txt").write_text("words")
    (public / "empty.css").write_text("")
    (public / "out.txt").symlink_to(root / "secret.txt")
    (public / "in.txt").symlink_to("two words.txt")
    os.mkfifo(public / "pipe")
    return public


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with Served(load_file("http_static"), [str(folder)], Limits(message_time=2)) as running:
        yield running


def ask(
    served: Served, uri: str, *fields: str, method: str = "GET", body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    with served.connect() as client:
        client.settimeout(PATIENCE)
        head = "".join(f"{each}\r\n" for each in ("Host: a", "Connection: close", *fields))
        client.sendall(f"{method} {uri} HTTP/1.1\r\n{head}\r\n".encode() + body)
        found, _, content = read_to_end(client).partition(b"\r\n\r\n")
    first, *lines = found.decode().split("\r\n")
    return (
        int(first.split()[1]),
        {name.lower(): value for name, value in (each.split(": ", 1) for each in lines)},
        content,
    )


@pytest.mark.parametrize(
    ("uri", "status", "type", "content"),
    [
        ("/data.bin", 200, "application/octet-stream", DATA),
        ("/", 200, "text/html; charset=utf-8", b"<p>Hello"),
        ("/sub/?x=1", 200, "text/html; charset=utf-8", b"sub"),
        ("/two%20words.txt#x", 200, "text/plain; charset=utf-8", b"words"),
        ("/in.txt", 200, "text/plain; charset=utf-8", b"words"),
        ("/sub/../index.html", 200, "text/html; charset=utf-8", b"<p>Hello"),
        ("/empty.css", 200, "text/css; charset=utf-8", b""),
        ("HTTP://a:80/data.bin", 200, "application/octet-stream", DATA),
        ("http://a", 200, "text/html; charset=utf-8", b"<p>Hello"),
        ("/sub", 301, None, b""),
        ("/absent", 404, None, b""),
        ("/../secret.txt", 404, None, b""),
        ("/%2e%2e/secret.txt", 404, None, b""),
        ("/sub/../../secret.txt", 404, None, b""),
        ("//etc/passwd", 404, None, b""),
        ("/out.txt", 404, None, b""),
        ("/pipe", 404, None, b""),
        ("//sub", 404, None, b""),
        ("/%00", 400, None, b""),
        ("/%4", 400, None, b""),
        ("data.bin", 400, None, b""),
        ("/" + "a" * 2000, 400, None, b""),
    ],
)
def test_files_and_what_is_none(served: Served, uri: str, status: int, type: str | None, content: bytes) -> None:
    found = ask(served, uri)
    assert (found[0], found[1].get("content-type"), found[2]) == (status, type, content)


@pytest.mark.parametrize(
    ("range", "status", "part"),
    [
        ("bytes=0-0", 206, (0, 1)),
        ("bytes=100-", 206, (100, len(DATA))),
        ("bytes=-5", 206, (len(DATA) - 5, len(DATA))),
        ("bytes=-99999999", 206, (0, len(DATA))),
        ("bytes=10-99999999", 206, (10, len(DATA))),
        (f"bytes={len(DATA)}-", 416, None),
        ("bytes=-0", 416, None),
        ("bytes=5-2", 200, (0, len(DATA))),
        ("bytes=a-b", 200, (0, len(DATA))),
        ("bytes=0-1,3-4", 200, (0, len(DATA))),
        ("lines=0-1", 200, (0, len(DATA))),
    ],
)
def test_ranges(served: Served, range: str, status: int, part: tuple[int, int] | None) -> None:
    found = ask(served, "/data.bin", f"Range: {range}")
    assert found[0] == status and found[2] == (DATA[slice(*part)] if part else b"")
    if status == 206 and part is not None:
        assert found[1]["content-range"] == f"bytes {part[0]}-{part[1] - 1}/{len(DATA)}"
    assert ask(served, "/data.bin", f"Range: {range}", method="HEAD")[0] == 200
    if status == 416:
        assert found[1]["content-range"] == f"bytes */{len(DATA)}"


def test_conditions(served: Served) -> None:
    _, fields, _ = ask(served, "/data.bin", method="HEAD")
    tag, date = fields["etag"], fields["last-modified"]
    early = "Thu, 01 Jan 1970 00:00:01 GMT"
    assert int(fields["content-length"]) == len(DATA)
    for conditions, status in (
        ((f"If-None-Match: {tag}",), 304),
        ((f'If-None-Match: "a", W/{tag}',), 304),
        (("If-None-Match: *",), 304),
        (('If-None-Match: "a"', f"If-Modified-Since: {date}"), 200),
        ((f"If-Modified-Since: {date}",), 304),
        ((f"If-Modified-Since: {early}",), 200),
        (("If-Modified-Since: today",), 200),
        (("Range: bytes=0-4", f"If-Range: {tag}"), 206),
        (("Range: bytes=0-4", f"If-Range: {date}"), 206),
        (("Range: bytes=0-4", 'If-Range: "a"'), 200),
    ):
        assert ask(served, "/data.bin", *conditions)[0] == status, conditions


def test_other_methods_are_refused_and_their_bodies_skipped(served: Served) -> None:
    with served.connect() as client:
        client.settimeout(PATIENCE)
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50000)
        client.sendall(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        for _ in range(2):
            refused = head_of(client)
            assert refused.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n") and b"\r\nAllow: GET, HEAD\r\n" in refused
        assert read_exactly(client, 15) == b"HTTP/1.1 200 OK"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_continues_a_download_next_to_a_reader_that_stands_still(served: Served, tmp_path: Path) -> None:
    target = tmp_path / "data.bin"
    target.write_bytes(DATA[:1000])
    with served.connect() as still:
        still.sendall(b"GET /data.bin HTTP/1.1\r\nHost: a\r\n\r\n" * 20)
        command = [
            "curl",
            "-s",
            "-S",
            "-m",
            "20",
            "-C",
            "-",
            "-o",
            str(target),
            f"http://127.0.0.1:{served.port}/data.bin",
        ]
        subprocess.run(command, check=True, timeout=300)
    assert target.read_bytes() == DATA


def test_a_file_that_becomes_shorter_ends_the_connection(folder: Path) -> None:
    path = folder / "shrinks"
    path.write_bytes(DATA * 10)
    with Served(load_file("http_static"), [str(folder)]) as served, served.connect() as client:
        client.sendall(b"GET /shrinks HTTP/1.1\r\nHost: a\r\n\r\n")
        read_exactly(client, 1000)
        path.write_bytes(b"")
        assert len(read_to_end(client)) < 10 * len(DATA)
        counters = served.stop()
    assert faults(counters) == {"faults: a connection ended within a message": 1}


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert read_backend(str(tmp_path)) == Backend(str(tmp_path), 0)
    with pytest.raises(AddressError, match=re.escape("is no folder: give an address, or a folder")):
        read_backend(str(tmp_path / "absent"))


def test_any_request_is_answered_or_refused_and_nothing_leaves_the_folder(folder: Path) -> None:
    rng = random.Random(7)
    parts = [
        "/",
        "..",
        ".",
        "%2e",
        "%2F",
        "%",
        "sub",
        "data.bin",
        "secret.txt",
        "out.txt",
        "?",
        "#",
        "\x7f",
        "é",
        "//",
        "~",
    ]
    values = ["bytes=", "-", "0", "9" * 18, "9" * 19, ",", '"', "W/", "*", "Thu, 01 Jan 1970 00:00:01 GMT", " ", "a"]
    names = ["Range", "If-Range", "If-None-Match", "If-Modified-Since"]
    with Served(load_file("http_static"), [str(folder)], Limits(message_time=2)) as served:
        for _ in range(300):
            uri = "/" + "".join(rng.choices(parts, k=rng.randrange(6)))
            fields = [f"{rng.choice(names)}: {''.join(rng.choices(values, k=rng.randrange(5)))}\r\n" for _ in range(2)]
            with served.connect() as client:
                client.settimeout(PATIENCE)
                client.sendall(f"HEAD {uri} HTTP/1.1\r\nConnection: close\r\n{''.join(fields)}\r\n".encode())
                got = read_to_end(client)
            assert SECRET not in got
            assert not got or got.split()[1] in (b"200", b"206", b"301", b"304", b"400", b"404", b"416")
        counters = served.stop()
    assert set(faults(counters)) <= {"faults: malformed message"}


@pytest.mark.parametrize(
    ("uri", "fields", "status"),
    [
        ("/", [], 200), ("/", ["If-None-Match: *"], 304), ("/data.bin", ["Range: bytes=9-"], 206),
        ("/data.bin", ["Range: bytes=99999999-"], 416), ("/sub", [], 301), ("/absent", [], 404),
        ("/", ["Host: b"], 400),
    ],
)  # fmt: skip
def test_each_response_has_the_date(served: Served, uri: str, fields: list[str], status: int) -> None:
    """RFC 9110, section 6.6.1."""
    found, headers, _ = ask(served, uri, *fields)
    assert found == status
    age = time.time() - parsedate_to_datetime(headers["date"]).timestamp()
    assert -2 < age < PATIENCE


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", b"200"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
    ],
)
def test_a_request_names_its_server_once(served: Served, request_text: bytes, status: bytes) -> None:
    """RFC 9112, section 3.2."""
    with served.connect() as client:
        client.sendall(request_text)
        assert read_to_end(client).split()[1] == status
