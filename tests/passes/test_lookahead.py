"""Pass `lookahead`: which look-ups are predicted, see tests/golden/passes/lookahead.txt, and for which layers."""

from typing import Any

import pytest

from sluice.ir.expression import ZERO
from sluice.ir.graph import Block, Graph, Program
from sluice.ir.hook import Hook
from sluice.ir.instruction import Branch, Count, Goto, LookAhead, NextLayer, Prefetch, Return
from sluice.ir.verify import VerifyError, verify
from sluice.lang import AnyUntil, Bit, Connectionless, Pred, Stack, layout
from sluice.lower.build import build
from sluice.passes import lookahead
from sluice.passes.analysis.blocks import loops
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack
from tests.passes.golden_passes import check_graphs
from tests.support.run import run as run_packets
from tests.support.run import watch_all
from tests.support.stacks import optimised


@pytest.fixture(scope="module")
def tcp_ip() -> Program:
    return optimised("tcp_ip", frozenset({Hook("tcp", "data")}))


def test_golden(tcp_ip: Program):
    """The path of a packet to its connection skips lists of options and requirements."""
    graphs = [tcp_ip.layers[name].lookahead for name in ("eth", "ipv4", "tcp_over_ipv4", "tcp_over_ipv6")]
    check_graphs("lookahead.txt", graphs)


def test_every_look_up_is_predicted_also_of_fragments(tcp_ip: Program):
    for layer in tcp_ip.layers.values():
        if layer.lookahead is not None and layer.layer in ("tcp", "udp", "ipv4", "frag"):
            assert any(isinstance(i, Prefetch) for i in layer.lookahead.instructions()), layer.name


def test_no_graph_for_layers_without_look_ups_above():
    class head(layout):
        kind = Bit(8)

    stack = Stack("plain")
    low: Any = Connectionless("low")
    low.header = head
    high: Any = Connectionless("high")
    high.header = head
    stack.low, stack.high = low, high
    stack += (stack.low >> stack.high) + Pred(stack.low.header.kind == 1)
    assert lookahead.run(program := build(stack)) is program


def test_through_a_tunnel_to_the_second_table():
    """The look-up of the outer UDP does not end the path: that of the inner TCP is predicted as well."""
    gtp = optimised("gtp", frozenset({Hook("tcp", "data")}))
    waiting, found, tables = ["eth"], set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        graph = gtp.layers[name].lookahead
        if graph is None or name in found:
            continue
        found.add(name)
        waiting += [i.layer for i in graph.instructions() if isinstance(i, LookAhead)]
        tables |= {gtp.layers[name].layer for i in graph.instructions() if isinstance(i, Prefetch)}
    assert tables == {"udp", "tcp", "ipv4", "inner"}  # the last two of fragments


def test_it_leaves_no_trace(tcp_ip: Program):
    """The verifier rejects a lookahead graph with effects."""
    verify(tcp_ip)
    eth = tcp_ip.layers["eth"]
    for instruction in (Count("x"), NextLayer("ipv4", eth.main.parameters[0])):
        broken = Graph(
            "eth.lookahead", "entry", eth.main.parameters, {"entry": Block("entry", [instruction, Return(ZERO)])}
        )
        layer = eth.with_graphs(lookahead=broken)
        program = Program(
            tcp_ip.name, {**tcp_ip.layers, "eth": layer}, tcp_ip.roots, tcp_ip.slots, tcp_ip.depth, tcp_ip.natives
        )
        with pytest.raises(VerifyError, match=r"structure|traces"):
            verify(program)


def test_slots_of_one_packet_are_not_those_of_another():
    """Two packets of one burst, the second cut after IPv4's header: it does not use the slots of the first."""
    stack = watch_all(find_stack("tcp_ip"))
    ethernet = bytes(12) + b"\x08\x00"
    ip = bytes([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    tcp = bytes([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0])
    packets = [ethernet + ip + tcp, ethernet + ip[:19], ethernet, b"", ethernet + ip + tcp] * 40
    result = run_packets(stack, packets, [0.0] * len(packets))
    assert result.counters["tcp_over_ipv4"]["packets"] == 80
    assert len([event for event in result.events if (event.layer, event.name) == ("tcp_over_ipv4", "created")]) == 1


def test_a_key_after_a_list_is_not_predicted():
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
    made = watch_all(stack)
    lookahead = run(build(stack, made.functions.hooks())).layers["p"].lookahead
    assert lookahead is not None and not any(isinstance(i, (Prefetch, LookAhead)) for i in lookahead.instructions())
    assert made.compiled.messages == ""
    result = run_packets(made, [b"\1a\0\7", b"\0\7", b"\0\x08"])
    assert len([event for event in result.events if event.name == "created"]) == 2


def test_loops():
    def block(name: str, *targets: str) -> Block:
        last = Goto(targets[0]) if len(targets) == 1 else Branch(ZERO, *targets) if targets else Return(ZERO)
        return Block(name, [last])

    blocks = [block("a", "b"), block("b", "c", "d"), block("c", "b"), block("d", "d", "e"), block("e")]
    graph = Graph("g", "a", (), {one.name: one for one in blocks})
    assert loops(graph) == {"b": frozenset("bc"), "c": frozenset("bc"), "d": frozenset("d")}
