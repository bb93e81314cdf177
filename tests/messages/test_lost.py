"""Whose stream a message came from, and what of it made no message: functions in Python and C can tell."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.events import PythonFunction, Seen
from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    If,
    Length,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
)
from sluice.lang.events import LOSS_CAUSES
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled

SETTINGS = Settings(timeouts=True, memory=1 << 20, max_instances=4, seed=1)
SECOND = 10**9
NEAR, FAR = 1, 2


class stream_hdr(layout):
    src = Bit(8)
    dst = Bit(8)
    kind = Bit(8)
    number = UInt(32, serial=True)


class message_hdr(layout):
    magic = Bit(8)
    length = Bit(8)


class got(layout):
    body = Bit(999)


DATA, FIRST, LAST, OTHER = range(4)


def describe(resync: bool = True, split: bool = False) -> Stack:
    """A stream between two ends, and messages in it; with `split` those to the passive side go to another layer."""
    s: Any = ConnectionOriented("stream")
    s.header = stream_hdr
    s.selector = [s.header.src], [s.header.dst]
    s.timeout = 60
    on, over = PSMState(start=True), PSMState(accept=True)
    s.psm = PSM(on, over)
    s.psm.last = (on >> over) + Pred(s.header.kind == LAST)
    s.psm.anew = (on >> on) + Pred((s.header.kind == FIRST) & ~s.created)
    s.psm.anew.restart = True
    s.seq = Sequence(meta=s.header.number, data=s.payload, zero_based=False, limit=60)
    s.event.asm = Assemble()
    stack = Stack("lost")
    stack.stream = s
    names = ("requests", "answers") if split else ("message",)
    for number, name in enumerate(names):
        m: Any = Connectionless(name)
        m.header = message_hdr
        m.message = Length(m.header.length, limit=100, resync=(m.header.magic == 0x55) if resync else None)
        m.event.whole = If(m.header.magic == 0x55) >> (Assign(got.body, m.payload) + Callback(got))
        setattr(stack, name, m)
        side = s.to_passive == 1 - number
        stack += (stack.stream >> getattr(stack, name)) + (Pred(side) if split else Pred(1))
    return stack


@pytest.fixture(scope="module")
def stack() -> Compared:
    return compiled(describe())


def message(body: bytes) -> bytes:
    return bytes([0x55, len(body) + 2]) + body


def packet(data: bytes, at: int = 0, src: int = NEAR, dst: int = FAR, kind: int = DATA, second: int = 0) -> Packet:
    return Packet(bytes([src, dst, kind]) + at.to_bytes(4, "big") + data, second * SECOND)


def seen(stack: Compared, packets: list[Packet], *names: str) -> list[Seen]:
    """The events of some names, the interpreter agreeing."""
    assert_same(stack, packets, SETTINGS)
    return run(stack, packets, SETTINGS, *names)


def run(stack: Compared, packets: list[Packet], settings: Settings, *names: str) -> list[Seen]:
    """The same of compiled code alone."""
    found: list[Seen] = []
    handlers = [("*", name, found.append) for name in names]
    with Box(stack, settings, [PythonFunction("f", handlers, [])]) as box:
        for one in packets:
            box.packet(one.data, one.time, one.link_type, one.length)
        box.finish()
    return found


def lost(stack: Compared, packets: list[Packet]) -> list[tuple[Any, ...]]:
    """Who lost what: instance, sender, side, offset, length, cause."""
    return [(e.instance, e.src, e.side, e.offset, e.length, e.cause) for e in seen(stack, packets, "lost")]


def test_a_loss_tells_its_connection_and_side(stack: Compared) -> None:
    one, bad = message(b"one"), b"\x55\x00"
    packets = [
        packet(one),
        packet(one, 0, 3, 4),
        packet(one + bad, 100, 4, 3),
        packet(one + one + bad, 200, FAR, NEAR),
        packet(bad, len(one)),
    ]
    assert lost(stack, packets) == [
        (2, 4, 1, 5, 0, "malformed"),
        (1, FAR, 1, 10, 0, "malformed"),
        (1, NEAR, 0, 5, 0, "malformed"),
    ]


def test_messages_tell_their_connection_and_side(stack: Compared) -> None:
    packets = [packet(message(b"ask")), packet(message(b"tell"), 0, FAR, NEAR), packet(message(b"x"), 0, 3, 4)]
    events = seen(stack, packets, "whole")
    assert [(e.layer, e.body, e.instance, e.side, e.src, e.dst) for e in events] == [
        ("message", b"ask", 1, 0, NEAR, FAR),
        ("message", b"tell", 1, 1, FAR, NEAR),
        ("message", b"x", 2, 0, 3, 4),
    ]


def test_a_gap_tells_from_where_to_where(stack: Compared) -> None:
    """The part of a message before the hole is given up with it."""
    part = message(b"never whole")[:6]
    packets = [packet(message(b"one") + part), packet(bytes(50) + message(b"two"), 20)]
    packets += [packet(message(bytes(9)), 20 + 50 + 5)]  # more than the sequence holds
    assert lost(stack, packets) == [(1, NEAR, 0, 5, 15, "gap")]
    assert [e.body for e in seen(stack, packets, "whole")] == [b"one", b"two", bytes(9)]


def test_a_gap_while_the_next_start_is_looked_for(stack: Compared) -> None:
    """Losses do not overlap: the second begins where the search had come to."""
    packets = [packet(b"\x55\x00junk"), packet(bytes(30), 20), packet(bytes(31), 50)]
    assert lost(stack, packets) == [(1, NEAR, 0, 0, 0, "malformed"), (1, NEAR, 0, 5, 15, "gap")]


UNFINISHED = {"header": message(b"abc")[:1], "body": message(b"abcdef")[:5]}


@pytest.mark.parametrize("part", UNFINISHED.values(), ids=UNFINISHED)
@pytest.mark.parametrize(
    "ending",
    [
        [],
        [packet(b"", 0, 9, 8, DATA, 100)],
        [packet(b"", 5, NEAR, FAR, LAST)],
        [packet(b"", 5, NEAR, FAR, FIRST)],
        [packet(b"", 0, host, 99) for host in range(10, 14)],
    ],
    ids=["end of input", "timeout", "accept", "restart", "eviction"],
)
def test_an_unfinished_message_is_told_at_the_end(stack: Compared, part: bytes, ending: list[Packet]) -> None:
    packets = [packet(message(b"one")), packet(message(b"ab") + part, 0, FAR, NEAR), *ending]
    assert lost(stack, packets) == [(1, FAR, 1, 4, len(part), "close")]
    names = [(e.name, e.instance) for e in seen(stack, packets, "lost", "end")]
    assert names.index(("lost", 1)) < names.index(("end", 1))


def test_no_memory_for_a_part_is_a_loss(stack: Compared) -> None:
    """It is told when the next bytes come. The interpreter has all the memory it wants."""
    packets = [packet(message(b"one") + message(bytes(90))[:80]), packet(message(bytes(90))[80:] + message(b"two"), 85)]
    none = dataclasses.replace(SETTINGS, memory=64)
    found = run(stack, packets, none, "lost", "whole")
    assert [(e.offset, e.length, e.cause) for e in found if e.name == "lost"] == [(5, 80, "limit")]
    assert [e.body for e in found if e.name == "whole"] == [b"one", b"two"]
    assert [(e.offset, e.length, e.cause) for e in run(stack, packets[:1], none, "lost")] == [(5, 80, "limit")]


def test_whole_messages_lose_nothing(stack: Compared) -> None:
    assert lost(stack, [packet(message(b"one") + message(b"two")), packet(message(b"x"), 0, FAR, NEAR)]) == []


def test_a_loss_that_nobody_was_told_is_told_at_the_end(stack: Compared) -> None:
    """The last packet was cut: the hole has nothing after it."""
    cut = packet(message(b"abcdef")[:5], 5)
    packets = [packet(message(b"one")), Packet(cut.data, 0, 1, len(cut.data) + 3)]
    assert lost(stack, packets) == [(1, NEAR, 0, 5, 8, "gap")]


def test_what_was_searched_through_is_told_once(stack: Compared) -> None:
    assert lost(stack, [packet(b"\x55\x00junk\x55")]) == [(1, NEAR, 0, 0, 0, "malformed")]


def test_without_resync_the_end_adds_nothing() -> None:
    ending = compiled(describe(resync=False))
    packets = [packet(b"\x55\x00junk"), packet(message(b"abc")[:3], 6)]
    assert lost(ending, packets) == [(1, NEAR, 0, 0, 0, "malformed")]


def test_the_layer_that_took_the_messages_is_told() -> None:
    split = compiled(describe(split=True))
    packets = [packet(message(b"abc")[:3]), packet(message(b"defg")[:4], 0, FAR, NEAR)]
    events = seen(split, packets, "lost")
    assert [(e.layer, e.side, e.length) for e in events] == [("requests", 0, 3), ("answers", 1, 4)]


def test_any_packets(stack: Compared) -> None:
    """Holes, cuts, ends, restarts, rubbish: both agree, and losses of a stream do not overlap."""
    assert stack.compiled.messages == ""
    rnd = random.Random(1)
    for _ in range(20):
        stream = b"".join(rnd.choice([message(bytes(rnd.randrange(40))), rnd.randbytes(3)]) for _ in range(60))
        packets: list[Packet] = []
        at = 0
        for _ in range(100):
            at = min(at + rnd.choice([0, 0, 0, 7]), len(stream))
            data = stream[at : at + rnd.randrange(30)]
            at += len(data)
            src, dst = rnd.choice([(NEAR, FAR), (NEAR, FAR), (FAR, NEAR), (3, 4), (rnd.randrange(99), 5)])
            kind = rnd.choices([DATA, FIRST, LAST], [20, 1, 1])[0]
            one = packet(data, at - len(data), src, dst, kind, len(packets))
            kept = len(one.data) - rnd.choice([0, 0, 0, 0, 0, min(5, len(data))])
            packets.append(Packet(one.data[:kept], one.time, 1, len(one.data)))
        after: dict[tuple[int, int], int] = {}
        for event in seen(stack, packets, "lost"):
            who = event.instance, event.side
            assert event.offset >= after.get(who, 0)
            after[who] = event.offset + event.length


IN_C = """
#include "sluice.h"

struct stream { uint64_t messages; };
SLUICE_STATE(struct stream)

static void tell(const struct sl_event *event, const char *what, uint64_t value) {
    static char names[16][32];
    static unsigned used;
    unsigned sender = (unsigned)sl_event_half(event, event->side)[0];
    snprintf(names[used], sizeof *names, "%s %s %u", event->layer->name, what, sender);
    sl_report(event->box, names[used++], value);
}
SLUICE_ON(message, whole) { tell(event, event->owner->name, ++SLUICE_STATE_OF(event)->messages); }
SLUICE_ON(message, lost) { tell(event, "lost at", sl_event_number(event) * 1000 + data->offset); }
"""


def test_a_function_in_c_tells_the_connection(tmp_path: Path) -> None:
    """Its state is in the stream's instance, though it hooks the messages only."""
    function = read_c_function("f", IN_C, str(tmp_path / "f.c"))
    made = compile_stack(describe(), (function,))
    packets = [packet(message(b"a")), packet(message(b"b") + b"\x55", 0, FAR, NEAR), packet(message(b"c"), 0, 3, 4)]
    assert run_c(made, packets) == {
        "message stream 1": 1,
        "message stream 2": 2,
        "message stream 3": 1,
        "message lost at 2": 1003,
    }


def run_c(made: CompiledStack, packets: Iterable[Packet]) -> dict[str, int]:
    with Box(made, SETTINGS) as box:
        for one in packets:
            box.packet(one.data, one.time, one.link_type, one.length)
        box.finish()
        return {name: value for name, value in box.reports().items() if not name.startswith("pool")}


def run_bundled(*parts: bytes) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """The losses and counters of a layer of bundled messages in a stream, of which each packet brings one part."""
    s: Any = ConnectionOriented("stream")
    s.header = stream_hdr
    s.selector = [s.header.src], [s.header.dst]
    s.seq = Sequence(meta=s.header.number, data=s.payload, zero_based=False)
    s.event.asm = Assemble()
    m: Any = Connectionless("message")
    m.header = message_hdr
    m.message = Length(m.header.length, bundled=True, resync=m.header.magic == 7)
    stack = Stack("bounded")
    stack.stream, stack.message = s, m
    stack += (stack.stream >> stack.message) + Pred(1)
    made, begin = compiled(stack), 1
    packets: list[Packet] = []
    for data in parts:
        packets.append(Packet(bytes([NEAR, FAR, DATA]) + begin.to_bytes(4, "big") + data, 0))
        begin += len(data)
    settings = dataclasses.replace(SETTINGS, bundle_mean=1)
    assert_same(made, packets, settings)
    events, counters = run_compiled(made, packets, settings)
    lost = [(*event[-1][:2], LOSS_CAUSES[event[-1][2]]) for event in events if event[1] == "lost"]
    return lost, counters["message"]


def test_bundled_messages_of_a_stream_are_bounded_on_average() -> None:
    """Those beyond the bound are lost, and the next ones are found, also after bytes that make none."""
    one, none = b"\7\2", b"\7\0"
    lost, counters = run_bundled(one * 10_000, one * 3, one + b"\7", b"\3a" + one, one + none + one)
    saved, sent = 2 * 8192, 20_000  # each packet adds one
    assert lost[:3] == [
        (saved, sent - saved, "bundle"),
        (sent + 2, 4, "bundle"),
        (sent + 6 + 2 + 3, 2, "bundle"),
    ]
    assert [cause for *_, cause in lost[3:]] == ["malformed", "bundle"]
    assert counters["lost:bundle"] == 4
    assert counters["packets"] == 8192 + 4


def test_the_search_for_a_message_is_bounded_with_bundled_messages() -> None:
    """Eight bytes at which none begins count as half of one; beyond the bound the rest of a delivery is lost."""
    garbage, one = bytes(60_000), b"\7\2"
    lost, counters = run_bundled(garbage, garbage, garbage, one * 2)
    credit = 2 * 8192  # halves; the first packet adds none, the others one for each 1,500 bytes, and one more
    reached = 8 * (credit + 2 * 2 * (60_000 // 1500 + 1)) + 7  # the last byte of the first waits for the header's rest
    assert lost[0][-1] == "malformed" and lost[1] == (reached, 180_000 - reached, "bundle")
    assert counters["packets"] == 1 and counters["lost:bundle"] == 2
