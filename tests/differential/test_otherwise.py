"""Packets of a group that go otherwise than most: what templates count at once is right also beside them."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.box import compile_stack
from sluice.ir.build import Hook
from sluice.stacks.find import find_stack
from tests.differential.both import Compared, Packet, assert_same, compared
from tests.support.packets import TCP, UDP, eth, ip4, ip6, tcp, udp

STREAMS = frozenset({Hook("tcp", "data")})
SEGMENT = tcp(1000, 80, 1, flags="A", payload=b"some bytes")
MOST = eth(ip4(SEGMENT, TCP))

ETHERNET = {
    "as most": MOST,
    "with bytes behind the datagram": MOST + bytes(6),
    "ARP": MOST[:12] + b"\x08\x06" + bytes(28),
    "no header of Ethernet": MOST[:9],
    "no header of IPv4": MOST[:20],
    "no header of TCP": MOST[:40],
    "a VLAN": eth(ip4(SEGMENT, TCP), 5),
    "IPv6": eth(ip6(SEGMENT, TCP)),
    "UDP": eth(ip4(udp(53, 53, b"query"), UDP)),
    "an option of IPv4": MOST[:14] + b"\x46" + MOST[15:34] + bytes(4) + MOST[34:],
    "a fragment": MOST[:20] + b"\x20\x00" + MOST[22:],
    "no length": MOST[:16] + b"\0\0" + MOST[18:],
    "a length too short": MOST[:16] + struct.pack(">H", 19) + MOST[18:],
}
OTHERS = [(1, data) for data in ETHERNET.values()] + [(101, ip4(SEGMENT, TCP)), (147, MOST), (113, MOST)]


@pytest.fixture(scope="module")
def made() -> Compared:
    stack = find_stack("tcp_ip")
    return compared(compile_stack(stack, python=STREAMS), stack)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([(1, MOST), *OTHERS]), st.integers(0, 40)), max_size=80))
def test_any_packets(made: Compared, chosen: list[tuple[tuple[int, bytes], int]]):
    """Some of them with bytes on the wire that were not captured."""
    packets = [Packet(data, time, kind, length=len(data) + more) for time, ((kind, data), more) in enumerate(chosen)]
    assert_same(made, packets)


def test_each_among_most(made: Compared):
    for kind, data in OTHERS:
        others = [Packet(MOST, time, length=len(MOST)) for time in range(40)]
        others[7] = others[35] = Packet(data, 7, kind, length=len(data) + 3)
        assert_same(made, others)
