"""Pass `dispatch`: the worker of a packet, see tests/golden/passes/dispatch.txt; and what must not influence it."""

import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.box import compile_stack
from sluice.engine.dispatch import Dispatch
from sluice.ir.expression import ZERO
from sluice.ir.graph import Block, Graph, Program
from sluice.ir.instruction import Count, NextDispatch, Return
from sluice.ir.instruction import Dispatch as Decision
from sluice.ir.verify import VerifyError, verify
from sluice.lang import AnyUntil, Bit, Connectionless, Stack, layout
from sluice.lower.build import build
from sluice.passes import dispatch
from tests.passes.golden_passes import check_graphs
from tests.support.packets import FRAGMENT, TCP, UDP, cuts, eth, fragment_header, ip4, ip6, tcp, udp
from tests.support.stacks import optimised, whole

WORKERS = 7
SEGMENT = tcp(1234, 80, 1, "A", b"data")
BODIES = [(SEGMENT, TCP), (udp(1, 2, b"x"), UDP), (bytes([8, 0, 0, 0, 0, 1, 0, 1]), 1), (b"", 59), (bytes(20), 99)]
"""Payloads of IP packets with their protocols, which must not influence the worker."""


@pytest.fixture(scope="module")
def tcp_ip() -> Program:
    return optimised("tcp_ip")


@pytest.fixture(scope="module")
def dealt() -> Dispatch:
    return Dispatch(whole(), WORKERS, seed=1)


def test_golden(tcp_ip: Program):
    """No test that only rejects, and no loop over a list if the key is known before it."""
    names = ("eth", "ipv4", "ipv6", "ah6", "frag", "tcp_over_ipv6")
    check_graphs("dispatch.txt", [tcp_ip.layers[name].dispatch for name in names])


def test_only_layers_on_the_path_to_the_first_with_instances(tcp_ip: Program):
    """TCP over IPv4 is entered only from IPv4, which has decided; over IPv6, TCP decides."""
    found = {name for name, layer in tcp_ip.layers.items() if layer.dispatch is not None}
    assert {"eth", "vlan", "ipv4", "ipv6", "ext", "tcp_over_ipv6"} <= found
    assert not found & {"tcp_over_ipv4", "udp_over_ipv4", "arp", "ah"}


def test_stacks_without_instances_have_none():
    class head(layout):
        kind = Bit(8)

    low: Any = Connectionless("low")
    low.header = head
    stack = Stack("plain")
    stack.low = low
    assert dispatch.run(program := build(stack)) is program


def test_it_finds_nothing_more_to_do(tcp_ip: Program):
    assert dispatch.run(tcp_ip) is tcp_ip


def test_it_leaves_no_trace_and_leads_to_layers_that_know(tcp_ip: Program):
    """The verifier rejects everything else."""
    eth_layer = tcp_ip.layers["eth"]
    parameters = eth_layer.main.parameters
    for instructions in ([Count("x"), Return(ZERO)], [NextDispatch("arp", parameters[0])]):
        broken = Graph("eth.dispatch", "entry", parameters, {"entry": Block("entry", [*instructions])})
        layers = {**tcp_ip.layers, "eth": eth_layer.with_graphs(dispatch=broken)}
        with pytest.raises(VerifyError, match=r"Count in the dispatch graph|layer 'arp' has no dispatch graph"):
            verify(dataclasses.replace(tcp_ip, layers=layers))


def test_a_key_after_a_list():
    """The graph iterates over the list up to the key."""

    class part(layout):
        length = Bit(8)
        text = Bit(length << 3)

    class after(layout):
        number = Bit(8)

    p: Any = Connectionless("p")
    p.header = AnyUntil([part], (part.length != 0) | (p.cursor == 0)) + after
    p.selector = [after.number]
    stack = Stack("listed")
    stack.p = p
    worker = Dispatch(compile_stack(stack), 1 << 20, seed=1).worker
    assert worker(b"\1a\0\7") == worker(b"\0\7") == worker(b"\2ab\1c\0\7")
    assert worker(b"\0\x08") != worker(b"\0\7")


@given(st.data(), st.booleans())
def test_both_directions_and_all_pieces_are_for_one_worker(dealt: Dispatch, data: st.DataObject, v4: bool):
    """With any ports and protocol, in one piece or in fragments, tagged or not."""
    size = 4 if v4 else 16
    a, b = (data.draw(st.binary(min_size=size, max_size=size)) for _ in range(2))
    segment = tcp(data.draw(st.integers(0, 65535)), 80, 1, "A", bytes(64))
    packets: list[bytes] = []
    for src, dst in ((a, b), (b, a)):
        packets += [ip4(body, protocol, src, dst) if v4 else ip6(body, protocol, src, dst) for body, protocol in BODIES]
        for at, part, more in cuts(segment, 16, 24):
            if v4:
                packets.append(ip4(part, TCP, src, dst, offset=at, more=more))
            else:
                packets.append(ip6(fragment_header(part, TCP, 9, at, more), FRAGMENT, src, dst))
    frames = [eth(packet, *tags) for packet in packets for tags in ((), (5,))]
    assert len({dealt.worker(frame) for frame in frames}) == 1


def test_a_source_route_leads_to_its_last_address(dealt: Dispatch):
    """A source-routed datagram has the worker of its connection, as do its fragments (RFC 791, 3.1; RFC 8200, 4.4)."""
    for n in range(20):
        a, b, hop = (bytes([10, n, 0, last]) for last in (1, 2, 3))
        for kind in (131, 137):
            route = bytes([1, kind, 7, 4, *b])
            frames = [eth(ip4(SEGMENT, TCP, a, b)), eth(ip4(SEGMENT, TCP, a, hop, options=route))]
            frames += [
                eth(ip4(part, TCP, a, hop, options=route, offset=at, more=more)) for at, part, more in cuts(SEGMENT, 8)
            ]
            assert len({dealt.worker(frame) for frame in frames}) == 1
        a, b, hop = (bytes([32, n, *bytes(13), last]) for last in (1, 2, 3))
        routing = bytes([TCP, 2, 0, 1, *bytes(4), *b])
        frames = [eth(ip6(SEGMENT, TCP, a, b)), eth(ip6(routing + SEGMENT, 43, a, hop))]
        assert len({dealt.worker(frame) for frame in frames}) == 1


def test_hosts_are_dealt_out_evenly():
    """As even as chance is: of 7,000 pairs of hosts 1,000 to each worker, and 150 more or less are 5 sigma."""
    dealt = Dispatch(whole(), WORKERS, seed=2)
    hosts = [(n.to_bytes(4, "big"), (n * 31 % 8191).to_bytes(4, "big")) for n in range(7000)]
    share = Counter(dealt.worker(eth(ip4(b"", TCP, src, dst))) for src, dst in hosts)
    assert set(share) == set(range(WORKERS))
    assert all(850 < n < 1150 for n in share.values()), share


def test_the_worker_depends_on_the_seed():
    frames = [eth(ip4(b"", TCP, bytes([10, 0, 0, n]), bytes([10, 0, 1, n]))) for n in range(100)]
    one, other = (Dispatch(whole(), WORKERS, seed=seed) for seed in (1, 2))
    same = sum(one.worker(frame) == other.worker(frame) for frame in frames)
    assert same < 40  # a seventh by chance
    again = Dispatch(whole(), WORKERS, seed=1)
    assert [one.worker(frame) for frame in frames] == [again.worker(frame) for frame in frames]


def test_a_worker_is_there_for_every_packet(dealt: Dispatch):
    """Also for packets that are cut, malformed, or of an unknown link type."""
    whole_packet = eth(ip4(SEGMENT, TCP))
    for size in range(len(whole_packet) + 1):
        assert dealt.worker(whole_packet[:size], length=len(whole_packet)) in range(WORKERS)
    assert dealt.worker(whole_packet, link_type=250) == dealt.worker(b"") == dealt.worker(bytes(60))
    assert dealt.worker(whole_packet[:34]) == dealt.worker(whole_packet)
    assert Dispatch(whole(), 1).worker(whole_packet) == 0


def test_tunnels_in_tunnels_end(dealt: Dispatch):
    """Beyond the maximum depth a packet reaches no instance, so its content has no influence."""
    frames = [eth(ip6(b"", 59, bytes([n] * 16)), *[1] * tags) for tags in (10, 200) for n in range(50)]
    workers = list(map(dealt.worker, frames))
    assert len(set(workers[:50])) > 1 and len(set(workers[50:])) == 1


def test_without_the_pass_all_is_for_one_worker():
    dealt = Dispatch(whole("none"), WORKERS, seed=1)
    assert len({dealt.worker(eth(ip4(b"", TCP, bytes([10, 0, 0, n])))) for n in range(50)}) == 1


def test_layers_that_share_instances_hash_keys_of_one_shape(tcp_ip: Program):
    """All layers that decide for IPv6 hash two halves of one address each."""
    graphs = [layer.dispatch for layer in tcp_ip.layers.values() if layer.dispatch is not None]
    shapes = {(len(i.key), len(i.reverse)) for graph in graphs for i in graph.instructions() if isinstance(i, Decision)}
    assert shapes == {(1, 1)}
