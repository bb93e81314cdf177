"""Captures of which every cut is tried, and the stack that they go through."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

from sluice.engine.box import CompiledStack, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.functions import READY
from sluice.hooks.function import CFunction
from sluice.stacks.find import find_stack
from tests.support.capture import Packet, read_packets
from tests.support.corpus import OWN

TOUCH = Path(__file__).resolve().parent.parent / "support" / "touch.c"

FILES = (
    "gen__tcp_loss_reorder.pcap",
    "gen__tcp_over_ipfrag.pcap",
    "gen__udp_ipfrag.pcap",
    "gen__tun_qinq.pcap",
    "gen__tun_ip6tnl.pcap",
    "gen__tun_sit.pcap",
    "seladb_PcapPlusPlus__ip6_fragments.pcap",
    "seladb_PcapPlusPlus__ipv6_options.pcapng",
    "seladb_PcapPlusPlus__ipv6_opt_fragments.pcap",
    "the-tcpdump-group_libpcap__ipv6_ext_headers.pcap",
    "OISF_suricata-verify__tcp-empty-sack-tcp-opt.pcap",
    "OISF_suricata-verify__tcp-fastopen-01-tfo.pcap",
    "OISF_suricata-verify__decode-sll2-01-input.pcap",
    "seladb_PcapPlusPlus__sll.pcap",
    "seladb_PcapPlusPlus__raw_ip.pcap",
    "gen__quic_v1_retry_ipv6.pcap",
    "aol_moloch__mpls-basic.pcap",
    "aol_moloch__gtp-iphone.pcap",
    "aol_moloch__v6-http.pcap",
    "OISF_suricata-verify__ipv6-evasion-ipv6-malformed-fragments-1-frag-1.pcap",
)
"""Each with another way through the stack."""

PACKETS_EACH = 8
LONGEST = 200
"""Bytes of a packet up to which every cut is tried; after them lies payload only, and a few cuts do."""


@cache
def stack() -> CompiledStack:
    """tcp_ip with a flow log, and every event's bytes read."""
    return compile_stack(find_stack("tcp_ip"), functions())


def functions() -> tuple[CFunction, ...]:
    """The functions of `stack`."""
    files = (READY / "flow_log.c", TOUCH)
    return tuple(read_c_function(file.stem, file.read_text(), str(file)) for file in files)


@cache
def samples() -> dict[str, list[Packet]]:
    """For each of FILES its first packets of as many sizes, which is to say, of as many kinds."""
    return {name: _different(read_packets(stack().compiled.path, OWN / name)) for name in FILES}


def _different(packets: list[Packet]) -> list[Packet]:
    found: dict[int, Packet] = {}
    for packet in packets:
        found.setdefault(min(len(packet.data), LONGEST), packet)
    return list(found.values())[:PACKETS_EACH]


def cuts(packet: Packet) -> list[int]:
    """Lengths to cut a packet to, 0 and the whole of it included."""
    size = len(packet.data)
    return sorted({*range(min(size, LONGEST) + 1), *range(LONGEST, size, 97), max(size - 1, 0), size})


def records(file: bytes) -> list[tuple[int, bool]]:
    """Of each record or block of a capture file, where it ends, and whether it holds a packet.

    What lies before such a place is a whole file.
    """
    found: list[tuple[int, bool]] = []
    at = 0
    if file[:4] == b"\x0a\x0d\x0d\x0a":
        order = "<" if file[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
        while at + 8 <= len(file):
            kind, size = struct.unpack_from(order + "II", file, at)
            at += size
            found.append((at, kind in (3, 6)))
        return found
    order = "<" if file[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    found.append((at, False))
    while at + 16 <= len(file):
        (captured,) = struct.unpack_from(order + "I", file, at + 8)
        at += 16 + captured
        found.append((at, True))
    return found
