"""Instruments a program, so that a library gets control after each packet and gets the changed variables."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sluice.analyze.errors import AnalyzeError
from sluice.analyze.report.model import Analysis, read
from sluice.analyze.run import tool_arguments
from sluice.analyze.toolchain import CLANG, run_tool, tool_cache

RUN_TIME = Path(__file__).resolve().parent
_EXPORT = ("contents.c", "records.c", "entries.c", "export.c")
_STANDBY = ("standby.c", "channel.c", "valkey.c", "opennf.c")
SOURCES = ("updates.c", "objects.c", *_EXPORT, "peers.c", "image.c", "import.c", *_STANDBY)
_WRAPPED = ("malloc", "calloc", "realloc", "free", "strdup", "strndup")


@dataclass(frozen=True)
class Instrumented:
    """The code inserted into a module."""

    analysis: Analysis
    variables: list[str]
    """The updateable ones, by their numbers at run time."""
    updates: int
    """Places at which a variable is updated."""
    pruned: int
    """Of these, those at which it certainly was updated before, for the same packet."""
    at_once: bool
    """Nothing was pruned, because the program has threads, or signal handlers that receive packets."""
    boundaries: int
    """Places at which a packet ends."""
    fields: int
    """Of packets, whose values are stored."""
    comparisons: int
    """Places at which entries are sought."""


def instrument(
    module: str,
    output: Path,
    models: Iterable[str] = (),
    not_receive: Iterable[str] = (),
    assume: Iterable[str] = (),
    without: Iterable[str] = (),
    pruning: bool = True,
) -> Instrumented:
    """Write an instrumented module. Raises AnalyzeError.

    without: variables whose updates are not marked, to test that a check finds them
    pruning: leave out marks that are certainly set already
    """
    arguments = [*tool_arguments(module, models, not_receive, assume), f"--instrument={output}"]
    arguments += [f"--without={name}" for name in without] + ["--no-pruning"] * (not pruning)
    analysis = read(module, run_tool("analyze", *arguments, module))
    if not analysis.receive:
        output.unlink(missing_ok=True)
        raise AnalyzeError(
            f"{module}: has no receive call, so that no packet ends; describe the function that receives packets in a "
            "YAML file for --models (sluice/analyze/models/README.md)"
        )
    found = analysis.json["instrumented"]
    return Instrumented(
        analysis=analysis,
        variables=found["variables"],
        updates=found["updates"],
        pruned=found["pruned"],
        at_once=found["at_once"],
        boundaries=found["boundaries"],
        fields=found["fields"],
        comparisons=found["comparisons"],
    )


def link(module: Path, program: Path, link: Iterable[str] = (), optimise: str = "-O2") -> None:
    """Link an instrumented module with the run-time library. Raises AnalyzeError.

    link: libraries and further sources, as for a compiler; the C of `serialise`, if state is to be exported
    """
    command = [CLANG, "-g", optimise, "-w", f"-I{RUN_TIME}", "-o", str(program), str(module), str(_run_time())]
    command += ["-Wl," + ",".join(f"--wrap={name}" for name in _WRAPPED), "-pthread", *link]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AnalyzeError(
            f"the instrumented program does not link; name what it needs by --link:\n{done.stderr.strip()}"
        )


def _run_time() -> Path:
    """The run-time library, compiled once: one object file in the cache. Raises AnalyzeError."""
    sources = [RUN_TIME / name for name in SOURCES]
    digest = hashlib.sha256()
    for path in sorted([*sources, *RUN_TIME.glob("*.h")]):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    whole = tool_cache() / f"analyze-run-time-{digest.hexdigest()[:16]}.o"
    if whole.exists():
        return whole
    with tempfile.TemporaryDirectory(dir=whole.parent) as work:
        objects = [Path(work) / f"{path.stem}.o" for path in sources]
        for path, output in zip(sources, objects, strict=True):
            _compile([CLANG, "-g", "-O2", "-c", "-fPIC", "-o", str(output), str(path)])
        _compile([CLANG, "-nostdlib", "-r", "-o", str(Path(work) / "whole"), *map(str, objects)])
        (Path(work) / "whole").rename(whole)  # at once: several processes may do the same
    return whole


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AnalyzeError(f"the run-time library does not build ({' '.join(command)}):\n{done.stderr.strip()}")
