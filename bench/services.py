"""What services cost next to the programs that do the same: requests per second, and per CPU second of the service.

    .venv/bin/python bench/services.py [--seconds 5] [--rounds 3] [--connections 64]

Balancers forward to two servers of one nginx: ours, nginx and HAProxy, with persistent connections, and with clients
that close them; ours with epoll and with io_uring. Web servers send a small file: ours and nginx. Memcached routers
(text protocol) forward to four memcached servers: ours and twemproxy. The service runs on the first core, clients and
servers on the second; programs take turns within a round, and figures are medians. Where clients or servers are the
bottleneck, only the figure per CPU second of the service compares. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
FIRST, SECOND, LISTEN = 18081, 18082, 18080
CACHES = (18101, 18102, 18103, 18104)
CORES = sorted(os.sched_getaffinity(0))
SERVICE, LOAD = str(CORES[0]), str(CORES[-1])

ORIGIN = """daemon off; worker_processes 1; pid {folder}/origin.pid; error_log {folder}/origin.log; user root;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 1000000000;
  server {{ listen 127.0.0.1:18081 backlog=4096; location / {{ default_type text/plain; return 200 "{body}"; }} }}
  server {{ listen 127.0.0.1:18082 backlog=4096; location / {{ default_type text/plain; return 200 "{body}"; }} }} }}
"""
NGINX = """daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log; user root;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 1000000000;
  upstream b {{ server 127.0.0.1:18081; server 127.0.0.1:18082; keepalive 512; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:18080 backlog=4096;
    location / {{ proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
STATIC = """daemon off; worker_processes 1; pid {folder}/static.pid; error_log {folder}/static.log; user root;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 1000000000; sendfile on; tcp_nopush on;
  open_file_cache max=100 inactive=60s; open_file_cache_valid 60s;
  server {{ listen 127.0.0.1:18080 backlog=4096; root {folder}/public; }} }}
"""
HAPROXY = """global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend f
  bind 127.0.0.1:18080 backlog 4096
  default_backend b
backend b
  balance roundrobin
  http-reuse always
  server s1 127.0.0.1:18081
  server s2 127.0.0.1:18082
"""
TWEMPROXY = """pool:
  listen: 127.0.0.1:18080
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: false
  preconnect: true
  backlog: 1024
  server_connections: 1
  servers:
    - 127.0.0.1:18101:1
    - 127.0.0.1:18102:1
    - 127.0.0.1:18103:1
    - 127.0.0.1:18104:1
"""


@dataclass(frozen=True)
class Figure:
    """Requests per second, and per CPU second of the service."""

    rate: float
    per_cpu: float


def cpu_seconds(pid: int) -> float:
    """Time that all threads of a process have run."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def descendants(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return found


def wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def running(command: list[str], core: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is pinned to a core, from when it accepts connections at a port."""
    process = subprocess.Popen(["taskset", "-c", core, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def ours(name: str, backends: tuple[int | str, ...], events: str = "epoll") -> list[str]:
    places = ",".join(f"127.0.0.1:{each}" if isinstance(each, int) else each for each in backends)
    listen = f"127.0.0.1:{LISTEN}"
    return [
        sys.executable, "-m", "sluice", "serve", name, "--listen", listen, "--backends", places, "--events", events
    ]  # fmt: skip


def web_load(seconds: int, connections: int, closes: bool) -> float:
    """Requests per second of wrk."""
    extra = ["-H", "Connection: close"] if closes else []
    command = [
        "taskset",
        "-c",
        LOAD,
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        *extra,
        f"http://127.0.0.1:{LISTEN}/",
    ]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        print(f"  errors: {out}", file=sys.stderr)
    return float(re.findall(r"Requests/sec:\s+([\d.]+)", out)[0])


def cache_load(seconds: int, connections: int) -> float:
    """Requests per second of connections that get one key after another, each in a thread of one process."""
    source = f"""
import socket, sys, threading, time
end, total = time.monotonic() + {seconds}, [0] * {connections}
def run(number):
    c = socket.create_connection(("127.0.0.1", {LISTEN}))
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b"x" * 100
    for i in range(100):
        c.sendall(b"set k%d 0 0 100\\r\\n%b\\r\\n" % (i, data))
        assert c.recv(100) == b"STORED\\r\\n"
    i = 0
    while time.monotonic() < end:
        c.sendall(b"get k%d\\r\\n" % (i % 100))
        got = c.recv(400)
        while not got.endswith(b"END\\r\\n"):
            got += c.recv(400)
        total[number] += 1
        i += 1
threads = [threading.Thread(target=run, args=(n,)) for n in range({connections})]
[t.start() for t in threads]; [t.join() for t in threads]
print(sum(total) / {seconds})
"""
    return float(
        subprocess.run(["taskset", "-c", LOAD, sys.executable, "-c", source], capture_output=True, check=True).stdout
    )


def measure(name: str, command: list[str], load: str, seconds: int, connections: int) -> Figure | None:
    """One run of a program under a load; None if it is not installed."""
    if shutil.which(command[0]) is None:
        return None
    with running(command, SERVICE, LISTEN) as process:

        def run(seconds: int) -> float:
            if load == "cache":
                return cache_load(seconds, connections)
            return web_load(seconds, connections, load == "closes")

        run(1)  # connections to the backends, and caches, are there after it
        pids = descendants(process.pid)
        before = sum(map(cpu_seconds, pids))
        rate = run(seconds)
        used = sum(map(cpu_seconds, pids)) - before
    print(f"  {name}: {rate:,.0f} a second, {used:.2f} CPU seconds", file=sys.stderr)
    return Figure(rate, rate * seconds / max(used, 0.01))


def table(title: str, figures: dict[str, list[Figure]]) -> None:
    print(f"\n| {title} | requests/s | per CPU second | of ours |\n|---|---|---|---|")
    first = median(each.per_cpu for each in next(iter(figures.values())))
    for name, rounds in figures.items():
        rate, per_cpu = median(each.rate for each in rounds), median(each.per_cpu for each in rounds)
        print(f"| {name} | {rate:,.0f} | {per_cpu:,.0f} | {first / per_cpu:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
        folder = Path(made)
        for name, text in (("nginx", NGINX), ("static", STATIC)):
            (folder / f"{name}.conf").write_text(text.format(folder=folder))
        for name, text in (("haproxy", HAPROXY), ("twemproxy", TWEMPROXY)):
            (folder / f"{name}.conf").write_text(text)
        (folder / "public").mkdir()
        (folder / "public" / "index.html").write_text("x" * 137)
        folder.chmod(0o755)
        (folder / "origin.conf").write_text(ORIGIN.format(folder=folder, body="x" * 137))
        balancers = {
            "sluice": ours("http_round_robin", (FIRST, SECOND)),
            "sluice, io_uring": ours("http_round_robin", (FIRST, SECOND), "io_uring"),
            "nginx": ["nginx", "-c", str(folder / "nginx.conf")],
            "haproxy": ["haproxy", "-db", "-f", str(folder / "haproxy.conf")],
        }
        servers = {
            "sluice": ours("http_static", (str(folder / "public"),)),
            "nginx": ["nginx", "-c", str(folder / "static.conf")],
        }
        routers = {
            "sluice": ours("memcached_text_router", CACHES),
            "twemproxy": ["nutcracker", "-c", str(folder / "twemproxy.conf"), "-s", "18198", "-a", "127.0.0.1"],
        }
        if shutil.which("nginx") and shutil.which("wrk"):
            stack.enter_context(running(["nginx", "-c", str(folder / "origin.conf")], LOAD, FIRST))
            for load in ("persistent", "closes"):
                compare(f"balancer, {load}", balancers, load, options)
        if shutil.which("wrk"):
            compare("web server, persistent", servers, "persistent", options)
        if shutil.which("memcached"):
            for port in CACHES:
                command = ["memcached", "-u", "root", "-t", "1", "-l", "127.0.0.1", "-p", str(port), "-U", "0"]
                stack.enter_context(running(command, LOAD, port))
            compare("Memcached router, text", routers, "cache", options)


def compare(title: str, programs: dict[str, list[str]], load: str, options: argparse.Namespace) -> None:
    """Rounds of all programs in turn, and their table."""
    figures: dict[str, list[Figure]] = {}
    connections = min(options.connections, 16) if load == "cache" else options.connections
    for _ in range(options.rounds):
        for name, command in programs.items():
            found = measure(f"{title}, {name}", command, load, options.seconds, connections)
            if found is not None:
                figures.setdefault(name, []).append(found)
    table(title, figures)


if __name__ == "__main__":
    main()
