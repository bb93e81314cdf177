"""Selects the C compiler and archiver for the Makefile of `sluice build` if make's defaults are not installed."""

from __future__ import annotations

import shlex
import shutil
import sys

from sluice.engine.compiler import ZIG, CompilerError, compiler


def makefile_defaults() -> str:
    """Makefile lines that set CC and AR to installed tools, unless the user sets them; empty if cc and ar exist."""
    found: dict[str, str] = {}
    try:
        if shutil.which("cc") is None:
            found["CC"] = _command(compiler())
        if shutil.which("ar") is None:
            archiver = _archiver(compiler())
            if archiver:
                found["AR"] = _command(archiver)
    except CompilerError:
        return ""  # writing C does not require a compiler
    lines = [f"ifeq ($(origin {name}),default)\n{name} := {command}\nendif\n" for name, command in found.items()]
    said = "# What Sluice found where it wrote this, which has no cc or no ar; make CC=... AR=... takes others.\n"
    return said + "".join(lines) if lines else ""


def _archiver(command: tuple[str, ...]) -> tuple[str, ...] | None:
    if command == ZIG:
        return (sys.executable, "-m", "ziglang", "ar")
    return next(((name,) for name in ("gcc-ar", "llvm-ar") if shutil.which(name)), None)


def _command(words: tuple[str, ...]) -> str:
    return shlex.join(words).replace("$", "$$")
