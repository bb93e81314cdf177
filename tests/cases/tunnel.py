"""Directed cases within tunnels: each frame's packet goes into one; what the box says of the inside is looked at."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from sluice.engine.box import CompiledStack, Settings
from sluice.stacks.everything import everything
from tests.support.packets import eth, ip4, udp
from tests.support.run import Result, leaves_nothing, run, watch_all

Wrap = Callable[[bytes], bytes]
Packets = Sequence[bytes | tuple[bytes, int]]

OUTER = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
UDP, GRE = 17, 47
GTP_PORT, VXLAN_PORT = 2152, 4789
ETHERNET = 14
"""Bytes of a header without tags."""


def none(frame: bytes) -> bytes:
    """No tunnel."""
    return frame


def gtp(frame: bytes) -> bytes:
    """GTP-U, as from a base station: the IP packet as a T-PDU."""
    packet = frame[ETHERNET:]
    return in_udp(GTP_PORT, struct.pack(">BBHI", 0x30, 255, len(packet), 0x1234) + packet)


def pptp(frame: bytes) -> bytes:
    """PPTP: PPP in GRE version 1, numbered."""
    packet = frame[ETHERNET:]
    inner = struct.pack(">H", 0x21 if packet[0] >> 4 == 4 else 0x57) + packet
    return eth(ip4(struct.pack(">HHHHI", 0x3001, 0x880B, len(inner), 7, 1) + inner, GRE, *OUTER))


def vxlan(frame: bytes) -> bytes:
    """VXLAN: the whole frame."""
    return in_udp(VXLAN_PORT, struct.pack(">II", 0x08 << 24, 99 << 8) + frame)


def in_udp(port: int, payload: bytes) -> bytes:
    return eth(ip4(udp(port, port, payload), UDP, *OUTER))


TUNNELS: dict[str, Wrap] = {"none": none, "gtp": gtp, "pptp": pptp, "vxlan": vxlan}


def overhead(wrap: Wrap) -> int:
    """Bytes that a tunnel puts before the inner IP packet, beyond the Ethernet header of a frame without one."""
    frame = eth(ip4(b""))
    return len(wrap(frame)) - len(frame)


@cache
def stack() -> CompiledStack:
    """Stack everything, watched."""
    return watch_all(everything())


def through(
    wrap: Wrap,
    *packets: bytes | Iterable[bytes],
    times: Sequence[float] | None = None,
    settings: Settings | None = None,
) -> Result:
    """Stack everything over the packets, each in the tunnel; of what it says only what TCP within says.

    Without `times` no instance is left behind afterwards, other than lingering.
    """
    flat: list[bytes] = []
    for packet in packets:
        flat.extend([packet] if isinstance(packet, bytes) else packet)
    return inside([wrap(frame) for frame in flat], times, settings)


def inside(frames: Packets, times: Sequence[float] | None = None, settings: Settings | None = None) -> Result:
    """The same over frames that are in the tunnel already, whole or cut by the snap length."""
    result = run(stack(), frames, times, settings=settings)
    if times is None and settings is None:
        leaves_nothing(stack(), frames, result)
    events = [event for event in result.events if event.layer.startswith("tcp")]
    return replace(result, events=events, rows=[row for row in result.rows if row["proto"] == "tcp"])
