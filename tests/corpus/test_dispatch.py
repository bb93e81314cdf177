"""What workers count of a capture adds up to what one box counts, so that every instance lived on one of them."""

from __future__ import annotations

from collections import Counter

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.dispatch import LearningDispatch
from sluice.stacks.find import find_stack
from tests.support.budget import in_matrix
from tests.support.capture import Packet, read_packets
from tests.support.corpus import captures

WORKERS = 3

DIVIDED = {
    "open5gs_open5gs__ipsec_reg.pcapng": "a datagram in one tunnel that answers one in another, both known",
}
"""Captures of which packets have keys of two workers. This is not so if the keys of a file are looked at first."""


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["tcp_ip", in_matrix("everything")])
def test_workers_count_what_one_box_counts(name: str) -> None:
    stack = compile_stack(find_stack(name))
    other: list[str] = []
    used: set[int] = set()
    for path in captures():
        packets = read_packets(stack.compiled.path, path)
        dealt = LearningDispatch(stack, WORKERS, seed=1)
        lots: list[list[Packet]] = [[] for _ in range(WORKERS)]
        for packet in packets:
            lots[dealt.worker(packet.data, packet.link_type, packet.length)].append(packet)
        divided = dealt.divided
        dealt.close()
        used |= {number for number, lot in enumerate(lots) if lot}
        if sum((counted(stack, lot) for lot in lots), Counter()) != counted(stack, packets):
            assert divided, path.name
            other.append(path.name)
    assert used == set(range(WORKERS))
    assert other == ([path.name for path in captures() if path.name in DIVIDED] if name == "everything" else [])


def counted(stack: CompiledStack, packets: list[Packet]) -> Counter[tuple[str, str]]:
    """All counters above 0. Nothing times out: a worker's time is that of its own packets."""
    settings = Settings(timeouts=False, seed=1, memory=1 << 26, max_instances=1 << 16)
    with Box(stack, settings) as box:
        box.burst([(packet.data, packet.time, packet.link_type, packet.length) for packet in packets])
        box.finish()
        return Counter({(layer, name): n for layer, own in box.counters().items() for name, n in own.items() if n})
