"""Two network namespaces joined by a veth pair, as hosts and a box between them see it; `sluice` in one of them.

Needs root and `ip`.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, Self, TypeVar

from tests.support.bounded import joined

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
CLIENT, SERVER = "10.78.0.1", "10.78.0.2"
CLIENT6, SERVER6 = "fd78::1", "fd78::2"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=300)


def add_pair(space: str, device: str, other_space: str, other: str, queues: int = 0, index: int = 0) -> None:
    """A veth pair between two namespaces. queues: of each device, for either direction; index: of the other one; 0: as
    the kernel makes them.
    """
    several = ["numrxqueues", str(queues), "numtxqueues", str(queues)] if queues else []
    same = ["index", str(index)] if index else []
    ours = ["index", str(1000 + index)] if index else []  # without one, the kernel does not heed the other's
    peer = ["peer", "name", other, *several, *same, "netns", other_space]
    ip("link", "add", device, *several, *ours, "netns", space, "type", "veth", *peer)


@cache
def why_not() -> str:
    """What keeps a Veth from being made here; empty when it can be."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no ip (Debian: iproute2)"
    try:
        Veth(f"iowhy{os.getpid()}").close()  # workers of one run collect at the same time
    except (subprocess.CalledProcessError, OSError) as error:
        return f"no namespaces with a veth pair can be made: {error}"
    return ""


def own(name: str) -> str:
    """A name that no other process of the tests uses. Namespaces of processes that were killed are removed."""
    for left in Path("/run/netns").glob(f"{name}-*"):
        number = "".join(letter for letter in left.name.rpartition("-")[2] if letter.isdecimal())
        if number and not Path(f"/proc/{number}").exists():
            subprocess.run(["ip", "netns", "del", left.name], capture_output=True, timeout=300)
    return f"{name}-{os.getpid()}"


class Veth:
    """Namespaces NAMEa (the client's, device c0) and NAMEb (the server's, device s0)."""

    def __init__(self, name: str, queues: int = 0) -> None:
        """queues: of each device, for either direction; 0: as the kernel makes them."""
        name = own(name)
        self.client, self.server = f"{name}a", f"{name}b"
        for space in (self.client, self.server):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, timeout=300)  # of a run that was killed
            ip("netns", "add", space)
        try:
            add_pair(self.client, "c0", self.server, "s0", queues)
            for space, device, four, six in (
                (self.client, "c0", CLIENT, CLIENT6),
                (self.server, "s0", SERVER, SERVER6),
            ):
                ip("-n", space, "addr", "add", f"{four}/24", "dev", device)
                ip("-n", space, "addr", "add", f"{six}/64", "dev", device, "nodad")
                for each in ("lo", device):
                    ip("-n", space, "link", "set", each, "up")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Both go away."""
        for space in (self.client, self.server):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, timeout=300)

    def start(self, space: str, command: list[str], **options: object) -> subprocess.Popen[str]:
        """A program that runs in one of them."""
        return subprocess.Popen(["ip", "netns", "exec", space, *command], text=True, **options)  # type: ignore[call-overload]

    def within(self, space: str, make: Callable[[], T]) -> T:
        """What a thread of its own comes to in one of them."""
        found: list[T] = []
        wrong: list[BaseException] = []

        def run() -> None:
            try:
                handle = os.open(f"/run/netns/{space}", os.O_RDONLY)
                try:
                    if _libc.setns(handle, _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                finally:
                    os.close(handle)
                found.append(make())
            except BaseException as error:
                wrong.append(error)

        thread = Thread(target=run, daemon=True)
        thread.start()
        joined(thread)
        if wrong:
            raise wrong[0]
        return found[0]

    def socket(
        self, space: str, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0
    ) -> socket.socket:
        """A socket of one of them."""
        return self.within(space, lambda: socket.socket(family, kind, protocol))


class Watch:
    """`sluice` on an interface of a namespace, once it receives; `stop` ends it."""

    def __init__(self, wire: Veth, space: str, folder: Path, *words: str) -> None:
        self.folder = folder
        self.errors = folder / "errors"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.errors.open("w") as errors:
            self.process = wire.start(
                space, [sys.executable, "-m", "sluice", *words],
                stdout=subprocess.PIPE, stderr=errors, env=environment,
            )  # fmt: skip
        self.wait_for("receiving from", 10 * PATIENCE)  # the first one compiles, which takes long on a busy machine

    def wait_for(self, text: str, seconds: float = PATIENCE, times: int = 1) -> None:
        """Until it has said so on standard error, so many times."""
        end = time.monotonic() + seconds
        while self.errors.read_text().count(text) < times:
            assert self.process.poll() is None and time.monotonic() < end, self.errors.read_text()
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(timeout=60)

    def stop(self, number: signal.Signals = signal.SIGTERM, status: int = 0) -> dict[str, Any]:
        """The summary after a signal."""
        assert self.process.poll() is None, self.errors.read_text()
        self.process.send_signal(number)
        return self.ended(status)

    def ended(self, status: int = 0) -> dict[str, Any]:
        """The summary once it has ended."""
        text, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == status, self.errors.read_text()
        return json.loads(text)

    def rows(self) -> list[dict[str, Any]]:
        """The flows so far. The box may be writing, so that what follows the last line is no row yet."""
        whole = (self.folder / "rows").read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]
