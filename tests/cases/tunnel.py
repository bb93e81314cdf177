"""Directed cases within tunnels: each frame's packet is encapsulated; the tests check the results for the inner one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sluice.engine.box import Settings
from tests.support.packets import eth, ip4, udp
from tests.support.run import Result, leaves_nothing, run
from tests.support.stacks import all_protocols

Wrap = Callable[[bytes], bytes]
Packets = Sequence[bytes | tuple[bytes, int]]

OUTER = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
UDP, GRE = 17, 47
GTP_PORT, VXLAN_PORT = 2152, 4789
ETHERNET = 14
"""The bytes of an Ethernet header without tags."""


def none(frame: bytes) -> bytes:
    """No tunnel."""
    return frame


def gtp(frame: bytes) -> bytes:
    """GTP-U, as a base station sends it: the IP packet as a T-PDU."""
    packet = frame[ETHERNET:]
    return in_udp(GTP_PORT, struct.pack(">BBHI", 0x30, 255, len(packet), 0x1234) + packet)


def pptp(frame: bytes, number: int = 1) -> bytes:
    """PPTP: PPP in GRE version 1, with sequence numbers."""
    packet = frame[ETHERNET:]
    inner = struct.pack(">H", 0x21 if packet[0] >> 4 == 4 else 0x57) + packet
    return eth(ip4(struct.pack(">HHHHI", 0x3001, 0x880B, len(inner), 7, number) + inner, GRE, *OUTER))


def vxlan(frame: bytes) -> bytes:
    """VXLAN: it carries the whole frame."""
    return in_udp(VXLAN_PORT, struct.pack(">II", 0x08 << 24, 99 << 8) + frame)


def in_udp(port: int, payload: bytes) -> bytes:
    return eth(ip4(udp(port, port, payload), UDP, *OUTER))


TUNNELS: dict[str, Wrap] = {"none": none, "gtp": gtp, "pptp": pptp, "vxlan": vxlan}


def overhead(wrap: Wrap) -> int:
    """The bytes that a tunnel adds before the inner IP packet, compared with a frame without a tunnel."""
    frame = eth(ip4(b""))
    return len(wrap(frame)) - len(frame)


def through(
    wrap: Wrap,
    *packets: bytes | Iterable[bytes],
    times: Sequence[float] | None = None,
    settings: Settings | None = None,
) -> Result:
    """Run stack everything on the packets, each inside the tunnel; return the events and rows of the inner TCP only.

    Without `times`, check that no instance remains after the timeouts.
    """
    flat: list[bytes] = []
    for packet in packets:
        flat.extend([packet] if isinstance(packet, bytes) else packet)
    return inside([wrap(frame) for frame in flat], times, settings)


def inside(frames: Packets, times: Sequence[float] | None = None, settings: Settings | None = None) -> Result:
    """The same for frames that are already inside the tunnel, whole or truncated by the snap length."""
    result = run(all_protocols(), frames, times, settings=settings)
    if times is None and settings is None:
        leaves_nothing(all_protocols(), frames, result)
    events = [event for event in result.events if event.layer.startswith("tcp")]
    return replace(result, events=events, rows=[row for row in result.rows if row["proto"] == "tcp"])
