"""A box on a wire, as root: `.venv/bin/python bench/live.py receive|forward|soak [--seconds N] [--json]`.

receive: packets a second that a box receives while it tracks flows, beside a loop that receives and drops, on each back
end, under a load that is faster than both; and what was dropped. The load is made in a second network namespace, and
takes a core of its own, so with two cores the figures are those of one.

forward: what a box between two hosts adds to the time of a packet at half of the load that it forwards, beside two
hosts without a box: median and 99th percentile.

soak: a box with workers under mixed load at its limit: whether its memory grows, and its counters conserve.

dpdk: packets a second from a capture in memory (net_pcap, infinite_rx), beside those from the file.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from sluice.engine.box import Box, CompiledStack, RunError, Settings, compile_stack  # noqa: E402
from sluice.engine.functions import find_functions  # noqa: E402
from sluice.engine.inputs import Frame, InputError, Inputs, Source  # noqa: E402
from sluice.engine.workers import WorkerBoxes  # noqa: E402
from sluice.isolate.interfaces import entered  # noqa: E402
from tests.live.veth import Veth, why_not  # noqa: E402
from tests.live.wire import CLIENT, SERVER, Inline, Wire, ip  # noqa: E402
from tests.support.capture import pcap  # noqa: E402
from tests.support.packets import UDP, eth, ip4, udp  # noqa: E402
from tests.support.small_stacks import small_ip  # noqa: E402

BURST = 256
FLOWS = 1000
PATIENCE = 60.0
PORT = 9000
BACK_ENDS = {"af_packet": "af_packet:s0", "xdp": "xdp:s0", "dpdk": "dpdk:net_af_packet0,iface=s0"}
STACK = "from tests.support.small_stacks import small_ip\n\nstack = small_ip()\n"


def flows() -> list[bytes]:
    """A datagram of each flow."""
    return [eth(ip4(udp(1000 + n, 53, bytes(20)), UDP, bytes([10, 9, n >> 8, n & 255]))) for n in range(FLOWS)]


def library_of(stack: CompiledStack) -> Any:
    return ctypes.CDLL(str(stack.compiled.path))


@contextlib.contextmanager
def inside(space: str) -> Generator[None]:
    """Meanwhile, this thread uses a named network namespace."""
    handle = os.open(f"/run/netns/{space}", os.O_RDONLY)
    try:
        with entered(handle):
            yield
    finally:
        os.close(handle)


def load(space: str, interface: str, path: str, gap: float) -> None:
    """In a process: send the datagrams of all flows again and again, `gap` seconds after each 64, until it is ended."""
    library = ctypes.CDLL(path)
    with inside(space):
        out = Source.create_uri(library, f"af_packet:{interface}".encode())
    given = flows()
    held = [ctypes.create_string_buffer(frame, len(frame)) for frame in given]
    frames = (Frame * len(given))()
    for frame, data in zip(frames, held, strict=True):
        frame.at, frame.captured, frame.length = ctypes.cast(data, ctypes.c_char_p), len(data), len(data)
    while True:
        for first in range(0, len(given), 64):
            count = min(64, len(given) - first)
            at = ctypes.byref(frames, first * ctypes.sizeof(Frame))
            library.sl_source_send(out.handle, at, ctypes.c_uint32(count))
            if gap:
                time.sleep(gap)


class Load:
    """A process that sends while the context is active."""

    def __init__(self, space: str, interface: str, stack: CompiledStack, gap: float = 0) -> None:
        context = multiprocessing.get_context("spawn")
        given = (space, interface, str(stack.compiled.path), gap)
        self.process = context.Process(target=load, args=given, daemon=True)

    def __enter__(self) -> None:
        self.process.start()

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()


def dropped(library: Any, source: Source, seconds: float) -> int:
    """Packets that a loop receives and drops."""
    frames, found, end = (Frame * BURST)(), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        got = library.sl_source_receive(source.handle, frames, ctypes.c_uint32(BURST))
        found += max(got, 0)
        library.sl_source_release(source.handle)
        if not got:
            library.sl_source_wait(source.handle, ctypes.c_uint64(1_000_000))
    return found


def tracked(stack: CompiledStack, uri: str, seconds: float, workers: int) -> tuple[int, dict[str, int]]:
    """Packets of which a box tracks the flows; several workers receive them themselves."""
    bounds, dispatch = Settings(), "queues" if uri.startswith("xdp:") else "kernel"
    with (
        WorkerBoxes(stack, bounds, [], [{}], workers=workers, ordered=False, drops=True, dispatch=dispatch)
        if workers > 1
        else Box(stack, bounds, [], [{}])
    ) as box:
        begin: list[float] = []
        outcome = box.run(
            Inputs((uri,)),
            lambda *_: time.monotonic() - begin[0] > seconds,
            lambda: begin.append(time.monotonic()),
        )
    return outcome.packets, outcome.received


def receive(seconds: float) -> list[dict[str, Any]]:
    """A row for each back end that this machine has."""
    stack = compile_stack(small_ip(), tuple(find_functions(["assemble"]).c))
    library, rows = library_of(stack), list[dict[str, Any]]()
    for name, uri in BACK_ENDS.items():
        with Veth("benchrecv", 2 if name == "xdp" else 0) as wire, Load(wire.client, "c0", stack), inside(wire.server):
            try:
                source = Source.open(library, Inputs((uri,)))
            except InputError as error:
                rows.append({"back_end": name, "why_not": str(error)})
                continue
            end = time.monotonic() + PATIENCE
            while dropped(library, source, 0.1) < FLOWS and time.monotonic() < end:
                pass  # the load has not begun
            before = source.statistics()
            bare = dropped(library, source, seconds)
            lost = {name: value - before[name] for name, value in source.statistics().items()}
            source.close()
            for workers in (1,) if name == "dpdk" else (1, 2):
                got, received = tracked(stack, uri, seconds, workers)
                rows.append(
                    {
                        "back_end": name,
                        "workers": workers,
                        "packets_per_second": round(got / seconds),
                        "bare_packets_per_second": round(bare / seconds),
                        "times_bare": round(got / max(bare, 1), 3),
                        "dropped": received["dropped_kernel"] + received["dropped_interface"],
                        "bare_dropped": lost["dropped_kernel"] + lost["dropped_interface"],
                    }
                )
    return rows


def delays(sender: socket.socket, receiver: socket.socket, seconds: float, rate: float) -> list[float]:
    """Microseconds from each datagram's sending to its arrival, at a rate of datagrams a second."""
    found: list[float] = []
    ended = threading.Event()
    sender.send(bytes(8))
    receiver.settimeout(10)
    receiver.recv(64)  # addresses are resolved
    receiver.settimeout(0.2)

    def take() -> None:
        while not ended.is_set():
            try:
                data = receiver.recv(64)
            except TimeoutError:
                continue
            found.append((time.monotonic_ns() - struct.unpack("=Q", data[:8])[0]) / 1000)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    begin, sent = time.monotonic(), 0
    while (now := time.monotonic()) - begin < seconds:
        while sent < (now - begin) * rate:
            sender.send(struct.pack("=Q", time.monotonic_ns()))
            sent += 1
        time.sleep(0.0001)
    time.sleep(0.5)
    ended.set()
    thread.join()
    return found


def ends(wire: Any, client: str, server: str) -> tuple[socket.socket, socket.socket]:
    receiver = wire.socket(wire.server, socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((server, PORT))
    sender = wire.socket(wire.client, socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect((server, PORT))
    return sender, receiver


def summary_of(name: str, found: list[float]) -> dict[str, Any]:
    ordered = sorted(found)
    p99 = ordered[int(len(ordered) * 0.99)] if ordered else 0.0
    return {"path": name, "packets": len(found), "median_us": round(median(found or [0]), 1), "p99_us": round(p99, 1)}


def forward(seconds: float, rate: float) -> list[dict[str, Any]]:
    """Without a box, and with one by AF_PACKET or AF_XDP. rate: datagrams a second, half of what the box forwards."""
    with Veth("benchfwd") as plain:
        rows = [summary_of("no box", delays(*ends(plain, "10.78.0.1", "10.78.0.2"), seconds, rate))]
    for back_end, between in (("AF_PACKET", ("b0", "b1")), ("AF_XDP", ("xdp:b0", "xdp:b1"))):
        with Wire("benchfwd") as wire, tempfile.TemporaryDirectory() as folder:
            stack = Path(folder) / "stack.py"
            stack.write_text(STACK)
            with Inline(wire, Path(folder), "run", str(stack), "-f", "assemble", between=between) as running:
                rows.append(summary_of(f"a box by {back_end}", delays(*ends(wire, CLIENT, SERVER), seconds, rate)))
                running.stop()
        for what in ("median_us", "p99_us"):
            rows[-1][f"adds_{what}"] = round(rows[-1][what] - rows[0][what], 1)
    return rows


def memory_of(process: int) -> int:
    """Bytes of resident memory."""
    line = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def soak(seconds: float) -> list[dict[str, Any]]:
    """A box with two workers, a flood of datagrams beside connections of TCP that come and go."""
    with Wire("benchsoak") as wire, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stack.py").write_text(STACK)
        stack = compile_stack(small_ip(), tuple(find_functions(["assemble"]).c))
        ip("-n", wire.client, "addr", "add", "10.79.0.11/24", "dev", "c0")
        serving = [sys.executable, "-m", "http.server", "8080", "--bind", SERVER, "--directory", str(folder)]
        (folder / "page").write_bytes(os.urandom(100_000))
        fetching = f"while :; do curl -s --noproxy '*' --max-time 20 http://{SERVER}:8080/page -o /dev/null; done"
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        words = ("run", str(folder / "stack.py"), "-f", "assemble", "--workers", "2")
        with Inline(wire, folder, *words) as running:
            started = [wire.start(wire.server, serving, **quiet)]
            started.append(wire.start(wire.client, ["sh", "-c", fetching], **quiet))
            pids = subprocess.run(["ip", "netns", "pids", wire.box], capture_output=True, text=True).stdout.split()
            sizes: list[int] = []
            with Load(wire.client, "c0", stack):
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    time.sleep(min(1.0, seconds / 5))
                    sizes.append(memory_of(int(pids[0])))
            for process in started:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            outcome = running.stop()
    received = outcome["received"]
    lost = received["dropped_workers"] + received["not_forwarded"]
    settled = sizes[len(sizes) // 4 :]
    return [
        {
            "packets": outcome["packets"],
            "dispatch": outcome["dispatch"]["by"],
            "dropped_kernel": received["dropped_kernel"],
            "forwarded": received["forwarded"],
            "unexplained": outcome["packets"] - received["forwarded"] - lost,
            "memory_first_quarter": settled[0],
            "memory_end": settled[-1],
        }
    ]


def dpdk(seconds: float) -> list[dict[str, Any]]:
    """A capture in memory by DPDK, beside the same as a file."""
    stack = compile_stack(small_ip(), tuple(find_functions(["assemble"]).c))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flows.pcap"
        path.write_bytes(pcap(flows() * 200))
        with Box(stack, Settings(timeouts=False), [], [{}]) as box:
            offline = box.run(path)
        per_second = offline.packets / offline.seconds
        path.write_bytes(pcap(flows()))  # all packets need buffers
        uri = f"dpdk:net_pcap0,rx_pcap={path},infinite_rx=1"
        try:
            got, _ = tracked(stack, uri, seconds, 1)
        except RunError as error:
            sys.exit(f"live.py: {error}")
    return [
        {
            "packets_per_second": round(got / seconds),
            "offline_packets_per_second": round(per_second),
            "times_offline": round(got / seconds / per_second, 3),
        }
    ]


def main() -> None:
    """Measure, and print rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("receive", "forward", "soak", "dpdk"))
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement (soak: 600 for ten minutes)")
    parser.add_argument("--rate", type=float, default=20_000, help="of forward: datagrams a second")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if why := why_not():
        sys.exit(f"live.py: {why}")
    match options.what:
        case "receive":
            rows = receive(options.seconds)
        case "forward":
            rows = forward(options.seconds, options.rate)
        case "soak":
            rows = soak(options.seconds)
        case _:
            rows = dpdk(options.seconds)
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        shown = (f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in row.items())
        print(", ".join(shown))


if __name__ == "__main__":
    main()
