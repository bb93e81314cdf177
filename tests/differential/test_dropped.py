"""At a bound on what may go up, event `dropped` says how much went no further and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.ir.instruction import Call, TooDeep
from sluice.ir.text import parse_program, print_program
from sluice.lang import (
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    Length,
    Pred,
    Sequence,
    Stack,
    layout,
)
from sluice.lang.events import DROP_REASONS, LOSS_CAUSES
from sluice.lower.build import build
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled

SETTINGS = Settings(memory=1 << 20, max_instances=16, seed=1)
TOO_DEEP, NESTED, NO_INSTANCE, TOO_MANY = range(len(DROP_REASONS))


class nest_hdr(layout):
    more = Bit(8)


class tunnel_hdr(layout):
    src = Bit(8)
    dst = Bit(8)


class tunnel_temp(layout):
    mark = Bit(8, init=7)


class told(layout):
    src = Bit(8)
    mark = Bit(8)
    length = Bit(16)
    reason = Bit(8)


class stream_hdr(layout):
    number = Bit(16, serial=True)


class message_hdr(layout):
    length = Bit(8)


def nest(depth: int, stream: bool = False) -> Stack:
    """A layer that may carry itself, and else a stream of messages, where there is one."""
    stack = Stack("nest", depth=depth)
    n: Any = Connectionless("nest")
    n.header = nest_hdr
    stack.nest = n
    stack += (stack.nest >> stack.nest) + Pred(n.header.more == 1)
    if stream:
        s: Any = Connectionless("stream")
        s.header = stream_hdr
        s.selector = [s.unit[:0].length]
        s.seq = Sequence(meta=s.header.number, data=s.payload, zero_based=False)
        s.event.asm = Assemble()
        m: Any = Connectionless("message")
        m.header = message_hdr
        m.message = Length(m.header.length, resync=m.header.length == 3)
        stack.stream, stack.message = s, m
        stack += (stack.nest >> stack.stream) + Pred(1)
        stack += (stack.stream >> stack.message) + Pred(1)
    return stack


def tunnel() -> Stack:
    """A tunnel that carries itself until nothing is left, and tells of what it drops by an event of its own."""
    t: Any = ConnectionOriented("tunnel")
    t.header = tunnel_hdr
    t.temp = tunnel_temp
    t.selector = [t.header.src], [t.header.dst]
    t.event.tell = (
        Assign(told.src, t.header.src)
        + Assign(told.mark, t.temp.mark)
        + Assign(told.length, t.event.dropped.length)
        + Assign(told.reason, t.event.dropped.reason)
        + Callback(told)
    )
    t.event_relation += t.event.dropped >> t.event.tell
    stack = Stack("tunnel")
    stack.tunnel = t
    stack += (stack.tunnel >> stack.tunnel) + Pred(t.payload_len > 0)
    return stack


def events(
    made: Compared, packets: list[bytes], *names: str, settings: Settings = SETTINGS
) -> tuple[list[Any], dict[str, dict[str, int]]]:
    """Events of some names, the interpreter agreeing, and the counters."""
    run = [Packet(data, 0) for data in packets]
    assert_same(made, run, settings)
    found, counters = run_compiled(made, run, settings)
    return [event for event in found if event[1] in names], counters


def test_too_deep() -> None:
    found, counters = events(compiled(nest(3)), [b"\1\1\0", b"\1\1\1\0\5"], "dropped")
    assert found == [("nest", "dropped", 0, 0, (2, TOO_DEEP))]
    assert counters["box"]["too deep"] == 1


def test_a_box_may_allow_fewer_layers_than_its_stack() -> None:
    made, units = compiled(nest(40)), [Packet(b"\1" * 30 + b"\0", 0)]
    found, counters = run_compiled(made, units, Settings(depth=20))
    dropped = [event for event in found if event[1] == "dropped"]
    assert dropped == [("nest", "dropped", 0, 0, (11, TOO_DEEP))]
    assert counters["box"]["too deep"] == 1 and counters["nest"]["packets"] == 20
    assert_same(compiled(nest(20)), units, SETTINGS)
    assert run_compiled(compiled(nest(20)), units, SETTINGS)[0] == found
    found, counters = run_compiled(made, [Packet(b"\1" * 60 + b"\0", 0)], Settings(depth=61))  # or more
    assert counters["box"]["too deep"] == 0 and counters["nest"]["packets"] == 61


def test_costly_layers_count_for_several_from_the_ninth_on() -> None:
    made = nest(20)
    costly: Any = Connectionless("costly")
    costly.header = nest_hdr
    costly.costly = True
    made.costly = costly
    made += (made.nest >> made.costly) + Pred(made.nest.header.more == 2)
    made += (made.costly >> made.nest) + Pred(costly.header.more == 1)
    made += (made.costly >> made.costly) + Pred(costly.header.more == 2)
    made.nest.prototype.link_types = (1,)
    stack = compiled(made)
    # one is entered while those before it count for less than 20: eight of any kind, then six for each costly one
    units = [
        b"\2" * 30,
        b"\1" * 7 + b"\2" * 30,
        b"\1" * 8 + b"\2\1\1\2\1\1\1",
        b"\1" * 8 + b"\2\1\1\1" + b"\1" * 30,
        b"\2" * 9,
    ]
    found, counters = events(stack, units, "dropped")
    left = [event[-1] for event in found]
    assert left == [(20, TOO_DEEP), (27, TOO_DEEP), (2, TOO_DEEP), (27, TOO_DEEP)]
    assert counters["box"]["too deep"] == len(left)
    assert parse_program(print_program(stack.built)).layers["costly"].costly


def listed(depth: int, records: int) -> Stack:
    """A layer that carries itself, and a list of items, which are records, each above the one before."""
    outer, item = Connectionless("nest"), Connectionless("item")
    outer.header = item.header = nest_hdr
    item.record = True
    stack = Stack("listed", depth=depth, records=records)
    stack.nest, stack.item = outer, item
    stack += (stack.nest >> stack.nest) + Pred(outer.header.more == 1)
    stack += (stack.nest >> stack.item) + Pred(outer.header.more == 2)
    stack += (stack.item >> stack.item) + Pred(item.payload_len > 0)
    return stack


def test_records_have_a_bound_of_their_own() -> None:
    made = compiled(listed(3, 4))
    units = [b"\1\1\1\0", b"\2" + bytes(6), b"\2" + bytes(7), b"\1\2" + bytes(5), b"\1\1\2" + bytes(5), b"\1\1\1"]
    found, counters = events(made, units, "dropped")
    reasons = [(event[0], *event[-1]) for event in found]
    assert reasons == [("nest", 1, TOO_DEEP), ("item", 1, TOO_MANY), ("item", 1, TOO_MANY), ("nest", 0, TOO_DEEP)]
    assert (counters["box"]["too deep"], counters["box"]["too many records"]) == (2, 2)
    few, counters = events(compiled(listed(20, 9)), [b"\2" + bytes(99)], "dropped")
    units = [Packet(b"\2" + bytes(99), 0)]
    same, _ = run_compiled(made, units, Settings(seed=1, depth=20, records=9))
    assert [event[-1] for event in same if event[1] == "dropped"] == [event[-1] for event in few] == [(71, TOO_MANY)]
    assert parse_program(print_program(made.built)).records == 4


@pytest.mark.parametrize("back", [False, True], ids=["same way", "other way"])
def test_nested_in_itself(back: bool) -> None:
    inner = b"\2\1" if back else b"\1\2"
    found, counters = events(compiled(tunnel()), [b"\1\2\3\4" + inner + b"ab"], "dropped", "tell")
    assert found == [
        ("tunnel", "dropped", 1, int(back), (4, NESTED)),
        ("tunnel", "tell", 1, int(back), (inner[0], 7, 4, NESTED)),
    ]
    assert counters["tunnel"]["dropped:nested in itself"] == 1


def test_no_instance_for_a_tunnel_in_more_tunnels_than_there_may_be_instances() -> None:
    two = Settings(memory=1 << 20, max_instances=2, seed=1)
    found, counters = events(compiled(tunnel()), [b"\1\2\3\4\5\6ab", b"\5\6"], "dropped", "tell", settings=two)
    assert found == [
        ("tunnel", "dropped", 0, 0, (4, NO_INSTANCE)),
        ("tunnel", "tell", 0, 0, (5, 7, 4, NO_INSTANCE)),
    ]
    assert counters["tunnel"]["dropped:no instance"] == 1
    assert counters["tunnel"]["instances"] == 3  # the second packet's takes the place of one


def test_messages_too_deep_are_a_gap_of_their_stream() -> None:
    """One piece comes by a way that is too deep: the thread is lost, and found after it."""
    pieces = [b"\0\0\0" + b"\3ab\4", b"\1\0\0\4" + b"abc", b"\0\0\7" + b"\3cd"]
    found, counters = events(compiled(nest(3, stream=True)), pieces, "dropped", "lost")
    assert found == [
        ("stream", "dropped", 1, 0, (3, TOO_DEEP)),
        ("message", "lost", 1, 0, (3, 4, LOSS_CAUSES.index("gap"))),
    ]
    assert counters["box"]["too deep"] == 1
    assert counters["message"]["packets"] == 2


def test_nothing_is_emitted_when_nobody_asks() -> None:
    for stack in (nest(3, stream=True), tunnel()):
        program = build(stack)
        instructions = [i for layer in program.layers.values() for g in layer.graphs() for i in g.instructions()]
        asked = stack.name == "tunnel"  # by its own event
        assert any(isinstance(i, TooDeep) for i in instructions) == asked
        assert not any(isinstance(i, Call) and i.event == "dropped" for i in instructions)


def test_a_function_in_c_hears_of_it(tmp_path: Path) -> None:
    text = """
#include "sluice.h"
SLUICE_ON(any, dropped) {
    sl_report(event->box, data->reason == SL_DROP_TOO_DEEP ? "too deep" : "nested", data->length);
}
"""
    for stack, packet, expected in (
        (nest(2), b"\1\1abc", {"too deep": 3}),
        (tunnel(), b"\1\2\1\2a", {"nested": 3}),
    ):
        made = compile_stack(stack, (read_c_function("f", text, str(tmp_path / "f.c")),))
        with Box(made, SETTINGS) as box:
            box.packet(packet, 0)
            box.finish()
            assert {name: value for name, value in box.reports().items() if not name.startswith("pool")} == expected
