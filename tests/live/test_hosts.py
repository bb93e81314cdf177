"""Two hosts through a firewall, a NAT or edits: the kernel's TCP with window scaling, SACK, time stamps and ECN on,
under iperf3, and in a session at a shell whose lines are typed byte by byte.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.functions.boxes.test_traffic import link_address
from tests.live.wire import CLIENT, PATIENCE, SERVER, Inline, Wire, ip, why_no_wire
from tests.support.budget import in_matrix
from tests.support.unoptimised import UNOPTIMISED

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire())]

EXTERNAL = "10.79.0.77"
IPERF, SHELL = 5201, 8022
STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""
RULES = f"""
table inet hosts {{
    chain forward {{
        type filter hook forward priority 0; policy drop;
        ct state established accept
        ip saddr {CLIENT} tcp dport {{ {IPERF}, {SHELL} }} ct state new accept
    }}
}}
"""
TIME_STAMPS, SACK, SCALE, ECN = 1, 2, 4, 8
"""Bits of tcpi_options in struct tcp_info (linux/tcp.h), which is its byte 5."""


@pytest.fixture(autouse=True)
def fast_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are not about speed."""
    monkeypatch.setenv("SLUICE_CFLAGS", UNOPTIMISED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hosts")
    (made / "stack.py").write_text(STACK)
    (made / "rules.nft").write_text(RULES)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("livehosts") as made:
        ip("-n", made.server, "neigh", "add", EXTERNAL, "lladdr", link_address(made.client, "c0"), "dev", "s0")
        for space in (made.client, made.server):
            for name in ("ecn", "sack", "timestamps", "window_scaling"):
                setting = ["sysctl", "-q", "-w", f"net.ipv4.tcp_{name}=1"]
                subprocess.run(["ip", "netns", "exec", space, *setting], check=True, timeout=PATIENCE)
        yield made


def function(folder: Path, kind: str) -> str:
    """One for a box: a NAT gives connections other addresses, and edits other numbers than a firewall has seen."""
    return {
        "nat": f"nat:address={EXTERNAL},inside={CLIENT}/32",
        "firewall": f"firewall:rules={folder / 'rules.nft'},out={folder / 'rules'}",
        "edit": "edit:pattern=secret,mode=replace,with=public knowledge,wait=30",
    }[kind]


def connected(wire: Wire, port: int) -> socket.socket:
    """A connection of the client's to a server, once that accepts one; with all options."""
    end = time.monotonic() + PATIENCE
    while True:
        made = wire.socket(wire.client)
        made.settimeout(PATIENCE)
        with suppress(ConnectionRefusedError):
            made.connect((SERVER, port))
            break
        made.close()
        assert time.monotonic() < end
        time.sleep(0.05)
    assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & 15 == TIME_STAMPS | SACK | SCALE | ECN
    return made


@pytest.mark.parametrize("kinds", [["edit"], ["nat", "edit"], in_matrix(["firewall", "edit"])], ids="+".join)
def test_a_session_at_a_shell(wire: Wire, folder: Path, kinds: list[str]) -> None:
    """What is typed and what is answered are edited, also where the box has other functions."""
    server = (
        "import socket, subprocess, sys\n"
        f"listener = socket.create_server(('{SERVER}', {SHELL}))\n"
        "end, _ = listener.accept()\n"
        "subprocess.run(['sh'], stdin=end, stdout=end, stderr=end)\n"
    )
    words = ["run", str(folder / "stack.py")]
    for kind in kinds:
        words += ["-f", function(folder, kind)]
    with Inline(wire, folder, *words) as running, wire.start(wire.server, ["python3", "-c", server]) as process:
        try:
            with connected(wire, SHELL) as end:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answers = end.makefile("rb")
                for line, answer in (
                    ("echo the secret is $((6 * 7))", b"the public knowledge is 42\n"),
                    ("for i in 1 2; do printf 'sec'; echo ret; done", b"public knowledge\n" * 2),
                    ("echo secre", b"secre\n"),
                ):
                    for letter in f"{line}\n":
                        end.sendall(letter.encode())
                    assert b"".join(answers.readline() for _ in range(answer.count(b"\n"))) == answer
                end.sendall(b"exit\n")
                assert answers.readline() == b""
            process.wait(timeout=PATIENCE)
        finally:
            process.kill()
        reports = running.stop()["reports"]
    assert reports["found"] == 3 and reports["not_edited"] == reports["not_mapped"] == 0


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="there is no iperf3 (Debian: iperf3)")
@pytest.mark.parametrize("kind, direction", [in_matrix("nat", []), in_matrix("firewall", []), ("edit", ["-R"])])
def test_iperf3(wire: Wire, folder: Path, kind: str, direction: list[str]) -> None:
    """Four connections at once, and the one by which the two programs talk."""
    quiet = subprocess.DEVNULL
    with Inline(wire, folder, "run", str(folder / "stack.py"), "-f", function(folder, kind)) as running:
        with wire.start(wire.server, ["iperf3", "-s", "-B", SERVER], stdout=quiet, stderr=quiet) as server:
            try:
                words = ["iperf3", "-c", SERVER, "-n", "1M", "-P", "4", "-J", *direction]
                end = time.monotonic() + PATIENCE
                while True:  # the server may not have begun, or be busy
                    with wire.start(wire.client, words, stdout=subprocess.PIPE, stderr=quiet) as client:
                        text, _ = client.communicate(timeout=2 * PATIENCE)
                    if client.returncode == 0 and "error" not in json.loads(text):
                        break
                    assert server.poll() is None and time.monotonic() < end, text
                    time.sleep(0.1)
            finally:
                server.kill()
        summary = running.stop()
    ended = json.loads(text)["end"]
    assert ended["sum_sent"]["bytes"] >= 1 << 20 and ended["sum_received"]["bytes"] > 0
    assert summary["layers"]["tcp"]["instances"] >= 5 and summary["received"]["not_forwarded"] == 0
    assert not summary["reports"].get("not_mapped") and not summary["reports"].get("no_room")
