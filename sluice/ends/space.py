"""A network namespace in which connections to addresses of other hosts end.

A rule sends packets to a port to a routing table in which every address is local. A server whose sockets are
transparent (IP_TRANSPARENT, ip(7)) then has connections with the addresses of both ends, as with the target TPROXY of
iptables; no packet passes netfilter, and no connection is tracked. For a server without support for this, single
prefixes are made local ("AnyIP": `ip route add local PREFIX dev lo`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from ipaddress import ip_interface, ip_network
from pathlib import Path
from typing import Self

INSIDE = "inside"
"""The namespace's end of the link to the chain."""
TABLE = "100"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")
_SETTINGS = (
    "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
    "net.ipv6.conf.all.forwarding=1", "net.ipv4.ip_nonlocal_bind=1",
)  # fmt: skip


class SpaceError(Exception):
    """A namespace cannot be made; the message has the advice."""


@dataclass(frozen=True)
class Outside:
    """An interface of the host that is in the namespace while that exists, and its address there."""

    interface: str
    address: str


@dataclass
class Space:
    """The namespace `name`; the chain forwards to the interface NAME0, whose other end is in it."""

    name: str
    inside: tuple[str, ...]
    """Addresses with their prefix lengths, of the end of the link in the namespace."""
    outside: Outside | None = None
    port: int | None = None
    """Connections to this port end here, whatever their addresses are."""
    server_port: int | None = None
    """The port of the servers that connections are opened to from here, where it is another one."""
    local: tuple[str, ...] = ()
    """Prefixes all of whose addresses are local."""
    held: bool = False
    """Whether packets to the port are dropped, as on their way, until `release`: connections that move are restored."""
    moves: bool = False
    """Whether the program in it moves: it has the mounts of the host then, as files that it gets from us lie there."""
    _made: bool = field(default=False, init=False)
    _moves: bool = field(default=False, init=False)

    @property
    def interface(self) -> str:
        """The interface to which the chain forwards."""
        return f"{self.name}0"

    def __enter__(self) -> Self:
        self._check()
        _run("ip", "netns", "add", self.name)
        self._made = True
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpaceError(f"'{self.name}' is no name: at most 12 small letters, digits and -, a letter first")
        if os.geteuid() != 0:
            raise SpaceError("a network namespace needs root")
        if shutil.which("ip") is None:
            raise SpaceError("there is no ip (Debian: iproute2)")
        if Path("/run/netns", self.name).exists():
            raise SpaceError(
                f"there is a network namespace '{self.name}': take another name, or, if it is from a run that was "
                f"killed, move its interfaces back and remove it: ip netns del {self.name}"
            )
        try:
            for each in self.inside:
                ip_interface(each)
            for each in self.local:
                ip_network(each)
            if self.outside:
                ip_interface(self.outside.address)
        except ValueError as error:
            raise SpaceError(f"{error}: addresses are given as 10.0.0.1/24") from error

    def _make(self) -> None:
        _run("ip", "link", "add", self.interface, "type", "veth", "peer", "name", INSIDE, "netns", self.name)
        # a chain forwards frames as they are: none larger than the link allows, none without its checksum
        _offloads(["ethtool", "-K", self.interface])
        _offloads([*self.command("ethtool"), "-K", INSIDE])
        _run("ip", "link", "set", self.interface, "up")
        self._ip("link", "set", "lo", "up")
        if self.held:
            self._hold("add")
        _run(*self.command("sysctl", "-q", "-w", *_SETTINGS))
        for each in self.inside:
            self._ip("addr", "add", each, "dev", INSIDE, *_at_once(each))
        self._ip("link", "set", INSIDE, "up")
        if self.outside:
            _run("ip", "link", "set", self.outside.interface, "netns", self.name)
            self._ip(
                "addr", "add", self.outside.address, "dev", self.outside.interface, *_at_once(self.outside.address)
            )
            self._ip("link", "set", self.outside.interface, "up")
        for each in self.local:
            self._ip(_family(each), "route", "add", "local", each, "dev", "lo")
        if self.port is not None:
            self._take_port(self.port)

    def _take_port(self, port: int) -> None:
        """Packets from clients to the port, and the replies of a server to them, are delivered to sockets here."""
        for family in ("-4", "-6"):
            self._ip(family, "route", "add", "local", "default", "dev", "lo", "table", TABLE)
            sides = [(INSIDE, "dport", port)]
            if self.outside:
                sides.append((self.outside.interface, "sport", self.server_port or port))
            for interface, which, number in sides:
                self._ip(family, "rule", "add", "iif", interface, "ipproto", "tcp", which, str(number), "lookup", TABLE)

    def hold(self) -> None:
        """Drop packets of connections of the port, to the end: the kernel would answer those of one that has no socket
        now.
        """
        self._moves = True
        if not self.held:
            self.held = True
            self._hold("add")

    def release(self, stays: bool = False) -> None:
        """The end of `held`, unless connections move away already. stays: they do not, after all."""
        self._moves = self._moves and not stays
        if self.held and not self._moves:
            self._hold("del")
            self.held = False

    def _hold(self, what: str) -> None:
        for family in ("-4", "-6"):
            for interface in (INSIDE, *([self.outside.interface] if self.outside else [])):
                self._ip(family, "rule", what, "pref", "1", "iif", interface, "ipproto", "tcp", "blackhole")

    def command(self, *words: str) -> list[str]:
        """A command that runs in the namespace."""
        if self.moves:
            return ["nsenter", f"--net=/run/netns/{self.name}", *words]
        return ["ip", "netns", "exec", self.name, *words]

    def _ip(self, *words: str) -> None:
        _run("ip", "-n", self.name, *words)

    def close(self) -> None:
        """Everything is as before; the interface is back, without addresses."""
        if not self._made:
            return
        self._made = False
        if self.outside:  # a virtual one would be removed with the namespace
            back = ["link", "set", self.outside.interface, "netns", str(os.getpid())]
            subprocess.run(["ip", "-n", self.name, *back], capture_output=True)
        subprocess.run(["ip", "link", "del", self.interface], capture_output=True)
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


def _family(prefix: str) -> str:
    return f"-{ip_network(prefix).version}"


def _at_once(address: str) -> list[str]:
    """No wait for other hosts that have the IPv6 address."""
    return ["nodad"] if ip_interface(address).version == 6 else []


def _offloads(command: list[str]) -> None:
    _run(*command, *"tx off sg off tso off gso off gro off".split())


def _run(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SpaceError(f"there is no {words[0]} (Debian: {words[0]})") from error
    if done.returncode:
        raise SpaceError(f"{' '.join(words)}: {done.stderr.strip()}")
