"""What detection costs: `.venv/bin/python bench/detection.py`.

Runs `ids` with 2,000 generated rules, each with a content that does not occur, over connections of 32 KB of text in
segments of 1,460 bytes, 100 of them open at once. Beside it stand the stack that reassembles these streams and
searches nothing, `ids` with rules of two contents, which need the bytes of a window, and the pattern library alone, in
streaming mode, on the same bytes with the same patterns. The stacks take turns in one process, the library is before
them; CPU time, medians.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from sluice.engine.box import Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.engine.measure import Candidate, measure
from sluice.functions.detect.rules import Reader
from sluice.functions.detect.table import table
from sluice.stacks.find import find_stack
from tests.support.capture import pcap
from tests.support.connection import goodbye, handshake, pair

HEAD = "alert tcp any any -> any any ("
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789/=_-"
RULES, CONNECTIONS, SIZE, SEGMENT, OPEN, ROUNDS = 2000, 2000, 32 << 10, 1460, 100, 5


def texts(chance: random.Random) -> list[str]:
    """Contents of 6 to 24 letters."""
    return ["".join(chance.choices(ALPHABET, k=chance.randint(6, 24))) for _ in range(RULES)]


def trace(chance: random.Random, path: Path, segments: Path) -> int:
    """Write the capture, and what its servers say as the segments of a file. Returns the bytes of these."""
    words = ["the", "quick", "Brown", "fox", "<p>", "</p>", "href", "class", "jumps", "OVER", "lazy", "\n", "0.5em"]
    body = " ".join(chance.choices(words, k=SIZE // 5)).encode()[:SIZE]
    frames: list[bytes] = []
    total = 0
    with segments.open("wb") as out:
        for first in range(0, CONNECTIONS, OPEN):
            hosts = [pair(port=1024 + first + number) for number in range(OPEN)]
            for client, server in hosts:
                frames += handshake(client, server)
            for at in range(0, len(body), SEGMENT):
                for number, (client, server) in enumerate(hosts):
                    piece = body[at : at + SEGMENT]
                    frames.append(server.data(piece))
                    if at // SEGMENT % 2:
                        frames.append(client.send("A"))
                    out.write(struct.pack("<II", first + number, len(piece)) + piece)
                    total += len(piece)
            for client, server in hosts:
                frames += goodbye(server, client)
    path.write_bytes(pcap(frames, [1000 + number * 1e-6 for number in range(len(frames))]))
    return total


def alone(folder: Path, patterns: list[str], segments: Path) -> int:
    """Nanoseconds of the pattern library alone."""
    (folder / "patterns").write_text("\n".join(patterns) + "\n")
    source = Path(__file__).with_name("patterns_alone.c")
    subprocess.run(["cc", "-O2", "-o", folder / "alone", source, "-lhs"], check=True)
    words = [str(folder / "alone"), str(folder / "patterns"), str(segments), str(ROUNDS)]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[0])


def candidate(stack: str, function: str, given: str | dict[str, str]) -> Candidate:
    """A stack with one function."""
    compiled = compile_stack(find_stack(stack), tuple(find_functions([function]).c))
    return Candidate(compiled, Settings(seed=1, max_instances=1 << 14), [given])


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patterns = texts(chance)
        size = trace(chance, folder / "trace.pcap", folder / "segments")
        library = alone(folder, patterns, folder / "segments")
        asked = [candidate(options.stack, "assemble", "")]
        for kind, more in (("places", ""), ("windows", 'content:"never"; distance:0; ')):
            reader = Reader()
            reader.read(
                "".join(HEAD + f'content:"{text}"; {more}sid:{n};)\n' for n, text in enumerate(patterns, 1)), "-"
            )
            (folder / kind).write_bytes(table(reader.found.rules))
            asked.append(candidate(options.stack, "ids", {"table": str(folder / kind), "out": "/dev/null"}))
        times = [library, *(median(each.cpu_ns) for each in measure(asked, str(folder / "trace.pcap"), ROUNDS))]
    names = [
        "the pattern library alone",
        "the stack, which reassembles",
        "the stack with ids",
        "the same, two contents each",
    ]
    rates = {name: size * 8 / took for name, took in zip(names, times, strict=True)}
    if options.json:
        print(json.dumps(rates))
        return 0
    for name, rate in rates.items():
        print(f"{name:32}{rate:8.2f} Gbit/s, {100 * rate / rates[names[0]]:.0f}%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
