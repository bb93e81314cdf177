"""Which C compiler and archiver the Makefile of `sluice build` takes on a machine where make's own are missing."""

from __future__ import annotations

import shlex
import shutil
import sys

from sluice.engine.compiler import ZIG, CompilerError, compiler


def makefile_defaults() -> str:
    """Lines that set CC and AR, unless the user does, to what is here; empty where make's own cc and ar are."""
    found: dict[str, str] = {}
    try:
        if shutil.which("cc") is None:
            found["CC"] = _command(compiler())
        if shutil.which("ar") is None:
            archiver = _archiver(compiler())
            if archiver:
                found["AR"] = _command(archiver)
    except CompilerError:
        return ""  # C can be written where there is no compiler
    lines = [f"ifeq ($(origin {name}),default)\n{name} := {command}\nendif\n" for name, command in found.items()]
    said = "# What Sluice found where it wrote this, which has no cc or no ar; make CC=... AR=... takes others.\n"
    return said + "".join(lines) if lines else ""


def _archiver(command: tuple[str, ...]) -> tuple[str, ...] | None:
    if command == ZIG:
        return (sys.executable, "-m", "ziglang", "ar")
    return next(((name,) for name in ("gcc-ar", "llvm-ar") if shutil.which(name)), None)


def _command(words: tuple[str, ...]) -> str:
    return shlex.join(words).replace("$", "$$")
