"""The proxy as an executable file, which is cached by its content."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from sluice.engine.cache import SERVICE
from sluice.engine.compiler import CompilerError, compiler
from sluice.engine.made_once import made_once

_SOURCE = Path(__file__).resolve().parent / "proxy.c"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


def build_proxy() -> Path:
    """The executable. Raises CompilerError, and CacheError where there is no place for it."""
    command = [*compiler(), *_FLAGS]
    texts = [each.read_bytes() for each in sorted(_SOURCE.parent.glob("proxy*.[ch]"))]
    digest = hashlib.sha256(b"\0".join(["\0".join(command).encode(), *texts])).hexdigest()[:32]

    def make(made: Path) -> None:
        done = subprocess.run([*command, str(_SOURCE), "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            raise CompilerError(f"the C compiler refused:\n{done.stderr.strip()[:8000]}")

    return made_once(f"proxy-{digest}{SERVICE}", make, executable=True)
