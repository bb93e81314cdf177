"""The back end for DPDK (runtime/dpdk): a library of its own, which is compiled when it is used first, and cached."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from sluice.engine.compiler import RUNTIME, CompilerError, compile_shared

SOURCES = (*sorted(RUNTIME.glob("dpdk/*.c")), RUNTIME / "io" / "removal.c", RUNTIME / "io" / "source_fault.c")
_PACKAGE = "libdpdk"


class DpdkError(Exception):
    """DPDK is not installed, or its back end cannot be compiled; the text says what to do."""


@cache
def dpdk_flags() -> tuple[str, ...]:
    """The options with which the back end is compiled and linked. Raises DpdkError if DPDK is not installed."""
    if shutil.which("pkg-config") is None:
        raise DpdkError("no pkg-config, which finds DPDK: install it (Debian: pkg-config, dpdk-dev)")
    done = subprocess.run(["pkg-config", "--cflags", "--libs", _PACKAGE], capture_output=True, text=True)
    if done.returncode:
        raise DpdkError(
            "DPDK is not installed: install it with its headers (Debian: dpdk-dev, or scripts/setup.sh --dpdk)"
        )
    return tuple(shlex.split(done.stdout))


def dpdk_library() -> Path:
    """The library of the back end. Raises DpdkError; CacheError if it cannot be stored."""
    found = dpdk_flags()
    try:
        return compile_shared("sluice_dpdk", SOURCES, found)
    except CompilerError as error:
        raise DpdkError(f"the back end for DPDK cannot be compiled: {error}") from error
