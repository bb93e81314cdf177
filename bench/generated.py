"""What a stack becomes, and how long that takes: lines and bytes of code, with all passes and with fewer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.cases import without
from bench.programs import HERE
from sluice.cli.common.options import passes_of
from sluice.engine.box import compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack

STACKS = ("tcp_ip", "gtp", "pptp", "everything")
SETS = {"all": "all", "all but `tails`": without("tails"), "none": "none"}
"""Sets of passes; `tails` is the one that is there for the size of what comes out."""
CAPTURE = HERE.parent / "examples" / "first" / "capture.pcap"


@dataclass
class Generated:
    """A stack with `assemble`: lines of C, bytes of its machine code, and seconds.

    sluice, cc: that the description takes to C, and C to machine code. kept: of a whole `sluice run` of 22 packets,
    start of the interpreter included, when the library is kept from before.
    """

    stack: str
    passes: str
    lines: int
    code_bytes: int
    sluice: float
    cc: float
    kept: float


def code_bytes(library: str) -> int:
    """Size of the sections of machine code; 0 where there is no program `size` to tell it."""
    try:
        done = subprocess.run(["size", "-A", library], capture_output=True, text=True)
    except FileNotFoundError:
        return 0
    rows = (line.split() for line in done.stdout.splitlines())
    return sum(int(row[1]) for row in rows if row and row[0].startswith(".text"))


def generated(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """All stacks, each with several sets of passes."""
    found: list[Generated] = []
    for name in STACKS:
        for label, passes in SETS.items():
            say(f"compiling {name} with passes: {label}")
            wanted = tuple(find_functions(["assemble"]).c)
            made = compile_stack(find_stack(name), wanted, passes=passes_of(passes), fresh=True)
            lines = made.generated.source.count("\n") + made.generated.header.count("\n")
            words = [
                sys.executable,
                "-m",
                "sluice",
                "run",
                name,
                "-r",
                str(CAPTURE),
                "-f",
                "assemble",
                "--passes",
                passes,
            ]
            kept: list[float] = []
            for _ in range(3):
                begin = time.perf_counter()
                environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
                environment.pop("PYTHONDONTWRITEBYTECODE", None)  # which a user has not
                subprocess.run(words, check=True, capture_output=True, env=environment)
                kept.append(time.perf_counter() - begin)
            size = code_bytes(str(made.compiled.path))
            found.append(Generated(name, label, lines, size, made.seconds, made.compiled.seconds, min(kept)))
    return [{key: round(v, 3) if isinstance(v, float) else v for key, v in asdict(one).items()} for one in found]
