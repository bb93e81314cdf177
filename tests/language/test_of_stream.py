"""What layers above a stream know of it: its instance and side in their events, and the offers of TCP."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import Assign, Bit, Bytes, Callback, Connectionless, Else, If, Length, Pred, Stack, UInt, layout
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.language.test_above import SETTINGS, answer, ask, stream_parser
from tests.support.connection import pair
from tests.support.packets import ip4, udp
from tests.support.unoptimised import unoptimised


class bytes_hdr(layout):
    kind = Bit(8)


class line_hdr(layout):
    length = Bit(8)


class said(layout):
    text = Bytes()


def teller(name: str, **settings: Any) -> Any:
    """A layer without instances that tells all it gets."""
    p: Any = Connectionless(name)
    p.header = bytes_hdr
    p.require(p.header.kind != ord("!"), "kind")
    p.event.said = Assign(said.text, p.unit) + Callback(said)
    return p


@pytest.fixture(scope="module")
def above() -> Compared:
    """A stream with a layer above it, and a layer above that; and messages, with a layer above them."""
    stack = Stack("above")
    stack.stream = stream_parser()
    stack.plain, stack.upper = teller("plain"), teller("upper")
    line: Any = Connectionless("line")
    line.header = line_hdr
    line.message = Length(line.header.length)
    stack.line, stack.inner = line, teller("inner")
    stack += (stack.stream >> stack.line) + Pred(stack.stream.header.tag == 7)
    stack += (stack.stream >> stack.plain) + Pred(1)
    stack += (stack.plain >> stack.upper) + Pred(stack.plain.header.kind == ord("u"))
    stack += (stack.line >> stack.inner) + Pred(1)
    with unoptimised():
        return compiled(stack)


def told(made: Compared, packets: list[Packet]) -> list[tuple[Any, ...]]:
    """The events of the layers above: layer, event, instance, side; the same in the interpreter and in C."""
    assert_same(made, packets, SETTINGS)
    events, _ = run_compiled(made, packets, SETTINGS)
    wanted = ("plain", "upper", "inner")
    return [event[:4] for event in events if event[0] in wanted and event[1] in ("said", "malformed")]


def test_instance_and_side_in_events_above_a_sequence(above: Compared) -> None:
    packets = [ask(0, b"ab"), answer(0, b"c"), ask(2, b"ud")]
    assert told(above, packets) == [
        ("plain", "said", 1, 0),
        ("plain", "said", 1, 1),
        ("plain", "said", 1, 0),
        ("upper", "said", 1, 0),
    ]


def test_instance_and_side_of_bytes_delivered_without_their_packet(above: Compared) -> None:
    packets = [ask(0, b"ab"), answer(0, b"c"), answer(5, b"late"), ask(9, b"late")]
    assert told(above, packets)[2:] == [("plain", "said", 1, 0), ("plain", "said", 1, 1)]


def test_instance_and_side_of_malformed_bytes_above_a_sequence(above: Compared) -> None:
    assert told(above, [ask(0, b"!"), answer(0, b"!")]) == [("plain", "malformed", 1, 0), ("plain", "malformed", 1, 1)]


def test_instance_and_side_above_messages(above: Compared) -> None:
    packets = [ask(0, b"\3ab\2", tag=7), answer(0, b"\2x", tag=7), ask(4, b"c", tag=7)]
    assert told(above, packets) == [("inner", "said", 1, 0), ("inner", "said", 1, 1), ("inner", "said", 1, 0)]


class ends(layout):
    sport = UInt(16)
    dport = UInt(16)
    instance = UInt(64)
    direction = Bit(8)


def ends_parser() -> Any:
    """A layer that tells what TCP or UDP offers."""
    p: Any = Connectionless("ends")
    p.header = bytes_hdr
    p.event.ends = (
        Assign(ends.sport, p.below.sport)
        + Assign(ends.dport, p.below.dport)
        + Assign(ends.instance, p.below.connection)
        + Assign(ends.direction, p.below.direction)
        + Callback(ends)
    )
    return p


def over(lower: Any, protocol: int) -> Compared:
    stack = Stack("over")
    stack.ip, stack.lower, stack.ends = ipv4_parser(), lower, ends_parser()
    stack += (stack.ip >> stack.lower) + Pred(stack.ip.offers.protocol == protocol)
    stack += (stack.lower >> stack.ends) + Pred(1)
    with unoptimised():
        return compiled(stack)


def offered(made: Compared, datagrams: list[bytes]) -> list[tuple[int, ...]]:
    packets = [Packet(data, number) for number, data in enumerate(datagrams)]
    settings = Settings(timeouts=True, max_instances=16, seed=1)
    assert_same(made, packets, settings)
    events, _ = run_compiled(made, packets, settings)
    return [event[4] for event in events if event[1] == "ends"]


def test_tcp_offers_ports_instance_and_direction_as_udp_does() -> None:
    datagrams = [ip4(udp(1000, 53, b"q"), 17), ip4(udp(1001, 53, b"q"), 17)]
    assert offered(over(udp_parser(), 17), datagrams) == [(1000, 53, 1, 0), (1001, 53, 2, 0)]
    client, server = pair(port=1000)
    frames = [client.send("S"), server.send("SA"), client.send("A"), client.data(b"q"), server.data(b"r")]
    late = client.send("A", b"late", number=client.next + 5)
    made = over(tcp_parser(), 6)
    assert offered(made, [frame[14:] for frame in [*frames, late]]) == [
        (1000, 80, 1, 0),
        (80, 1000, 1, 1),
        (1000, 80, 1, 0),  # of the bytes that are delivered at the end of input, without their packet
    ]


def test_a_layer_of_a_stack_offers_values() -> None:
    stack = Stack("offering")
    stack.ip, stack.udp = ipv4_parser(), udp_parser()
    stack.udp.offer(service=stack.udp.header.dport, low=If(stack.udp.header.sport < 10) >> 1 >> Else() >> 0)
    p: Any = Connectionless("service")
    p.header = bytes_hdr
    p.event.ends = Assign(ends.dport, p.below.service) + Assign(ends.direction, p.below.low) + Callback(ends)
    stack.service = p
    stack += (stack.ip >> stack.udp) + Pred(stack.ip.offers.protocol == 17)
    stack += (stack.udp >> stack.service) + Pred(stack.udp.offers.service == 53)
    with unoptimised():
        made = compiled(stack)
    datagrams = [ip4(udp(1000, 53, b"q"), 17), ip4(udp(9, 53, b"q"), 17), ip4(udp(9, 54, b"q"), 17)]
    assert offered(made, datagrams) == [(0, 53, 0, 0), (0, 53, 0, 1)]
