"""Backends by name and by file: what they mean now, and services that follow them without losing a connection."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.service.names import Names
from sluice.service.serve import AddressError, Backend
from tests.service.peers import PATIENCE, accepting, read_exactly
from tests.service.programs import ROOT
from tests.service.web import HEAD

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0
    or shutil.which("unshare") is None
    or subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"], capture_output=True).returncode != 0,
    reason="a mount namespace of its own needs root",
)


class Resolver:
    """Names that a test decides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, list[str]] = {}
        self.warned: list[str] = []
        self.asked = 0
        monkeypatch.setattr(socket, "getaddrinfo", self.find)

    def find(self, host: str, port: int, **_: object) -> list[Any]:
        self.asked += 1
        if host not in self.names and not host[0].isdigit():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(2, 1, 6, "", (each, port)) for each in self.names.get(host, [host])]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    return Resolver(monkeypatch)


def test_all_addresses_of_a_name_whatever_their_order(resolver: Resolver) -> None:
    resolver.names["app"] = ["10.0.0.2", "10.0.0.1"]
    names = Names(resolver.warned.append)
    assert names.use("dns://app:80") == [Backend("10.0.0.1", 80), Backend("10.0.0.2", 80)]
    resolver.names["app"].reverse()
    assert names.changed(True) == {}
    resolver.names["app"].append("10.0.0.3")
    assert names.changed(False) == {} and len(names.changed(True)["dns://app:80"]) == 3
    assert len(names.changed(False)["dns://app:80"]) == 3, "it stays changed until it is used"
    names.use("dns://app:80")
    assert names.changed(True) == {}
    draft = names.draft()
    draft.use("10.0.0.1:80")
    resolver.names["app"].append("10.0.0.4")
    assert names.changed(True) != {}, "it is used as long as the draft is not"
    names.adopt(draft)
    resolver.names["app"].pop()
    assert names.changed(True) == {}, "it is not used any more"


def test_one_address_stays_while_the_name_has_it(resolver: Resolver) -> None:
    resolver.names["app"] = ["10.0.0.1"]
    names = Names(resolver.warned.append)
    assert names.use("tls://app:443") == [Backend("10.0.0.1", 443, "app")]
    resolver.names["app"] = ["10.0.0.2", "10.0.0.1"]
    assert names.changed(True) == {}
    resolver.names["app"] = ["10.0.0.2"]
    assert names.changed(True) == {"tls://app:443": [Backend("10.0.0.2", 443, "app")]}


def test_the_lookups_of_a_file_grow_with_its_lines_only(resolver: Resolver, tmp_path: Path) -> None:
    resolver.names = {f"app{number}": [f"10.0.0.{number}"] for number in range(100)}
    path = tmp_path / "list"
    path.write_text("".join(f"{each}:80\n" for each in resolver.names))
    names = Names(resolver.warned.append)
    assert len(names.use(f"@{path}")) == 100
    resolver.asked = 0
    assert names.changed(True) == {} and resolver.asked <= 300


def test_a_name_that_is_unknown_for_a_while_keeps_its_addresses(resolver: Resolver) -> None:
    names = Names(resolver.warned.append)
    with pytest.raises(AddressError, match=r"app:80.*not known"):
        names.use("dns://app:80")
    resolver.names["app"] = ["10.0.0.1"]
    used = names.use("dns://app:80")
    del resolver.names["app"]
    assert names.changed(True) == {} and names.changed(True) == {} and names.use("dns://app:80") == used
    assert len(resolver.warned) == 1 and "its backends stay as they were" in resolver.warned[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no backend; write one in each line"),
        ("# nothing\n", "has no backend"),
        ("10.0.0.1:80\nnowhere\n", r"list, line 2: 'nowhere' is no address"),
        ("@other\n", "a file cannot name another one"),
        ("10.0.0.1:80\n" * 100_000, "more than 1,048,576 bytes"),
        ("".join(f"10.0.{i >> 8}.{i & 255}:1\n" for i in range(4097)), "more than 4,096 backends"),
        ("\udcff", "can't decode byte"),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_is_refused_and_later_changes_nothing(text: str | None, why: str, tmp_path: Path) -> None:
    path, warned = tmp_path / "list", list[str]()
    path.write_text("10.0.0.1:80  # one\n\n 10.0.0.1:80\n[::1]:80\n")
    names = Names(warned.append)
    assert names.use(f"@{path}") == [Backend("10.0.0.1", 80), Backend("::1", 80)]
    path.unlink()
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert names.changed(False) == {}
    with pytest.raises(AddressError, match=why):
        Names(warned.append).use(f"@{path}")
    assert len(warned) == 1


@contextlib.contextmanager
def named(name: bytes) -> Iterator[int]:
    """A web server that answers each request with its name."""

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            while accepted.recv(4096):
                accepted.sendall(HEAD % len(name) + name)

    with accepting(one) as port:
        yield port


class Running:
    """`sluice serve` with a backend that changes."""

    def __init__(self, *options: str, before: list[str] | None = None) -> None:
        command = [sys.executable, "-m", "sluice", "serve", "http_round_robin", "--listen", "127.0.0.1:0", "--json"]
        self.process = subprocess.Popen(
            [*(before or []), *command, *options], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.port = int(self.line("ready")["ready"].rpartition(":")[2])

    def line(self, key: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if key in (found := json.loads(line)):
                return found
        raise AssertionError(f"it printed no {key}")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()


def ask(client: socket.socket) -> bytes:
    client.sendall(GET)
    return read_exactly(client, len(HEAD % 5) + 5)[-5:]


def test_a_file_is_watched_and_connections_to_what_was_removed_drain(tmp_path: Path) -> None:
    path = tmp_path / "backends"
    with named(b"first") as first, named(b"other") as other:
        path.write_text(f"127.0.0.1:{first}\n")
        with Running("--backends", f"@{path}") as services, services.connect() as old:
            assert ask(old) == b"first"
            path.write_text("no address\n")
            time.sleep(1.5)
            assert ask(old) == b"first"
            (tmp_path / "next").write_text(f"127.0.0.1:{other} # the new one\n")
            (tmp_path / "next").rename(path)
            assert services.line("now") == {"backends": f"@{path}", "now": [f"127.0.0.1:{other}"]}
            end = time.monotonic() + PATIENCE
            while True:  # the process before may still accept the first ones
                with services.connect() as new:
                    if ask(new) == b"other":
                        break
                assert time.monotonic() < end
            assert ask(old) == b"first", "it goes on with its backend"
            old.close()
            assert services.line("drained") == {"drained": True, "ended": 0}


@needs_mounts
def test_a_name_is_resolved_again(tmp_path: Path) -> None:
    """The name is in a file of hosts that only the service sees."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.2 app.example\n")
    before = ["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]

    def one(accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            name = accepted.getsockname()[0][-5:].encode()
            while accepted.recv(4096):
                accepted.sendall(HEAD % len(name) + name)

    with accepting(one, "0.0.0.0") as port:
        options = ("--backends", f"dns://app.example:{port}", "--resolve", "1")
        with Running(*options, before=before) as services:
            with services.connect() as client:
                assert ask(client) == b"0.0.2"
            with hosts.open("a") as file:
                file.write("127.0.0.3 app.example\n")
            assert services.line("now")["now"] == [f"127.0.0.2:{port}", f"127.0.0.3:{port}"]
            found, end = set[bytes](), time.monotonic() + PATIENCE
            while found != {b"0.0.2", b"0.0.3"}:
                assert time.monotonic() < end, found
                with services.connect() as client:
                    found.add(ask(client))
