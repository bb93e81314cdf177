"""Live interfaces: programs between two hosts, which forward what passes, and beside a server of their own.

Three namespaces in a row, joined by veth pairs: the client's, the box's with devices b0 and b1, and the server's.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.compat.mos.programs import EXAMPLES, program, with_thread_sanitizer
from tests.compat.mos.web import PATIENCE, Start, configuration, expected, make_files, start_here, webget, webserver

CLIENT, SERVER = "10.79.0.1", "10.79.0.2"
BRIDGE = "{ b0 b1 }"
FILES = 200
CONTEXTS = ["1", *(["2"] if len(os.sched_getaffinity(0)) > 1 else [])]
"""How many contexts a program may have here: each of several has a thread of its own."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=300)


class Row:
    """The namespaces, named after what made them."""

    def __init__(self, name: str) -> None:
        self.spaces = [f"{name}{letter}" for letter in "abc"]
        client, box, server = self.spaces
        self.close()  # of a run that was killed
        for space in self.spaces:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        for left, device, right, other in ((client, "c0", box, "b0"), (box, "b1", server, "s0")):
            ip("link", "add", device, "netns", left, "type", "veth", "peer", "name", other, "netns", right)
            for space, each in ((left, device), (right, other)):
                ip("-n", space, "link", "set", each, "gso_max_segs", "1")  # segments that fit into the link's MTU
                ip("-n", space, "link", "set", each, "up")
        ip("-n", client, "addr", "add", f"{CLIENT}/24", "dev", "c0")
        ip("-n", server, "addr", "add", f"{SERVER}/24", "dev", "s0")

    def start(self, place: int) -> Start:
        """What starts a program: in the client's (0), the box's (1) or the server's namespace (2)."""
        words = ["ip", "netns", "exec", self.spaces[place]]
        return lambda command: subprocess.Popen(
            [*words, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        """All go away, with their devices."""
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, timeout=300)


@cache
def why_not() -> str:
    """What keeps the namespaces from being made; empty when they can be."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no ip (Debian: iproute2)"
    try:
        Row("moswhy").close()
    except (subprocess.CalledProcessError, OSError) as error:
        return f"no namespaces with veth pairs can be made: {error}"
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture
def row() -> Generator[Row]:
    made = Row("mosl")
    try:
        yield made
    finally:
        made.close()


@contextmanager
def running(start: Start, command: list[str], stop: int = signal.SIGINT) -> Generator[list[str]]:
    """A program, until the block ends; then the list has what it printed."""
    process, said = start(command), list[str]()
    try:
        yield said
        time.sleep(0.1)  # the last packets are on their way
        process.send_signal(stop)
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (process.returncode, output[-2000:], errors[-2000:])
        said += output.splitlines()
    finally:
        process.kill()
        process.wait(timeout=60)


def bridge(folder: Path) -> Path:
    return configuration(folder, "live.conf", "monitor", netdev="{ b0 0x1\n b1 0x1 }", nic_forward_table=BRIDGE)


def total(lines: list[str]) -> dict[str, str]:
    return dict(word.split("=") for word in lines[-1].split()[1:])


@pytest.mark.parametrize("contexts", CONTEXTS)
def test_monitor_forwards_between_interfaces(row: Row, tmp_path: Path, contexts: str) -> None:
    """What passes arrives unchanged, in both directions; the monitor sees each connection begin and end. The client
    has two addresses, which belong to different ones of two contexts.
    """
    files, config = make_files(tmp_path, FILES), configuration(tmp_path)
    with running(row.start(1), [str(program("midstat")), "-f", str(bridge(tmp_path)), "-c", contexts]) as said:
        with webserver(row.start(2), config, files, 80) as served:
            got = webget(row.start(0), config, SERVER, 80, FILES, 32)
            ip("-n", row.spaces[0], "addr", "add", "10.79.0.3/24", "dev", "c0")
            ip("-n", row.spaces[0], "route", "replace", "10.79.0.0/24", "dev", "c0", "src", "10.79.0.3")
            again = webget(row.start(0), config, SERVER, 80, FILES, 32)
    assert got == again == expected(files, FILES)
    assert served[0].endswith("errors 0")
    seen = total(said)
    assert int(seen["started_snd"]) >= 2 * (FILES + 1) and seen["live"] == seen["strange"] == seen["failed"] == "0"
    assert seen["started_snd"] == seen["end_snd"]


def test_firewall_drops_between_interfaces(row: Row, tmp_path: Path) -> None:
    """rules.txt denies 10.0.0.0/8 all ports but 80 to 443."""
    files, config = make_files(tmp_path, 10), configuration(tmp_path)
    command = [str(program("firewall")), "-f", str(bridge(tmp_path)), "-r", str(EXAMPLES / "rules.txt")]
    with running(row.start(1), command) as said:
        with webserver(row.start(2), config, files, 80), webserver(row.start(2), config, files, 8080) as denied:
            assert webget(row.start(0), config, SERVER, 80, 10, 4) == expected(files, 10)
            script = f"import socket; socket.create_connection(({SERVER!r}, 8080), 0.5)"
            tried = row.start(0)(["python3", "-c", script])
            assert "TimeoutError" in tried.communicate(timeout=PATIENCE)[1]
    assert denied == ["served 0 errors 0"]
    assert int(total(said)["denied"]) >= 1 and int(total(said)["accepted"]) >= 10


@pytest.mark.parametrize("contexts", CONTEXTS)
@pytest.mark.parametrize("external", ["203.0.113.1", "203.0.113.2"])
def test_nat_rewrites_between_interfaces(row: Row, tmp_path: Path, contexts: str, external: str) -> None:
    """The server sees the external address, and the client gets its answers: all checksums are right. They come to
    the context of their flow: of two contexts one gets what the server sends to the first address, and the other one
    what it sends to the second.
    """
    nat_rewrites(row, tmp_path, [str(program("nat")), "-c", contexts], external)


def nat_rewrites(row: Row, tmp_path: Path, nat: list[str], external: str) -> None:
    files, config = make_files(tmp_path, 50), configuration(tmp_path)
    ip("-n", row.spaces[2], "route", "add", f"{external}/32", "dev", "s0")
    ip("-n", row.spaces[2], "neigh", "add", external, "lladdr", mac(row, 0, "c0"), "dev", "s0")
    with running(row.start(1), [*nat, "-f", str(bridge(tmp_path)), "-e", external]):
        with webserver(row.start(2), config, files, 80) as served:
            assert webget(row.start(0), config, SERVER, 80, 50, 8) == expected(files, 50)
    assert served[0].endswith("errors 0")


@pytest.mark.slow_matrix
@pytest.mark.skipif(len(CONTEXTS) < 2, reason="one core")
def test_threads_that_forward_share_nothing_without_a_lock(row: Row, tmp_path: Path) -> None:
    """Under the thread sanitizer, where the compiler has it; `running` fails where it has found something."""
    made = with_thread_sanitizer("nat", tmp_path)
    nat_rewrites(row, tmp_path, [str(made), "-c", "2"], "203.0.113.2")


def mac(row: Row, place: int, device: str) -> str:
    words = ["ip", "-n", row.spaces[place], "-br", "link", "show", device]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout.split()[2]


def test_server_monitors_its_own_connections(row: Row, tmp_path: Path) -> None:
    """One program: the server of its end-host part, and a monitoring socket on the interface that it serves on."""
    files = make_files(tmp_path, FILES)
    config = configuration(tmp_path)
    own = configuration(tmp_path, "both.conf", "end", netdev="{ s0 0x1 }", rmem_size="65536")
    with running(row.start(1), [str(program("midstat")), "-f", str(bridge(tmp_path))]):
        with webserver(row.start(2), own, files, 80, "-m") as said:
            assert webget(row.start(0), config, SERVER, 80, FILES, 32) == expected(files, FILES)
            time.sleep(1)  # the monitor may lag behind the server
    _, _, begun, _, ended, _, size = said[1].split()
    assert begun == ended and int(begun) >= FILES + 1
    assert int(size) > sum((files / str(number)).stat().st_size for number in range(FILES))


def test_packets_of_the_host_are_not_forwarded(row: Row, tmp_path: Path) -> None:
    """What the box itself sends on an interface stays there."""
    ip("-n", row.spaces[1], "addr", "add", "10.79.0.3/24", "dev", "b1")
    config = configuration(tmp_path)
    files = make_files(tmp_path, 1)
    with running(row.start(1), [str(program("midstat")), "-f", str(bridge(tmp_path))]) as said:
        with webserver(row.start(2), config, files, 80):
            assert webget(row.start(1), config, SERVER, 80, 1, 1) == expected(files, 1)
    assert total(said)["started_snd"] == "0"


def test_missing_interface_is_an_error(tmp_path: Path) -> None:
    config = configuration(tmp_path, "live.conf", "monitor", netdev="{ nosuch0 }")
    done = subprocess.run([str(program("midstat")), "-f", str(config)], capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "'nosuch0' is no capture file and no interface" in done.stderr


def test_loopback_needs_no_namespace(tmp_path: Path) -> None:
    """A monitor on `lo` that only listens; nothing is sent twice."""
    config = configuration(tmp_path, "live.conf", "monitor", netdev="{ lo }")
    with running(start_here, [str(program("midstat")), "-f", str(config)]) as said:
        time.sleep(0.5)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            server.settimeout(PATIENCE)
            client.sendall(b"x")
            server.accept()[0].close()
            time.sleep(0.2)
    assert int(total(said)["started_snd"]) >= 1
