"""Packets of a group that leave the fast path: the counters per group stay correct."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.box import Settings, compile_stack
from sluice.ir.hook import Hook
from sluice.lang import Pred, Stack
from sluice.protocols.dns import dns_parser, dns_question_parser, dns_stream_parser
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.vlan import vlan_parser
from sluice.stacks.find import find_stack
from tests.differential.both import Compared, Packet, assert_same, compared, run_compiled
from tests.support.budget import examples
from tests.support.packets import A4, B4, TCP, UDP, eth, ip4, ip6, tcp, udp

STREAMS = frozenset({Hook("tcp", "data")})
SEGMENT = tcp(1000, 80, 1, flags="A", payload=b"some bytes")
MOST = eth(ip4(SEGMENT, TCP))

ETHERNET = {
    "as most": MOST,
    "with bytes after the datagram": MOST + bytes(6),
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


@settings(max_examples=examples(60, 20))
@given(st.lists(st.tuples(st.sampled_from([(1, MOST), *OTHERS]), st.integers(0, 40)), max_size=80))
def test_any_packets(made: Compared, chosen: list[tuple[tuple[int, bytes], int]]):
    """Some of them with bytes on the wire that were not captured."""
    packets = [Packet(data, time, kind, length=len(data) + more) for time, ((kind, data), more) in enumerate(chosen)]
    assert_same(made, packets)


def test_each_among_packets_of_the_fast_path(made: Compared):
    for kind, data in OTHERS:
        others = [Packet(MOST, time, length=len(MOST)) for time in range(40)]
        others[7] = others[35] = Packet(data, 7, kind, length=len(data) + 3)
        assert_same(made, others)


def dns_over_tcp() -> Stack:
    """Questions, each a layer above the one before, as deep as the stack's depth goes."""
    s = Stack("dns_over_tcp", depth=8)
    s.eth, s.vlan, s.ipv4, s.tcp = ethernet_parser(), vlan_parser(), ipv4_parser(), tcp_parser()
    s.dns_stream, s.dns, s.question = dns_stream_parser(), dns_parser(), dns_question_parser()
    typed = s.eth | s.vlan
    s += (typed >> s.ipv4) + Pred(typed.offers.ethertype == 0x0800)
    s += (typed >> s.vlan) + Pred(typed.offers.ethertype == 0x8100)
    s += (s.ipv4 >> s.tcp) + Pred(s.ipv4.offers.protocol == 6)
    s += (s.tcp >> s.dns_stream) + Pred(1)
    s += (s.dns_stream >> s.dns) + Pred(1)
    s += (s.dns >> s.question) + Pred(s.dns.header.questions != 0)
    s += (s.question >> s.question) + Pred(s.question.temp.questions != 0)
    return s


def handshake(port: int) -> list[bytes]:
    there = eth(ip4(tcp(port, 53, 0, "S"), TCP))
    back = eth(ip4(tcp(53, port, 0, "SA", ack=1), TCP, B4, A4))
    return [there, back]


def test_depth_of_a_packet_in_a_series() -> None:
    stack = dns_over_tcp()
    made = compared(compile_stack(stack, python=frozenset({Hook("*", "message"), Hook("*", "asked")})), stack)
    assert "store_fast_path" in made.generated.source

    def segment(port: int, questions: int, *tags: int) -> bytes:
        question = b"\x01a\0" + struct.pack(">HH", 1, 1)
        message = struct.pack(">6H", 9, 0x0100, questions, 0, 0, 0) + questions * question
        return eth(ip4(tcp(port, 53, 1, "A", struct.pack(">H", len(message)) + message), TCP), *tags)

    ports = range(1, 36)
    opened = [Packet(frame, 1) for port in ports for frame in handshake(port)]  # so that data is delivered at once
    packets = [
        Packet(segment(port, questions), port) for port, questions in zip(ports, [1, 4, 7, 2, 0, 5, 3] * 5, strict=True)
    ]
    for at in (3, 17, 18, 30):  # a VLAN tag more, and a layer of questions less
        packets[at] = Packet(segment(at + 1, 5, 5), packets[at].time)
    packets = [*opened, *packets]
    assert_same(made, packets)
    events, counters = run_compiled(made, packets, Settings(seed=1))
    asked: list[int] = []
    for _, name, *_ in events:
        if name == "message":
            asked.append(0)
        else:
            asked[-1] += 1
    # Ethernet, IPv4, TCP and two layers of the message leave three of eight for questions, a VLAN tag two.
    assert asked[:7] == [1, 3, 3, 2, 0, 3, 3] and asked[17:20] == [2, 2, 3]
    assert counters["box"]["too deep"] > 0


def tunnelled(data: bytes, port: int = 1) -> bytes:
    """GTP-U around a datagram, from one of the nodes."""
    return eth(ip4(tunnel(data, port), UDP))


def tunnel(data: bytes, port: int) -> bytes:
    return udp(port, 2152, struct.pack(">BBHI", 0x30, 255, len(data), 7) + data)


OWING = [
    tunnelled(ip4(SEGMENT, TCP)),
    tunnelled(ip4(SEGMENT, TCP), port=2),
    MOST,
    tunnelled(ip4(udp(53, 53, b"query"), UDP)),
    tunnelled(ip4(SEGMENT, TCP))[:-60],
    eth(ip4(tunnel(ip4(SEGMENT, TCP), 1)[:16], UDP, more=True)),
    eth(ip4(tunnel(ip4(SEGMENT, TCP), 1)[16:], UDP, offset=16)),
]


@pytest.fixture(scope="module")
def tunnels() -> Compared:
    stack = find_stack("gtp")
    return compared(compile_stack(stack, python=STREAMS), stack)


@settings(max_examples=examples(40, 15))
@given(st.lists(st.integers(0, 6), max_size=80))
def test_packets_with_deferred_work_of_a_layer_below(tunnels: Compared, chosen: list[int]) -> None:
    assert_same(tunnels, [Packet(OWING[kind], time) for time, kind in enumerate(chosen)])


def test_packets_in_series_and_alone(tunnels: Compared) -> None:
    """The deferred work of the layer below precedes each packet of a series; for a reassembled datagram it is done."""
    assert "deferred_work_udp(box);" in tunnels.generated.source
    row = [Packet(OWING[0], 0)] * 40
    _, counters = run_compiled(tunnels, row, Settings(seed=1))
    assert counters["udp"]["instances"] == 1 and counters["tcp"]["packets"] == 40
    later = 100 * 10**9  # when the conversation is over that the packets before have noted
    alone = [*[Packet(OWING[1], 0)] * 40, *(Packet(kind, later) for kind in OWING[-2:])]
    assert_same(tunnels, alone)
    _, counters = run_compiled(tunnels, alone, Settings(seed=1))
    assert counters["udp"]["instances"] == 2 and counters["tcp"]["packets"] == 41
