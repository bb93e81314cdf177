"""Requests that two programs could read as different ones, to a service in front of nginx: each is refused, or nginx
sees the same requests as the service.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import load_file
from tests.service.peers import Served, free_port, nginx, read_to_end

pytestmark = pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx")

SMUGGLED = b"GET /NNN/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
END = b"0\r\n\r\n"


def post(fields: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"POST /NNN/first HTTP/" + version + b"\r\nHost: a\r\n" + fields + b"\r\n" + body


def get(line: bytes, fields: bytes = b"Host: a\r\n") -> bytes:
    return line + b"\r\n" + fields + b"\r\n"


REFUSED = {
    "a length and chunks": post(b"Content-Length: 5\r\n" + CHUNKED, END + SMUGGLED),
    "chunks and a length": post(CHUNKED + b"Content-Length: 5\r\n", END + SMUGGLED),
    "two lengths": post(b"Content-Length: 3\r\nContent-Length: 40\r\n", b"abc" + SMUGGLED),
    "a list of lengths": post(b"Content-Length: 3, 40\r\n", b"abc" + SMUGGLED),
    "a sign": post(b"Content-Length: +3\r\n", b"abc"),
    "a hexadecimal length": post(b"Content-Length: 0x3\r\n", b"abc"),
    "two numbers": post(b"Content-Length: 3 3\r\n", b"abc"),
    "a length of 65 bits": post(b"Content-Length: 18446744073709551619\r\n", b"abc"),
    "no length": post(b"Content-Length:\r\n"),
    "a folded length": post(b"Content-Length:\r\n 36\r\n", SMUGGLED),
    "a folded field": post(b"X: a\r\n\tContent-Length: 39\r\n", SMUGGLED),
    "a fold before the first field": b"POST /NNN/first HTTP/1.1\r\n Content-Length: 39\r\nHost: a\r\n\r\n" + SMUGGLED,
    "a bare LF in a field": post(b"X: a\nContent-Length: 39\r\n", SMUGGLED),
    "a bare LF at the end": b"GET /NNN/first HTTP/1.1\r\nHost: a\r\n\n" + SMUGGLED,
    "a bare CR": post(b"X: a\rContent-Length: 39\r\n", SMUGGLED),
    "a space before the colon": post(b"Content-Length : 36\r\n", SMUGGLED),
    "a tab before the colon": post(b"Transfer-Encoding\t: chunked\r\n", END + SMUGGLED),
    "a tab around a coding": post(b"Transfer-Encoding:\tchunked\r\n", END + SMUGGLED),
    "a tab after a length": post(b"Content-Length: 39\t\r\n", SMUGGLED),
    "a vertical tab": post(b"Transfer-Encoding: \x0bchunked\r\n", END + SMUGGLED),
    "NUL": post(b"X: a\0b\r\n"),
    "another coding": post(b"Transfer-Encoding: xchunked\r\n", END + SMUGGLED),
    "a coding after chunks": post(b"Transfer-Encoding: chunked, identity\r\n", END + SMUGGLED),
    "a coding before chunks": post(b"Transfer-Encoding: gzip, chunked\r\n", END + SMUGGLED),
    "two codings": post(CHUNKED + b"Transfer-Encoding: identity\r\n", END + SMUGGLED),
    "a quoted coding": post(b'Transfer-Encoding: "chunked"\r\n', END + SMUGGLED),
    "an empty item": post(b"Transfer-Encoding: chunked,\r\n", END + SMUGGLED),
    "no coding": post(b"Transfer-Encoding:\r\n"),
    "chunks in HTTP/1.0": post(b"Connection: keep-alive\r\n" + CHUNKED, END + SMUGGLED, b"1.0"),
    "several hosts": get(b"GET /NNN/first HTTP/1.1", b"Host: a\r\nHost: b\r\n"),
    "no name": post(b": x\r\n"),
    "no colon": post(b"Xyz\r\n"),
    "a version": get(b"GET /NNN/first HTTP/1.2"),
    "no version": get(b"GET /NNN/first"),
    "a version in lower case": get(b"GET /NNN/first http/1.1"),
    "a space after the version": get(b"GET /NNN/first HTTP/1.1 "),
    "two spaces": get(b"GET  /NNN/first HTTP/1.1"),
    "a space in the target": get(b"GET /NNN/first x HTTP/1.1"),
    "tabs in the line": get(b"GET\t/NNN/first\tHTTP/1.1"),
    "no method": get(b" /NNN/first HTTP/1.1"),
    "a method that is no token": get(b"GE:T /NNN/first HTTP/1.1"),
    "a tunnel": get(b"CONNECT a:80 HTTP/1.1") + SMUGGLED,
    "an empty line before": b"\r\n" + get(b"GET /NNN/first HTTP/1.1"),
}
WITHIN = {
    "a chunk's extension with LF": post(CHUNKED, b"3;a\nabc\r\n0\r\n\r\n" + SMUGGLED),
    "a chunk's extension with CR LF": post(CHUNKED, b'3;a="\r\n"\r\nabc\r\n' + END + SMUGGLED),
    "a space after a size": post(CHUNKED, b"3 \r\nabc\r\n" + END),
    "a space before a size": post(CHUNKED, b" 3\r\nabc\r\n" + END),
    "a size of 33 bits": post(CHUNKED, b"100000003\r\nabc\r\n" + END + SMUGGLED),
    "LF after a size": post(CHUNKED, b"3\nabc\n0\n\n" + SMUGGLED),
    "a chunk that is longer": post(CHUNKED, b"3\r\nabcd\r\n" + END + SMUGGLED),
    "a chunk that is shorter": post(CHUNKED, b"5\r\nabc\r\n" + END + SMUGGLED),
    "no end of a chunk": post(CHUNKED, b"3\r\nabc" + END + SMUGGLED),
    "a request in the place of trailers": post(CHUNKED, b"0\r\n" + SMUGGLED),
    "a folded trailer": post(CHUNKED, b"0\r\nX: y\r\n z\r\n\r\n" + SMUGGLED),
}
"""Refused after the request has begun: nginx sees its head at most."""
FORWARDED = {
    "a length": (post(b"Content-Length: 3\r\n", b"abc") + SMUGGLED, 2),
    "leading zeros": (post(b"Content-Length: 0003\r\n", b"abc") + SMUGGLED, 2),
    "chunks": (post(b"transfer-encoding:CHUNKED \r\n", b"3;a=b\r\nabc\r\n0;x\r\nX: y\r\n\r\n") + SMUGGLED, 2),
    "a trailer that frames nothing": (post(CHUNKED, b"0\r\nContent-Length: 39\r\n\r\n") + SMUGGLED, 2),
    "a body of GET": (get(b"GET /NNN/first HTTP/1.1", b"Host: a\r\nContent-Length: 39\r\n") + SMUGGLED, 1),
    "a length that Connection names": (post(b"Connection: content-length\r\nContent-Length: 39\r\n", SMUGGLED), 1),
    "chunks that Connection names": (post(b"Connection: transfer-encoding\r\n" + CHUNKED, END) + SMUGGLED, 2),
    "an upgrade": (get(b"GET /NNN/first HTTP/1.1", b"Host: a\r\nUpgrade: x\r\nConnection: upgrade\r\n") + SMUGGLED, 2),
}
"""With the number of requests."""


@contextlib.contextmanager
def logging_server(folder: Path) -> Iterator[int]:
    """A server that logs the first line of each request to the file `seen`."""
    port = free_port()
    http = (
        f"log_format line '$request'; access_log {folder}/seen line; client_body_temp_path {folder}/body; "
        f"server {{ listen 127.0.0.1:{port}; return 200 'it is here'; }}"
    )
    with nginx(folder, http, port):
        yield port


@pytest.mark.parametrize("service", ["http_round_robin", "http_failover"])
def test_nginx_sees_the_requests_that_the_service_sees(tmp_path: Path, service: str) -> None:
    shapes = {name: shape.replace(b"NNN", b"%03d" % number) for number, (name, shape) in enumerate(
        [*REFUSED.items(), *WITHIN.items(), *((name, shape) for name, (shape, _) in FORWARDED.items())]
    )}  # fmt: skip
    numbers = {name: number for number, name in enumerate(shapes)}
    log = tmp_path / "served"
    limits = Limits(access_log=str(log), access_log_format="$request", down=0)
    with logging_server(tmp_path) as port, Served(load_file(service), [port], limits) as served:
        for name, shape in shapes.items():
            with served.connect() as client:
                client.sendall(shape)
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_WR)
                answer = read_to_end(client)
            statuses = re.findall(rb"HTTP/1\.1 (\d+)", answer)
            if name in REFUSED:
                assert statuses in ([], [b"400"]), name
            elif name in FORWARDED:
                assert statuses == [b"200"] * FORWARDED[name][1], name
        assert served.stop()["faults: malformed message"] >= len(REFUSED)
    seen, own = (
        {name: [line for line in lines if f"/{number:03}/" in line] for name, number in numbers.items()}
        for lines in (path.read_text().splitlines() for path in (tmp_path / "seen", log))
    )
    for name in shapes:
        assert len(seen[name]) == (
            0 if name in REFUSED else FORWARDED[name][1] if name in FORWARDED else len(seen[name])
        )
        assert not any("smuggled" in line for line in seen[name]) or name in FORWARDED, name
        if name in FORWARDED:
            assert seen[name] == own[name], name
