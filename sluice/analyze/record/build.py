"""Runs a build with the recording compilers, and links the bitcode of its programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.analyze.errors import AnalyzeError
from sluice.analyze.toolchain import CLANG, PACKAGES, run_tool

WRAPPER = Path(__file__).resolve().parent / "wrapper.py"
_COMPILER = re.compile(
    r"(?:x86_64-linux-gnu-|x86_64-pc-linux-gnu-)?(?:gcc|cc|c89|c99|clang|g\+\+|c\+\+|clang\+\+)(?:-\d+)?"
)


@dataclass(frozen=True)
class Call:
    """A call of a compiler during the build."""

    kind: str
    """compile or link"""
    output: str | None
    sources: list[str]
    inputs: list[str]
    """Objects, archives and libraries of a link, as they were given."""
    shared: bool
    unresolved: list[str]
    """Functions that the link lacked, and went without."""
    left_out: bool
    """clang did not compile it, and the build's own compiler did."""
    error: str
    """Of the compiler that failed; empty if none did."""
    status: int
    folder: str

    def path(self, name: str) -> Path:
        """A path as the call meant it."""
        return Path(self.folder, name)


@dataclass
class Recorded:
    """A program's module, and the parts of the program that it lacks."""

    program: Path
    module: Path
    units: int
    """Translation units."""
    libraries: list[Path] = field(default_factory=list[Path])
    """Shared libraries of the same build that were included."""
    missing_functions: list[str] = field(default_factory=list[str])
    missing_variables: list[str] = field(default_factory=list[str])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Source files of the build that have no bitcode, with the reason."""


def record(command: list[str], program: str | None, output: str | None) -> list[Recorded]:
    """Run a build, and write a module for each program that it linked; or for `program` only, to `output`.

    Raises AnalyzeError when the build fails, links nothing, or links several programs for one output.
    """
    if shutil.which(CLANG) is None:
        raise AnalyzeError(f"recording a build needs {CLANG}: run `scripts/setup.sh --analyze`, or install {PACKAGES}")
    with tempfile.TemporaryDirectory(prefix="sluice-record-") as work:
        status, calls = _run(command, Path(work))
    if status != 0:
        raise AnalyzeError(_failure(command, status, calls))
    programs = _programs(calls)
    if not programs:
        raise AnalyzeError(_nothing(command, calls))
    if program is not None:
        programs = {path: call for path, call in programs.items() if program in (path.name, str(path))}
        if not programs:
            names = ", ".join(sorted(path.name for path in _programs(calls)))
            raise AnalyzeError(f"the build linked no program {program}; it linked {names}")
    if output is not None and len(programs) > 1:
        names = ", ".join(sorted(path.name for path in programs))
        raise AnalyzeError(f"the build linked {len(programs)} programs ({names}): select one by --program NAME")
    return [_extract(path, call, calls, output) for path, call in programs.items()]


def _run(command: list[str], work: Path) -> tuple[int, list[Call]]:
    shims, log = work / "bin", work / "log"
    shims.mkdir()
    for name in _compilers():
        _write_shim(shims / name, f'exec {sys.executable} -I -S "{WRAPPER}" {name} "$@"')
    _write_shim(shims / "strip", "exit 0")  # symbols show omitted code
    path = os.environ.get("PATH", os.defpath)
    environment = {**os.environ, "PATH": f"{shims}:{path}", "SLUICE_RECORD_LOG": str(log), "SLUICE_RECORD_PATH": path}
    environment.update(CC="cc", CXX="c++")  # no paths: a configure script writes them down for later
    try:
        status = subprocess.run(command, env=environment, stdout=sys.stderr).returncode
    except OSError as error:
        raise AnalyzeError(f"{command[0]}: {error.strerror}") from error
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return status, [Call(**json.loads(line)) for line in lines]


def _compilers() -> set[str]:
    """Names by which builds on this machine may call a compiler."""
    found = {"cc", "gcc", "clang", "c++", "g++", "clang++"}
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        if os.path.isdir(folder):
            found |= {name for name in os.listdir(folder) if _COMPILER.fullmatch(name)}
    return found - {"clang-19", "clang++-19"}  # which the wrapper runs


def _write_shim(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _failure(command: list[str], status: int, calls: list[Call]) -> str:
    text = f"the build failed: `{' '.join(command)}` ended with status {status}"
    failed = [call for call in calls if call.status != 0]
    if failed:
        what = ", ".join(failed[0].sources) or failed[0].output or failed[0].kind
        text += (
            f"; the first compiler call that failed is that of {what}, in {failed[0].folder}:\n    {failed[0].error}"
        )
    return f"{text}\nsee to it that the build works without `sluice analyze build`, and with {CLANG} as its compiler"


def _nothing(command: list[str], calls: list[Call]) -> str:
    text = f"`{' '.join(command)}` linked no program"
    if not calls:
        return (
            f"{text} and called no compiler: if it is up to date, run `make clean` first; "
            "if it calls a compiler by its whole path, give it CC=cc"
        )
    return f"{text}: it compiled {sum(call.kind == 'compile' for call in calls)} files; build the program, too"


def _programs(calls: list[Call]) -> dict[Path, Call]:
    """The programs that were linked and are still there; of several links to one place, the last."""
    found: dict[Path, Call] = {}
    for call in calls:
        if call.kind == "link" and not call.shared and call.status == 0:
            path = call.path(call.output or "a.out")
            if path.is_file() and path.suffix not in (".o", ".so", ".a"):
                found[path] = call
    return found


def _libraries(program: Call, calls: list[Call]) -> Iterator[Path]:
    """Shared libraries of the build that the program was linked with."""
    for call in calls:
        if call.kind != "link" or not call.shared or call.output is None or not call.path(call.output).is_file():
            continue
        name = re.match(r"lib(.+?)\.so", Path(call.output).name)
        for given in program.inputs:
            path = program.path(given)
            if (path.exists() and path.samefile(call.path(call.output))) or (name and given == f"-l{name[1]}"):
                yield call.path(call.output)
                break


def _extract(program: Path, link: Call, calls: list[Call], output: str | None) -> Recorded:
    module = Path(output or f"{program.name}.bc")
    libraries = list(_libraries(link, calls))
    found: dict[str, Any] = run_tool("extract", "-o", str(module), str(program), *map(str, libraries))
    if broken := sorted(set(link.unresolved) - set(found["inline_functions"])):
        raise AnalyzeError(f"the build failed: {program.name} does not link: there is no {', '.join(broken)}")
    left_out = [(source, reason) for call, source, reason in _without_bitcode(calls) if _is_part(call, source, program)]
    return Recorded(
        program, module, found["modules"], libraries, found["missing_functions"], found["missing_variables"], left_out
    )


def _without_bitcode(calls: list[Call]) -> Iterator[tuple[Call, str, str]]:
    """Calls and their sources that gave no bitcode, with the reason."""
    for call in calls:
        for source in call.sources:
            if call.left_out:
                yield call, source, call.error
            elif Path(source).suffix in (".s", ".S", ".sx"):
                yield call, source, "assembly has no bitcode"


def _is_part(call: Call, source: str, program: Path) -> bool:
    """Whether a source may be part of the program: not one that a script tried and removed, nor another program's."""
    if call.kind == "link" and call.path(call.output or "a.out") != program:
        return False
    return call.path(source).is_file()
