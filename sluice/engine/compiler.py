"""The C compiler: finding one, and compiling a stack into a library that is kept by its content."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sluice.codegen.stack import Generated

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
RUNTIME_SOURCES = (RUNTIME / "run.c", RUNTIME / "io" / "capture.c", RUNTIME / "io" / "writer.c")
WARNINGS = ("-Wall", "-Wextra")


class CompilerError(Exception):
    """There is no C compiler, or it refused (which, for generated code, is a defect of Sluice)."""


@cache
def compiler() -> tuple[str, ...]:
    """The command of the C compiler: $CC, else gcc, clang or cc, else the one in the `ziglang` wheel."""
    candidates: list[tuple[str, ...]] = []
    if os.environ.get("CC"):
        candidates.append(tuple(shlex.split(os.environ["CC"])))
    candidates += [(name,) for name in ("gcc", "clang", "cc")]
    candidates.append((sys.executable, "-m", "ziglang", "cc"))
    for command in candidates:
        if shutil.which(command[0]) and _works(command):
            return command
    raise CompilerError("no C compiler found: install gcc or clang, or `pip install ziglang`, or set CC")


def _works(command: tuple[str, ...]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text("#include <stdint.h>\n#include <sys/mman.h>\nint sluice_try(void) { return 0; }\n")
        done = subprocess.run(
            [*command, "-shared", "-fPIC", str(source), "-o", str(Path(folder, "try.so"))],
            capture_output=True,
        )
        return done.returncode == 0


@cache
def _version(command: tuple[str, ...]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True).stdout


def cache_folder() -> Path:
    """Where compiled stacks are kept: $SLUICE_CACHE, else below the user's cache folder."""
    if os.environ.get("SLUICE_CACHE"):
        return Path(os.environ["SLUICE_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"


def flags() -> tuple[str, ...]:
    """Compiler options; $SLUICE_CFLAGS adds to them (sanitizers, for instance)."""
    extra = tuple(shlex.split(os.environ.get("SLUICE_CFLAGS", "")))
    return ("-std=gnu11", "-O2", "-march=native", "-g1", "-fPIC", "-shared", *WARNINGS, *extra)


@dataclass(frozen=True)
class Compiled:
    """A library, and how long the C compiler took for it (0 when it was kept from before)."""

    path: Path
    seconds: float
    messages: str


def _fingerprint(generated: Generated, command: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for text in (generated.header, generated.source, _version(command), *command, *flags()):
        digest.update(text.encode() + b"\0")
    for path in sorted(RUNTIME.rglob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def compile_library(generated: Generated, fresh: bool = False) -> Compiled:
    """The shared library of a generated stack; with `fresh`, compiled even when it is kept.

    Raises CompilerError with what the compiler said.
    """
    command = compiler()
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{generated.name}-{_fingerprint(generated, command)}.so"
    if path.exists() and not fresh:
        return Compiled(path, 0.0, "")
    with tempfile.TemporaryDirectory(dir=folder) as work:
        Path(work, f"{generated.name}.h").write_text(generated.header)
        source = Path(work, f"{generated.name}.c")
        source.write_text(generated.source)
        made = Path(work, path.name)
        includes = [f"-I{work}", f"-I{RUNTIME}", f"-I{RUNTIME / 'io'}"]
        begin = time.perf_counter()
        done = subprocess.run(
            [
                *command,
                *flags(),
                *includes,
                str(source),
                *map(str, RUNTIME_SOURCES),
                "-o",
                str(made),
                "-ldl",
                "-lm",
            ],
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise CompilerError(f"the C compiler refused:\n{done.stderr.strip()[:8000]}")
        made.replace(path)
    return Compiled(path, seconds, done.stderr)
