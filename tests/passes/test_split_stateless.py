"""Pass `split_stateless`: the layers that packets pass in stage 1, and those that they become pending for."""

from typing import Any

import pytest

from sluice.engine.box import Settings, compile_stack
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.ir.instruction import NextStateless
from sluice.lang import Bit, Connectionless, Pred, Stack, layout
from sluice.lower.build import build
from sluice.passes import split_stateless
from sluice.passes.pipeline import PASSES, run
from sluice.stacks.find import find_stack
from tests.differential.both import Packet, assert_same, compared, run_compiled
from tests.passes.golden_passes import check_graphs
from tests.support.packets import UDP, eth, fragments4, ip4, udp
from tests.support.stacks import optimised

STREAMS = frozenset({Hook("tcp", "data"), Hook("udp", "data")})


@pytest.fixture(scope="module")
def tcp_ip() -> Program:
    return optimised("tcp_ip", STREAMS)


def leads_to(program: Program) -> dict[str, set[str]]:
    """For every layer with a stateless graph, the layers that it forwards to."""
    return {
        name: {i.layer for i in layer.stateless.instructions() if isinstance(i, NextStateless)}
        for name, layer in program.layers.items()
        if layer.stateless is not None
    }


def test_golden(tcp_ip: Program):
    """The path of a datagram in one piece through Ethernet and IPv4. A fragment leaves the stateless graph."""
    graphs = [tcp_ip.layers[name].stateless for name in ("eth", "ipv4")]
    check_graphs("split_stateless.txt", graphs)


def test_packets_are_pending_for_the_first_layer_with_instances(tcp_ip: Program):
    led = leads_to(tcp_ip)
    assert {"tcp_over_ipv4", "udp_over_ipv4", "ipv6", "ipv4"} <= led["ipv4"]
    assert {"tcp_over_ipv6", "ext"} <= led["ipv6"]
    assert not led.keys() & {"tcp_over_ipv4", "udp_over_ipv4", "icmp", "tcp_over_ipv6"}


def test_events_are_emitted_in_stage_2():
    """An event in a layer ends the stateless path before this layer."""
    program = optimised("tcp_ip", frozenset({Hook("ipv4", "packet")}))
    assert "ipv4" in leads_to(program)["eth"]
    assert "ipv4" not in leads_to(program)


def test_layers_after_a_look_up_have_no_stateless_graph():
    """GTP and the inner IPv4 are entered only through the instances of the outer UDP."""
    passes = [item.name for item in PASSES if item.name != "deferral"]
    assert leads_to(run(build(find_stack("gtp")), passes)).keys() == {"eth", "ipv4"}


def test_a_layer_with_instances_has_none():
    class head(layout):
        kind = Bit(8)

    stack = Stack("kept")
    low: Any = Connectionless("low")
    low.header = head
    low.selector = [head.kind]
    high: Any = Connectionless("high")
    high.header = head
    stack.low, stack.high = low, high
    stack += (stack.low >> stack.high) + Pred(stack.low.header.kind == 1)
    assert split_stateless.run(program := build(stack)) is program


def test_idempotent(tcp_ip: Program):
    assert split_stateless.run(tcp_ip) is tcp_ip


# --- packets ------------------------------------------------------------------------------------------------


def same(stack: Stack, packets: list[bytes], link_type: int = 1) -> dict[str, dict[str, int]]:
    """The counters of a run in bursts, which are those of the interpreter, as the events are."""
    made = compared(compile_stack(stack, python=STREAMS), stack)
    traffic = [Packet(data, number * 1000, link_type) for number, data in enumerate(packets)]
    assert_same(made, traffic)
    return run_compiled(made, traffic, Settings(max_instances=1 << 10, memory=1 << 22, seed=1))[1]


def datagram(number: int) -> bytes:
    return ip4(udp(1000 + number, 53, b"a datagram of some bytes"), UDP)


def test_bursts_of_all_kinds():
    """Whole packets, fragments, tunnels, cut and malformed ones in one burst: each is counted once in every layer."""
    packets: list[bytes] = []
    for number in range(50):
        packets += [eth(datagram(number)), eth(ip4(datagram(number), 4))]
        packets += fragments4(datagram(number), 8, 8, protocol=UDP, id=number)
        packets += [
            eth(datagram(number))[: 20 + number],
            b"",
            bytes(13),
            eth(datagram(number))[:12] + b"\x12\x34" + datagram(number),
        ]
    found = same(find_stack("tcp_ip"), packets)
    assert found["eth"]["packets"] == len(packets)


def test_more_layers_than_stage_1_may_pass():
    """Tunnels in tunnels, beyond the depth of stateless paths and beyond the maximum depth."""
    packets: list[bytes] = []
    for depth in range(20):
        inner = datagram(depth)
        for _ in range(depth):
            inner = ip4(inner, 4)
        packets.append(eth(inner))
    found = same(find_stack("tcp_ip"), packets)
    assert found["udp_over_ipv4"]["packets"] == 14
    assert found["box"]["too deep"] == 6


def test_gathered_slots_are_those_of_one_packet():
    """Tags of VLANs are gathered for each packet, although the slots are those of the previous group."""
    stack = find_stack("tcp_ip")
    stack.join("vlan")
    packets = [eth(datagram(number % 3), *range(1, 1 + number % 2)) for number in range(100)]
    assert same(stack, packets)["udp_over_ipv4"]["instances"] == 6


def test_unknown_link_types():
    assert same(find_stack("tcp_ip"), [eth(datagram(1))] * 3, 147)["box"]["unknown link type"] == 3
