"""End hosts: the calls one by one, and a web server and a web client with real peers.

tests/golden/mos/SCENARIO.txt has what programs/hosts.c prints: each call, its result and errno. With
SLUICE_UPDATE_GOLDEN=1 in the environment they are written anew.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.compat.mos.programs import run
from tests.compat.mos.web import configuration, expected, free_port, make_files, start_here, webget, webserver
from tests.support.network import SERVER, Faults, Namespace, Network, why_not

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "mos"
UPDATE = os.environ.get("SLUICE_UPDATE_GOLDEN") == "1"
LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize(
    "scenario", ["errors", "streams", "epoll", "pipes", "waits", "limits", "files", "contexts", "handler", "end"]
)
def test_calls(scenario: str, tmp_path: Path) -> None:
    config = configuration(tmp_path, max_concurrency="3" if scenario == "limits" else "100")
    output = run("hosts", [str(config), scenario])
    path = GOLDEN / f"{scenario}.txt"
    if UPDATE:
        path.write_text(output)
    assert output == path.read_text()


def test_monitors_of_a_capture_run_beside_end_hosts_again_and_again(tmp_path: Path) -> None:
    capture = Path(__file__).with_name("flows.pcap")
    config = configuration(tmp_path, netdev=f"{{ {capture} }}", max_concurrency="100")
    assert run("hosts", [str(config), "beside"]) == "stacks 0\n"


def fetch(tmp_path: Path, count: int, connections: int) -> None:
    """The client fetches from the server over loopback."""
    files, config, port = make_files(tmp_path, count), configuration(tmp_path), free_port()
    with webserver(start_here, config, files, port) as said:
        assert webget(start_here, config, LOOPBACK, port, count, connections) == expected(files, count)
    assert said == [f"served {count + 1} errors 0"]


def test_client_fetches_from_server(tmp_path: Path) -> None:
    """Two contexts serve on one port; the client's numbers stay below three times its connections."""
    fetch(tmp_path, 300, 64)


@pytest.mark.slow_matrix
def test_client_fetches_ten_thousand_files(tmp_path: Path) -> None:
    fetch(tmp_path, 10000, 256)


def test_server_serves_other_clients(tmp_path: Path) -> None:
    """Many requests over one connection, some sent at once; a file that is larger than the socket's buffer; errors."""
    files, config, port = make_files(tmp_path, 20), configuration(tmp_path), free_port()
    large = bytes(range(256)) * 40000
    (files / "large").write_bytes(large)
    with webserver(start_here, config, files, port) as said:
        client = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
        for _ in range(100):
            try:
                client.connect()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        for name in [*map(str, range(20)), "large"]:
            client.request("GET", f"/{name}")
            assert client.getresponse().read() == (files / name).read_bytes()
        client.sock.sendall(b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\nConnection: close\r\n\r\n")
        answers = b""
        while data := client.sock.recv(65536):
            answers += data
        first, second = (files / "1").read_bytes(), (files / "2").read_bytes()
        assert answers.count(b" 200 OK") == 2 and first in answers and answers.endswith(second)
        client.close()
        client.request("GET", "/none")
        assert client.getresponse().status == 404
        client.close()
        if shutil.which("curl"):
            got = subprocess.run(["curl", "-s", f"http://{LOOPBACK}:{port}/large"], capture_output=True, timeout=30)
            assert got.stdout == large
    assert said[0].endswith("errors 1")


@pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx (Debian: nginx-light)")
def test_client_fetches_from_nginx(tmp_path: Path) -> None:
    files, config, port = make_files(tmp_path, 200), configuration(tmp_path), free_port()
    tmp_path.chmod(0o755)
    nginx = tmp_path / "nginx.conf"
    nginx.write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;\n"
        "events {}\n"
        f"http {{ access_log off; server {{ listen {LOOPBACK}:{port}; root {files}; }} }}\n"
    )
    server = subprocess.Popen(["nginx", "-c", str(nginx), "-p", str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        assert webget(start_here, config, LOOPBACK, port, 200, 32) == expected(files, 200)
    finally:
        server.terminate()
        server.wait(timeout=30)


def over_lossy_link(tmp_path: Path, count: int, connections: int, patience: float) -> None:
    """The client fetches over a link that loses, reorders and duplicates packets."""
    files, config = make_files(tmp_path, count), configuration(tmp_path)

    def start(space: Namespace, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=space.enter
        )

    with Network(Faults(lost=0.01, overtaken=0.02, twice=0.01)) as network:
        with webserver(lambda command: start(network.server, command), config, files, 80) as said:
            got = webget(
                lambda command: start(network.client, command), config, SERVER, 80, count, connections, patience
            )
            assert got == expected(files, count)
    assert int(said[0].split()[1]) >= count


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_client_fetches_over_a_lossy_link(tmp_path: Path) -> None:
    over_lossy_link(tmp_path, 200, 64, 120)


@pytest.mark.slow_matrix
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_client_fetches_ten_thousand_files_over_a_lossy_link(tmp_path: Path) -> None:
    over_lossy_link(tmp_path, 10000, 256, 1200)
