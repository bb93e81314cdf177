"""Hot standbys of real programs, and what their instrumentation costs: figure 4.15 of the thesis, and section 4.6.2.

    python bench/analyze_standby.py [--folder DIR] [--packets N] [--stop N] [NAME ...]

The programs are p0f and darkstat from Debian's sources, which keep hosts and flows as PRADS does, and read captures in
one thread. They are fetched, recorded and instrumented as by `sluice analyze`. p0f draws a seed for its hashes when it
starts, which no packet changes; here it reads zeros, as both instances need the same. darkstat reads the clock when it
starts, and writes that time for each host; here its clock stands still. The primary processes a capture
up to a packet and exports its state after each; the standby takes over, and processes the rest. What both put out (the
log of p0f, the database that darkstat writes at the end) has to equal the output of one instance. Instructions are
counted by callgrind, if valgrind is there.
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
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import analyze as subjects

from sluice.analyze.errors import AnalyzeError
from sluice.analyze.state.instrument import instrument, link
from sluice.analyze.state.serialise import serialise
from sluice.analyze.toolchain import CLANG

MODELS = ("all", "flow", "changed", "difference")
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


@dataclass(frozen=True)
class Rehearsal:
    """How a program reads a capture; `{folder}`, `{capture}` and `{output}` stand for paths."""

    subject: subjects.Subject
    arguments: tuple[str, ...]
    libraries: tuple[str, ...]


P0F = subjects.Subject("p0f", "p0f", "sed -i s,/dev/urandom,/dev/zero, p0f.c && ./build.sh", ("libpcap-dev",))
_FETCHED = subjects.named("darkstat")
_CLOCK = "sed -i 's/clock_gettime(clk_id, &t);/t.tv_sec = 1700000000, t.tv_nsec = 0;/' now.c"
DARKSTAT = replace(_FETCHED, build=f"{_CLOCK} && {_FETCHED.build}")
REHEARSALS = (
    Rehearsal(P0F, ("-f", "{folder}/p0f/p0f.fp", "-r", "{capture}", "-o", "{output}"), ("-lpcap", "-lm")),
    Rehearsal(
        DARKSTAT,
        ("-r", "{capture}", "--export", "{output}"),
        ("-lpcap", "-lz", "-lbsd"),
    ),
)


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


def write_packets(path: Path, packets: Iterable[bytes], first: int) -> None:
    """Packets of a capture whose first one has the number `first`: 1,000 in a second."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in enumerate(packets, first):
            file.write(struct.pack("<IIII", 1_700_000_000 + number // 1000, number % 1000 * 1000, *[len(packet)] * 2))
            file.write(packet)


def command(rehearsal: Rehearsal, program: Path, capture: Path, folder: Path) -> tuple[list[str], Path]:
    """And where it writes its output, which does not exist yet."""
    output = folder / "output"
    output.unlink(missing_ok=True)
    places = {"folder": folder, "capture": capture, "output": output}
    return [str(program), *(part.format(**places) for part in rehearsal.arguments)], output


def run(rehearsal: Rehearsal, program: Path, capture: Path, folder: Path, **environment: str) -> bytes:
    """What the program writes for a capture."""
    words, output = command(rehearsal, program, capture, folder)
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        raise SystemExit(
            f"{program.name} ended with status {done.returncode}: {done.stderr[-500:]}{done.stdout[-500:]}"
        )
    return output.read_bytes() if output.exists() else b""


def instructions(rehearsal: Rehearsal, program: Path, capture: Path, folder: Path) -> int:
    """That a run executes, by callgrind."""
    words, _ = command(rehearsal, program, capture, folder)
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run([*callgrind, *words], capture_output=True, text=True, timeout=1200)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])  # type: ignore[index]


def sizes(place: Path) -> list[int]:
    """Bytes of each export of a file."""
    data, found, at = place.read_bytes(), list[int](), 0
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(length)
        at += 8 + length
    return found


def cost(rehearsal: Rehearsal, folder: Path, module: Path, marked: Path, packets: list[bytes], without: Path) -> None:
    """What marks cost, in instructions for each packet, without those of starting."""
    stripped = [*rehearsal.libraries, "-s"]  # valgrind does not read the debug info of clang 19
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
        counted = [instructions(rehearsal, folder / name, one, folder) for one in (capture, none)]
        found[name] = (counted[0] - counted[1]) / min(len(packets), 20000)
    for name, each in found.items():
        print(f"{name:<10} {each:>9.0f} instructions a packet {100 * (each / found['plain'] - 1):>+7.1f} %")


def rehearse(rehearsal: Rehearsal, folder: Path, count: int, stop: int) -> None:
    """Prints the bytes that each model exports, whether the outputs are equal, and the cost."""
    module = subjects.module_of(rehearsal.subject, folder)
    capture, rest, code = folder / "whole.pcap", folder / "rest.pcap", folder / "state.c"
    packets = write_capture(capture, count)
    write_packets(rest, packets[stop:], stop)
    marked, program = folder / "marked.bc", folder / "standby"
    done = instrument(str(module), marked)
    print(
        f"{rehearsal.subject.program}: {done.updates} places that update, {done.pruned} of them pruned,"
        f" {len(done.variables)} variables"
    )
    code.write_text(serialise(str(module)).text, encoding="utf-8")
    link(marked, program, [str(code), *rehearsal.libraries])
    whole, first = run(rehearsal, program, capture, folder), b""
    for model in MODELS:
        place, summary = folder / "exports", folder / "summary.json"
        into = {"SLUICE_STATE_MODEL": model, "SLUICE_STATE_STOP": str(stop), "SLUICE_STATE_SUMMARY": str(summary)}
        first = run(rehearsal, program, capture, folder, SLUICE_STATE_TO=str(place), **into)
        second = run(rehearsal, program, rest, folder, SLUICE_STATE_FROM=str(place))
        exported, total = sizes(place)[1:], json.loads(summary.read_text())
        same = "outputs equal" if first + second == whole else "OUTPUTS DIFFER"
        print(
            f"{model:<10} {sum(exported) / len(exported):>10.0f} bytes a packet, at most {max(exported)}; {same};"
            f" {total['outside_flow']} entries of other flows, {total['by_hand']} pointers by hand"
        )
    first = run(rehearsal, program, capture, folder, SLUICE_STATE_STOP=str(stop))
    alone = run(rehearsal, program, rest, folder)
    print(f"without state, the outputs {'would be equal' if first + alone == whole else 'differ'}")
    if shutil.which("valgrind"):
        without = folder / "unpruned.bc"
        instrument(str(module), without, pruning=False)
        cost(rehearsal, folder, module, marked, packets, without)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; all unless given")
    parser.add_argument("--folder", type=Path, default=Path("build/analyze"), help="for sources, modules and logs")
    parser.add_argument("--packets", type=int, default=4000)
    parser.add_argument("--stop", type=int, default=2000, help="the packet after which the standby takes over")
    options = parser.parse_args()
    for rehearsal in REHEARSALS:
        program = rehearsal.subject.program
        if options.names and program not in options.names:
            continue
        folder: Path = options.folder.resolve() / "standby" / program
        folder.mkdir(parents=True, exist_ok=True)
        try:
            rehearse(rehearsal, folder, options.packets, options.stop)
        except AnalyzeError as error:
            print(f"{program}: left out: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
