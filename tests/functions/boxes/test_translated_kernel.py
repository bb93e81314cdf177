"""`firewall` and `nat` in one box let pass what Linux' netfilter does with the same file of rules, in both orders.

The hosts are those of tests/live/wire.py. In place of the box, the namespace between them is a router with nftables.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.chain import test_inline
from tests.functions.boxes.test_traffic import EXTERNAL, SMALL, link_address
from tests.live.wire import CLIENT, SERVER, Inline, Wire, ip, ping

pytestmark = [
    *test_inline.pytestmark,
    pytest.mark.slow_matrix,
    pytest.mark.skipif(shutil.which("nft") is None, reason="there is no nft (Debian: nftables)"),
]

CLIENT6, SERVER6 = "fd79::1", "fd79::2"
RULES = f"""
table inet filter {{
  chain forward {{
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    ct state invalid drop
    ip saddr {CLIENT} tcp dport {{ 8080 }} accept
    ip saddr {CLIENT} tcp dport 8082 reject with tcp reset
    ip saddr {CLIENT} udp dport {{ 53, 5353 }} accept
    ip saddr {CLIENT} udp dport 55 reject
    ip saddr {CLIENT} icmp type echo-request accept
    ip daddr {CLIENT} tcp dport 9000 accept
    ip6 saddr {CLIENT6} tcp dport 8080 accept
    ip6 saddr {CLIENT6} udp dport 53 accept
  }}
}}
"""
KERNEL = f"""
table ip nat {{
  chain prerouting {{
    type nat hook prerouting priority dstnat;
    ip daddr {EXTERNAL} tcp dport 900 dnat to {CLIENT}:9000
    ip daddr {EXTERNAL} tcp dport 901 dnat to {CLIENT}:9001
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    oifname "b1" ip saddr {CLIENT} snat to {EXTERNAL}
  }}
}}
"""
NAT = f"nat:address={EXTERNAL},inside={CLIENT}/32,first_port=20000,forward=900:{CLIENT}:9000+901:{CLIENT}:9001"
SECONDS = 0.7


def neighbour(space: str, device: str, address: str, of: tuple[str, str]) -> None:
    """The link address of `address`, as neither ARP nor neighbour discovery pass."""
    ip("-n", space, "neigh", "replace", address, "lladdr", link_address(*of), "dev", device)


def address6(wire: Wire) -> None:
    for space, device, address in ((wire.client, "c0", CLIENT6), (wire.server, "s0", SERVER6)):
        ip("-n", space, "addr", "add", f"{address}/64", "dev", device, "nodad")


@contextmanager
def kernel(wire: Wire, folder: Path) -> Generator[None]:
    """A router with the same rules."""
    for device in ("b0", "b1"):
        ip("-n", wire.box, "addr", "add", f"{EXTERNAL if device == 'b1' else '10.79.1.1'}/32", "dev", device)
        subprocess.run(
            ["ip", "netns", "exec", wire.box, "sysctl", "-qw", f"net.ipv6.conf.{device}.forwarding=1"], check=True
        )
    for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
        subprocess.run(["ip", "netns", "exec", wire.box, "sysctl", "-qw", setting], check=True)
    for device, four, six, end in (
        ("b0", CLIENT, CLIENT6, (wire.client, "c0")),
        ("b1", SERVER, SERVER6, (wire.server, "s0")),
    ):
        ip("-n", wire.box, "route", "add", f"{four}/32", "dev", device)
        ip("-n", wire.box, "-6", "route", "add", f"{six}/128", "dev", device)
        for address in (four, six):
            neighbour(wire.box, device, address, end)
    for address in (SERVER, SERVER6):
        neighbour(wire.client, "c0", address, (wire.box, "b0"))
    for address in (EXTERNAL, CLIENT, CLIENT6):
        neighbour(wire.server, "s0", address, (wire.box, "b1"))
    (folder / "kernel.nft").write_text(RULES + KERNEL)
    subprocess.run(["ip", "netns", "exec", wire.box, "nft", "-f", str(folder / "kernel.nft")], check=True)
    yield


@contextmanager
def box(wire: Wire, folder: Path, order: tuple[str, str]) -> Generator[None]:
    (folder / "small.py").write_text(SMALL)
    (folder / "rules.nft").write_text(RULES)
    functions = {"firewall": f"firewall:rules={folder}/rules.nft,out={folder}/rows", "nat": NAT}
    for address in (SERVER, SERVER6):
        neighbour(wire.client, "c0", address, (wire.server, "s0"))
    for address in (EXTERNAL, CLIENT, CLIENT6):
        neighbour(wire.server, "s0", address, (wire.client, "c0"))
    words = [word for name in order for word in ("-f", functions[name])]
    with Inline(wire, folder, "run", str(folder / "small.py"), *words) as running:
        yield
        reports = running.stop()["reports"]
    assert reports["firewall_undecided"] == reports["no_port"] == 0


def answering(wire: Wire, ends: ExitStack, space: str, address: str, port: int, kind: socket.SocketKind) -> None:
    """A server that answers with the address that it sees of its peer."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = ends.enter_context(wire.socket(space, family, kind, 0))
    server.bind((address, port))
    if kind == socket.SOCK_STREAM:
        server.listen(8)

    def stream() -> None:
        while True:
            try:
                accepted, peer = server.accept()
            except OSError:
                return
            with accepted:
                accepted.settimeout(5)
                accepted.recv(64)
                accepted.sendall(peer[0].encode())

    def datagrams() -> None:
        while True:
            try:
                _, peer = server.recvfrom(64)
                server.sendto(peer[0].encode(), peer)
            except OSError:
                return

    threading.Thread(target=stream if kind == socket.SOCK_STREAM else datagrams, daemon=True).start()


def asks(wire: Wire, space: str, address: str, port: int, kind: socket.SocketKind) -> str:
    """What a client gets: the answer, or how it failed."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with wire.socket(space, family, kind, 0) as end:
        end.settimeout(SECONDS)
        try:
            end.connect((address, port))
            end.send(b"who am I?")
            return end.recv(64).decode()
        except TimeoutError:
            return "silence"
        except OSError as error:
            return type(error).__name__


def outcomes(wire: Wire) -> dict[str, str]:
    """What passes between the hosts, and how."""
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    found: dict[str, str] = {}
    with ExitStack() as ends:
        for port in (8080, 8081, 8082):
            answering(wire, ends, wire.server, SERVER, port, stream)
        for port in (53, 54):
            answering(wire, ends, wire.server, SERVER, port, datagram)
        for port in (9000, 9001):
            answering(wire, ends, wire.client, CLIENT, port, stream)
        answering(wire, ends, wire.server, SERVER6, 8080, stream)
        answering(wire, ends, wire.server, SERVER6, 53, datagram)
        answering(wire, ends, wire.client, CLIENT6, 8080, stream)
        for port in (8080, 8081, 8082):
            found[f"tcp {port}"] = asks(wire, wire.client, SERVER, port, stream)
        for port in (53, 54, 55, 5353):
            found[f"udp {port}"] = asks(wire, wire.client, SERVER, port, datagram)
        for port in (900, 901):
            found[f"called {port}"] = asks(wire, wire.server, EXTERNAL, port, stream)
        found["tcp 6"] = asks(wire, wire.client, SERVER6, 8080, stream)
        found["udp 6"] = asks(wire, wire.client, SERVER6, 53, datagram)
        found["called 6"] = asks(wire, wire.server, CLIENT6, 8080, stream)
        found["echoes"] = str(ping(wire, 2))
    return found


EXPECTED = {
    "tcp 8080": EXTERNAL,
    "tcp 8081": "silence",
    "tcp 8082": "ConnectionRefusedError",
    "udp 53": EXTERNAL,
    "udp 54": "silence",
    "udp 55": "ConnectionRefusedError",  # the rule's answer
    "udp 5353": "ConnectionRefusedError",  # the server's: an ICMP error, which is related
    "called 900": SERVER,
    "called 901": "silence",
    "tcp 6": CLIENT6,
    "udp 6": CLIENT6,
    "called 6": "silence",
    "echoes": "2",
}
WAYS: dict[str, Callable[[Wire, Path], AbstractContextManager[None]]] = {
    "kernel": kernel,
    "firewall first": lambda wire, folder: box(wire, folder, ("firewall", "nat")),
    "nat first": lambda wire, folder: box(wire, folder, ("nat", "firewall")),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_the_same_flows_pass(way: str, tmp_path: Path) -> None:
    with Wire("translated") as wire:
        address6(wire)
        with WAYS[way](wire, tmp_path):
            assert outcomes(wire) == EXPECTED
