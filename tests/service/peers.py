"""Real peers on loopback: memcached servers, and a service in front of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sluice.service.bounds import Limits
from sluice.service.build import build_program
from sluice.service.load import Service
from sluice.service.lower.program import lower
from sluice.service.serve import Backend, Network, Tls, command_of, wire
from tests.support.bounded import killed_after

PATIENCE = 20.0
LIMITS = Limits()
NO_TLS = Tls()

needs_memcached = pytest.mark.skipif(shutil.which("memcached") is None, reason="there is no memcached")
needs_clients = pytest.mark.skipif(shutil.which("memccat") is None, reason="there is no libmemcached-tools")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    """Until something accepts connections at a port."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def accepting(one: Callable[[socket.socket], object], host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A server that calls `one` in a thread for each connection; its port."""

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server((host, port)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def memcached(count: int) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Servers by their port."""
    servers: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for _ in range(count):
            port = free_port()
            command = ["memcached", "-u", "root", "-t", "1", "-m", "64", "-l", "127.0.0.1", "-p", str(port), "-U", "0"]
            servers[port] = subprocess.Popen(command)
        for port in servers:
            wait_for(port)
        yield servers
    finally:
        for server in servers.values():
            server.kill()
            server.wait(timeout=60)


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[int]:
    """The port of a server that saves nothing."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield port
    finally:
        server.kill()
        server.wait(timeout=60)


@contextlib.contextmanager
def nginx(folder: Path, http: str, *ports: int) -> Iterator[None]:
    """nginx with the block `http` of a configuration; it accepts connections at the ports. `folder` has its files."""
    path = folder / "nginx.conf"
    path.write_text(f"daemon off; pid {folder}/pid; error_log {folder}/log; user root; events {{}} http {{ {http} }}")
    server = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(path)], stderr=subprocess.DEVNULL)
    try:
        for port in ports:
            wait_for(port)
        yield
    finally:
        server.terminate()
        server.wait(timeout=60)


@contextlib.contextmanager
def nghttpd(folder: Path, *options: str) -> Iterator[int]:
    """nghttpd for the files of a folder, and its port. What it prints is the file `log`."""
    port = free_port()
    with (folder / "log").open("wb") as out:
        server = subprocess.Popen(["nghttpd", "--no-tls", *options, "-d", str(folder), str(port)], stdout=out)
    try:
        wait_for(port)
        yield port
    finally:
        server.kill()
        server.wait(timeout=60)


def _backend(given: int | str | Backend) -> Backend:
    """A port of this machine, a folder, or a backend."""
    if isinstance(given, Backend):
        return given
    return Backend("127.0.0.1", given) if isinstance(given, int) else Backend(given, 0)


class Served:
    """A running service: `port`, and `counters` after `stop()`."""

    def __init__(
        self,
        service: Service,
        backends: Sequence[int | str | Backend] | Mapping[str, Sequence[Backend]],
        limits: Limits = LIMITS,
        tls: Tls = NO_TLS,
        trusted: tuple[Network, ...] = (),
    ) -> None:
        process = service.process()
        given = list(backends.items()) if isinstance(backends, Mapping) else [("", [*map(_backend, backends)])]
        wiring = wire(process, ("", ("127.0.0.1", 0)), given if backends else [], tls, trusted)
        program = build_program(
            process.name,
            lower(service, process).source,
            tls=wiring.encrypted,
            http2=bool(limits.http2 or wiring.uplinks),
        )
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [*command_of(program, (wiring, limits)), "--drain", "20"],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdout is not None
        with killed_after(self._process, PATIENCE):
            word, _, port = self._process.stdout.readline().split()
        assert word == "ready"
        self.port = int(port)
        self.counters: dict[str, int] = {}

    def connect(self) -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def errors(self) -> str:
        """What it has printed to its standard error."""
        self._errors.seek(0)
        return self._errors.read()

    def drain(self) -> None:
        """Accept no more, as after a reload."""
        self._process.send_signal(signal.SIGUSR1)

    def pause(self, seconds: float, meanwhile: Callable[[], object] | None = None) -> None:
        """Stop the process for a while, as a machine without time for it does."""
        self._process.send_signal(signal.SIGSTOP)
        if meanwhile is not None:
            meanwhile()
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def open_connections(self) -> int:
        """Its connections, with those to backends."""
        count = -1
        for each in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
                count += os.readlink(each).startswith("socket:")
        return count

    def memory(self) -> int:
        """Bytes of memory that the service has in use."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def stop(self) -> dict[str, int]:
        if self._process.poll() is None:
            self._process.terminate()
        assert self._process.stdout is not None
        with killed_after(self._process, PATIENCE):
            for line in self._process.stdout:
                if line.startswith("["):  # else it says that it drains
                    self.counters = json.loads(line)[0]
        assert self._process.wait(PATIENCE) == 0
        return self.counters

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()


def read_exactly(end: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = end.recv(min(size, 1 << 16))
        assert part, "the connection ended"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_answer(end: socket.socket) -> tuple[int, int, bytes]:
    """An answer of Memcached's binary protocol: its status, its opaque number, and its value."""
    head = read_exactly(end, 24)
    assert head[0] == 0x81
    body = read_exactly(end, int.from_bytes(head[8:12], "big"))
    return (
        int.from_bytes(head[6:8], "big"),
        int.from_bytes(head[12:16], "big"),
        body[head[4] + int.from_bytes(head[2:4], "big") :],
    )


def read_to_end(end: socket.socket) -> bytes:
    """All that comes until the connection ends, also by a reset."""
    parts: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        while part := end.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def reset(end: socket.socket) -> None:
    """Close a connection so that the peer finds it reset."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def faults(counters: dict[str, int]) -> dict[str, int]:
    """The counters of faults that are not 0."""
    return {name: value for name, value in counters.items() if name.startswith("faults:") and value}
