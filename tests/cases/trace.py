"""Runs a directed case twice: once for its results, once to check that no instance is left."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.run import Result, leaves_nothing, run
from tests.support.stacks import whole


def trace(*packets: bytes | tuple[bytes, int] | Sequence[bytes]) -> Result:
    """Run tcp_ip on the packets; check that no instance remains after the timeouts."""
    flat: list[bytes | tuple[bytes, int]] = []
    for packet in packets:
        if isinstance(packet, (bytes, tuple)):
            flat.append(packet)  # type: ignore[arg-type]
        else:
            flat.extend(packet)
    result = run(whole(), flat)
    leaves_nothing(whole(), flat, result)
    return result
