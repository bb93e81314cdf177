"""The analysis tool: built on demand with Debian's LLVM 19, cached by the content of its sources, and run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sluice.analyze.errors import AnalyzeError
from sluice.engine.cache import CacheError, cache_folder

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "tool"
MODELS = HERE / "models"
LLVM_CONFIG = "llvm-config-19"
CLANG = "clang-19"
OBJCOPY = "llvm-objcopy-19"
PACKAGES = "llvm-19-dev clang-19 g++ make"
"""Debian's packages for building the tool and recording builds."""


def missing_programs() -> list[str]:
    """Programs that the tool needs and that are not installed."""
    return [name for name in (LLVM_CONFIG, CLANG, OBJCOPY, "g++", "make") if shutil.which(name) is None]


def tool(sources: Path = SOURCES) -> Path:
    """The tool, built first if it is not in the cache: this lasts some minutes. Raises AnalyzeError."""
    program = tool_at(tool_cache(), sources)
    folder = program.parent
    if program.exists():
        return program
    if missing := missing_programs():
        raise AnalyzeError(
            f"the analysis tool needs LLVM 19, and {', '.join(missing)} is missing: run `scripts/setup.sh --analyze`, "
            f"or install {PACKAGES}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests or users at once: one of them builds
        if not program.exists():
            _build(sources, folder, program)
    return program


def tool_at(cache: Path, sources: Path = SOURCES) -> Path:
    """Where the tool is in a cache, by the content of its sources; it may have to be built."""
    return cache / f"analyze-{_key(sources)}" / "sluice-analyze"


def _build(sources: Path, folder: Path, program: Path) -> None:
    print("sluice: building the analysis tool (once; some minutes)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        command = ["make", "-C", str(sources), f"-j{min(4, os.cpu_count() or 1)}", f"OUT={work}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise AnalyzeError(f"the analysis tool does not build ({' '.join(command)}):\n{done.stderr.strip()}")
        (Path(work) / "sluice-analyze").rename(program)


def _key(sources: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(sources.iterdir()):
        if path.suffix in (".cpp", ".h") or path.name == "Makefile":
            digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def tool_cache() -> Path:
    """The folder for executable files: engine/cache.py checks that other users cannot change it."""
    try:
        return cache_folder().resolve()  # the build runs in another folder
    except CacheError as error:
        raise AnalyzeError(str(error)) from error


def run_tool(*arguments: str) -> dict[str, Any]:
    """Run the tool, and return its output. Raises AnalyzeError with its message."""
    done = subprocess.run([str(tool()), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        message = done.stderr.strip()
        if done.returncode < 0 or not message:
            message = f"the analysis tool failed (status {done.returncode}), a defect of Sluice:\n{message}"
        raise AnalyzeError(message)
    return json.loads(done.stdout)


if __name__ == "__main__":  # `make analyze`; with --try, continues where the tool cannot be built
    try:
        print(tool())
    except AnalyzeError as error:
        print(f"sluice: {error}", file=sys.stderr)
        sys.exit(0 if sys.argv[1:] == ["--try"] and missing_programs() else 1)
