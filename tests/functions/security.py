"""Boxes with one security function over a small stack, compiled once, and what they do with packets."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.lang import Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.icmp import icmp_parser
from sluice.protocols.icmp6 import icmp6_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.ipv6_fragment import ipv6_fragment_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from tests.support.capture import pcap
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.packets import checksum, eth, ip4, ip6, pseudo_header

CAPTURE_HEADER, PACKET_HEADER = 24, 16


def small_stack() -> Stack:
    """Ethernet, IPv4 and IPv6 with fragments, ICMP, UDP and TCP."""
    s = Stack("small")
    s.eth, s.ipv4, s.ipv6, s.frag = ethernet_parser(), ipv4_parser(), ipv6_parser(), ipv6_fragment_parser()
    s.icmp, s.icmp6, s.udp, s.tcp = icmp_parser(), icmp6_parser(), udp_parser(), tcp_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.eth >> s.ipv6) + Pred(s.eth.header.type == 0x86DD)
    over6 = s.ipv6 | s.frag
    ip = s.ipv4 | over6
    s += (ip >> s.tcp) + Pred(ip.offers.protocol == 6)
    s += (ip >> s.udp) + Pred(ip.offers.protocol == 17)
    s += (s.ipv4 >> s.icmp) + Pred(s.ipv4.offers.protocol == 1)
    s += (s.ipv4 >> s.ipv4) + Pred(one_of(s.ipv4.offers.protocol, 4))
    s += (over6 >> s.icmp6) + Pred(over6.offers.protocol == 58)
    s += (s.ipv6 >> s.frag) + Pred(s.ipv6.offers.protocol == 44)
    return s


@cache
def compiled(function: str) -> CompiledStack:
    """A function over the small stack."""
    return compile_stack(small_stack(), tuple(find_functions([function]).c))


@dataclass(frozen=True)
class Ran:
    """What a run came to: the packets that left, with their times, the rows, and what is counted."""

    left: list[bytes]
    times: list[float]
    rows: list[dict[str, Any]]
    reports: dict[str, int]


def run(
    function: str,
    frames: Sequence[bytes] | Path,
    parameters: str = "",
    *,
    times: Sequence[float] | None = None,
    step: float = 0.001,
    rows: bool = True,
    most: int = 1 << 14,
) -> Ran:
    """Run a function over packets, which come `step` seconds apart unless their times are given, or over those of a
    capture, as an inline box.
    most: instances of a layer, and shared objects of a declaration.
    """
    stack = compiled(function)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        capture = frames if isinstance(frames, Path) else folder / "in.pcap"
        if not isinstance(frames, Path):
            when = [1000 + number * step for number in range(len(frames))] if times is None else list(times)
            capture.write_bytes(pcap(frames, when))
        given = ",".join(filter(None, [parameters, f"out={folder}/out" if rows else ""]))
        inline = any(each.inline for each in stack.functions.c)
        output = folder / "out.pcap" if inline else None
        settings = Settings(seed=1, max_instances=most, memory=1 << 26)
        with Box(stack, settings, [], [given], output=output) as box:
            outcome = box.run(capture)
            check_conservation(stack.program, box.counters())
            check_all_ended(stack.program, box.counters())
        written = [json.loads(line) for line in (folder / "out").read_text().splitlines()] if rows else []
        left, left_times = read_pcap(output.read_bytes()) if output else ([], [])
    return Ran(left, left_times, written, outcome.reports)


def read_pcap(data: bytes) -> tuple[list[bytes], list[float]]:
    """The packets of a capture with nanoseconds, and their times."""
    at, found, times = CAPTURE_HEADER, list[bytes](), list[float]()
    while at < len(data):
        seconds, fraction, size = (int.from_bytes(data[at + 4 * n : at + 4 * n + 4], "little") for n in range(3))
        found.append(data[at + PACKET_HEADER : at + PACKET_HEADER + size])
        times.append(seconds + fraction / 1e9)
        at += PACKET_HEADER + size
    return found, times


def icmp4(kind: int, code: int, rest: bytes, src: bytes, dst: bytes) -> bytes:
    """A frame with an ICMP message; `rest` follows its checksum."""
    head = bytes([kind, code])
    return eth(ip4(head + checksum(head + bytes(2) + rest).to_bytes(2, "big") + rest, 1, src, dst))


def icmp6(kind: int, code: int, rest: bytes, src: bytes, dst: bytes) -> bytes:
    """A frame with an ICMPv6 message."""
    head = bytes([kind, code])
    message = head + bytes(2) + rest
    total = checksum(pseudo_header(src, dst, 58, len(message)) + message)
    return eth(ip6(head + total.to_bytes(2, "big") + rest, 58, src, dst))


def wrong_checksums(frame: bytes) -> list[str]:
    """The checksums of a frame with a whole IPv4 or IPv6 packet that do not hold: "ip", "transport"."""
    ip = frame[14:]
    version = ip[0] >> 4
    header = 4 * (ip[0] & 15) if version == 4 else 40
    size = int.from_bytes(ip[2:4], "big") if version == 4 else 40 + int.from_bytes(ip[4:6], "big")
    protocol, body = ip[9] if version == 4 else ip[6], ip[header:size]
    addresses = (ip[12:16], ip[16:20]) if version == 4 else (ip[8:24], ip[24:40])
    found = ["ip"] if version == 4 and checksum(ip[:header]) else []
    pseudo = b"" if protocol == 1 else pseudo_header(*addresses, protocol, len(body))
    silent = protocol == 17 and body[6:8] == b"\0\0"
    if protocol in (1, 6, 17, 58) and not silent and checksum(pseudo + body):
        found.append("transport")
    return found
