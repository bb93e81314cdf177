"""Many connections one after the other: whether a service grows.

    .venv/bin/python bench/connections.py [--connections 10000000] [--step 500000]

Clients connect to `http_failover`, send a request, read the answer of one of two web servers of nginx, and close.
After each step it prints the service's memory, descriptors, threads and instances in use, with none of which it may
grow; at the end the counters. wrk makes the connections.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.services import ORIGIN, running, wait_for  # noqa: E402  after the path
from sluice.service.bounds import Limits  # noqa: E402
from sluice.service.build import build_program  # noqa: E402
from sluice.service.load import load_file  # noqa: E402
from sluice.service.lower.program import lower  # noqa: E402
from sluice.service.serve import Backend, command_of, wire  # noqa: E402


def memory(pid: int) -> str:
    """What a process has in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = int(re.findall(r"VmRSS:\s+(\d+)", status)[0])
    threads = re.findall(r"Threads:\s+(\d+)", status)[0]
    return f"{resident:,} KiB resident, {len(list(Path(f'/proc/{pid}/fd').iterdir()))} descriptors, {threads} threads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000_000)
    parser.add_argument("--step", type=int, default=500_000)
    options = parser.parse_args()
    service = load_file("http_failover")
    process = service.process()
    backends = [Backend("127.0.0.1", port) for port in (18081, 18082)]
    wiring = wire(process, ("", ("127.0.0.1", 0)), [("", backends)])
    program = build_program(process.name, lower(service, process).source)
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
        folder = Path(made)
        (folder / "origin.conf").write_text(ORIGIN.format(folder=folder, body="x" * 137))
        stack.enter_context(running(["nginx", "-c", str(folder / "origin.conf")], "0-1023", 18081))
        served = subprocess.Popen(command_of(program, (wiring, Limits())), stdout=subprocess.PIPE, text=True)
        stack.callback(served.kill)
        assert served.stdout is not None
        port = int(served.stdout.readline().split()[-1])
        wait_for(port)
        done, begin = 0, time.monotonic()
        print(f"{done:>12,} connections: {memory(served.pid)}", flush=True)
        while done < options.connections:
            done += step(f"http://127.0.0.1:{port}/", min(options.step, options.connections - done))
            rate = done / (time.monotonic() - begin)
            print(f"{done:>12,} connections: {memory(served.pid)}; {rate:,.0f} a second", flush=True)
        served.send_signal(signal.SIGTERM)
        for line in served.stdout:
            if line.startswith("["):
                print({name: value for name, value in json.loads(line)[0].items() if value})


def step(url: str, count: int) -> int:
    """So many connections, or a few more; their number."""
    done = 0
    while done < count:
        command = ["wrk", "-t1", "-c64", "-d10s", "-H", "Connection: close", url]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in out or "Socket errors" in out:
            print(out, file=sys.stderr)
        done += int(re.findall(r"(\d+) requests in", out)[0])
    return done


if __name__ == "__main__":
    main()
