"""The memory that a service takes: known before it runs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What is allocated at start: for all workers together."""

    instances: int = 4096
    buffers: int = 8192
    buffer_size: int = 16384
    workers: int = 1
    idle: int = 600
    """Seconds after which an instance ends that did nothing; 0: never."""


@dataclass(frozen=True)
class Bounds:
    """Bytes. `instance` is what one connection takes while it is idle; `busy` with a buffer on both sides of each of
    its channels; `total` is what the process reserves at start, and never exceeds.
    """

    instance: int
    busy: int
    total: int


def bounds_of(program: Path, channels: int, limits: Limits) -> Bounds:
    """The bounds of a compiled program whose instances have that many channels."""
    done = subprocess.run([str(program), "--sizes"], capture_output=True, text=True, check=True)
    sizes: dict[str, int] = json.loads(done.stdout)
    head = (sizes["instance"] + channels * sizes["channel"] + 15) & ~15
    instance = (head + sizes["frame"] + 63) & ~63
    buffer = (sizes["buffer"] + limits.buffer_size + 63) & ~63
    return Bounds(
        instance,
        instance + 2 * channels * buffer,
        limits.instances * instance + limits.buffers * buffer,
    )
