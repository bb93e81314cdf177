"""What `sluice isolate` measures and costs by itself (thesis, 2.3.2), and what a service beside a flood notices of it.

    .venv/bin/python bench/isolate_single.py limits|throughput|costs|overhead|restore|victim [...] [--seconds N]
                             [--rounds N] [--busy] [--docs] [--json FILE] [--svg FOLDER]

limits      three containers with 30% of a CPU each, one computes and two send, or receive: what all cost (figure 2.14)
throughput  a receiver with a whole CPU, and with a limit of what it needed: packets/s that it processes
costs       CPU time of a received packet: UDP, TCP, a tunnel (table 2.15)
overhead    CPU time of the programs per received packet, by the kernel's own statistics
restore     milliseconds from the controller's end by SIGKILL in a flood until the ordinary limit is back
victim      a server (redis) whose requests need most of its quarter of a CPU, beside a flooded container: latency of
            the requests, by mode

Without a name, all of them. --docs writes them into docs/isolate.md. Figures are of one machine and its load: medians
of the rounds, with least and greatest.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import isolate_manual
from bench.isolate import CPU, OTHER_CPU, enforcing, interrupt_cost, prepare
from bench.isolate_plot import picture
from sluice.isolate.accounting import Counters
from sluice.isolate.cgroups import find_hierarchy
from sluice.isolate.enforcer import Enforcer
from sluice.isolate.session import Session
from tests.isolate.lab import Lab

PORT = "5000"
RATE = 30_000
"""Packets per second of a receiver that does not need a whole CPU."""
REQUESTS = 200
"""Requests per second to the server."""
ELEMENTS = 10_000
"""Of the list that a request sorts: a request must cost the server much more than its packets, and all requests nearly
what its limit allows, so that it has none to spare for packets of others.
"""
REQUEST = b"*5\r\n$4\r\nSORT\r\n$1\r\nk\r\n$5\r\nLIMIT\r\n$1\r\n0\r\n$1\r\n1\r\n"
Values = dict[str, list[float]]


def limits(options: argparse.Namespace, interrupt_ns: int) -> Values:
    """Percent of a CPU that all three containers cost, for each second."""
    found: Values = {}
    for name, receives in (("UDP senders", False), ("UDP receivers", True)):
        with Lab(find_hierarchy()) as lab, tempfile.TemporaryDirectory() as state:
            lab.prefer()
            lab.burn(lab.limited("v", 30), cpu=CPU)
            for number in range(2):
                namespace, address = lab.namespace(cpu=CPU)
                inside = lab.limited(f"i{number}", 30)
                port = str(5000 + number)
                if receives:
                    lab.start("receive", port, cgroup=inside, namespace=namespace, cpu=CPU)
                    lab.start("send", address, port, "0", "1400", "0", cgroup=lab.cgroup("outside"), cpu=OTHER_CPU)
                else:
                    to = lab.host_address(namespace)
                    lab.start("send", to, port, "0", "1400", "0", cgroup=inside, namespace=namespace, cpu=CPU)
            with Enforcer([lab.pattern], interrupt_ns=interrupt_ns, state_folder=Path(state) / "s") as enforcer:
                enforcer.wait(2)
                enforcer.sample()
                values = found[name] = []
                for _ in range(options.seconds):
                    enforcer.wait(1)
                    sample = enforcer.sample().sample
                    cost = sum(one.counters.charged for one in sample.containers if "outside" not in one.container.name)
                    values.append(cost / 1e7 / sample.seconds)
    return found


def throughput(options: argparse.Namespace, interrupt_ns: int) -> Values:
    """Packets per second: with a whole CPU without us, and with its own share and us."""
    found: Values = {"a whole CPU, without us": [], "its own share, with us": [], "that share in percent": []}
    for _ in range(options.rounds):
        with Lab(find_hierarchy()) as lab, tempfile.TemporaryDirectory() as state:
            lab.prefer()
            cgroup = lab.limited("i", 100)
            namespace, address = lab.namespace(cpu=CPU)
            lab.start("receive", PORT, cgroup=cgroup, namespace=namespace, cpu=CPU)
            lab.start("send", address, PORT, str(RATE), "1400", "0", cgroup=lab.cgroup("outside"), cpu=OTHER_CPU)
            with Session([lab.pattern], interrupt_ns=interrupt_ns) as session:
                cost, rate = measured(session, options.seconds)
            share = max(1, round(cost.charged / 1e7 / options.seconds + 0.5))
            lab.limited("i", share)
            with Enforcer([lab.pattern], interrupt_ns=interrupt_ns, state_folder=Path(state) / "s") as enforcer:
                enforcer.wait(2)
                enforcer.sample()
                enforcer.wait(options.seconds)
                sample = enforcer.sample().sample
                now = next(one.counters for one in sample.containers if one.container.name.endswith("/i"))
            for name, value in zip(found, (rate, now.received / sample.seconds, share), strict=True):
                found[name].append(value)
    return found


def measured(session: Session, seconds: float) -> tuple[Counters, float]:
    """What the receiver `i` cost in some seconds, and its packets per second."""
    session.wait(1)
    session.sample()
    session.wait(seconds)
    sample = session.sample()
    one = next(usage.counters for usage in sample.containers if usage.container.name.endswith("/i"))
    return one, one.received / sample.seconds


@contextlib.contextmanager
def receiver(lab: Lab, kind: str) -> Generator[str]:
    """A container `i` that receives; its namespace."""
    lab.prefer()
    namespace, address = lab.namespace(cpu=CPU)
    if kind == "tunnel":
        address = lab.tunnel(namespace)
    command = "sink" if kind == "TCP" else "receive"
    lab.start(command, PORT, cgroup=lab.cgroup("i"), namespace=namespace, cpu=CPU)
    time.sleep(0.3)
    rest = ("stream", address, PORT, "1") if kind == "TCP" else ("send", address, PORT, str(RATE), "1400", "0")
    lab.start(*rest, cgroup=lab.cgroup("outside"), cpu=OTHER_CPU)
    time.sleep(0.3)
    yield namespace


def received(namespace: str) -> int:
    """Packets that the namespace's link has received."""
    show = ["ip", "-n", namespace, "-s", "-j", "link", "show", "link0"]
    return json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)[0]["stats64"]["rx"][
        "packets"
    ]


def costs(options: argparse.Namespace, interrupt_ns: int) -> Values:
    """Microseconds of CPU time per packet that the link received."""
    found: Values = {"UDP": [], "TCP": [], "tunnel": []}
    for _ in range(options.rounds):
        for kind, values in found.items():
            with Lab(find_hierarchy()) as lab, receiver(lab, kind) as namespace:
                with Session([lab.pattern], interrupt_ns=interrupt_ns) as session:
                    session.wait(1)
                    session.sample()
                    begin = received(namespace)
                    session.wait(options.seconds)
                    sample, packets = session.sample(), received(namespace) - begin
                one = next(usage.counters for usage in sample.containers if usage.container.name.endswith("/i"))
                values.append(one.network / 1e3 / max(1, packets))
    return found


def overhead(options: argparse.Namespace, interrupt_ns: int) -> Values:
    """Nanoseconds of all programs per received packet, and the part of its cost that this is, in percent."""
    found: Values = {"ns per packet": [], "percent of the packet's cost": []}
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        for _ in range(options.rounds):
            with Lab(find_hierarchy()) as lab, receiver(lab, "UDP") as namespace:
                with Session([lab.pattern], interrupt_ns=interrupt_ns) as session:
                    session.wait(1)
                    session.sample()
                    begin, packets = program_time(), received(namespace)
                    session.wait(options.seconds)
                    sample = session.sample()
                    ns, packets = program_time() - begin, max(1, received(namespace) - packets)
                one = next(usage.counters for usage in sample.containers if usage.container.name.endswith("/i"))
                found["ns per packet"].append(ns / packets)
                found["percent of the packet's cost"].append(100 * ns / max(1, one.network))
    finally:
        switch.write_text(before)
    return found


def program_time() -> int:
    """Nanoseconds that the programs of this process have run, by their descriptors."""
    total: dict[str, int] = {}
    for info in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            lines = dict(line.split(":\t", 1) for line in info.read_text().splitlines() if ":\t" in line)
            if "run_time_ns" in lines:
                total[lines["prog_id"]] = int(lines["run_time_ns"])
    return sum(total.values())


def restored(options: argparse.Namespace, interrupt_ns: int) -> Values:
    """Milliseconds until the ordinary limit is back; a tick has 20."""
    found: Values = {"ms after SIGKILL": []}
    for _ in range(options.rounds):
        with Lab(find_hierarchy()) as lab, tempfile.TemporaryDirectory() as state:
            namespace, address = lab.namespace(cpu=CPU)
            cgroup = lab.limited("i", 10)
            quota = cgroup / ("cpu.cfs_period_us" if lab.hierarchy.is_v1 else "cpu.max")
            ordinary = quota.read_text()
            lab.start("receive", PORT, cgroup=cgroup, namespace=namespace, cpu=CPU)
            lab.start("send", address, PORT, "0", "1400", "0", cgroup=lab.cgroup("outside"), cpu=OTHER_CPU)
            command = [
                sys.executable,
                "-m",
                "sluice",
                "isolate",
                "run",
                "--cgroup",
                lab.pattern,
                "--state",
                f"{state}/s",
            ]
            command += ["--interrupt-ns", str(interrupt_ns)]
            quiet = subprocess.DEVNULL
            with subprocess.Popen(command, stdout=quiet) as process:
                wait_for(lambda quota=quota, ordinary=ordinary: quota.read_text() != ordinary)
                time.sleep(1)
                begin = time.monotonic()
                process.send_signal(signal.SIGKILL)
                wait_for(lambda quota=quota, ordinary=ordinary: quota.read_text() == ordinary)
                found["ms after SIGKILL"].append(1000 * (time.monotonic() - begin))
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    """Within a minute."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{sys.argv[0]}: what was waited for did not happen within a minute")
        time.sleep(0.0002)


def victim(options: argparse.Namespace, interrupt_ns: int) -> Values:
    """Latency of requests to a server in milliseconds: the 99th percentile of each round, and the median of all."""
    if shutil.which("redis-server") is None:
        print("victim: there is no redis-server; skipped")
        return {}
    found: Values = {}
    for mode in ("alone", "none", "charging", "dropping", "xdp", "threads+charging"):
        for _ in range(options.rounds):
            with Lab(find_hierarchy()) as lab, tempfile.TemporaryDirectory() as state:
                middle, worst = _served(lab, mode, options.seconds, interrupt_ns, Path(state) / "s")
            found.setdefault(f"{mode}: median", []).append(middle)
            found.setdefault(f"{mode}: p99", []).append(worst)
    return found


def _served(lab: Lab, mode: str, seconds: int, interrupt_ns: int, state: Path) -> tuple[float, float]:
    lab.prefer()
    (own, server), (flooded, address) = lab.namespace(cpu=CPU), lab.namespace(cpu=CPU)
    settings = [
        "--bind",
        server,
        "--protected-mode",
        "no",
        "--save",
        "",
        "--dir",
        str(lab.folder),
        "--logfile",
        "r.log",
    ]
    lab.start_program(["redis-server", *settings], cgroup=lab.limited("v", 25), namespace=own, cpu=CPU)
    lab.start("receive", PORT, cgroup=lab.limited("i", 40), namespace=flooded, cpu=CPU)
    wait_for(lambda: answers(server))
    if mode != "alone":
        lab.start("send", address, PORT, "200000", "1400", "0", cgroup=lab.cgroup("outside"), cpu=OTHER_CPU)
    chosen = "none" if mode == "alone" else mode
    with enforcing(chosen, lab.pattern, interrupt_ns, state) as wait:
        wait(1)
        lab.start_program(
            [sys.executable, __file__, "--client", server, str(seconds)], cgroup=lab.cgroup("client"), cpu=OTHER_CPU,
            output=lab.folder / "latencies",
        )  # fmt: skip
        for _ in range(100 * (seconds + 20)):
            wait(0.05)
            if (lab.folder / "latencies").read_text().endswith("\n"):
                break
    times = sorted(json.loads((lab.folder / "latencies").read_text()))
    return 1000 * times[len(times) // 2], 1000 * times[len(times) * 99 // 100]


def answers(server: str) -> bool:
    """Whether the server is there."""
    with contextlib.suppress(OSError), socket.create_connection((server, 6379), 1):
        return True
    return False


def client(server: str, seconds: int) -> None:
    """Send requests at a fixed rate, and print how long each took from the time at which it was due."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    times: list[float] = []
    with socket.create_connection((server, 6379)) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        values = [str(7919 * number % ELEMENTS).encode() for number in range(ELEMENTS)]
        words = [b"RPUSH", b"k", *values]
        end.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        end.recv(4096)
        due = time.monotonic()
        for _ in range(REQUESTS * seconds):
            time.sleep(max(0.0, due - time.monotonic()))
            end.sendall(REQUEST)
            end.recv(4096)
            times.append(time.monotonic() - due)
            due += 1 / REQUESTS
    print(json.dumps(times))


PARTS: dict[str, tuple[Callable[[argparse.Namespace, int], Values], str]] = {
    "limits": (limits, "2.14: percent of a CPU that containers with 90% cost"),
    "throughput": (throughput, "Packets/s of a receiver"),
    "costs": (costs, "2.15: us of CPU time per packet"),
    "overhead": (overhead, "Cost of the programs"),
    "restore": (restored, "Restoration of the limit"),
    "victim": (victim, "Latency of redis in ms"),
}


def main() -> None:
    if sys.argv[1:2] == ["--client"]:
        client(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement (default 10)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="begin though the machine has other work, which will wait")
    parser.add_argument("--docs", action="store_true", help="write the medians into docs/isolate.md")
    parser.add_argument("--json", type=Path, help="write all values to this file")
    parser.add_argument("--svg", type=Path, metavar="FOLDER", help="write pictures there")
    options = parser.parse_args()
    prepare(options.busy)
    interrupt_ns = interrupt_cost()
    print(f"an interrupt has {interrupt_ns / 1000:.1f} us that no probe sees")
    results: dict[str, Values] = {}
    titled: dict[str, tuple[str, Values]] = {}
    for name in options.parts or PARTS:
        measure, title = PARTS[name]
        values = results[name] = measure(options, interrupt_ns)
        titled[name] = (title, values)
        print(f"\n{title}\n")
        for row, one in values.items():
            print(f"| {row} | {isolate_manual.cell(one)} |", flush=True)
        if options.svg and values:
            path = options.svg / f"isolate-{name}.svg"
            path.write_text(picture(title, [("", list(values.items()))], 90.0 if name == "limits" else None))
            print(f"\nwrote {path}")
    if options.docs:
        command = isolate_manual.machine("bench/isolate_single.py " + " ".join(sys.argv[1:]))
        isolate_manual.write("single", f"{command}\n\n{isolate_manual.singles(titled)}")
    if options.json:
        options.json.write_text(json.dumps({"interrupt_ns": interrupt_ns, **results}, indent=1))


if __name__ == "__main__":
    main()
