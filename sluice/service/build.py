"""A service to an executable file, which is cached by its content."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from sluice.engine.cache import SERVICE, WORK, CacheError, cache_folder, trim, use
from sluice.engine.compiler import CompilerError, compiler, flags
from sluice.engine.sealed_file import move, seal

RUNTIME = Path(__file__).resolve().parent / "runtime"
SOURCES = ("instance.c", "socket.c", "pool.c", "worker.c", "main.c")


def build_program(name: str, *sources: str) -> Path:
    """The executable of compiled processes, which run as services of one process of the system.

    Raises CompilerError, and CacheError where there is no place for it.
    """
    command = compiler()
    options = [*flags(), "-pthread", f"-I{RUNTIME}"]
    digest = hashlib.sha256()
    for text in (*command, *options, *sources):
        digest.update(text.encode() + b"\0")
    for path in sorted(RUNTIME.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    folder = cache_folder()
    path = folder / f"{name}-{digest.hexdigest()[:32]}{SERVICE}"
    if use(path) is not None:
        return path
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=WORK) as work:
            files = [str(RUNTIME / each) for each in SOURCES]
            names = [f"service_program_{number}" for number in range(len(sources))]
            for each, source in zip(names, sources, strict=True):
                program = Path(work, f"{each}.c")
                program.write_text(f"#define service_program {each}\n{source}", encoding="utf-8")
                files.append(str(program))
            table = Path(work, "table.c")
            table.write_text(_table(names), encoding="utf-8")
            files.append(str(table))
            made = Path(work, path.name)
            done = subprocess.run([*command, *options, *files, "-o", str(made)], capture_output=True, text=True)
            if done.returncode:
                raise CompilerError(f"the C compiler refused:\n{done.stderr.strip()[:8000]}")
            seal(made)
            os.chmod(made, 0o700)
            move(made, path)
    except OSError as error:
        raise CacheError(
            f"{error.filename or folder}: {error.strerror}; set SLUICE_CACHE to a folder in which compiled programs "
            "can be written"
        ) from error
    trim(folder)
    return path


def _table(names: list[str]) -> str:
    """The C that lists all services."""
    declared = "".join(f"extern const struct service_program {each};\n" for each in names)
    listed = ", ".join(f"&{each}" for each in names)
    return (
        f'#include "service.h"\n{declared}extern const struct service_program *const service_programs[];\n'
        f"const struct service_program *const service_programs[] = {{{listed}}};\n"
        f"extern const unsigned service_program_count;\nconst unsigned service_program_count = {len(names)};\n"
    )
