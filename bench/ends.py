"""Balancers on the ends of TCP, next to bare forwarding, HAProxy and nginx: requests per second, latency, CPU time.

    .venv/bin/python bench/ends.py [--seconds 5] [--connections 32] [--bytes 64] [--only NAME,...]

A client (wrk, one connection for each request), a box and a server (nginx) are in three network namespaces. Sluice
forwards between the interfaces of the box, with a stack of Ethernet, IPv4, TCP; HAProxy and nginx have sockets there.
CPU time is that of the processes in the box per request: what the kernel does in softirqs on their behalf is not in it,
but is in the requests per second.
Needs root, iproute2, ethtool, wrk, nginx, and HAProxy for its row.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.live.wire import Wire, ip, why_no_wire  # noqa: E402

SERVICE, SERVERS = "10.79.0.100", ("10.79.0.11", "10.79.0.12")
BEFORE, AFTER = "10.81.1", "10.81.2"
TICK = os.sysconf("SC_CLK_TCK")

WEB = """
daemon off; master_process off; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
worker_rlimit_nofile 65536;
events {{ worker_connections 32768; }}
http {{
    access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5; {http}
    server {{ listen 80 backlog=4096; {server} }}
}}
"""
HALF = """
local paths, count = {"/page", "/static/page"}, 0
request = function()
    count = count + 1
    return wrk.format(nil, paths[count % 2 + 1])
end
"""
HAPROXY = """
global
    maxconn 4000
    nbthread 1
defaults
    mode {mode}
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen l
    bind :80
    balance source
    server one {first}:80
    server two {second}:80
"""


@dataclass
class Case:
    """Commands of the box, and where the load goes. `routed`: client and server are in two networks."""

    name: str
    url: str
    commands: list[list[str]]
    routed: bool = False
    addresses: bool = False
    """The box has addresses of its own."""
    script: str = ""
    """The file of a script of wrk that chooses the paths."""
    folder: Path = field(default_factory=Path)


def sluice(*words: str) -> list[str]:
    return [sys.executable, "-m", "sluice", *words]


def cases(folder: Path) -> list[Case]:
    between = ("-i", "b0", "--forward", "b1")
    servers = "+".join(SERVERS)
    page = "/page"
    stack = str(folder / "stack.py")
    Path(stack).write_text("from tests.support.small_stacks import small_stack\n\nstack = small_stack()\n")
    (folder / "static").write_text(f"* /static {BEFORE}.1\n")
    write = {
        "cache": WEB.format(
            folder=folder, name="cache", http=f"proxy_cache_path {folder}/cache keys_zone=c:1m;",
            server=f"location / {{ proxy_pass http://{AFTER}.2; proxy_cache c; proxy_cache_valid 1h; }}",
        ),
        "nginx-proxy": WEB.format(
            folder=folder, name="nginx-proxy", http=f"upstream u {{ server {SERVERS[0]}; server {SERVERS[1]}; }}",
            server="location / { proxy_pass http://u; }",
        ),
        "half": HALF,
        "haproxy-http": HAPROXY.format(mode="http", first=SERVERS[0], second=SERVERS[1]),
        "haproxy-tcp": HAPROXY.format(mode="tcp", first=SERVERS[0], second=SERVERS[1]),
    }  # fmt: skip
    for name, text in write.items():
        (folder / name).write_text(text)
    nginx = ["nginx", "-p", str(folder), "-c"]
    inside = ("--inside", f"{BEFORE}.1/24", "--outside", f"b1={AFTER}.1/24")
    after_the_chain = ("-i", "b0", "--forward", "benchend0")
    cached = sluice("endpoint", "benchend", *inside, "--local", f"{BEFORE}.100/32", "--run",
                    shlex.join([*nginx, str(folder / "cache")]))  # fmt: skip
    routed = f"splice:address={BEFORE}.100,servers={AFTER}.2,routes={folder}/static"
    box = f"http://{BEFORE}.100"
    return [
        Case("forwarding", f"http://{SERVERS[0]}{page}", [sluice("run", stack, *between, "-f", "none")]),
        Case("layer 4, balance", f"http://{SERVICE}{page}",
             [sluice("run", stack, *between, "-f", f"balance:address={SERVICE},servers={servers}")]),
        Case("layer 7, splice", f"http://{SERVICE}{page}",
             [sluice("run", stack, *between, "-f", f"splice:address={SERVICE},servers={servers}")]),
        Case("layer 7, all from the cache", f"{box}/static/page",
             [cached, sluice("run", stack, *after_the_chain, "-f", routed)], routed=True),
        Case("layer 7, half from the cache", f"{box}/static/page",
             [cached, sluice("run", stack, *after_the_chain, "-f", routed)], routed=True, script=str(folder / "half")),
        Case("byte stream proxy", f"http://{BEFORE}.1{page}",
             [sluice("proxy", "benchend", *inside, "--port", "80", "--server", f"{AFTER}.2:80"),
              sluice("run", stack, *after_the_chain, "-f", "none")], routed=True),
        Case("HAProxy, http", f"http://{SERVICE}{page}", [["haproxy", "-db", "-f", str(folder / "haproxy-http")]],
             addresses=True),
        Case("HAProxy, tcp", f"http://{SERVICE}{page}", [["haproxy", "-db", "-f", str(folder / "haproxy-tcp")]],
             addresses=True),
        Case("nginx, http", f"http://{SERVICE}{page}", [[*nginx, str(folder / "nginx-proxy")]], addresses=True),
    ]  # fmt: skip


def network(wire: Wire, case: Case) -> None:
    """Addresses and routes for a case."""
    server = [f"{AFTER}.2/24"] if case.routed else [f"{each}/24" for each in SERVERS]
    if not case.routed and not case.addresses:
        server.append(f"{SERVICE}/24")
    client = f"{BEFORE}.2/24" if case.routed else "10.79.1.1/24" if case.addresses else "10.79.0.3/24"
    for each in server:
        ip("-n", wire.server, "addr", "add", each, "dev", "s0")
    ip("-n", wire.client, "addr", "add", client, "dev", "c0")
    if case.routed:
        ip("-n", wire.client, "route", "add", "default", "via", f"{BEFORE}.1")
        ip("-n", wire.server, "route", "add", "default", "via", f"{AFTER}.1")
    if case.addresses:
        ip("-n", wire.client, "addr", "flush", "dev", "c0")
        ip("-n", wire.client, "addr", "add", "10.80.0.3/24", "dev", "c0")
        ip("-n", wire.client, "route", "add", f"{SERVICE}/32", "dev", "c0")
        ip("-n", wire.box, "addr", "add", f"{SERVICE}/32", "dev", "b0")
        ip("-n", wire.box, "route", "add", "10.80.0.0/24", "dev", "b0", "src", SERVICE)
        ip("-n", wire.box, "addr", "add", "10.79.0.1/24", "dev", "b1")


def processes(space: str) -> set[str]:
    """The processes of a network namespace."""
    return set(subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True).stdout.split())


def cpu_seconds(wire: Wire) -> float:
    """What the processes in the box have used."""
    total = 0
    for pid in processes(wire.box) | processes("benchend"):
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(words[11]) + int(words[12])
    return total / TICK


def load(wire: Wire, case: Case, seconds: float, connections: int) -> str:
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-H", "Connection: close"]
    words += [*(["-s", case.script] if case.script else []), case.url]
    with wire.start(wire.client, words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        return running.communicate()[0]


def measure(case: Case, folder: Path, seconds: float, connections: int) -> str:
    """A row of the table."""
    with Wire("bench") as wire:
        network(wire, case)
        nginx = wire.start(wire.server, ["nginx", "-p", str(folder), "-c", str(folder / "web")])
        running = []
        try:
            for words in case.commands:
                running.append(
                    wire.start(
                        wire.box, words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                        env={**os.environ, "PYTHONPATH": str(ROOT)},
                    )
                )  # fmt: skip
                if "endpoint" in words or "proxy" in words:
                    running[-1].stdout.readline()
            for _ in range(600):  # compiles first
                check = ["curl", "-sf", "--noproxy", "*", "-o", "/dev/null", "--max-time", "1", case.url]
                with wire.start(wire.client, check) as done:
                    if done.wait() == 0:
                        break
                time.sleep(0.1)
            load(wire, case, 1, connections)
            before = cpu_seconds(wire)
            text = load(wire, case, seconds, connections)
            used = cpu_seconds(wire) - before
        finally:
            for each in reversed(running):
                each.terminate()
                each.communicate()
            nginx.terminate()
            nginx.wait()
    count = int((re.search(r"(\d+) requests in", text) or [0, "0"])[1])
    rate = float((re.search(r"Requests/sec:\s+([\d.]+)", text) or [0, "0"])[1])
    latency = (re.search(r"50%\s+(\S+)", text) or [0, "?"])[1]
    wrong = re.search(r"(Socket errors.*|Non-2xx.*)", text)
    row = f"| {case.name} | {rate:,.0f} | {latency} | {used / max(count, 1) * 1e6:,.0f} |"
    return f"{row} {wrong[1]}" if wrong else row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    missing = why_no_wire() or next((f"there is no {name}" for name in ("wrk", "nginx") if not shutil.which(name)), "")
    if missing:
        print(f"ends.py: {missing}", file=sys.stderr)
        return 1
    print("| balancer | requests/s | median latency | µs of CPU per request in the box |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for site in (folder / "site", folder / "site" / "static"):
            site.mkdir()
            (site / "page").write_bytes(b"x" * options.bytes)
        (folder / "web").write_text(WEB.format(folder=folder, name="web", http="", server=f"root {folder}/site;"))
        for case in cases(folder):
            if options.only and not any(each in case.name for each in options.only.split(",")):
                continue
            if shutil.which(case.commands[0][0]) is None:
                continue
            print(measure(case, folder, options.seconds, options.connections), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
