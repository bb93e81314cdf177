"""Programs through nat, between hosts in namespaces: FTP in each mode, by curl and pyftpdlib; traceroute's probes.

The namespaces are those of tests/live/wire.py; traceroute has one more, to which the server is the router.
"""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chain import test_inline
from tests.functions.boxes.test_traffic import EXTERNAL, inline, link_address
from tests.live.wire import CLIENT, PATIENCE, SERVER, Wire, content, ip

pytestmark = test_inline.pytestmark

FAR, ROUTER = "10.80.0.2", "10.80.0.1"
DEBIAN = "/usr/bin/python3"  # Debian's own packages are for this one


def has_ftp() -> bool:
    command = [DEBIAN, "-c", "import pyftpdlib"]
    return Path(DEBIAN).exists() and not subprocess.run(command, capture_output=True).returncode


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("natclients") as made:
        ip("-n", made.server, "neigh", "add", EXTERNAL, "lladdr", link_address(made.client, "c0"), "dev", "s0")
        yield made


@contextmanager
def ftp_server(wire: Wire, space: str, address: str, folder: Path) -> Generator[None]:
    """pyftpdlib in a namespace, once it accepts connections; it has a file."""
    (folder / "files").mkdir()
    (folder / "files" / "200000").write_bytes(content("/200000"))
    command = [DEBIAN, "-m", "pyftpdlib", "-i", address, "-p", "21", "-d", str(folder / "files")]
    with wire.start(space, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + PATIENCE
            while True:
                with wire.socket(space, socket.AF_INET, socket.SOCK_STREAM) as probe:
                    if not probe.connect_ex((address, 21)):
                        break
                assert server.poll() is None and time.monotonic() < end
                time.sleep(0.05)
            yield
        finally:
            server.kill()


def get(wire: Wire, space: str, host: str, *words: str) -> str:
    """The digest of the file, as curl gets it."""
    command = ["curl", "-s", "--noproxy", "*", "--max-time", "30", *words, f"ftp://{host}/200000"]
    with wire.start(space, ["sh", "-c", '"$@" | sha256sum', "sh", *command], stdout=subprocess.PIPE) as done:
        text, _ = done.communicate(timeout=PATIENCE)
    return text.split()[0]


@pytest.mark.skipif(not has_ftp(), reason="there is no pyftpdlib (Debian: python3-pyftpdlib)")
@pytest.mark.parametrize("server_inside", [False, pytest.param(True, marks=pytest.mark.slow_matrix)])
def test_ftp_in_each_mode(wire: Wire, tmp_path: Path, server_inside: bool) -> None:
    """The client inside; then the server, at a forwarded port."""
    wanted = hashlib.sha256(content("/200000")).hexdigest()
    client, server, host, address = wire.client, wire.server, SERVER, SERVER
    given = f"nat:address={EXTERNAL},inside={CLIENT}/32,first_port=20000,filter=port"
    if server_inside:
        client, server, host, address = wire.server, wire.client, EXTERNAL, CLIENT
        given += f",forward=21:{CLIENT}:21"
    with inline(wire, tmp_path, given, alone=True) as running, ftp_server(wire, server, address, tmp_path):
        for words in ("--ftp-port -", "--ftp-port - --disable-eprt", "", "--disable-epsv"):
            assert get(wire, client, host, *words.split()) == wanted, words
        reports = running.stop()["reports"]
    assert (reports["ftp_announced"], reports["ftp_refused"]) == (2, 0)  # those of the host inside


@pytest.mark.skipif(shutil.which("traceroute") is None, reason="there is no traceroute (Debian: traceroute)")
def test_traceroute_with_each_probe(wire: Wire, tmp_path: Path) -> None:
    """Time exceeded, port unreachable and echo replies reach the prober, who sees each hop."""
    ip("netns", "add", wire.relay)
    ip("-n", wire.relay, "link", "set", "lo", "up")
    ip("link", "add", "f0", "netns", wire.server, "type", "veth", "peer", "name", "f1", "netns", wire.relay)
    for space, device, address in ((wire.server, "f0", ROUTER), (wire.relay, "f1", FAR)):
        ip("-n", space, "addr", "add", f"{address}/24", "dev", device)
        ip("-n", space, "link", "set", device, "up")
    ip("-n", wire.relay, "route", "add", "default", "via", ROUTER)
    ip("-n", wire.client, "route", "add", "10.80.0.0/24", "via", SERVER)
    ip("netns", "exec", wire.server, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.icmp_ratelimit=0")
    with inline(wire, tmp_path, f"nat:address={EXTERNAL},inside={CLIENT}/32,first_port=20000", alone=True) as running:
        for probe in ("", "-I", "-T -p 81", "-U -p 53"):
            command = ["traceroute", "-n", "-q", "1", "-w", "5", "-m", "4", *probe.split(), FAR]
            with wire.start(wire.client, command, stdout=subprocess.PIPE) as done:
                text, _ = done.communicate(timeout=PATIENCE)
            hops = [line.split()[1] for line in text.splitlines()[1:]]
            assert hops == [SERVER, FAR], (probe, text)
        reports = running.stop()["reports"]
    assert reports["errors_translated"] >= 5  # a hop of each, and unreachable ports
    assert reports["unmapped"] == 0
