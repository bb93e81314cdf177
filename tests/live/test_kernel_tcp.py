"""The kernel's TCP over a link that loses, reorders and duplicates: the bytes of every stream are those that were sent.

HTTP too, by nginx and curl where they are installed.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import CompiledStack
from sluice.stacks.find import find_stack
from tests.support.bounded import joined
from tests.support.budget import in_matrix
from tests.support.network import CLIENT, SERVER, SERVER6, Faults, Network, why_not
from tests.support.run import Result, run, watch_all

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

BAD = Faults(lost=0.02, overtaken=0.05, twice=0.01)
RAW = 101
PATIENCE = 60.0


@pytest.fixture(scope="module", params=["tcp_ip", in_matrix("everything")])
def stack(request: pytest.FixtureRequest) -> CompiledStack:
    return watch_all(find_stack(request.param))


def watched(stack: CompiledStack, network: Network) -> Result:
    times = [seconds for seconds, _ in network.seen]
    return run(stack, [packet for _, packet in network.seen], times, link_type=RAW)


class Talk:
    """A connection: each side sends its bytes in pieces, reads to the end, and closes its half when it likes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        sizes = [self.random.choice([0, 1, 1000, 50_000, 150_000]) for _ in range(2)]
        self.sent = [self.random.randbytes(size) for size in sizes]
        self.got = [b"", b""]
        self.pieces = [self.random.choice([1, 100, 5000, 1 << 20]) for _ in range(2)]
        self.waits = [self.random.random() < 0.5 for _ in range(2)]

    def side(self, end: socket.socket, which: int) -> None:
        end.settimeout(PATIENCE)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = threading.Thread(target=self._read, args=(end, which), daemon=True)
        if self.waits[which]:  # closes after the other one
            self._read(end, which)
        else:
            reader.start()
        data, size = self.sent[which], max(self.pieces[which], len(self.sent[which]) // 500)
        for at in range(0, len(data), size):
            end.sendall(data[at : at + size])
        end.shutdown(socket.SHUT_WR)
        if not self.waits[which]:
            joined(reader)
        end.close()

    def _read(self, end: socket.socket, which: int) -> None:
        parts: list[bytes] = []
        while part := end.recv(65536):
            parts.append(part)
        self.got[which] = b"".join(parts)


def talk(network: Network, talks: list[Talk], family: int, address: str) -> dict[int, Talk]:
    """All of them at once; by the client's port."""
    listener = network.server.socket(family)
    listener.bind((address, 5000))
    listener.listen(len(talks))
    listener.settimeout(PATIENCE)
    by_port: dict[int, Talk] = {}
    threads: list[threading.Thread] = []

    def accept() -> None:
        for _ in talks:
            end, peer = listener.accept()
            threads.append(threading.Thread(target=by_port[peer[1]].side, args=(end, 1), daemon=True))
            threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    for one in talks:
        one.waits[0] = one.waits[0] and not one.waits[1]  # else both would wait for ever
        end = network.client.socket(family)
        end.bind(("10.77.0.1" if family == socket.AF_INET else "fd77::1", 0))
        by_port[end.getsockname()[1]] = one
        end.settimeout(PATIENCE)
        end.connect((address, 5000))
        threads.append(threading.Thread(target=one.side, args=(end, 0), daemon=True))
        threads[-1].start()
    joined(acceptor)
    joined(*threads)
    listener.close()
    network.settle()
    return by_port


@pytest.mark.parametrize(
    "family, address", [(socket.AF_INET, SERVER), (socket.AF_INET6, SERVER6)], ids=["IPv4", "IPv6"]
)
def test_streams_are_what_was_sent(stack: CompiledStack, family: int, address: str) -> None:
    with Network(BAD) as network:
        by_port = talk(network, [Talk(seed) for seed in range(8)], family, address)
    result = watched(stack, network)
    rows = {row["sport"]: row for row in result.rows if row["proto"] == "tcp"}
    assert rows.keys() == by_port.keys()
    for port, one in by_port.items():
        row = rows[port]
        assert one.got == one.sent[::-1]
        for side, data in zip(("src", "dst"), one.sent, strict=True):
            assert (row[f"{side}_stream"], row[f"{side}_sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert row["gaps"] == [] and (row["syn"], row["fin"]) == ("both", "both")
        # what comes late, or twice, to an end that has forgotten the connection is answered by a reset
        assert (row["end"], row["state"]) in (("closed", "TERMINATED"), ("closed", "RESET"))
    assert result.count("tcp", "held") and result.count("tcp", "bytes:known already"), "the link did nothing"


CONFIGURATION = """
pid {folder}/pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    server {{ listen {address}:8080; root {folder}/files; }}
}}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    (tmp_path / "files").mkdir()
    tmp_path.chmod(0o755)
    rnd = random.Random(1)
    made = {f"{size}.bin": rnd.randbytes(size) for size in (0, 1, 1400, 70_000, 400_000)}
    for name, data in made.items():
        (tmp_path / "files" / name).write_bytes(data)
    return made


def serve(network: Network, folder: Path) -> subprocess.Popen[bytes]:
    """nginx, once it listens."""
    text = "user root;" + CONFIGURATION.format(folder=folder, address=SERVER)
    (folder / "nginx.conf").write_text(text)
    command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off;"]
    server = network.server.start(command)
    end = time.monotonic() + PATIENCE
    while not (folder / "pid").exists() or not (folder / "pid").read_text().strip():
        assert server.poll() is None and time.monotonic() < end, (folder / "error.log").read_text()
        time.sleep(0.02)
    return server


def ask(network: Network, names: list[str]) -> tuple[int, bytes, bytes]:
    """Requests one after the other on one connection: its port, what was sent, and all that came back."""
    end = network.client.socket()
    end.settimeout(PATIENCE)
    end.connect((SERVER, 8080))
    requests = [f"GET /{name} HTTP/1.1\r\nHost: it\r\n" for name in names]
    sent = "\r\n".join(requests) + "Connection: close\r\n\r\n"
    end.sendall(sent.encode())
    parts: list[bytes] = []
    while part := end.recv(65536):
        parts.append(part)
    port = end.getsockname()[1]
    end.close()
    return port, sent.encode(), b"".join(parts)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx")
def test_http_by_nginx(stack: CompiledStack, tmp_path: Path, files: dict[str, bytes]) -> None:
    with Network(BAD, seed=2) as network:
        server = serve(network, tmp_path)
        try:
            asked = [ask(network, [name]) for name in files] + [ask(network, list(files))]
            fetched = curl(network, tmp_path, "400000.bin")
        finally:
            server.terminate()
            server.wait(timeout=60)
        network.settle()
    result = watched(stack, network)
    rows: dict[int, Any] = {row["sport"]: row for row in result.rows if row["proto"] == "tcp"}
    for (port, sent, got), names in zip(asked, [[name] for name in files] + [list(files)], strict=True):
        assert all(files[name] in got for name in names)
        assert (rows[port]["src_sha256"], rows[port]["dst_sha256"]) == tuple(
            hashlib.sha256(data).hexdigest() for data in (sent, got)
        )
    if fetched is not None:
        (port,) = rows.keys() - {port for port, _, _ in asked}
        stream = b"".join(event.bytes for event in result.named("data") if event.sport == 8080 and event.dport == port)
        assert fetched == files["400000.bin"] == stream.partition(b"\r\n\r\n")[2]


def curl(network: Network, folder: Path, name: str) -> bytes | None:
    """The same by a client that is not ours; None where there is none."""
    if shutil.which("curl") is None:
        return None
    out = folder / "fetched"
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    command = ["curl", "-sS", "--interface", CLIENT, "-o", str(out), f"http://{SERVER}:8080/{name}"]
    assert network.client.start(command, environment).wait(PATIENCE) == 0
    return out.read_bytes()
