"""What programs for mOS cost beside the same functions written for Sluice: `.venv/bin/python bench/mos.py [FILE]`.

A monitor of connections (examples/mos/midstat.c, 15 functions, no buffers) and a searcher of payload run over a
capture, each in turn with the function that does the same (bench/mos/). Prints CPU time a packet, of the whole process
less what it takes for an empty capture, so that reading the file counts in both, and the median of the ratios within
turns. --instructions: in their place the instructions that valgrind counts, whatever else the machine does.
--contexts N: each program with one and with N contexts, too, by the clock, which needs N idle cores. Without FILE a
capture is made: 100,000 segments of 1,000 bytes in 1,000 connections, every other one acknowledged, a microsecond
apart (for --contexts ten times as many, of 1,000 clients); with --files one of 10,000 connections of ten packets, each
a request and a response of 1 KB, of which 100 are open at once.
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
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from sluice.cli.main import main as sluice
from sluice.engine.compiler import compiler
from tests.support.capture import pcap
from tests.support.connection import goodbye, handshake, pair

ROOT = Path(__file__).absolute().parent.parent
HERE = Path(__file__).with_name("mos")
PAIRS = {
    "connection monitor": (ROOT / "examples" / "mos" / "midstat.c", HERE / "monitor.c"),
    "payload searcher": (HERE / "search_mos.c", HERE / "search.c"),
}

PORTABLE: list[str] = []
"""Options of make for a processor that valgrind emulates."""


def capture(path: Path, segments: int = 100, clients: int = 1) -> None:
    """1,000 connections of `clients` that take turns, of so many segments each. No timeout passes."""
    hosts = [pair(port=1024 + number) for number in range(1000)]
    for number, (client, _) in enumerate(hosts):
        client.address = (int.from_bytes(client.address) + number % clients).to_bytes(4)
    packets = [packet for client, server in hosts for packet in handshake(client, server)]
    for number in range(segments):
        packets += [client.send("A", b"x" * 1000) for client, _ in hosts]
        packets += [server.send("A") for _, server in hosts if number % 2]
    path.write_bytes(pcap(packets, [1000 + at / 1e6 for at in range(len(packets))]))


def files(path: Path) -> None:
    """Connections that each fetch a file of 1 KB, 100 at once."""
    request, response = b"GET / HTTP/1.1\r\n\r\n".ljust(100), b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1024
    packets: list[bytes] = []
    for first in range(0, 10000, 100):
        hosts = [pair(port=1024 + first + number) for number in range(100)]
        talks = [
            [*handshake(c, s), c.data(request), s.send("A"), s.data(response), c.send("A"), *goodbye(c, s)]
            for c, s in hosts
        ]
        packets += [packet for turn in zip(*talks, strict=True) for packet in turn]
    path.write_bytes(pcap(packets, [1000 + at / 1e6 for at in range(len(packets))]))


def packets_of(path: Path) -> int:
    """How many packets a pcap file has."""
    data, at, count = path.read_bytes(), 24, 0
    while at < len(data):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        count += 1
    return count


def use_valgrind() -> None:
    """Make programs for it."""
    if not shutil.which("valgrind"):
        raise SystemExit("there is no valgrind, which counts instructions: install it")
    PORTABLE.append("CFLAGS=-O2 -march=x86-64-v3")  # valgrind knows no AVX-512


def build(words: list[str], made: Path) -> None:
    """Compile what a command writes into a folder."""
    assert sluice([*words, "-o", str(made)]) == 0
    subprocess.run(["make", "-s", "-C", str(made), f"CC={shlex.join(compiler())}", *PORTABLE], check=True)


def mos_command(source: Path, made: Path) -> list[str]:
    """A program over libsluice_mos in `made`, which reads SLUICE_MOS_READ."""
    binary, lib = made / source.stem, made / "lib"
    words = [*compiler(), "-O2", f"-I{made / 'include'}", str(source), f"-L{lib}", f"-Wl,-rpath,{lib}"]
    subprocess.run([*words, "-lsluice_mos", "-pthread", "-o", str(binary)], check=True)
    conf = made / "mos.conf"
    conf.write_text("mos {\n\tforward = 0\n\tnetdev {\n\t\tlo 1\n\t}\n}\n")
    return [str(binary), "-f", str(conf)]


def direct_command(source: Path, folder: Path) -> list[str]:
    """The program of `sluice build` with a function, but for the capture."""
    made = folder / source.stem
    build(["build", "tcp_ip", "-f", str(source)], made)
    return [str(made / "tcp_ip-run")]


def run(command: list[str], path: Path) -> tuple[float, float]:
    """Seconds of CPU, and by the clock, for a capture."""
    words = command if "-f" in command else [*command, str(path)]
    environment = {**os.environ, "SLUICE_MOS_READ": str(path)}
    began = time.monotonic()
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{shlex.join(words)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began


def instructions(command: list[str], path: Path) -> int:
    """Instructions of the whole process for a capture, as callgrind counts them."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    words += [] if "-f" in command else [str(path)]
    environment = {**os.environ, "SLUICE_MOS_READ": str(path)}
    done = subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not counted:
        raise SystemExit(f"{shlex.join(words)} ended with {done.returncode}: {done.stderr[-1000:]}")
    return int(counted[1])


def count(name: str, commands: list[list[str]], path: Path, empty: Path) -> None:
    """Print how many instructions both programs of a pair take."""
    packets = packets_of(path)
    mos, direct = ((instructions(c, path) - instructions(c, empty)) / packets for c in commands)
    print(f"{name}: mOS {mos:.0f} instructions a packet, Sluice {direct:.0f}, ratio {mos / direct:.2f}")


def compare(name: str, commands: list[list[str]], path: Path, empty: Path, rounds: int) -> None:
    """Print what both programs of a pair cost."""
    count = packets_of(path)
    costs: list[list[float]] = []
    for _ in range(rounds):
        costs.append([max(run(c, path)[0] - run(c, empty)[0], 1e-9) * 1e9 / count for c in commands])
    ratio = median(mos / direct for mos, direct in costs)
    mos, direct = (median(column) for column in zip(*costs, strict=True))
    print(f"{name}: mOS {mos:.0f} ns a packet, Sluice {direct:.0f}, ratio {ratio:.2f}")


def scale(name: str, command: list[str], paths: tuple[Path, Path], contexts: int, rounds: int) -> None:
    """Print how many times faster several contexts are, by the clock, less what an empty capture takes."""
    path, empty = paths
    words = [[*command, "-c", n] for n in ("1", str(contexts))]
    turns = [[run(c, path)[1] - run(c, empty)[1] for c in words] for _ in range(rounds)]
    print(f"{name}, {contexts} contexts: {median(one / several for one, several in turns):.2f} times one")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="a capture file (pcap)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--contexts", type=int, default=0)
    parser.add_argument("--instructions", action="store_true", help="count them by valgrind")
    parser.add_argument("--files", action="store_true", help="make connections of ten packets")
    options = parser.parse_args()
    if options.instructions:
        use_valgrind()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = Path(name)
        made, empty = folder / "mos", folder / "empty.pcap"
        path = options.file or folder / "trace.pcap"
        if not options.file:
            (files if options.files else capture)(path)
        empty.write_bytes(pcap([]))
        build(["mos"], made)
        for what, (mos, direct) in PAIRS.items():
            commands = [mos_command(mos, made), direct_command(direct, folder)]
            if options.instructions:
                count(what, commands, path, empty)
            else:
                compare(what, commands, path, empty, options.rounds)
        if options.contexts > 1:
            if not options.file and not options.files:
                capture(path, segments=1000, clients=1000)  # what is between two hosts has one context
            for what, (mos, _) in PAIRS.items():
                scale(what, mos_command(mos, made), (path, empty), options.contexts, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
