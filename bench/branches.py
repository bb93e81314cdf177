"""Branches that a processor does not foresee, by a model: `.venv/bin/python bench/branches.py CAPTURE [--packets N]`.

Where packets are at hand, what is left beside instructions are branches that go wrong, each some 19 cycles. The
processor's counters would tell them, and a virtual machine has none. So all instructions of a run (valgrind's lackey)
go through a model of a predictor (branches.c). Prints how many go wrong a packet, and where most of them are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent))

from bench.instructions import Counted, driver, library  # noqa: E402
from bench.programs import build_tool  # noqa: E402

BURST = 32
"""Packets of a call of `process`, SL_BURST of run.h."""

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:")
_LINE = re.compile(r"^\S*?([^/]+\.[ch]):(\d+)")
_JUMP = re.compile(r"^\s+([0-9a-f]+):\s+(?:bnd |notrack )?(j\w+|call)\s+(.*)")


@dataclass(frozen=True)
class Branch:
    """A branch of a library: its address there, its kind as branches.c names it, and what it belongs to."""

    at: int
    kind: str
    function: str
    line: str


@dataclass(frozen=True)
class Found:
    """How often a branch was executed, taken and not predicted, each by packet."""

    branch: Branch
    executed: float
    taken: float
    wrong: float


def branches_of(compiled: Path) -> Iterator[Branch]:
    """All branches of a library, with the lines of C that they come from."""
    words = ["objdump", "-d", "-l", "--no-show-raw-insn", "-M", "intel", str(compiled)]
    function = line = ""
    for text in subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\n"):
        if found := _FUNCTION.match(text):
            function = found[1]
        elif found := _LINE.match(text):
            line = f"{found[1]}:{found[2]}"
        elif found := _JUMP.match(text):
            to = found[3]
            indirect = "[" in to or re.fullmatch(r"r\w+", to) is not None
            conditional = found[2] not in ("jmp", "call")
            yield Branch(int(found[1], 16), "c" if conditional else "i" if indirect else "u", function, line)


def beginning(capture: Path, packets: int, out: Path) -> None:
    """The first packets of a capture in pcap format, in the machine's order of bytes."""
    with capture.open("rb") as all_of_it, out.open("wb") as some:
        some.write(all_of_it.read(24))
        for _ in range(packets):
            head = all_of_it.read(16)
            if len(head) < 16:
                break
            some.write(head + all_of_it.read(struct.unpack("=I", head[8:12])[0]))


def not_foreseen(case: Counted, capture: Path, skipped: int, folder: Path) -> list[Found]:
    """What the model says of a run, without the first packets; the worst branch first."""
    compiled = library(case, folder)
    entry = _symbol(compiled.compiled.path, f"{compiled.generated.name}_process")
    branches = {branch.at: branch for branch in branches_of(compiled.compiled.path)}
    listed = folder / "branches.txt"
    listed.write_text("".join(f"{branch.at:x} {branch.kind}\n" for branch in branches.values()))
    run = subprocess.Popen(
        [
            *("valgrind", "--tool=lackey", "--trace-mem=yes", str(driver(folder))),
            *(str(compiled.compiled.path), compiled.generated.name, str(capture)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    model = [str(build_tool("branches", folder)), str(listed), f"{entry:x}", str(skipped // BURST)]
    said = subprocess.run(model, stdin=run.stderr, check=True, capture_output=True, text=True).stdout
    if run.wait():
        raise SystemExit("branches: valgrind could not run the stack")
    calls, *lines = said.splitlines()
    packets = max(1, int(calls)) * BURST
    found: list[Found] = []
    for line in lines:
        at, *counts = line.split()
        executed, taken, wrong = (int(count) / packets for count in counts)
        found.append(Found(branches[int(at, 16)], executed, taken, wrong))
    ours = [each for each in found if not each.branch.function.startswith(("sl_bench", "sl_capture", "sl_trace"))]
    return sorted(ours, key=lambda each: -each.wrong)


def _symbol(compiled: Path, name: str) -> int:
    names = subprocess.run(["nm", str(compiled)], check=True, capture_output=True, text=True).stdout
    found = re.search(rf"^([0-9a-f]+) T {re.escape(name)}$", names, re.MULTILINE)
    assert found, name
    return int(found[1], 16)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path, help="in pcap format, as those in build/bench/traces")
    parser.add_argument("--stack", default="tcp_ip", help="name or path (tcp_ip)")
    parser.add_argument("--packets", type=int, default=60_000, metavar="N", help="from the beginning (60000)")
    parser.add_argument("--skip", type=int, metavar="N", help="of these are not counted (half)")
    parser.add_argument("--top", type=int, default=16, metavar="N", help="branches that are printed (16)")
    parser.add_argument("--json", action="store_true", help="print all of them as JSON")
    options = parser.parse_args()
    for program, package in (("valgrind", "valgrind"), ("objdump", "binutils")):
        if shutil.which(program) is None:
            print(f"branches: there is no {program} (Debian: {package})", file=sys.stderr)
            return 1
    # The compiler decides by the processor where it avoids a branch; of its instructions valgrind does not know all.
    os.environ["SLUICE_CFLAGS"] = f"{os.environ.get('SLUICE_CFLAGS', '')} -mtune=native"
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "beginning.pcap"
        beginning(options.capture, options.packets, capture)
        skipped = options.packets // 2 if options.skip is None else options.skip
        found = not_foreseen(Counted("", stack=options.stack), capture, skipped, Path(folder))
    if options.json:
        keys = ("function", "line", "executed", "taken", "wrong")
        rows = ((e.branch.function, e.branch.line, e.executed, e.taken, e.wrong) for e in found)
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1))
        return 0
    print(f"not predicted a packet: {sum(each.wrong for each in found):.2f}")
    for each in found[: options.top]:
        where = f"{each.branch.function}, {each.branch.line}"
        print(f"  {each.wrong:.3f} of {each.executed:.3f} (taken {each.taken:.3f})  {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
