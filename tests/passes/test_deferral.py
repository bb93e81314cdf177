"""Pass `deferral`: a layer that only updates state is deferred to stage 2; see tests/golden/passes/deferral.txt."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.ir.instruction import NextDeferring
from sluice.lang import DescriptionWarning, Pred, Stack
from sluice.lower.build import build
from sluice.passes import deferral
from sluice.passes.pipeline import PASSES, run
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.stacks.find import find_stack
from tests.differential.both import Compared, Packet, assert_same, compared, everything
from tests.differential.choices import Choices, Chosen, chosen
from tests.differential.stacks import tunnel
from tests.differential.traffic import Seeded, drawn, seeded
from tests.passes.golden_passes import check_graphs
from tests.support.budget import examples, in_matrix
from tests.support.packets import UDP, eth, ip4, tcp, udp
from tests.support.stacks import optimised
from tests.support.unoptimised import unoptimised

STREAMS = frozenset({Hook("tcp", "data"), Hook("tcp", "end")})
STACKS = int(os.environ.get("SLUICE_STACKS") or examples(32, 8))


@pytest.fixture(scope="module")
def gtp() -> Program:
    return optimised("gtp", STREAMS)


def turns(program: Program) -> set[str]:
    """The layers that defer work to stage 2."""
    return {name for name, layer in program.layers.items() if layer.deferred is not None}


def test_golden(gtp: Program):
    """The path of a datagram to GTP and, in stage 2, the look-up of its conversation."""
    check_graphs("deferral.txt", [gtp.layers["udp"].stateless, gtp.layers["udp"].deferred])


def test_packets_pass_the_outer_udp_in_stage_1(gtp: Program):
    assert turns(gtp) == {"udp"}
    assert {name for name, layer in gtp.layers.items() if layer.stateless is not None} == {
        *("eth", "ipv4", "udp", "gtp", "inner")
    }


def test_others_wait(gtp: Program):
    """A datagram that is not forwarded to GTP enters the main graph in stage 2."""
    graph = gtp.layers["udp"].stateless
    assert graph is not None
    (led,) = [i for i in graph.instructions() if isinstance(i, NextDeferring)]
    assert led.layer == "gtp"


def test_no_deferral_if_conversations_have_a_subscriber():
    """An event of the layer, or of another layer of its table, reads the packet."""
    assert turns(optimised("gtp", STREAMS | {Hook("udp", "end")})) == set()


def nested() -> Stack:
    """A tunnel whose inner packets may be those of the same tunnel."""
    made: Any = Stack("nested", depth=16)
    made.eth, made.ipv4, made.udp = ethernet_parser(), ipv4_parser(), udp_parser()
    made.gtp, made.tcp = gtp_parser(), tcp_parser()
    made += (made.eth >> made.ipv4) + Pred(made.eth.header.type == 0x0800)
    made += (made.ipv4 >> made.udp) + Pred(made.ipv4.header.protocol == 17)
    made += (made.ipv4 >> made.tcp) + Pred(made.ipv4.header.protocol == 6)
    made += (made.udp >> made.gtp) + Pred(made.udp.header.dport == 2152)
    made += (made.gtp >> made.ipv4) + Pred(made.gtp.header.MT == 255)
    return made


@pytest.mark.parametrize("stack", [nested, in_matrix(lambda: find_stack("everything"), id="everything")])
def test_a_tunnel_within_itself_waits(stack: Callable[[], Stack]):
    """Each of its layers may end instances that other layers of the path have updated."""
    assert turns(run(build(stack(), STREAMS))) == set()


def test_without_stateless_graphs_before_it_there_is_none():
    assert turns(run(build(find_stack("gtp"), STREAMS), ["deferral"])) == set()


def test_idempotent(gtp: Program):
    assert deferral.run(gtp) is gtp


# --- packets ------------------------------------------------------------------------------------------------


def compiled(stack: Stack, hooks: frozenset[Hook] = STREAMS, passes: str | list[str] = "all") -> Compared:
    return compared(compile_stack(stack, python=hooks, passes=passes), stack)


@pytest.fixture(scope="module")
def library() -> Compared:
    return compiled(find_stack("gtp"))


def tunnelled(node: int, inner: bytes, dport: int = 2152) -> bytes:
    """A T-PDU (3GPP TS 29.281, 5.1) from one of many nodes."""
    t_pdu = bytes([0x30, 255]) + len(inner).to_bytes(2, "big") + node.to_bytes(4, "big") + inner
    return eth(ip4(udp(2152, dport, t_pdu), UDP, src=bytes([10, 0, node >> 8, node & 255]), dst=b"\x0a\x01\0\1"))


def connection(number: int) -> list[bytes]:
    """The inner packets of a connection: its SYN, and some bytes in order."""
    packets = [ip4(tcp(1000 + number, 80, 99, "S"))]
    return packets + [ip4(tcp(1000 + number, 80, 100 + 4 * k, "A", b"data", 1)) for k in range(4)]


SETTINGS = {
    "plain": Settings(memory=1 << 22, max_instances=1 << 10, seed=1),
    "few conversations": Settings(memory=1 << 22, max_instances=3, seed=1),
    "soon over": Settings(memory=1 << 22, max_instances=1 << 10, idle=0.05, seed=1),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_conversations_of_many_tunnels(library: Compared, kind: str):
    """From one node, from many in turn, in trains; other ports, cut and malformed ones between them: conversations
    begin, time out and are evicted in the same order as connections in them do.
    """
    packets: list[bytes] = []
    for number in range(40):
        node = number // 20 * (number % 7)
        for k, inner in enumerate(connection(number)):
            packets.append(tunnelled(node if k < 3 else number, inner))
        packets += [tunnelled(node, b"", 53), tunnelled(node, b"\x45")[: 40 + number], eth(ip4(b"\0" * 7, UDP))]
    assert_same(library, [Packet(data, number * 7_000_000) for number, data in enumerate(packets)], SETTINGS[kind])


DESTROYS = """#include "sluice.h"
SLUICE_COUNTER(gone, "instances")
SLUICE_COUNTER(deep, "layers that the packets were in that they went with")
struct own { char any; };
SLUICE_STATE(struct own)
SLUICE_ON(any, data) { (void)event; (void)data; }
SLUICE_DESTROY
{
    (void)state;
    SLUICE_COUNTER_OF(box, gone)++;
    SLUICE_COUNTER_OF(box, deep) += sl_box_depth(box);
}
"""


def test_state_of_a_conversation_ends_with_the_path_of_its_packet():
    """A function subscribes to no event of the conversation, but its state for it ends, and the end reads the path."""
    packets = [tunnelled(number % 5, connection(number % 3)[number % 4]) for number in range(60)]
    stack, told = find_stack("gtp"), read_c_function("destroys", DESTROYS, "destroys.c")
    found: list[dict[str, int]] = []
    for passes in ("all", "none"):
        compiled = compile_stack(stack, (told,), passes=passes)
        assert turns(compiled.program) == ({"udp"} if passes == "all" else set())
        with Box(compiled, SETTINGS["few conversations"], function_options=[""]) as box:
            box.burst([(data, number * 10**9, 1, None) for number, data in enumerate(packets)])
            box.finish()
            found.append(box.reports())
    assert found[0] == found[1]
    assert found[0]["gone"] > 20


def test_a_layer_whose_name_is_a_word_of_c():
    """The C names of the operands that a pending packet carries contain the layer's name."""
    stack: Any = Stack("words", depth=16)
    stack.eth, stack.ipv4, stack.short = ethernet_parser(), ipv4_parser(), udp_parser()
    stack.gtp, stack.inner, stack.tcp = gtp_parser(), ipv4_parser(), tcp_parser()
    stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
    stack += (stack.ipv4 >> stack.short) + Pred(stack.ipv4.header.protocol == 17)
    stack += (stack.short >> stack.gtp) + Pred(stack.short.header.dport == 2152)
    stack += (stack.gtp >> stack.inner) + Pred(stack.gtp.header.MT == 255)
    stack += (stack.inner >> stack.tcp) + Pred(stack.inner.header.protocol == 6)
    made = compile_stack(stack)
    assert turns(made.program) == {"short"}


@lru_cache(maxsize=64)
def made(what: Chosen, way: str) -> Compared:
    with warnings.catch_warnings(), unoptimised():
        warnings.simplefilter("ignore", DescriptionWarning)
        stack = tunnel(Choices(what))
        heard = frozenset(Hook("c", hook.event) for hook in everything(stack))
        return compiled(stack, heard, "all" if way == "all" else [item.name for item in PASSES if item.name != way])


BOXES: dict[str, Settings] = {**SETTINGS, "no timeouts": Settings(memory=1 << 22, timeouts=False, seed=1)}
traffic = st.lists(st.tuples(st.sampled_from(list(BOXES)), drawn() | seeded), min_size=5, max_size=5)


@pytest.mark.parametrize("way", ["all", "tails", "lookahead", "template"])
@settings(
    max_examples=max(1, STACKS // 4),
    deadline=None,
    derandomize="SLUICE_STACKS" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(what=chosen, tried=traffic)
def test_random_layers_with_deferred_work(way: str, what: Chosen, tried: list[tuple[str, list[Packet] | Seeded]]):
    """With all passes, and without one: the layer above emits the same events, of the same instances."""
    library = made(what, way)
    for kind, packets in tried:
        assert_same(library, packets.packets() if isinstance(packets, Seeded) else packets, BOXES[kind])


def test_random_layers_defer():
    """Otherwise the previous test would not test deferral."""
    found = 0
    for seed in range(60):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DescriptionWarning)
            stack: Any = tunnel(Choices(Chosen(seed, 700)))
            found += bool(turns(run(build(stack, frozenset({Hook("c", "packet")})))))
        if found > 10:
            break
    assert found > 10
