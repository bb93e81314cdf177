"""Which processor this is: what is compiled for one (-march=native) may not run on another that shares the home."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

_KINDS = {
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),  # x86
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),  # Arm
    *("isa", "uarch", "cpu", "machine", "features"),  # RISC-V, POWER, s390
}
"""Lines of /proc/cpuinfo that tell processors apart; others say how fast one runs at the moment, or which one of
several it is.
"""


@functools.cache
def processor() -> str:
    """A text that is the same on all machines that run the same instructions, as far as the kernel tells."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = platform.processor()
    found = [platform.machine()]
    for line in text.split("\n\n")[0].splitlines():  # of the first one
        name, _, value = line.partition(":")
        if name.strip() in _KINDS:
            found.append(f"{name.strip()}:{value}")
    return "\n".join(found)
