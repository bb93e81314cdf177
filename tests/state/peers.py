"""Peers of the client: a relay that cuts connections at random places, and a server that replies what a test says."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import selectors
import socket
import struct
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.bounded import joined


class Relay:
    """Between a client and a server: each connection ends after a random number of bytes of either direction.

    Bytes that the server has received have their effect, though the client may not see the reply: the client has to
    transmit again what the server may have applied.
    """

    def __init__(self, path: Path, server: str, seed: int, least: int, most: int, cuts: int) -> None:
        self.path, self._server, self._choose = str(path), server, random.Random(seed)
        self._least, self._most, self._left = least, most, cuts
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(16)
        self._listener.settimeout(0.1)
        self.cuts = 0
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends:
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                self._carry(client)

    def _carry(self, client: socket.socket) -> None:
        budget = self._choose.randrange(self._least, self._most) if self._left > 0 else 1 << 62
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as both:
            server.connect(self._server)
            both.register(client, selectors.EVENT_READ, server)
            both.register(server, selectors.EVENT_READ, client)
            while not self._ends:
                for key, _ in both.select(0.1):
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    with contextlib.suppress(OSError):
                        part = source.recv(1 << 16)
                        if not part:
                            return
                        target.sendall(part[:budget])
                        budget -= len(part)
                    if budget <= 0:
                        self._left -= 1
                        self.cuts += 1
                        return

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        joined(self._thread)
        self._listener.close()
        os.unlink(self.path)


@contextlib.contextmanager
def replying(path: Path, reply: Callable[[int, bytes], bytes | None]) -> Iterator[str]:
    """A server that replies to what it receives by `reply(number, bytes)`; None closes the connection."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    with _serving(listener, reply):
        yield str(path)


@contextlib.contextmanager
def replying_node(reply: Callable[[int, bytes], bytes | None]) -> Iterator[int]:
    """The same on a port of loopback, as nodes of a cluster have."""
    listener = socket.create_server(("127.0.0.1", 0))
    with _serving(listener, reply):
        yield listener.getsockname()[1]


@contextlib.contextmanager
def _serving(listener: socket.socket, reply: Callable[[int, bytes], bytes | None]) -> Iterator[None]:
    listener.listen(16)
    listener.settimeout(0.1)
    ends = threading.Event()

    def serve(client: socket.socket) -> None:
        client.settimeout(0.1)
        number = 0
        with client:
            while not ends.is_set():
                try:
                    part = client.recv(1 << 16)
                    answer = reply(number, part) if part else None
                    if answer is None:
                        return
                    number += 1
                    client.sendall(answer)
                except TimeoutError:
                    continue
                except OSError:
                    return

    def run() -> None:
        threads: list[threading.Thread] = []
        while not ends.is_set():
            with contextlib.suppress(TimeoutError):
                threads.append(threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True))
                threads[-1].start()
        joined(*threads)

    accepting = threading.Thread(target=run, daemon=True)
    accepting.start()
    try:
        yield
    finally:
        ends.set()
        joined(accepting)
        listener.close()


@contextlib.contextmanager
def replying_unread(path: Path, replies: bytes, least: int = 1 << 15) -> Iterator[str]:
    """A server that reads nothing. It closes the first connection that is full, with at least `least` bytes.

    The client transmits everything again, in one piece: the next full connection ends within a call. There the server
    sends `replies`, and accepts no other connection.
    """
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(16)
    listener.settimeout(0.1)
    ends = threading.Event()

    def is_full(client: socket.socket) -> bool:
        closed = select.poll()
        closed.register(client, 0)  # reports the end of the connection alone
        before, now = -1, 0
        while now < least or now != before:
            if ends.is_set() or closed.poll(10):
                return False
            before, now = now, struct.unpack("i", fcntl.ioctl(client, termios.FIONREAD, bytes(4)))[0]
        return True

    def run() -> None:
        full = 0
        while not ends.is_set():
            with contextlib.suppress(OSError), listener.accept()[0] as client:
                full += is_full(client)
                if full == 2:
                    listener.close()
                    client.settimeout(1)
                    client.sendall(replies)
                    ends.wait()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield str(path)
    finally:
        ends.set()
        joined(thread)
        listener.close()


class Hole:
    """Between all processes of a chain and the server: a process of its own, which swallows what it is told to.

    swallow("requests"): what clients transmit never arrives. swallow("replies"): it does, and the client is not
    told. A connection of which something was swallowed ends when it would carry something again.
    """

    def __init__(self, server: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-hole-")
        folder = Path(self._folder.name)
        folder.chmod(0o755)  # processes of functions have users of their own, and connect again
        self.path = str(folder / "hole")
        self._flag, self._server = folder / "swallows", server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self._listener.listen(64)
        self._child = os.fork()
        if not self._child:
            try:
                self._run()
            finally:
                os._exit(0)
        self._listener.close()

    def swallow(self, what: str) -> None:
        """From now on; an empty text: nothing any more."""
        self._flag.write_text(what)

    def _run(self) -> None:
        both = selectors.DefaultSelector()
        both.register(self._listener, selectors.EVENT_READ, None)
        holes = set[socket.socket]()
        while True:
            for key, _ in both.select():
                if key.data is None:
                    client, _ = self._listener.accept()
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(self._server)
                    both.register(client, selectors.EVENT_READ, (server, "requests"))
                    both.register(server, selectors.EVENT_READ, (client, "replies"))
                    continue
                source, (target, what) = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                part = b""
                with contextlib.suppress(OSError):
                    part = source.recv(1 << 16)
                swallowed = self._flag.read_text() if self._flag.exists() else ""
                if not part or (swallowed != what and source in holes):
                    for one in (source, target):
                        with contextlib.suppress(KeyError, ValueError):
                            both.unregister(one)
                        one.close()
                    continue
                if swallowed == what:
                    holes |= {source, target}
                else:
                    with contextlib.suppress(OSError):
                        target.sendall(part)

    def __enter__(self) -> Hole:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._child, 9)
        os.waitpid(self._child, 0)
        self._folder.cleanup()
