"""Two network namespaces and the link between them, which loses, delays, reorders and duplicates packets.

The namespaces are real ones of the kernel, so programs in them use the kernel's TCP. Each has a TUN device; a thread
forwards packets from one device to the other. An observer records the packets in the middle of the link: packets may be
lost and reordered before and after the observer, in both directions. A Network needs root, TUN devices, and namespaces;
`why_not()` returns what is missing.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from tests.support.bounded import joined

T = TypeVar("T")

CLIENT, SERVER = "10.77.0.1", "10.77.0.2"
CLIENT6, SERVER6 = "fd77::1", "fd77::2"
DEVICE = b"link0"
TUN = Path("/dev/net/tun")
MISC = 10
"""The major number of the devices that /proc/misc lists."""

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000
_SIOCSIFADDR, _SIOCSIFDSTADDR, _SIOCSIFFLAGS, _SIOCGIFINDEX = 0x8916, 0x8918, 0x8914, 0x8933
_IFF_UP, _IFF_RUNNING = 1, 0x40
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A new network namespace, with one TUN device that has an address and a peer."""

    def __init__(self, addresses: tuple[str, str], peers: tuple[str, str]) -> None:
        self.handle, self.tun = _in_thread(lambda: self._make(addresses, peers))

    def _make(self, addresses: tuple[str, str], peers: tuple[str, str]) -> tuple[int, int]:
        _check(_libc.unshare(_CLONE_NEWNET))
        handle = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
        tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", DEVICE, _IFF_TUN | _IFF_NO_PI))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for request, address in ((_SIOCSIFADDR, addresses[0]), (_SIOCSIFDSTADDR, peers[0])):
                packed = struct.pack("16sHH4s16x", DEVICE, socket.AF_INET, 0, socket.inet_aton(address))
                fcntl.ioctl(control, request, packed)
            for device in (b"lo", DEVICE):
                fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", device, _IFF_UP | _IFF_RUNNING))
            index = struct.unpack("16si20x", fcntl.ioctl(control, _SIOCGIFINDEX, struct.pack("16s24x", DEVICE)))[1]
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control:
            packed = struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, addresses[1]), 64, index)
            fcntl.ioctl(control, _SIOCSIFADDR, packed)
        return handle, tun

    def socket(self, family: int = socket.AF_INET) -> socket.socket:
        """A TCP socket of this namespace."""

        def make() -> socket.socket:
            self.enter()
            return socket.socket(family, socket.SOCK_STREAM)

        return _in_thread(make)

    def enter(self) -> None:
        """Move the calling thread to this namespace."""
        _check(_libc.setns(self.handle, _CLONE_NEWNET))

    def start(self, command: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a program in it, without the library of a sanitizer, which is only for the tests' own process."""
        wanted = dict(os.environ if environment is None else environment)
        wanted.pop("LD_PRELOAD", None)
        return subprocess.Popen(command, env=wanted, preexec_fn=self.enter)

    def close(self) -> None:
        """Close the handles. The kernel removes the namespace when it has no handle and no process."""
        os.close(self.tun)
        os.close(self.handle)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _in_thread(make: Callable[[], T]) -> T:
    """The result of `make` in a thread of its own, because a namespace belongs to a thread."""
    found: list[T] = []
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            found.append(make())
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    joined(thread)
    if wrong:
        raise wrong[0]
    return found[0]


@dataclass
class Faults:
    """The faults of the link, before and after the observer, as shares of the packets from 0 to 1."""

    lost: float = 0.0
    overtaken: float = 0.0
    twice: float = 0.0


class Network:
    """Client and server, the link, and the packets that the observer recorded: (seconds, packet)."""

    def __init__(self, faults: Faults, seed: int = 1) -> None:
        self.seen: list[tuple[float, bytes]] = []
        self._faults = faults
        self._random = random.Random(seed)
        self._due: list[tuple[float, int, int, int, bytes]] = []
        self._count = 0
        self._stop = threading.Event()
        self.client = Namespace((CLIENT, CLIENT6), (SERVER, SERVER6))
        self.server = Namespace((SERVER, SERVER6), (CLIENT, CLIENT6))
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._begin = time.monotonic()

    def __enter__(self) -> Network:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        joined(self._thread)
        self.client.close()
        self.server.close()

    def settle(self, quiet: float = 0.5, longest: float = 10.0) -> None:
        """Wait until no packet has been recorded for a while, so that the last acknowledgements are included."""
        end = time.monotonic() + longest
        while time.monotonic() < end:
            last = self.seen[-1][0] if self.seen else 0.0
            if time.monotonic() - self._begin - last > quiet:
                return
            time.sleep(0.05)

    def _relay(self) -> None:
        """Forward packets. Stage 0 is the path to the observer, stage 1 the path from it."""
        tuns = [self.client.tun, self.server.tun]
        while not self._stop.is_set():
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else 0.05
            ready, _, _ = select.select(tuns, [], [], min(wait, 0.05))
            for tun in ready:
                self._plan(0, 1 - tuns.index(tun), os.read(tun, 65536))
            while self._due and self._due[0][0] <= time.monotonic():
                _, _, stage, to, packet = heapq.heappop(self._due)
                if stage == 1:
                    os.write(tuns[to], packet)
                    continue
                self.seen.append((time.monotonic() - self._begin, packet))
                self._plan(1, to, packet)

    def _plan(self, stage: int, to: int, packet: bytes) -> None:
        """Schedule the end of a packet's stage, unless it is lost. Packets that are not overtaken keep their order."""
        draw = self._random.random
        for _ in range(1 + (draw() < self._faults.twice and not _opens(packet))):
            if draw() < self._faults.lost:
                continue
            delay = 0.001 + (0.004 if draw() < self._faults.overtaken else 0.0)
            self._count += 1
            heapq.heappush(self._due, (time.monotonic() + delay, self._count, stage, to, packet))


def _opens(packet: bytes) -> bool:
    """Whether the packet is a TCP segment with SYN. Such a packet is not duplicated: if a FIN overtook the second copy,
    the copy would begin another connection, because by the rules of the corpus a SYN after a FIN on the same ends does.
    """
    start = 40 if packet[0] >> 4 == 6 else (packet[0] & 15) * 4
    protocol = packet[6] if packet[0] >> 4 == 6 else packet[9]
    return protocol == socket.IPPROTO_TCP and len(packet) > start + 13 and bool(packet[start + 13] & 2)


def make_node(node: Path, devices: str) -> bool:
    """Whether the node of the kernel's TUN device exists, or could be created. A container often has none.

    devices: the content of /proc/misc, one number and name per line.
    """
    if node.exists():
        return True
    minor = next((line.split()[0] for line in devices.splitlines() if line.split()[1:] == ["tun"]), None)
    if minor is None:
        return False
    try:
        node.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(MISC, int(minor)))
    except OSError:
        return False
    return True


@cache
def why_not() -> str:
    """The reason why no Network can be created here; empty if one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not make_node(TUN, Path("/proc/misc").read_text()):
        return f"there is no {TUN}, and it cannot be made"
    try:
        made = Namespace((CLIENT, CLIENT6), (SERVER, SERVER6))
    except OSError as error:
        return f"no network namespace with a TUN device can be made: {error.strerror}"
    made.close()
    return ""
