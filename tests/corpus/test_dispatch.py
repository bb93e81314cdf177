"""What workers count of a capture adds up to what one box counts, so that every instance lived on one of them."""

from __future__ import annotations

from collections import Counter

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.dispatch import Dispatch
from sluice.stacks.find import find_stack
from tests.support.budget import in_matrix
from tests.support.capture import Packet, read_packets
from tests.support.corpus import captures

WORKERS = 3

TUNNELS = {
    "aol_moloch__80211http.pcap": "802.11: the transmitters of both directions, whose fragments are joined, differ",
    "cisco-system-traffic-generator_trex-core__tcp2_http_simple_gtpu_c.pcap": "each direction in a tunnel of its own",
    "cisco-system-traffic-generator_trex-core__tcp2_http_simple_gtpu_ipv6_c.pcap": "the same",
    "ntop_nDPI__teredo.pcap": "two hosts, by several relays",
    "open5gs_open5gs__ipsec_reg.pcapng": "captured in the tunnel and behind it",
    "open5gs_open5gs__nonipsec_reg.pcapng": "the same",
    "open5gs_open5gs__srsenb.pcapng": "the same",
    "orion-belt_tempo__TCPTRAFFIC.pcap": "the same",
}
"""Captures in which one connection is in several tunnels, or of several 802.11 transmitters, or in one and outside:
`everything` looks into them, and they go where the tunnel goes.
"""


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["tcp_ip", in_matrix("everything")])
def test_workers_count_what_one_box_counts(name: str) -> None:
    stack = compile_stack(find_stack(name))
    dealt = Dispatch(stack, WORKERS, seed=1)
    other: list[str] = []
    used: set[int] = set()
    for path in captures():
        packets = read_packets(stack.compiled.path, path)
        lots: list[list[Packet]] = [[] for _ in range(WORKERS)]
        for packet in packets:
            lots[dealt.worker(packet.data, packet.link_type, packet.length)].append(packet)
        used |= {number for number, lot in enumerate(lots) if lot}
        if sum((counted(stack, lot) for lot in lots), Counter()) != counted(stack, packets):
            other.append(path.name)
    assert used == set(range(WORKERS))
    assert other == ([path.name for path in captures() if path.name in TUNNELS] if name == "everything" else [])


def counted(stack: CompiledStack, packets: list[Packet]) -> Counter[tuple[str, str]]:
    """All counters above 0. Nothing times out: a worker's time is that of its own packets."""
    settings = Settings(timeouts=False, seed=1, memory=1 << 26, max_instances=1 << 16)
    with Box(stack, settings) as box:
        box.burst([(packet.data, packet.time, packet.link_type, packet.length) for packet in packets])
        box.finish()
        return Counter({(layer, name): n for layer, own in box.counters().items() for name, n in own.items() if n})
