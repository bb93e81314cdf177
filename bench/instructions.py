"""Instructions a packet, counted by callgrind: `.venv/bin/python bench/instructions.py [--save]`.

Instructions do not depend on what else the machine does, so that a change for the worse shows where seconds cannot be
trusted. They are counted inside of the stack's `process` alone, compiled for x86-64-v3 (valgrind knows no AVX-512), and
compared with bench/instructions.json; --save writes that. Ends with 1 when a case takes more than LIMIT times what is
written there. Compilers differ by a tenth.

--passes NAME,...: instead, what the named passes save, as the table in docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent))

from bench import functions  # noqa: E402
from bench.cases import without  # noqa: E402
from bench.programs import build_tool  # noqa: E402
from bench.tables import table, times  # noqa: E402
from sluice.engine.box import CompiledStack, compile_stack  # noqa: E402
from sluice.engine.compiler import INCLUDES, compiler  # noqa: E402
from sluice.engine.functions import find_functions  # noqa: E402
from sluice.stacks.find import find_stack  # noqa: E402

RECORDED = HERE / "instructions.json"
REAL = HERE.parent / "tests" / "corpus" / "sdnfv_openNetVM__64B_download.pcap"
"""HTTP over 750 connections, 14,328 packets, each in order."""
LIMIT = 1.2


@dataclass(frozen=True)
class Counted:
    """A case: a stack with a function and passes on REAL, or on what a program makes of it or makes up."""

    name: str
    made: tuple[str, ...] = ()
    stack: str = "tcp_ip"
    function: str = "assemble"
    passes: str = "all"


_IMPAIRED = ("reshape", str(REAL), "--loss", "0.05", "--reorder", "0.05")
CASES = (
    Counted("HTTP"),
    Counted("HTTP, no passes", passes="none"),
    Counted("HTTP, tracked only", function="none"),
    Counted("HTTP, tracked, 64 events without a subscriber", function="unheard"),
    Counted("HTTP, tracked, 64 handlers on demand, none registered", function="idle"),
    Counted("HTTP, tracked, all 64 registered, none happening", function="watching"),
    Counted("HTTP, tracked, the same, whose filters ask for numbers far apart", function="watching_apart"),
    Counted("HTTP, tracked, a handler for each packet", function="counting"),
    Counted("HTTP, tracked, each packet registers a handler or deregisters it", function="turns"),
    Counted("HTTP, a function that wants no bytes", function="read_none"),
    Counted("HTTP, 300 connections at once", ("reshape", str(REAL), "--open", "300")),
    Counted("HTTP, 5% lost, 5% reordered", _IMPAIRED),
    Counted("HTTP in GTP-U", ("reshape", str(REAL), "--gtp"), "gtp"),
    Counted("64-byte packets", ("synthesize", "small", "--packets", "20000")),
    Counted("single bytes, every other one first", ("synthesize", "alternating", "--packets", "20000", "--flows", "8")),
)


def library(case: Counted, folder: Path) -> CompiledStack:
    """The compiled stack of a case."""
    wanted = find_functions(functions.wanted(case.function, folder) or [case.function])
    stack = find_stack(case.stack)
    if wanted.track_only:
        for layer in stack.layers.values():
            layer.prototype.buffer_data = False
    before = os.environ.get("SLUICE_CFLAGS")
    os.environ["SLUICE_CFLAGS"] = f"{before or ''} -march=x86-64-v3"
    try:
        return compile_stack(stack, tuple(wanted.c), passes=case.passes)
    finally:
        if before is None:
            del os.environ["SLUICE_CFLAGS"]
        else:
            os.environ["SLUICE_CFLAGS"] = before


def trace(case: Counted, folder: Path) -> Path:
    """The trace of a case."""
    if not case.made:
        return REAL
    program, first, *others = case.made
    out = folder / "trace.pcap"
    subprocess.run([build_tool(program, folder), first, out, *others], check=True, capture_output=True)
    return out


def driver(folder: Path) -> Path:
    """The program that runs a compiled stack without Python around it."""
    drive = folder / "drive"
    if not drive.exists():
        includes = INCLUDES
        subprocess.run([*compiler(), "-O2", *includes, str(HERE / "drive.c"), "-o", str(drive), "-ldl"], check=True)
    return drive


def count(case: Counted, folder: Path) -> float:
    """Instructions a packet."""
    drive = driver(folder)
    compiled = library(case, folder)
    name = compiled.generated.name
    words = [
        *("valgrind", "--tool=callgrind", f"--toggle-collect={name}_process", "--callgrind-out-file=/dev/null"),
        *(str(drive), str(compiled.compiled.path), name, str(trace(case, folder))),
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or collected is None:
        raise SystemExit(f"instructions: {case.name}: {done.stderr.strip()}")
    return int(collected[1]) / json.loads(done.stdout)["packets"]


def counted(cases: tuple[Counted, ...] = CASES) -> dict[str, float]:
    """Instructions a packet of every case."""
    with tempfile.TemporaryDirectory() as folder:
        return {case.name: round(count(case, Path(folder)), 1) for case in cases}


def worse(found: dict[str, float], recorded: dict[str, float]) -> list[str]:
    """The cases that take more than they may, and those of which nothing is recorded."""
    said: list[str] = []
    for name, value in found.items():
        if name not in recorded:
            said.append(f"{name}: nothing is recorded; run bench/instructions.py --save")
        elif value > LIMIT * recorded[name]:
            said.append(
                f"{name}: {value:,.1f} instructions a packet, {value / recorded[name]:.2f} times what is recorded"
            )
    return said


OF_PASSES = ("HTTP", "HTTP, 5% lost, 5% reordered", "64-byte packets")
"""The cases that show what a pass saves."""


def of_passes(names: list[str]) -> str:
    """A table: how many times more instructions a packet takes without a pass, and with no pass than with it alone."""
    wanted = [case for case in CASES if case.name in OF_PASSES]
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for passes in ("all", "none", *map(without, names), *names):
            found[passes] = [count(replace(case, passes=passes), Path(folder)) for case in wanted]

    def ratios(more: str, fewer: str) -> list[str]:
        return [times(one / other) for one, other in zip(found[more], found[fewer], strict=True)]

    rows = [["no pass : all", *ratios("none", "all")]]
    for name in names:
        rows.append([f"without `{name}` : all", *ratios(without(name), "all")])
        rows.append([f"no pass : `{name}` alone", *ratios("none", name)])
    return table(["instructions", *(case.name for case in wanted)], rows, 1)


def main() -> int:
    """Count, print, compare or save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="record what is counted")
    parser.add_argument(
        "--passes", default="", metavar="NAME,...", help="count what these passes save, and nothing else"
    )
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("instructions: there is no valgrind (Debian: valgrind)", file=sys.stderr)
        return 1
    if options.passes:
        print(of_passes(options.passes.split(",")), end="")
        return 0
    recorded: dict[str, float] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    found = counted()
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {value:>10,.1f}  recorded {recorded.get(name, 0):>10,.1f}")
    if options.save:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    complaints = worse(found, recorded)
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
