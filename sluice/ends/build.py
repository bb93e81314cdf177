"""The proxy as an executable file, which is cached by its content."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from sluice.engine.cache import SERVICE, WORK, CacheError, cache_folder, trim, use
from sluice.engine.compiler import CompilerError, compiler
from sluice.engine.sealed_file import move, seal

_SOURCE = Path(__file__).resolve().parent / "proxy.c"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


def build_proxy() -> Path:
    """The executable. Raises CompilerError, and CacheError where there is no place for it."""
    command = [*compiler(), *_FLAGS]
    digest = hashlib.sha256("\0".join(command).encode() + _SOURCE.read_bytes()).hexdigest()[:32]
    folder = cache_folder()
    path = folder / f"proxy-{digest}{SERVICE}"
    if use(path) is not None:
        return path
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=WORK) as work:
            made = Path(work, path.name)
            done = subprocess.run([*command, str(_SOURCE), "-o", str(made)], capture_output=True, text=True)
            if done.returncode:
                raise CompilerError(f"the C compiler refused:\n{done.stderr.strip()[:8000]}")
            seal(made)
            os.chmod(made, 0o700)
            move(made, path)
    except OSError as error:
        raise CacheError(f"{error.filename or folder}: {error.strerror}; set SLUICE_CACHE to another folder") from error
    trim(folder)
    return path
