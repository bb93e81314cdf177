"""A chain inline between two interfaces: hosts talk through it, byte for byte, and what it drops does not arrive.

Three network namespaces: the client, the box with two interfaces without addresses, and the server.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import main
from tests.live.veth import Veth, why_not
from tests.support.packets import checksum

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
CLIENT, SERVER = "10.79.0.1", "10.79.0.2"


def _why_not() -> str:
    missing = [name for name in ("ethtool", "curl") if shutil.which(name) is None]
    return why_not() or (f"there is no {missing[0]} (Debian: {missing[0]})" if missing else "")


pytestmark = [pytest.mark.skipif(bool(_why_not()), reason=_why_not()), pytest.mark.root]

GUARD = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_PARAMETER(port, number, 23, "to which connections are refused")
SLUICE_COUNTER(dropped, "packets to it")
SLUICE_ON(tcp, packet) {
    if (sl_load_be16(event->unit.at + 2) != SLUICE_PARAMETER_OF(event->box, port))
        return;
    SLUICE_COUNTER_OF(event->box, dropped)++;
    SLUICE_DROP(event->box);
}
"""
COUNT = """
#include "sluice.h"
SLUICE_COUNTER(bytes, "of streams")
SLUICE_COUNTER(pings, "packets of ICMP")
SLUICE_ON(tcp, data) { SLUICE_COUNTER_OF(event->box, bytes) += data->bytes.length; }
SLUICE_ON(ipv4, packet) { SLUICE_COUNTER_OF(event->box, pings) += event->unit.at[9] == 1; }
"""
CHAIN = """
from sluice.chain import Chain, function
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser

stack = Stack("wire")
stack.eth, stack.ipv4, stack.tcp = ethernet_parser(), ipv4_parser(), tcp_parser()
stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ipv4 >> stack.tcp) + Pred(stack.ipv4.header.protocol == 6)
chain = Chain(function("guard.c", port=8023) >> function("count.c"), stack=stack)
"""
"""Of a small stack, which compiles fast; what it does not know passes."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Wire(Veth):
    """NAMEa, the client with device c0; NAMEm, the box with b0 and b1; NAMEb, the server with s0."""

    def __init__(self, name: str) -> None:
        self.client, self.box, self.server = f"{name}a", f"{name}m", f"{name}b"
        self.close()  # of a run that was killed
        try:
            for space in (self.client, self.box, self.server):
                ip("netns", "add", space)
            for space, device, address, other in (
                (self.client, "c0", CLIENT, "b0"), (self.server, "s0", SERVER, "b1"),
            ):  # fmt: skip
                ip("link", "add", device, "netns", space, "type", "veth", "peer", "name", other, "netns", self.box)
                ip("-n", space, "addr", "add", f"{address}/24", "dev", device)
                for where, each in ((space, "lo"), (space, device), (self.box, other)):
                    ip("-n", where, "link", "set", each, "up")
                for where, each in ((space, device), (self.box, other)):
                    words = f"-K {each} tx off sg off tso off gso off gro off".split()
                    subprocess.run(["ip", "netns", "exec", where, "ethtool", *words], check=True, capture_output=True)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Wire:
        return self

    def close(self) -> None:
        for space in (self.client, self.box, self.server):
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


class Running:
    """`sluice chain` in the box, once it receives; `stop` gives its summary."""

    def __init__(self, wire: Wire, folder: Path, *more: str) -> None:
        self.errors = folder / "errors"
        words = ["chain", str(folder / "chain.py"), "-i", "b0", "--forward", "b1", "--json", *more]
        with self.errors.open("w") as errors:
            self.process = wire.start(
                wire.box, [sys.executable, "-m", "sluice", *words],
                stdout=subprocess.PIPE, stderr=errors, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        end = time.monotonic() + 10 * PATIENCE  # it compiles first
        while "receiving from" not in self.errors.read_text():
            assert self.process.poll() is None and time.monotonic() < end, self.errors.read_text()
            time.sleep(0.05)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        text, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, self.errors.read_text()
        return json.loads(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chain and its functions, which are compiled once."""
    made = tmp_path_factory.mktemp("inline")
    for name, text in (("guard.c", GUARD), ("count.c", COUNT), ("chain.py", CHAIN)):
        (made / name).write_text(text)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("chaininl") as made:
        yield made


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


def serve(wire: Wire, port: int) -> http.server.ThreadingHTTPServer:
    server = wire.within(wire.server, lambda: http.server.ThreadingHTTPServer((SERVER, port), Site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def fetch(wire: Wire, port: int, path: str, seconds: int) -> tuple[int, str]:
    """The exit status of curl, and the digest of what it got."""
    command = ["curl", "-s", "--noproxy", "*", "--max-time", str(seconds), f"http://{SERVER}:{port}{path}"]
    with wire.start(wire.client, ["sh", "-c", '"$@" | sha256sum; ', "sh", *command], stdout=subprocess.PIPE) as done:
        text, _ = done.communicate(timeout=PATIENCE)
    return done.returncode, text.split()[0]


def ping(wire: Wire, count: int) -> int:
    """Echo requests that are answered with the same bytes."""
    end = wire.socket(wire.client, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    end.settimeout(5)
    answered = 0
    with end:
        for number in range(count):
            body = bytes([0, 7, 0, number]) + bytes(range(56))
            end.sendto(b"\x08\x00" + checksum(b"\x08\x00\0\0" + body).to_bytes(2, "big") + body, (SERVER, 0))
            answered += end.recv(2048)[24:] == body
    return answered


def test_hosts_talk_through_a_chain(wire: Wire, folder: Path) -> None:
    """ARP, ICMP and TCP pass; a refused port does not; all is counted, and nothing is sent twice."""
    with Running(wire, folder) as running:
        assert ping(wire, 5) == 5
        site, refused = serve(wire, 8080), serve(wire, 8023)
        try:
            for size in (0, 1, 100_000, 1_000_000):
                status, digest = fetch(wire, 8080, f"/x/{size}", 30)
                assert (status, digest) == (0, hashlib.sha256(content(f"/x/{size}")).hexdigest())
            assert fetch(wire, 8023, "/x/9", 2)[1] == hashlib.sha256(b"").hexdigest()
        finally:
            for server in (site, refused):
                server.shutdown()
                server.server_close()
        summary = running.stop()
    reports, received = summary["reports"], summary["received"]
    assert reports["count.pings"] == 10
    assert reports["count.bytes"] > 1_100_001
    assert reports["guard.dropped"] == reports["packets_dropped"] > 0
    assert received["not_forwarded"] == 0
    assert received["forwarded"] == summary["packets"] - reports["packets_dropped"]


def test_checksums_that_were_left_to_a_card_are_completed(wire: Wire, folder: Path) -> None:
    """The hosts send segments with the sum of the pseudo header only, as a veth pair needs no checksums."""
    for space, device in ((wire.client, "c0"), (wire.server, "s0")):
        subprocess.run(["ip", "netns", "exec", space, "ethtool", "-K", device, "tx", "on"], check=True)
    with Running(wire, folder) as running:
        site = serve(wire, 8080)
        try:
            status, digest = fetch(wire, 8080, "/x/100001", 30)
            assert (status, digest) == (0, hashlib.sha256(content("/x/100001")).hexdigest())
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
    assert summary["received"]["not_forwarded"] == 0


def test_an_interface_that_is_none_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chain", str(folder / "chain.py"), "-i", "lo", "--forward", "chainnone"]) == 1
    assert "chainnone: there is no interface of that name" in capsys.readouterr().err
