"""The oracle on programs that read captures: does any memory change that the analysis does not call updateable?

    python bench/analyze_oracle.py [--folder DIR] [--packets N] [NAME ...]

Each program is fetched and recorded as by `analyze.py`, instrumented as by `sluice analyze check`, and run on a capture
of N packets: connections of HTTP that overlap, datagrams of UDP, ICMP, ARP, and packets of which some bytes are random.
Then it runs again on a part of the capture without the marks of all that changed, to see that each change is found.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import analyze as subjects
import analyze_standby as standby

from sluice.analyze.errors import AnalyzeError
from sluice.analyze.oracle.check import Check, build, check

PART = 20_000
"""Packets of the runs without marks."""


READERS = (
    # as Debian has them: the oracle runs one instance, which may draw a seed and read the clock
    *(replace(one, subject=subjects.named(one.subject.program)) for one in standby.REHEARSALS),
    standby.Rehearsal(subjects.named("httpry"), ("-r", "{capture}", "-o", "{output}"), ("-lpcap", "-lm")),
)


def _ipv4(draw: random.Random, protocol: int, data: bytes) -> bytes:
    source, destination = 0x0A000000 + draw.randrange(400), 0xC0A80000 + draw.randrange(60)
    fragment = draw.choice([0x4000] * 9 + [0x2000, 0x0010])
    head = struct.pack(">BBHHHBBHII", 69, 0, 20 + len(data), draw.randrange(65536), fragment, 60, protocol, 0,
                       source, destination)  # fmt: skip
    return bytes(12) + b"\x08\x00" + head + data


def _other(draw: random.Random) -> bytes:
    kind = draw.randrange(8)
    data = draw.randbytes(draw.randrange(4, 200))
    if kind < 5:
        ports = draw.randrange(1024, 65536), draw.choice([53, 123, 500, 5060])
        return _ipv4(draw, 17, struct.pack(">HHHH", *ports, 8 + len(data), 0) + data)
    if kind == 5:
        return _ipv4(draw, 1, struct.pack(">BBHHH", draw.choice([0, 3, 8, 11]), 0, 0, 1, 1) + data)
    if kind == 6:
        return bytes(12) + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x800, 6, 4, 1) + draw.randbytes(20)
    head = struct.pack(">IHBB", 6 << 28, len(data), draw.choice([6, 17, 58, 44]), 64) + draw.randbytes(32)
    return bytes(12) + b"\x86\xdd" + head + data


def packets_of(count: int) -> Iterator[bytes]:
    """Of one capture; a longer one begins with the packets of a shorter one."""
    draw = random.Random(4413)
    active: list[standby.Connection] = []
    for _ in range(count):
        if draw.randrange(5) == 0:
            yield _other(draw)
            continue
        while len(active) < 50:
            active.append(standby.connection(draw, 400))
        one = draw.choice(active)
        packet = one.packets.pop(0)
        if not one.packets:
            active.remove(one)
        if draw.randrange(20) == 0:
            at = draw.randrange(14, len(packet))
            packet = packet[:at] + draw.randbytes(min(4, len(packet) - at)) + packet[at + 4 :]
        yield packet


def run(
    reader: standby.Rehearsal, module: Path, folder: Path, capture: Path, without: frozenset[str] = frozenset()
) -> Check:
    program = folder / f"{reader.subject.program}.oracle"
    known = reader.subject
    build(str(module), program, reader.libraries, without, not_receive=known.not_receive, assume=known.assume)
    words, _ = standby.command(reader, program, capture, folder)
    return check(program, words[1:], 3600)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; all unless given")
    parser.add_argument("--folder", type=Path, default=Path("build/analyze"), help="for sources, modules and captures")
    parser.add_argument("--packets", type=int, default=1_000_000)
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    whole, part = folder / "oracle.pcap", folder / "part.pcap"
    standby.write_packets(whole, packets_of(options.packets), 0)
    standby.write_packets(part, packets_of(min(PART, options.packets)), 0)
    failed = False
    for reader in READERS:
        program = reader.subject.program
        if options.names and program not in options.names:
            continue
        try:
            module = subjects.module_of(reader.subject, folder)
            begin = time.monotonic()
            found = run(reader, module, folder, whole)
            seconds = time.monotonic() - begin
            changed = {one.name for one in run(reader, module, folder, part).changed}
            bare = frozenset(name.rpartition("at ")[2] for name in changed)
            missed = {one.name for one in run(reader, module, folder, part, bare).missed}
        except AnalyzeError as error:
            print(f"{program}: left out: {error}", file=sys.stderr)
            continue
        failed = failed or bool(found.missed) or missed != changed
        print(
            f"{program:<10} {found.packets} packets, {len({one.name for one in found.changed})} changed,"
            f" {len(found.missed)} missed, {found.not_watched} not watched, status {found.status}, {seconds:.0f} s;"
            f" without marks, {len(missed)} of {len(changed)} found"
        )
        for one in found.missed:
            print(f"  missed: {one.name}, byte {one.offset}, packet {one.packet}")
        for name in sorted(changed ^ missed):
            print(f"  without marks: {name} {'not found' if name in changed else 'found, and did not change before'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
