"""Two hosts and a box between them, in network namespaces that two veth pairs join. Needs root, `ip`, `ethtool`."""

from __future__ import annotations

import http.server
import random
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.live.veth import PATIENCE, Veth, Watch, add_pair, ip, own, why_not
from tests.support.bounded import joined
from tests.support.packets import checksum

CLIENT, SERVER = "10.79.0.1", "10.79.0.2"
_ADDRESSES = {"c0": CLIENT, "s0": SERVER}


def why_no_wire() -> str:
    """What keeps a Wire from being made here; empty when it can be."""
    missing = [name for name in ("ethtool", "curl") if shutil.which(name) is None]
    return why_not() or (f"there is no {missing[0]} (Debian: {missing[0]})" if missing else "")


class Wire(Veth):
    """NAMEa, the client with device c0; NAMEm, the box with b0 and b1; NAMEb, the server with s0."""

    def __init__(self, name: str, queues: int = 0) -> None:
        """queues: of each device, for either direction; 0: as the kernel makes them."""
        name = own(name)
        self.client, self.box, self.server, self.relay = f"{name}a", f"{name}m", f"{name}b", f"{name}r"
        self.close()  # of a run that was killed
        try:
            for space in self.spaces():
                ip("netns", "add", space)
                ip("-n", space, "link", "set", "lo", "up")
            for link in self.links():
                self.join(*link, queues=queues)
        except BaseException:
            self.close()
            raise

    def join(self, space: str, device: str, other_space: str, other: str, queues: int = 0, index: int = 0) -> None:
        """Make a pair of devices, and set them up. index: of the other one; 0: any."""
        add_pair(space, device, other_space, other, queues, index)
        for where, each in ((space, device), (other_space, other)):
            ip("-n", where, "link", "set", each, "up")
            words = f"-K {each} tx off sg off tso off gso off gro off".split()
            subprocess.run(
                ["ip", "netns", "exec", where, "ethtool", *words], check=True, capture_output=True, timeout=300
            )
            if each in _ADDRESSES:
                ip("-n", where, "addr", "add", f"{_ADDRESSES[each]}/24", "dev", each)

    def spaces(self) -> list[str]:
        """The namespaces."""
        return [self.client, self.box, self.server]

    def links(self) -> list[tuple[str, str, str, str]]:
        """The pairs of devices, each with its namespace."""
        return [(self.client, "c0", self.box, "b0"), (self.server, "s0", self.box, "b1")]

    def close(self) -> None:
        for space in (self.client, self.box, self.server, self.relay):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, timeout=300)


class LossyWire(Wire):
    """The same with a relay between box and server, which loses packets, and sends others after those that follow."""

    def __init__(self, name: str, lost: float, overtaken: float) -> None:
        super().__init__(name)
        self._chosen = random.Random(1)
        self._shares = lost, overtaken
        self._stop = threading.Event()
        self._ends = [self._end(device) for device in ("r0", "r1")]
        self._threads = [
            threading.Thread(target=self._pass_on, args=self._ends[::step], daemon=True) for step in (1, -1)
        ]
        for thread in self._threads:
            thread.start()

    def spaces(self) -> list[str]:
        return [*super().spaces(), self.relay]

    def links(self) -> list[tuple[str, str, str, str]]:
        return [
            (self.client, "c0", self.box, "b0"),
            (self.relay, "r0", self.box, "b1"),
            (self.server, "s0", self.relay, "r1"),
        ]

    def _end(self, device: str) -> socket.socket:
        end = self.socket(self.relay, socket.AF_PACKET, socket.SOCK_RAW, 0x0300)  # ETH_P_ALL
        end.bind((device, 3))
        end.settimeout(0.05)
        return end

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        lost, overtaken = self._shares
        held: list[bytes] = []
        while not self._stop.is_set():
            try:
                packet, address = source.recvfrom(65536)
            except TimeoutError:
                packet, address = b"", (None, None, 0)
            if address[2] != socket.PACKET_OUTGOING and packet:
                tcp = packet[12:14] == b"\x08\x00" and packet[23] == 6
                choice = self._chosen.random() if tcp else 1.0
                if choice < overtaken and not held:
                    held.append(packet)
                    continue
                if choice > lost + overtaken or not tcp:
                    _send(to, packet)
            for each in held:
                _send(to, each)
            held.clear()

    def close(self) -> None:
        if hasattr(self, "_threads"):
            self._stop.set()
            joined(*self._threads)
            for end in self._ends:
                end.close()
        super().close()


def _send(to: socket.socket, packet: bytes) -> None:
    """A packet for which the kernel has no room is lost, as others are: the relay does not end."""
    with suppress(OSError):
        to.send(packet)


class Inline(Watch):
    """`sluice` in the box, between its two interfaces, once it receives; `stop` gives its summary."""

    def __init__(self, wire: Wire, folder: Path, *words: str, between: tuple[str, str] = ("b0", "b1")) -> None:
        first, second = between
        super().__init__(wire, wire.box, folder, *words, "-i", first, "--forward", second, "--json")


class Passive(Watch):
    """`sluice` in the box with any options, once it receives."""

    def __init__(self, wire: Wire, folder: Path, *words: str) -> None:
        super().__init__(wire, wire.box, folder, *words)

    def stop(self, number: signal.Signals = signal.SIGTERM, status: int = 0) -> dict[str, Any]:
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == status, self.errors.read_text()
        return {}


class Site(http.server.BaseHTTPRequestHandler):
    """Answers with bytes that follow from the path."""

    def do_GET(self) -> None:
        body = content(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def content(path: str) -> bytes:
    return random.Random(path).randbytes(int(path.rpartition("/")[2]))


def serve(
    wire: Wire, port: int, site: type[http.server.BaseHTTPRequestHandler] = Site
) -> http.server.ThreadingHTTPServer:
    server = wire.within(wire.server, lambda: http.server.ThreadingHTTPServer((SERVER, port), site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def fetch(wire: Wire, port: int, path: str, seconds: int, host: str = CLIENT) -> tuple[int, str]:
    """The exit status of curl, and the digest of what it got. host: the address of the client's that it uses."""
    command = ["curl", "-s", "--noproxy", "*", "--interface", host, "--max-time", str(seconds)]
    command.append(f"http://{SERVER}:{port}{path}")
    script = ["bash", "-c", 'set -o pipefail; "$@" | sha256sum', "bash", *command]
    with wire.start(wire.client, script, stdout=subprocess.PIPE) as done:
        text, _ = done.communicate(timeout=seconds + PATIENCE)
    return done.returncode, text.split()[0]


def ping(wire: Wire, count: int) -> int:
    """Echo requests that are answered with the same bytes."""
    end = wire.socket(wire.client, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    end.settimeout(PATIENCE)
    answered = 0
    with end:
        for number in range(count):
            body = bytes([0, 7, 0, number]) + bytes(range(56))
            end.sendto(b"\x08\x00" + checksum(b"\x08\x00\0\0" + body).to_bytes(2, "big") + body, (SERVER, 0))
            answered += end.recv(2048)[24:] == body
    return answered
