"""The security functions inline between two hosts in namespaces: curl, ping, 1,000 connections, a flood, nmap.

The namespaces are those of tests/live/wire.py.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.chain import test_inline
from tests.live.wire import CLIENT, SERVER, Inline, Wire, content, fetch, ip, ping, serve
from tests.support.packets import eth, ip4, tcp

pytestmark = test_inline.pytestmark

PORT, EXTERNAL = 8080, "10.79.0.9"
SMALL = "from tests.functions.security import small_stack\n\nstack = small_stack()\n"


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("boxes") as made:
        yield made


NEUTRAL = {
    "nat": "nat:address=203.0.113.250,inside=203.0.113.0/24",
    "firewall": "firewall:rules={folder}/accept.nft,out={folder}/none",
    "synflood": "synflood:cookies=never,out={folder}/none2",
    "portscan": "portscan:benign=51,scanner=49,out={folder}/none3",
}
"""Parameters with which a function does nothing here. All are there, so that one compiled stack is for all tests."""


def inline(wire: Wire, folder: Path, function: str, alone: bool = False) -> Inline:
    """A function over the small stack, between the two hosts; the others are there too, unless it is alone."""
    (folder / "small.py").write_text(SMALL)
    (folder / "accept.nft").write_text(
        "table inet t { chain c { type filter hook forward priority 0; policy accept; }; }\n"
    )
    words = ["run", str(folder / "small.py")]
    for name, neutral in NEUTRAL.items():
        if alone and not function.startswith(f"{name}:"):
            continue
        words += ["-f", function if function.startswith(f"{name}:") else neutral.format(folder=folder)]
    return Inline(wire, folder, *words)


def digest(path: str) -> str:
    """That of the content of a path of the site."""
    return hashlib.sha256(content(path)).hexdigest()


def link_address(space: str, device: str) -> str:
    text = subprocess.run(["ip", "-n", space, "-j", "link", "show", device], check=True, capture_output=True).stdout
    return json.loads(text)[0]["address"]


def echo_server(wire: Wire, port: int) -> socket.socket:
    """Answers each connection with what it sends, and closes it."""
    server = wire.socket(wire.server, socket.AF_INET, socket.SOCK_STREAM, 0)
    server.bind((SERVER, port))
    server.listen(512)

    def run() -> None:
        while True:
            try:
                accepted, _ = server.accept()
            except OSError:
                return
            with accepted:
                accepted.sendall(accepted.recv(64))

    threading.Thread(target=run, daemon=True).start()
    return server


def connections(wire: Wire, port: int, count: int) -> int:
    """Opens connections one after the other, each from a port of its own. Returns how many carried their bytes."""
    carried = 0
    for number in range(count):
        with wire.socket(wire.client, socket.AF_INET, socket.SOCK_STREAM, 0) as end:
            end.settimeout(10)
            end.connect((SERVER, port))
            said = number.to_bytes(4, "big")
            end.sendall(said)
            carried += end.recv(64) == said
    return carried


def nat_carries(wire: Wire, folder: Path, count: int) -> None:
    ip("-n", wire.server, "neigh", "add", EXTERNAL, "lladdr", link_address(wire.client, "c0"), "dev", "s0")
    with inline(wire, folder, f"nat:address={EXTERNAL},inside={CLIENT}/32,first_port=20000", alone=True) as running:
        site, echo = serve(wire, PORT), echo_server(wire, 7777)
        assert fetch(wire, PORT, "/x/300000", 30) == (0, digest("/x/300000"))
        assert connections(wire, 7777, count) == count
        assert ping(wire, 5) == 5
        site.shutdown()
        site.server_close()
        echo.close()
        summary = running.stop()
    reports = summary["reports"]
    assert reports["translated"] >= count + 2 and reports["no_port"] == 0


def test_nat_carries_connections(wire: Wire, tmp_path: Path) -> None:
    nat_carries(wire, tmp_path, 1000)


@pytest.mark.slow_matrix
def test_nat_carries_many_connections(wire: Wire, tmp_path: Path) -> None:
    nat_carries(wire, tmp_path, 10_000)


@pytest.mark.slow_matrix
def test_a_flood_is_answered_by_cookies_and_a_client_gets_through(wire: Wire, tmp_path: Path) -> None:
    choose = random.Random(1)
    with inline(wire, tmp_path, f"synflood:half_open=50,out={tmp_path}/rows") as running:
        site = serve(wire, PORT)
        link = bytes.fromhex(link_address(wire.server, "s0").replace(":", ""))
        target = socket.inet_aton(SERVER)
        sender = wire.socket(wire.client, socket.AF_PACKET, socket.SOCK_RAW, 0)
        sender.bind(("c0", 0))
        for _ in range(400):
            source = bytes([198, 51, choose.randrange(256), choose.randrange(1, 255)])
            segment = tcp(choose.randrange(1024, 65536), PORT, choose.getrandbits(32), "S", addresses=(source, target))
            sender.send(link + eth(ip4(segment, 6, source, target))[6:])
        sender.close()
        assert fetch(wire, PORT, "/x/200000", 30) == (0, digest("/x/200000"))
        site.shutdown()
        site.server_close()
        summary = running.stop()
    reports = summary["reports"]
    assert reports["synflood_floods"] == 1 and reports["synflood_cookies"] > 300
    assert reports["synflood_valid"] == reports["synflood_spliced"] == 1
    assert json.loads((tmp_path / "rows").read_text().splitlines()[0])["dst"] == SERVER


RULES = f"""
table inet t {{
    chain forward {{
        type filter hook forward priority filter; policy drop;
        ct state established,related accept
        tcp dport {PORT} accept
        tcp dport 8081 reject with tcp reset
        icmp type echo-request accept
    }}
}}
"""


@pytest.mark.slow_matrix
def test_a_firewall_between_hosts(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.nft").write_text(RULES)
    with inline(wire, tmp_path, f"firewall:rules={tmp_path}/a.nft,out={tmp_path}/rows") as running:
        site = serve(wire, PORT)
        assert fetch(wire, PORT, "/x/300000", 30) == (0, digest("/x/300000"))
        assert ping(wire, 3) == 3
        assert fetch(wire, 8081, "/x/1", 10)[0] == 7  # curl: refused
        assert fetch(wire, 8082, "/x/1", 2)[0] == 28  # it timed out
        with wire.socket(wire.server, socket.AF_INET, socket.SOCK_STREAM, 0) as back:
            back.settimeout(1)
            with pytest.raises(TimeoutError):
                back.connect((CLIENT, 8082))
        site.shutdown()
        site.server_close()
        summary = running.stop()
    reports = summary["reports"]
    assert reports["firewall_undecided"] == 0 and reports["firewall_connections"] >= 2


@pytest.mark.slow_matrix
@pytest.mark.skipif(shutil.which("nmap") is None, reason="there is no nmap (Debian: nmap)")
def test_nmap_is_found_to_scan(wire: Wire, tmp_path: Path) -> None:
    ip("-n", wire.client, "route", "add", "198.51.100.0/24", "via", SERVER)
    with inline(wire, tmp_path, f"portscan:wait=1,out={tmp_path}/rows") as running:
        words = [
            "nmap",
            "-sS",
            "-n",
            "-Pn",
            "--send-ip",
            "-p",
            "80",
            "--max-retries",
            "1",
            "--max-rtt-timeout",
            "200ms",
        ]
        with wire.start(wire.client, [*words, "198.51.100.0/28"], stdout=subprocess.DEVNULL) as scan:
            scan.wait(timeout=60)
        ping(wire, 1)
        time.sleep(1.5)
        ping(wire, 1)
        running.stop()
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [row["scanner"] for row in rows] == [CLIENT]
