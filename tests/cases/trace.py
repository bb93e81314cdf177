"""How a directed case is run: once for what it delivers, once for what it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.run import Result, leaves_nothing, run
from tests.support.stacks import whole


def trace(*packets: bytes | tuple[bytes, int] | Sequence[bytes]) -> Result:
    """tcp_ip over the packets; afterwards no instance is left behind, other than lingering."""
    flat: list[bytes | tuple[bytes, int]] = []
    for packet in packets:
        if isinstance(packet, (bytes, tuple)):
            flat.append(packet)  # type: ignore[arg-type]
        else:
            flat.extend(packet)
    result = run(whole(), flat)
    leaves_nothing(whole(), flat, result)
    return result
