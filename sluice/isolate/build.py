"""Compiles the BPF programs on demand, and caches the object by the content of its sources and by compiler."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from sluice.engine.cache import CacheError, cache_folder
from sluice.isolate.errors import IsolateError

_HERE = Path(__file__).resolve().parent
_PROGRAMS = _HERE / "bpf" / "account.bpf.c"
_DROP = _HERE / "bpf" / "drop.bpf.c"
_NIC = _HERE / "bpf" / "nic.bpf.c"
_GAPS = _HERE / "gaps.c"
COMPILERS = ("clang", "clang-19", "clang-16", "clang-14")
"""Tried in this order, after the one in the environment variable SLUICE_BPF_CC. gcc 12 has no usable BPF back end."""
_ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64", "ppc64le": "powerpc", "s390x": "s390", "riscv64": "riscv"}
"""The machine's name, as libbpf's macros spell it."""


def compiled() -> Path:
    """The path of the object with the programs that account; compiles them if no cached object fits. Raises
    IsolateError.
    """
    return _compiled(_PROGRAMS)


def compiled_drop() -> Path:
    """The same with the programs that drop packets."""
    return _compiled(_DROP)


def compiled_nic() -> Path:
    """The same with those that drop packets by their destination."""
    return _compiled(_NIC)


def _compiled(source: Path) -> Path:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise IsolateError(f"the BPF programs are not built for {machine}; they are for {', '.join(_ARCHITECTURES)}")
    # asm/types.h lies in a folder of the architecture on Debian, where clang does not look for target bpf
    options = ["-target", "bpf", "-g", f"-D__TARGET_ARCH_{_ARCHITECTURES[machine]}"]
    return _cached(source, [*options, "-Wno-unused-parameter", "-idirafter", f"/usr/include/{machine}-linux-gnu", "-c"])


def compiled_gaps() -> Path:
    """The path of the program that reads the clock (gaps.c)."""
    return _cached(_GAPS, [])


def _cached(source: Path, options: list[str]) -> Path:
    """The compiled form of a source, made now or earlier."""
    command = [_compiler(), "-O2", "-Wall", "-Wextra", *options]
    key = hashlib.sha256(" ".join(command).encode() + _version(command[0]))
    for path in (source, *sorted(source.parent.glob("*.h"))):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    target = _folder() / f"isolate-{source.name.split('.')[0]}-{key.hexdigest()[:24]}"
    if not target.exists():
        _compile(command, source, target)
    return target


def _compiler() -> str:
    names = [os.environ["SLUICE_BPF_CC"]] if os.environ.get("SLUICE_BPF_CC") else COMPILERS
    compiler = next((found for name in names if (found := shutil.which(name))), None)
    if compiler is None:
        raise IsolateError(
            f"compiling the BPF programs needs clang, and there is none ({', '.join(names)});\n"
            "    run scripts/setup.sh --isolate, or install clang and libbpf's headers (Debian: clang libbpf-dev)"
        )
    return compiler


def _version(compiler: str) -> bytes:
    return subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout


def _compile(command: list[str], source: Path, target: Path) -> None:
    """Write the object under another name first: two processes may compile it at the same time."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".compiling-")
    os.close(handle)
    try:
        done = subprocess.run([*command, str(source), "-o", name], capture_output=True, text=True, check=False)
        if done.returncode:
            raise IsolateError(
                f"{command[0]} could not compile {source}:\n{done.stderr.strip()}\n"
                "    libbpf's headers are needed (Debian: libbpf-dev, linux-libc-dev)"
            )
        os.chmod(name, 0o755)
        os.replace(name, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _folder() -> Path:
    """Where objects are cached; they are loaded into the kernel, so no other user may write there (engine/cache.py)."""
    try:
        return cache_folder()
    except CacheError as error:
        raise IsolateError(str(error)) from error
