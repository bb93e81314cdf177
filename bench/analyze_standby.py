"""A hot standby of a real program, and what its instrumentation costs: figure 4.15 of the thesis, and section 4.6.2.

    python bench/analyze_standby.py [--folder DIR] [--packets N] [--stop N]

The program is p0f from Debian's sources, which keeps hosts and flows as PRADS does, and reads captures in one thread.
It is fetched, recorded and instrumented as by `sluice analyze`. It draws a seed for its hashes when it starts, which no
packet changes; here it reads zeros, as both instances need the same. The primary processes a capture up to a packet and
exports its state after each; the standby takes over, and processes the rest. The logs of both have to equal the log of
one instance. Instructions are counted by callgrind, if valgrind is there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import analyze as subjects

from sluice.analyze.state.instrument import instrument, link
from sluice.analyze.state.serialise import serialise
from sluice.analyze.toolchain import CLANG

MODELS = ("all", "flow", "changed", "difference")
LIBRARIES = ["-lpcap", "-lm"]
SUBJECT = subjects.Subject("p0f", "p0f", "sed -i s,/dev/urandom,/dev/zero, p0f.c && ./build.sh", ("libpcap-dev",))
OPTIONS = bytes([2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0, 1, 3, 3, 7])
REQUEST = b"GET / HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: bench/%d\r\nAccept: */*\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nServer: Apache\r\nContent-Length: 0\r\n\r\n"
CALLBACK = """
#include "sluice_state.h"
static unsigned long changes;
static void count(void *context, const struct sluice_packet *packet) {
  (void)context;
  for (uint64_t i = 0; i < packet->variables; i++) changes += packet->changed[i];
}
__attribute__((constructor)) static void begin(void) { sluice_state_on_packet(count, NULL); }
"""
"""A consumer that does nothing but count."""


@dataclass
class Connection:
    """A connection of HTTP; `packets` are what is still to be sent."""

    client: int
    server: int
    port: int
    packets: list[bytes] = field(default_factory=list[bytes])


def _packet(one: Connection, forward: bool, flags: int, seq: int, ack: int, options: bytes, data: bytes) -> bytes:
    ends = (one.client, one.server) if forward else (one.server, one.client)
    ports = (one.port, 80) if forward else (80, one.port)
    tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 80 + 4 * len(options), flags, 29200, 0, 0) + options + data
    ip = struct.pack(">BBHHHBBHII", 69, 0, 20 + len(tcp), seq & 0xFFFF, 0x4000, 60, 6, 0, *ends)
    return bytes(12) + b"\x08\x00" + ip + tcp


def connection(draw: random.Random, clients: int) -> Connection:
    """Handshake, one request and its response, and the end."""
    host = draw.randrange(clients)
    one = Connection(0x0A000000 + host, 0xC0A80000 + draw.randrange(20), draw.randrange(1024, 65536))
    request = REQUEST % (host % 7)
    end, back = 1001 + len(request), 5001 + len(RESPONSE)
    for forward, flags, seq, ack, options, data in (
        (True, 2, 1000, 0, OPTIONS, b""),
        (False, 18, 5000, 1001, OPTIONS, b""),
        (True, 16, 1001, 5001, b"", b""),
        (True, 24, 1001, 5001, b"", request),
        (False, 24, 5001, end, b"", RESPONSE),
        (True, 17, end, back, b"", b""),
        (False, 17, back, end + 1, b"", b""),
    ):
        one.packets.append(
            _packet(one, forward, flags, seq, ack, options.ljust(-(-len(options) // 4) * 4, b"\0"), data)
        )
    return one


def write_capture(path: Path, packets: int) -> list[bytes]:
    """A capture of connections that overlap, between 200 clients and 20 servers."""
    draw = random.Random(415)
    active: list[Connection] = []
    found: list[bytes] = []
    while len(found) < packets:
        if len(active) < 50:
            active.append(connection(draw, 200))
            continue
        one = draw.choice(active)
        found.append(one.packets.pop(0))
        if not one.packets:
            active.remove(one)
    write_packets(path, found, 0)
    return found


def write_packets(path: Path, packets: list[bytes], first: int) -> None:
    """Packets of a capture whose first one has the number `first`: 1,000 in a second."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in enumerate(packets, first):
            file.write(struct.pack("<IIII", 1_700_000_000 + number // 1000, number % 1000 * 1000, *[len(packet)] * 2))
            file.write(packet)


def run(program: Path, capture: Path, folder: Path, **environment: str) -> str:
    """The log that p0f writes for a capture."""
    log = folder / "p0f.log"
    log.unlink(missing_ok=True)
    command = [program, "-f", folder / "p0f.fp", "-r", capture, "-o", log]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        raise SystemExit(
            f"{program.name} ended with status {done.returncode}: {done.stderr[-500:]}{done.stdout[-500:]}"
        )
    return log.read_text(encoding="utf-8")


def instructions(program: Path, capture: Path, folder: Path) -> int:
    """That a run executes, by callgrind."""
    log = folder / "counted.log"
    log.unlink(missing_ok=True)
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program)]
    command += ["-f", str(folder / "p0f.fp"), "-r", str(capture), "-o", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])  # type: ignore[index]


def sizes(place: Path) -> list[int]:
    """Bytes of each export of a file."""
    data, found, at = place.read_bytes(), list[int](), 0
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(length)
        at += 8 + length
    return found


def cost(folder: Path, module: Path, marked: Path, packets: list[bytes], without: Path) -> None:
    """What marks cost, in instructions for each packet, without those of starting."""
    stripped = [*LIBRARIES, "-s"]  # valgrind does not read the debug info of clang 19
    (folder / "count.c").write_text(CALLBACK, encoding="utf-8")
    none, capture = folder / "none.pcap", folder / "cost.pcap"
    write_packets(none, [], 0)
    write_packets(capture, packets[:20000], 0)
    subprocess.run([CLANG, "-O2", "-w", "-o", folder / "plain", module, *stripped], check=True)
    link(marked, folder / "marked", stripped)
    link(without, folder / "unpruned", stripped)
    link(marked, folder / "consumed", [str(folder / "count.c"), *stripped])
    found: dict[str, float] = {}
    for name in ("plain", "marked", "unpruned", "consumed"):
        counted = [instructions(folder / name, one, folder) for one in (capture, none)]
        found[name] = (counted[0] - counted[1]) / min(len(packets), 20000)
    for name, each in found.items():
        print(f"{name:<10} {each:>9.0f} instructions a packet {100 * (each / found['plain'] - 1):>+7.1f} %")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/analyze"), help="for sources, modules and logs")
    parser.add_argument("--packets", type=int, default=4000)
    parser.add_argument("--stop", type=int, default=2000, help="the packet after which the standby takes over")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    folder /= "standby"
    folder.mkdir(exist_ok=True)
    module = subjects.module_of(SUBJECT, folder)
    shutil.copy(folder / "p0f" / "p0f.fp", folder)
    capture, rest, code = folder / "whole.pcap", folder / "rest.pcap", folder / "state.c"
    packets = write_capture(capture, options.packets)
    write_packets(rest, packets[options.stop :], options.stop)
    marked, program = folder / "marked.bc", folder / "standby"
    done = instrument(str(module), marked)
    print(f"{done.updates} places that update, {done.pruned} of them pruned, {len(done.variables)} variables")
    code.write_text(serialise(str(module)).text, encoding="utf-8")
    link(marked, program, [str(code), *LIBRARIES])
    whole = run(program, capture, folder)
    for model in MODELS:
        place, summary = folder / "exports", folder / "summary.json"
        environment = {"SLUICE_STATE_MODEL": model, "SLUICE_STATE_STOP": str(options.stop)}
        first = run(
            program, capture, folder, SLUICE_STATE_TO=str(place), SLUICE_STATE_SUMMARY=str(summary), **environment
        )
        second = run(program, rest, folder, SLUICE_STATE_FROM=str(place))
        exported, total = sizes(place)[1:], json.loads(summary.read_text())
        same = "logs equal" if first + second == whole else "LOGS DIFFER"
        print(
            f"{model:<10} {sum(exported) / len(exported):>10.0f} bytes a packet, at most {max(exported)}; {same};"
            f" {total['outside_flow']} entries of other flows, {total['by_hand']} pointers by hand"
        )
    alone = run(program, rest, folder)
    print(f"without state, the logs {'would be equal' if first + alone == whole else 'differ'}")
    if shutil.which("valgrind"):
        without = folder / "unpruned.bc"
        instrument(str(module), without, pruning=False)
        cost(folder, module, marked, packets, without)
    return 0


if __name__ == "__main__":
    sys.exit(main())
