"""Runs an instrumented program, and compares its run with the analysis."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.analyze.errors import AnalyzeError
from sluice.analyze.run import tool_arguments
from sluice.analyze.toolchain import CLANG, run_tool

RUN_TIME = Path(__file__).resolve().parent / "run_time.c"


@dataclass(frozen=True)
class Finding:
    """Memory that changed between two receive calls."""

    name: str
    """Of the variable (`function: name` for one of a function), or of the allocation (`malloc at FILE:LINE`)."""
    offset: int
    """Of the first byte that differs."""
    packet: int
    """Receive calls before."""


@dataclass(frozen=True)
class Check:
    """The results of one run."""

    missed: list[Finding]
    """Changed, and not updateable by the analysis: faults of the analysis."""
    changed: list[Finding]
    """Changed, and updateable: the first change of each."""
    packets: int
    """Receive calls; 0 if the program did not get to its exit."""
    not_watched: int
    """Pieces of memory for which there was no memory to compare them."""
    status: int
    """Of the program; negative for a signal."""


def build(
    module: str,
    program: Path,
    link: Iterable[str] = (),
    without: Iterable[str] = (),
    models: Iterable[str] = (),
    not_receive: Iterable[str] = (),
    assume: Iterable[str] = (),
) -> None:
    """Instrument a module and link it. Raises AnalyzeError.

    link: the program's further inputs of the linker, as for a compiler: libraries and further sources
    without: variables, or allocations as FILE:LINE, that are taken not to be updateable
    models, not_receive, assume: as for `analyze`
    """
    instrumented = program.with_suffix(".oracle.bc")
    arguments = tool_arguments(module, models, not_receive, assume)
    arguments += [f"--without={name}" for name in without]
    run_tool("analyze", f"--oracle={instrumented}", *arguments, module)
    wrap = "-Wl,--wrap=free,--wrap=realloc"
    command = [CLANG, "-g", "-O0", "-w", "-o", str(program), str(instrumented), str(RUN_TIME), wrap, "-pthread", *link]
    done = subprocess.run(command, capture_output=True, text=True)
    instrumented.unlink()
    if done.returncode != 0:
        raise AnalyzeError(
            f"the instrumented program does not link; name what it needs by --link:\n{done.stderr.strip()}"
        )


def check(program: Path, arguments: Sequence[str], seconds: float = 600) -> Check:
    """Run an instrumented program. Raises AnalyzeError if it ends before its first receive call."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "findings"
        environment = os.environ | {"SLUICE_ORACLE": str(output)}
        try:
            command = [str(program.resolve()), *arguments]
            status = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=seconds).returncode
        except subprocess.TimeoutExpired as error:
            raise AnalyzeError(f"the program did not end within {seconds:.0f} s") from error
        lines = output.read_text().splitlines() if output.exists() else []
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if not found:
        raise AnalyzeError(f"the program ended (status {status}) before it received a packet")
    totals: dict[str, Any] = {}
    for one in found:
        totals = one if "packets" in one else totals
    return Check(
        missed=[_finding(one, "missed") for one in found if "missed" in one],
        changed=[_finding(one, "changed") for one in found if "changed" in one],
        packets=totals.get("packets", 0),
        not_watched=totals.get("not_watched", 0),
        status=status,
    )


def _finding(found: dict[str, Any], kind: str) -> Finding:
    return Finding(found[kind], found["offset"], found["packet"])
