"""Identifies the processor: -march=native code may not run on another machine that shares the home directory."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

_KINDS = {
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),  # x86
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),  # Arm
    *("isa", "uarch", "cpu", "machine", "features"),  # RISC-V, POWER, s390
}
"""Fields of /proc/cpuinfo that identify a processor model. Others give the current speed or the number of a core."""


@functools.cache
def processor() -> str:
    """A text that is equal on machines with the same instruction set, as far as the kernel reports it."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = platform.processor()
    found = [platform.machine()]
    for line in text.split("\n\n")[0].splitlines():  # the first core
        name, _, value = line.partition(":")
        if name.strip() in _KINDS:
            found.append(f"{name.strip()}:{value}")
    return "\n".join(found)
