"""What detection costs: `.venv/bin/python bench/detection.py`.

Runs `ids` with 2,000 generated rules, each with a content that does not occur, over connections in which a server
answers a request with 32 KB of text in segments of 1,460 bytes, 100 of them open at once. Beside it stand the stack
that reassembles these streams and searches nothing, `ids` with rules of two contents, which need the bytes of a window,
and the pattern library alone, in streaming mode, on the same bytes with the same patterns. The same trace within GTP
and PPTP has the paper's stacks for these. `dpi` over the plain trace stands beside ndpiReader (Debian: libndpi-bin),
whose time is that of the process without what it takes to start and to read the file.

All take turns, round by round; CPU time, medians.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from sluice.engine.box import Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.engine.measure import Candidate, measure
from sluice.functions.detect.rules import Reader
from sluice.functions.detect.table import table
from sluice.stacks.find import find_stack
from tests.cases.tunnel import gtp, pptp
from tests.support.capture import pcap
from tests.support.connection import goodbye, handshake, pair

HEAD = "alert tcp any any -> any any ("
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789/=_-"
RULES, CONNECTIONS, SIZE, SEGMENT, OPEN, ROUNDS = 2000, 2000, 32 << 10, 1460, 100, 5
ALONE, PLAIN, DPI, READER = "the pattern library alone", "the stack with ids", "the stack with dpi", "ndpiReader"


def texts(chance: random.Random) -> list[str]:
    """Contents of 6 to 24 letters."""
    return ["".join(chance.choices(ALPHABET, k=chance.randint(6, 24))) for _ in range(RULES)]


def trace(chance: random.Random, segments: Path) -> tuple[list[bytes], int]:
    """The frames of the capture; what its hosts say as the segments of a file. Also the bytes of these."""
    words = ["the", "quick", "Brown", "fox", "<p>", "</p>", "href", "class", "jumps", "OVER", "lazy", "\n", "0.5em"]
    text = " ".join(chance.choices(words, k=SIZE // 5)).encode()[:SIZE]
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % SIZE + text
    request = b"GET /page HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: bench\r\n\r\n"
    frames: list[bytes] = []
    total = 0
    with segments.open("wb") as out:

        def say(flow: int, piece: bytes) -> None:
            nonlocal total
            out.write(struct.pack("<II", flow, len(piece)) + piece)
            total += len(piece)

        for first in range(0, CONNECTIONS, OPEN):
            hosts = [pair(port=1024 + first + number) for number in range(OPEN)]
            for number, (client, server) in enumerate(hosts):
                frames += [*handshake(client, server), client.data(request)]
                say(2 * (first + number), request)
            for at in range(0, len(body), SEGMENT):
                for number, (client, server) in enumerate(hosts):
                    piece = body[at : at + SEGMENT]
                    frames.append(server.data(piece))
                    if at // SEGMENT % 2:
                        frames.append(client.send("A"))
                    say(2 * (first + number) + 1, piece)
            for client, server in hosts:
                frames += goodbye(server, client)
    return frames, total


def write(path: Path, frames: list[bytes]) -> str:
    """Write a capture. Returns its path."""
    path.write_bytes(pcap(frames, [1000 + number * 1e-6 for number in range(len(frames))]))
    return str(path)


def alone(folder: Path) -> int:
    """Nanoseconds of the pattern library alone, one pass."""
    words = [str(folder / "alone"), str(folder / "patterns"), str(folder / "segments"), "1"]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[0])


def process(command: list[str]) -> int:
    """Nanoseconds of CPU time of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9)


def reader(capture: str) -> int:
    """Nanoseconds of ndpiReader, without a run with a filter that no packet passes."""
    command = ["ndpiReader", "-i", capture, "-n", "1", "-q"]
    return process(command) - process([*command, "-f", "udp port 1"])


def candidate(stack: str, function: str, given: str | dict[str, str]) -> Candidate:
    """A stack with one function."""
    compiled = compile_stack(find_stack(stack), tuple(find_functions([function]).c))
    return Candidate(compiled, Settings(seed=1, max_instances=1 << 14), [given])


def rules(folder: Path, patterns: list[str], kind: str, more: str) -> dict[str, str]:
    """The parameters of `ids` with a rule for each pattern."""
    read = Reader()
    read.read("".join(HEAD + f'content:"{text}"; {more}sid:{n};)\n' for n, text in enumerate(patterns, 1)), "-")
    (folder / kind).write_bytes(table(read.found.rules))
    return {"table": str(folder / kind), "out": "/dev/null"}


def measured(folder: Path, stack: str, rounds: int) -> tuple[dict[str, list[int]], int]:
    """Nanoseconds of each, by round, and the bytes that hosts say."""
    chance = random.Random(1)
    patterns = texts(chance)
    frames, size = trace(chance, folder / "segments")
    (folder / "patterns").write_text("\n".join(patterns) + "\n")
    source = Path(__file__).with_name("patterns_alone.c")
    subprocess.run(["cc", "-O2", "-o", folder / "alone", source, "-lhs"], check=True)
    plain = write(folder / "plain.pcap", frames)
    places = rules(folder, patterns, "places", "")
    windows = rules(folder, patterns, "windows", 'content:"never"; distance:0; ')
    asked = {
        plain: {
            "the stack, which reassembles": candidate(stack, "assemble", ""),
            PLAIN: candidate(stack, "ids", places),
            "the same, two contents each": candidate(stack, "ids", windows),
            DPI: candidate(stack, "dpi", {"out": "/dev/null"}),
        },
        write(folder / "gtp.pcap", [gtp(frame) for frame in frames]): {
            "ids within GTP": candidate("gtp", "ids", places)
        },
        write(folder / "pptp.pcap", [pptp(frame, number) for number, frame in enumerate(frames)]): {
            "ids within PPTP": candidate("pptp", "ids", places)
        },
    }
    times: dict[str, list[int]] = defaultdict(list)
    for _ in range(rounds):
        times[ALONE].append(alone(folder))
        for capture, candidates in asked.items():
            for name, found in zip(candidates, measure(list(candidates.values()), capture, 1), strict=True):
                times[name].append(found.cpu_ns[0])
        if shutil.which("ndpiReader"):
            times[READER].append(reader(plain))
    return times, size


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        times, size = measured(Path(name), options.stack, options.rounds)
    rates = {name: size * 8 / median(took) for name, took in times.items()}
    if options.json:
        print(json.dumps(rates))
        return 0
    against = {"ids within GTP": PLAIN, "ids within PPTP": PLAIN, DPI: READER, READER: READER}
    for name, rate in rates.items():
        other = against.get(name, ALONE)
        ratio = 100 * median(b / a for a, b in zip(times[name], times[other], strict=True)) if other in times else 0
        print(f"{name:30}{rate:8.2f} Gbit/s, {ratio:.0f}% of {other}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
