"""`-f splice` between hosts: curl and nginx, each with the TCP of its kernel, over connections that the box joins."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tests.live.wire import Inline, LossyWire, Wire, ip, why_no_wire
from tests.support.unoptimised import UNOPTIMISED

MISSING = why_no_wire() or ("" if shutil.which("nginx") else "there is no nginx (Debian: nginx-light)")
pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING), pytest.mark.root]

SERVICE = "10.79.0.100"
SERVERS = ("10.79.0.11", "10.79.0.12")
STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{ }}
http {{
    access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    client_max_body_size 64m; large_client_header_buffers 4 64k; root {folder}/site; dav_methods PUT;
    server {{ listen 10.79.0.11:80; location /who {{ return 200 "one"; }} }}
    server {{ listen 10.79.0.12:80; location /who {{ return 200 "two"; }} }}
}}
"""
BIG = 3_000_000


@pytest.fixture(autouse=True)
def fast_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are not about speed."""
    monkeypatch.setenv("SLUICE_CFLAGS", UNOPTIMISED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("splice")
    (made / "stack.py").write_text(STACK)
    (made / "site").mkdir()
    made.parent.chmod(0o755)
    for each in (made, made / "site"):
        each.chmod(0o777)
    (made / "site" / "big").write_bytes(content())
    (made / "routes").write_text(
        f"# who serves what\n* /who/one {SERVERS[0]}\n*\t/who/two {SERVERS[1]}\n* /big {SERVERS[0]}\n"
    )
    (made / "nginx.conf").write_text(NGINX.format(folder=made))
    return made


def content() -> bytes:
    return b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(BIG // 32))


def addresses(wire: Wire) -> None:
    for each in (*SERVERS, SERVICE):
        ip("-n", wire.server, "addr", "add", f"{each}/24", "dev", "s0")


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("livespl") as made:
        addresses(made)
        yield made


class Nginx:
    def __init__(self, wire: Wire, folder: Path) -> None:
        self.process = wire.start(wire.server, ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
        for _ in range(200):
            with suppress(OSError), wire.socket(wire.server) as end:
                end.connect((SERVERS[0], 80))
                return
            time.sleep(0.05)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)


def splice(folder: Path, more: str = "") -> list[str]:
    given = ",".join(filter(None, [f"address={SERVICE},servers={'+'.join(SERVERS)},routes={folder}/routes", more]))
    return ["run", str(folder / "stack.py"), "-f", f"splice:{given}"]


def curl(wire: Wire, *words: str, seconds: int = 60) -> bytes:
    command = ["curl", "-sS", "--noproxy", "*", "--max-time", str(seconds), *words]
    with wire.start(wire.client, command, stdout=subprocess.PIPE) as done:
        text: bytes = cast(Any, done.stdout).buffer.read()
        assert done.wait(timeout=seconds + 30) == 0
    return text


def test_the_path_chooses_the_server_and_bytes_are_intact(wire: Wire, folder: Path) -> None:
    with Inline(wire, folder, *splice(folder)) as running, Nginx(wire, folder):
        assert curl(wire, f"http://{SERVICE}/who/one") == b"one"
        assert curl(wire, f"http://{SERVICE}/who/two") == b"two"
        assert curl(wire, f"http://{SERVICE}/big") == content()
        reports = running.stop()["reports"]
    assert (reports["splice_accepted"], reports["splice_joined"]) == (3, 3)
    assert reports["splice_not_translated"] == reports["splice_less_options"] == 0


def test_uploads_and_requests_in_pieces_and_large_heads(wire: Wire, folder: Path) -> None:
    """The box acknowledges what comes before the request is whole, and repeats it to the server."""
    (folder / "body").write_bytes(content()[:300_000])
    with Inline(wire, folder, *splice(folder)) as running, Nginx(wire, folder):
        curl(wire, "-T", str(folder / "body"), f"http://{SERVICE}/put")
        assert (folder / "site" / "put").read_bytes() == content()[:300_000]
        large = "x: " + "y" * 9000
        assert curl(wire, "-H", large, f"http://{SERVICE}/who/two") == b"two"
        with wire.socket(wire.client) as end:
            end.connect((SERVICE, 80))
            end.settimeout(30)
            for piece in (b"GE", b"T /who/t", b"wo HTTP/1.0\r\nHo", b"st: a\r\n\r", b"\n"):
                end.sendall(piece)
                time.sleep(0.05)
            assert received(end).endswith(b"two")
        reports = running.stop()["reports"]
    assert reports["splice_joined"] == 3 and reports["splice_not_translated"] == 0


def received(end: socket.socket) -> bytes:
    found = b""
    while piece := end.recv(65536):
        found += piece
    return found


def test_a_server_that_is_closed_is_skipped(wire: Wire, folder: Path) -> None:
    """By address, as for protocols whose server speaks first; the first choice refuses, or no server is there."""
    with Inline(wire, folder, *splice(folder, f"by=client,routes=,servers={SERVERS[0]}:81+{SERVERS[1]}:80")) as running:
        with Nginx(wire, folder):
            assert curl(wire, f"http://{SERVICE}/who") == b"two"
        with wire.socket(wire.client) as end, pytest.raises(ConnectionResetError):
            end.settimeout(30)
            end.connect((SERVICE, 80))
            end.recv(1)
        reports = running.stop()["reports"]
    assert reports["splice_no_server"] == 1 and reports["splice_failed"] >= 2


@pytest.mark.parametrize(
    "more", ["", pytest.param("half_open=0", marks=pytest.mark.slow_matrix)], ids=["stored", "cookies"]
)
def test_loss_and_reordering_between_box_and_servers(folder: Path, more: str) -> None:
    """SYNs, requests, acknowledgements and data are lost on both directions of the link to the servers."""
    with LossyWire("livespl", 0.02, 0.02) as wire:
        addresses(wire)
        with Inline(wire, folder, *splice(folder, more)) as running, Nginx(wire, folder):
            for number in range(12):
                name = ("one", "two")[number % 2]
                assert curl(wire, f"http://{SERVICE}/who/{name}") == name.encode()
            assert curl(wire, f"http://{SERVICE}/big") == content()
            curl(wire, "-T", str(folder / "site" / "big"), f"http://{SERVICE}/copy")
            assert (folder / "site" / "copy").read_bytes() == content()
            reports = running.stop()["reports"]
    assert reports["splice_joined"] == 14 and reports["splice_unknown"] == 0
    assert (reports["splice_cookies"] > 0) == bool(more)


SYSCTLS = {"net.ipv4.tcp_timestamps": "0", "net.ipv4.tcp_sack": "0", "net.ipv4.tcp_window_scaling": "0"}


@pytest.mark.slow_matrix
@pytest.mark.parametrize("where", ["client", "server"])
@pytest.mark.parametrize("key", SYSCTLS)
def test_an_option_that_one_end_lacks(wire: Wire, folder: Path, key: str, where: str) -> None:
    space = wire.client if where == "client" else wire.server
    subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", f"{key}={SYSCTLS[key]}"], check=True, timeout=300)
    with Inline(wire, folder, *splice(folder)) as running, Nginx(wire, folder):
        for _ in range(2):
            assert curl(wire, f"http://{SERVICE}/big") == content()
        curl(wire, "-T", str(folder / "site" / "big"), f"http://{SERVICE}/copy")
        assert (folder / "site" / "copy").read_bytes() == content()
        reports = running.stop()["reports"]
    assert reports["splice_less_options"] == (where == "server"), "it is not offered to the next client"
