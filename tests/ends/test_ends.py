"""`sluice proxy` and `sluice endpoint` after a chain, between hosts with curl, nginx and sockets of the kernel."""

from __future__ import annotations

import http.server
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from sluice.cli.main import main
from sluice.ends import moves
from tests.live.veth import ROOT
from tests.live.wire import PATIENCE, Inline, Wire, ip, why_no_wire
from tests.support.bounded import joined, killed_after, until
from tests.support.unoptimised import UNOPTIMISED

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]

SPACE_NAME = f"ends{os.getpid()}"
BEFORE, AFTER = "10.81.1", "10.81.2"
CLIENT, SERVER = f"{BEFORE}.2", f"{AFTER}.2"
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{ }}
http {{
    access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    server {{ listen 80; location / {{ return 200 "$remote_addr asked $server_addr"; }} }}
}}
"""


class Routed(Wire):
    """Client and server are in networks of their own; their router is what runs in the box after the chain."""

    def __init__(self) -> None:
        super().__init__("ends")
        ip("-n", self.client, "addr", "add", f"{CLIENT}/24", "dev", "c0")
        ip("-n", self.server, "addr", "add", f"{SERVER}/24", "dev", "s0")
        ip("-n", self.client, "route", "add", "default", "via", f"{BEFORE}.1")
        ip("-n", self.server, "route", "add", "default", "via", f"{AFTER}.1")


@pytest.fixture
def wire() -> Generator[Routed]:
    with Routed() as made:
        yield made
        assert subprocess.run(["ip", "netns", "pids", SPACE_NAME], capture_output=True, timeout=300).returncode, (
            "it is removed"
        )


@pytest.fixture(autouse=True)
def fast_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CFLAGS", UNOPTIMISED)


class End:
    """`sluice proxy` or `sluice endpoint` in the box, and a chain that forwards to it."""

    def __init__(self, wire: Routed, folder: Path, *words: str, chain: tuple[str, ...] = ()) -> None:
        (folder / "stack.py").write_text(
            "from tests.support.small_stacks import small_stack\n\nstack = small_stack()\n"
        )
        command = [
            sys.executable,
            "-m",
            "sluice",
            words[0],
            SPACE_NAME,
            "--inside",
            f"{BEFORE}.1/24",
            *words[1:],
        ]
        self.process = wire.start(
            wire.box, command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        with killed_after(self.process, PATIENCE):
            assert self.process.stdout and self.process.stdout.readline()
        forwards = chain or ("run", str(folder / "stack.py"), "-f", f"flow_log:out={folder / 'rows'}")
        self.chain = Inline(wire, folder, *forwards, between=("b0", f"{SPACE_NAME}0"))

    def __enter__(self) -> End:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def stop(self) -> str:
        self.chain.stop()
        self.process.terminate()
        text, _ = self.process.communicate(timeout=PATIENCE)
        return text


class Site(http.server.BaseHTTPRequestHandler):
    """Returns what it got, and from where."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("X-Client", self.client_address[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def fetch(wire: Wire, *words: str) -> bytes:
    command = ["curl", "-sS", "--noproxy", "*", "--max-time", "60", *words]
    with wire.start(wire.client, command, stdout=subprocess.PIPE) as done:
        text: bytes = cast(Any, done.stdout).buffer.read()
        assert done.wait(timeout=90) == 0
    return text


def test_a_proxy_of_byte_streams(wire: Routed, tmp_path: Path) -> None:
    """Bytes are intact, the server sees the client's address, other ports pass as through a router."""
    servers = [
        wire.within(wire.server, lambda port=port: http.server.ThreadingHTTPServer((SERVER, port), Site))
        for port in (80, 81)
    ]
    for each in servers:
        threading.Thread(target=each.serve_forever, daemon=True).start()
    body = os.urandom(2_000_000)
    (tmp_path / "body").write_bytes(body)
    words = ("-H", "Expect:", "--data-binary", f"@{tmp_path}/body", "-D", str(tmp_path / "head"))
    with End(wire, tmp_path, "proxy", "--outside", f"b1={AFTER}.1/24", "--port", "80", "--json") as running:
        for port in (80, 81):
            assert fetch(wire, *words, f"http://{SERVER}:{port}/") == body
            assert f"X-Client: {CLIENT}" in (tmp_path / "head").read_text()
        with wire.socket(wire.client) as end, pytest.raises(ConnectionResetError):
            end.settimeout(30)
            end.connect((f"{BEFORE}.1", 80))  # the proxy's own address: it does not connect to itself
            end.recv(1)
        counted = json.loads(running.stop().splitlines()[-1])
    for each in servers:
        each.shutdown()
        each.server_close()
    assert (counted["accepted"], counted["not_opened"]) == (1, 1)
    assert counted["bytes_to_servers"] > len(body) < counted["bytes_to_clients"]
    assert b"b1" in subprocess.run(["ip", "-n", wire.box, "link"], capture_output=True, timeout=300).stdout, (
        "the interface is back"
    )


def test_half_closed_connections(wire: Routed, tmp_path: Path) -> None:
    """A client that has said everything still gets the answer."""
    listener = wire.socket(wire.server)
    listener.bind((SERVER, 90))
    listener.listen()
    listener.settimeout(PATIENCE)

    def answer() -> None:
        got, (with_end, _) = b"", listener.accept()
        with_end.settimeout(PATIENCE)
        while piece := with_end.recv(65536):
            got += piece
        with_end.sendall(got[::-1])
        with_end.close()

    thread = threading.Thread(target=answer, daemon=True)
    with End(
        wire, tmp_path, "proxy", "--outside", f"b1={AFTER}.1/24", "--port", "70", "--server", f"{SERVER}:90"
    ) as running:
        thread.start()
        with wire.socket(wire.client) as end:
            end.settimeout(30)
            end.connect((f"{BEFORE}.1", 70))
            end.sendall(bytes(range(256)) * 100)
            end.shutdown(socket.SHUT_WR)
            got = b""
            while piece := end.recv(65536):
                got += piece
        joined(thread)
        listener.close()
        with wire.socket(wire.client) as end, pytest.raises(ConnectionResetError):
            end.settimeout(30)
            end.connect((f"{BEFORE}.1", 70))
            end.recv(1)
        assert "1 refused_by_servers" in running.stop()
    assert got == (bytes(range(256)) * 100)[::-1]


def taken(end: socket.socket, count: int) -> bytes:
    """So many bytes of a connection, or fewer where it ends."""
    got = b""
    while len(got) < count and (piece := end.recv(min(1 << 16, count - len(got)))):
        got += piece
    return got


def test_connections_move_to_another_proxy(wire: Routed, tmp_path: Path) -> None:
    """Bytes in both directions are on their way, in queues of the kernel and of the proxy, when it is replaced. The
    ends notice nothing. A connection whose client has said everything is reset.
    """
    listener = wire.socket(wire.server)
    listener.bind((SERVER, 80))
    listener.listen()
    listener.settimeout(PATIENCE)
    body, file = os.urandom(3_000_000), str(tmp_path / "moved")
    outside = ("proxy", "--outside", f"b1={AFTER}.1/24", "--port", "80", "--json")
    with wire.socket(wire.client) as end, wire.socket(wire.client) as closed:
        with End(wire, tmp_path, *outside, "--save", file) as first:
            for one in (end, closed):
                one.settimeout(PATIENCE)
                one.connect((SERVER, 80))
            (with_end, _), (with_closed, _) = listener.accept(), listener.accept()
            closed.shutdown(socket.SHUT_WR)
            with_end.settimeout(PATIENCE)
            end.sendall(b"question")
            assert taken(with_end, 8) == b"question"
            sending = threading.Thread(target=with_end.sendall, args=(body,), daemon=True)
            sending.start()
            assert taken(end, 1000) == body[:1000]
            first.chain.stop()
            end.sendall(b"more")
            first.process.send_signal(signal.SIGUSR2)
            time.sleep(0.01)
            first.process.send_signal(signal.SIGUSR2)  # once is enough
            text, _ = first.process.communicate(timeout=PATIENCE)
            assert first.process.returncode == 0
            assert json.loads(text.splitlines()[-1])["saved"] == 1
        with End(wire, tmp_path, *outside, "--restore", file) as second:
            for space in (wire.client, wire.server):  # the addresses of the router have another interface
                ip("-n", space, "neigh", "flush", "all")
            assert taken(end, len(body) - 1000) == body[1000:]
            joined(sending)
            end.sendall(b" and more")
            assert taken(with_end, 13) == b"more and more"
            end.close()
            assert with_end.recv(1) == b""
            with_end.close()
            counted = json.loads(second.stop().splitlines()[-1])
        with_closed.close()
        listener.close()
    assert (counted["restored"], counted["not_restored"], counted["accepted"]) == (1, 0, 0)


def test_a_client_that_does_not_read_costs_no_time(wire: Routed, tmp_path: Path) -> None:
    """Both ends have said everything, and bytes for the client wait: the proxy sleeps, and nothing is lost."""
    sizes, sent = [size << 10 for size in range(100, 500, 25)], list[int]()
    listener = wire.socket(wire.server)
    listener.bind((SERVER, 90))
    listener.listen()
    listener.settimeout(PATIENCE)

    def answer() -> None:
        for size in sizes:
            one, _ = listener.accept()
            with one:
                one.settimeout(30)
                one.recv(1)
                one.setblocking(False)
                sent.append(one.send(bytes(size)))

    thread = threading.Thread(target=answer, daemon=True)
    with End(
        wire, tmp_path, "proxy", "--outside", f"b1={AFTER}.1/24", "--port", "70", "--server", f"{SERVER}:90"
    ) as running:
        thread.start()
        clients: list[socket.socket] = []
        for _ in sizes:
            clients.append(wire.socket(wire.client))
            clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            clients[-1].settimeout(30)
            clients[-1].connect((f"{BEFORE}.1", 70))
            clients[-1].sendall(b"a")
            clients[-1].shutdown(socket.SHUT_WR)
        joined(thread)
        time.sleep(1)
        (proxy,) = children(running.process.pid)
        states: set[str] = set()
        for _ in range(20):
            states.add(Path("/proc", proxy, "stat").read_text().rpartition(")")[2].split()[0])
            time.sleep(0.02)
        got = 0
        for client in clients:
            while piece := client.recv(65536):
                got += len(piece)
            client.close()
        assert "0 open" in running.stop()
    listener.close()
    assert states == {"S"}
    assert got == sum(sent)


def children(of: int) -> list[str]:
    """The numbers of the processes that a process started."""
    return Path(f"/proc/{of}/task/{of}/children").read_text().split()


@pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx (Debian: nginx-light)")
def test_an_unmodified_server_has_the_connections_of_a_prefix(wire: Routed, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path))
    server = ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    with End(wire, tmp_path, "endpoint", "--local", "192.0.2.0/24", "--run", shlex.join(server)):
        for address in (f"{BEFORE}.1", "192.0.2.10", "192.0.2.99"):
            for _ in range(100):
                with wire.start(wire.client, ["curl", "-s", "--noproxy", "*", f"http://{address}/"], stdout=-1) as done:
                    text, _ = done.communicate(timeout=30)
                if text:
                    break
                time.sleep(0.05)
            assert text == f"{CLIENT} asked {address}"


COUNTS = """
import socket, threading

def serve(end):
    total = 0
    while piece := end.recv(65536):
        total += len(piece)
        end.sendall(b"%07d" % total + bytes(2_000_000 if b"?" in piece else 0))

listener = socket.create_server(("", 80))
print("begins", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def test_a_server_moves_with_its_connections(wire: Routed, tmp_path: Path) -> None:
    """What the server knows of a connection, the bytes of which it has not sent all, goes with it, twice."""
    try:
        moves.check()
    except moves.MoveError as error:
        pytest.skip(str(error))
    (tmp_path / "server.py").write_text(COUNTS)
    run = ("--run", shlex.join([sys.executable, str(tmp_path / "server.py")]))
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    with wire.socket(wire.client) as end:
        end.settimeout(PATIENCE)
        with End(wire, tmp_path, "endpoint", *run, "--save", first) as running:
            until(lambda: not end.connect_ex((f"{BEFORE}.1", 80)))
            end.sendall(b"1234?")
            assert taken(end, 7) == b"0000005"
            move_away(running)
        with End(wire, tmp_path, "endpoint", "--restore", first, "--save", second) as running:
            ip("-n", wire.client, "neigh", "flush", "all")  # the address of the router has another interface
            assert taken(end, 2_000_000) == bytes(2_000_000)
            end.sendall(b"6")
            assert taken(end, 7) == b"0000006"
            move_away(running)
        with End(wire, tmp_path, "endpoint", "--restore", second):
            ip("-n", wire.client, "neigh", "flush", "all")
            end.sendall(b"78")
            assert taken(end, 7) == b"0000008"


def move_away(running: End) -> None:
    """The server is written to the directory of --save."""
    running.chain.stop()
    running.process.send_signal(signal.SIGUSR2)
    running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == 0


SPACE = ("a", "--inside", "10.0.0.1/24", "--outside", "b1=10.0.0.2/24")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("proxy", "a", "--inside", "10.0.0.1/24", "--port", "80"), "--outside is missing"),
        (("proxy", "a", "--inside", "10.0.0.1/24", "--outside", "b1", "--port", "80"), "write INTERFACE=ADDRESS"),
        (("proxy", "a", "--inside", "10.0.0.1/24", "--outside", "b1=10.0.0.2/24", "--port", "0"), "from 1 to 65535"),
        (("proxy", *SPACE, "--port", "80", "--server", "server:80"), "write ADDRESS:PORT"),
        (("proxy", *SPACE, "--port", "80", "--save", __file__), "written to a new file"),
        (("endpoint", "a", "--inside", "10.0.0.1/24", "--run", "no-such x"), "there is no such command"),
        (("endpoint", "a", "--inside", "10.0.0.1/24"), "give either --run"),
        (("endpoint", "a", "--inside", "10.0.0.1/24", "--restore", "/"), "no server was saved there"),
        (("endpoint", "a", "--inside", "10.0.0.1/24", "--run", "true", "--save", "/tmp"), "a new directory"),
        (("endpoint", "A b", "--inside", "10.0.0.1/24", "--run", "true"), "is no name"),
        (("endpoint", "ends-x", "--inside", "10.0.0.1.1/24", "--run", "true"), "addresses are given as"),
        (("endpoint", "ends-x", "--inside", "10.9.0.1/24", "--outside", "noif=10.0.0.2/24", "--run", "true"), "noif"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) != 0
    assert says in capsys.readouterr().err
    assert not Path("/run/netns/ends-x").exists()


CACHE = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{ }}
http {{
    access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    proxy_cache_path {folder}/cache keys_zone=cache:1m;
    server {{ listen 80; location / {{ proxy_pass http://{server}:80; proxy_cache cache; proxy_cache_valid 1h; }} }}
}}
"""
CHAIN = """
from pathlib import Path

from sluice.chain import Chain, function
from tests.support.small_stacks import small_stack

splice = function("splice", address="{before}.100", servers="{server}", routes=str(Path(__file__).parent / "routes"))
chain = Chain(splice >> function("flow_log", out=str(Path(__file__).parent / "rows")), stack=small_stack())
"""


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers with the path, and the address that it saw."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.client_address[0]))
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx (Debian: nginx-light)")
def test_a_layer_7_balancer_with_a_cache(wire: Routed, tmp_path: Path) -> None:
    """The cache, at an endpoint after `splice`, has what routes give it, the server everything else."""
    tmp_path.chmod(0o755)
    (tmp_path / "nginx.conf").write_text(CACHE.format(folder=tmp_path, server=SERVER))
    (tmp_path / "chain.py").write_text(CHAIN.format(before=BEFORE, server=SERVER))
    (tmp_path / "routes").write_text(f"* /static {BEFORE}.1\n")
    origin = wire.within(wire.server, lambda: http.server.ThreadingHTTPServer((SERVER, 80), Origin))
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    nginx = shlex.join(["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")])
    words = ("endpoint", "--outside", f"b1={AFTER}.1/24", "--local", f"{BEFORE}.100/32", "--run", nginx)
    with End(wire, tmp_path, *words, chain=("chain", str(tmp_path / "chain.py"))) as running:
        for path in ("/static/a", "/other", "/static/a", "/static/a", "/other"):
            assert fetch(wire, "--retry", "50", "--retry-all-errors", f"http://{BEFORE}.100{path}") == path.encode()
        running.stop()
    origin.shutdown()
    origin.server_close()
    assert Origin.asked == [("/static/a", f"{AFTER}.1"), ("/other", CLIENT), ("/other", CLIENT)]


def test_a_directory_that_others_can_change_is_not_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Root makes processes of any user from what it has."""
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "inventory.img").touch()
    saved.chmod(0o777)
    assert main(["endpoint", "ends-x", "--inside", "10.0.0.1/24", "--restore", str(saved)]) != 0
    assert "can be written by other users" in capsys.readouterr().err
