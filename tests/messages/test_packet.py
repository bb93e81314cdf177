"""Messages of a packet: above a layer without a stream, what each packet brings is cut into messages."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.compiler import RUNTIME
from sluice.engine.options import BUNDLE, BUNDLE_MEAN, WORK
from sluice.ir.interpreter.box import BUNDLE_SAVED
from sluice.lang import (
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    DescriptionError,
    If,
    Length,
    Pred,
    Sequence,
    Stack,
    UInt,
    layout,
)
from sluice.lang.events import LOSS_CAUSES, PACKET_LOSSES
from sluice.lower.build import build
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.unoptimised import unoptimised

SETTINGS = Settings(memory=1 << 20, max_instances=16, seed=1)
TO_END, SHORT_FORM, NEVER = 0x80, 1, 9


class lower_hdr(layout):
    src = Bit(8)
    dst = Bit(8)


class frame_hdr(layout):
    kind = UInt(8)


class frame_length(layout):
    length = UInt(8)


class number_hdr(layout):
    number = UInt(8)


class got(layout):
    src = Bit(8)
    kind = UInt(8)
    cut = UInt(8)
    body = Bit(999)


def lower_parser(instances: bool) -> Any:
    """What the packets are of, with instances or without."""
    p: Any = ConnectionOriented("lower") if instances else Connectionless("lower")
    p.header = lower_hdr
    if instances:
        p.selector = [p.header.src], [p.header.dst]
    p.offer(src=p.header.src)
    return p


def frame_parser(limit: int = 100) -> Any:
    """A frame says how long it is, or goes to the end of the packet; those of kind NEVER have a length too small."""
    f: Any = Connectionless("frame")
    f.header = frame_hdr
    f.header += If(f.header.kind < TO_END) >> frame_length
    told = f.header_contain(frame_length)
    length = f.cursor + f.header.length * told + f.payload_len * (f.header.kind >= TO_END)
    f.message = Length(length * (f.header.kind != NEVER), limit=limit)
    f.event.whole = (
        Assign(got.src, f.below.src)
        + Assign(got.kind, f.header.kind)
        + Assign(got.cut, f.payload_len)
        + Assign(got.body, f.payload)
        + Callback(got)
    )
    return f


def describe(instances: bool = True, limit: int = 100) -> Stack:
    s = Stack("packets")
    s.lower, s.frame = lower_parser(instances), frame_parser(limit)
    s += (s.lower >> s.frame) + Pred(1)
    return s


def cut_parser(name: str, length: int, **rules: Any) -> Any:
    """Cuts a packet into messages of so many bytes, as the rules of Length have it."""
    p: Any = Connectionless(name)
    p.header = frame_hdr
    p.message = Length(length, **rules)
    return p


def stacked(*parsers: Any) -> Compared:
    """Parsers one above another, the first one above packets without instances."""
    s: Any = Stack("stacked")
    below = s.lower = lower_parser(False)
    for parser in parsers:
        setattr(s, parser.name, parser)
        s += (getattr(s, below.name) >> getattr(s, parser.name)) + Pred(1)
        below = parser
    with unoptimised():
        return compiled(s)


@pytest.fixture(scope="module")
def oriented() -> Compared:
    return compiled(describe())


@pytest.fixture(scope="module")
def stateless() -> Compared:
    return compiled(describe(instances=False))


def frame(body: bytes, kind: int = SHORT_FORM) -> bytes:
    return bytes([kind]) + (bytes([len(body)]) if kind < TO_END else b"") + body


def packet(data: bytes, src: int = 1, dst: int = 2, missing: int = 0) -> Packet:
    """`missing` bytes of it were not captured."""
    whole = bytes([src, dst]) + data
    return Packet(whole[: len(whole) - missing], 0, 1, len(whole))


def seen(made: Compared, packets: list[Packet]) -> tuple[list[Any], list[Any]]:
    """The frames: instance, side, bytes; and the losses: instance, side, offset, length, cause. Bytes conserve."""
    assert_same(made, packets, SETTINGS)
    events, counters = run_compiled(made, packets, SETTINGS)
    frames = [(i, s, v[-1]) for _, name, i, s, v in events if name == "whole"]
    losses = [(i, s, v[0], v[1], LOSS_CAUSES[v[2]]) for _, name, i, s, v in events if name == "lost"]
    of = counters["frame"]
    for cause in set(PACKET_LOSSES) - {"bundle"}:  # they are not bundled
        assert of[f"lost:{cause}"] == [loss[-1] for loss in losses].count(cause)
    assert of["bytes:lost"] == sum(loss[3] for loss in losses)
    assert of["bytes:of packets"] == of["bytes"] + of["bytes:lost"] == sum((p.length or 0) - 2 for p in packets)
    return frames, losses


def test_several_in_a_packet(oriented: Compared) -> None:
    found = seen(oriented, [packet(frame(b"one") + frame(b"") + frame(b"two"))])
    assert found == ([(1, 0, b"one"), (1, 0, b""), (1, 0, b"two")], [])


def test_the_last_may_reach_to_the_end_of_the_packet(oriented: Compared) -> None:
    found = seen(oriented, [packet(frame(b"one") + frame(b"all the rest", TO_END)), packet(frame(b"", TO_END))])
    assert found == ([(1, 0, b"one"), (1, 0, b"all the rest"), (1, 0, b"")], [])


def test_an_empty_packet_has_none(oriented: Compared) -> None:
    assert seen(oriented, [packet(b"")]) == ([], [])


def test_nothing_is_kept_for_the_next_packet(oriented: Compared) -> None:
    whole = frame(b"abc\5\11\11")
    packets = [packet(frame(b"one") + whole[:5]), packet(whole[5:]), packet(frame(b"two"))]
    frames, losses = seen(oriented, packets)
    assert frames == [(1, 0, b"one"), (1, 0, b"two")]
    assert losses == [(1, 0, 5, 5, "short"), (1, 0, 0, 3, "short")]


@pytest.mark.parametrize(
    ("rest", "cause"),
    [
        (b"\1", "short"),
        (frame(b"abc")[:-1], "short"),
        (bytes([NEVER, 0]) + frame(b"not seen"), "malformed"),
        (frame(bytes(99)), "limit"),
        (frame(bytes(200))[:5], "limit"),
    ],
    ids=["header", "body", "no message", "beyond the limit", "beyond the limit and the packet"],
)
@pytest.mark.parametrize("before", [b"", frame(b"one")], ids=["first", "after another"])
def test_what_makes_no_message_is_lost(oriented: Compared, before: bytes, rest: bytes, cause: str) -> None:
    """With the next packet messages begin anew."""
    frames, losses = seen(oriented, [packet(before + rest), packet(frame(b"two"))])
    assert [body for _, _, body in frames] == ([b"one"] if before else []) + [b"two"]
    assert losses == [(1, 0, len(before), len(rest), cause)]


def test_what_the_snap_length_cut(oriented: Compared) -> None:
    """A message whose length is known is passed on with the bytes there are; without its header it is lost."""
    data = frame(b"one") + frame(b"abcdef") + frame(b"never seen")
    for missing in range(len(data) + 1):
        there = data[: len(data) - missing]
        frames, losses = seen(oriented, [packet(data, missing=missing)])
        wanted = [b"one", b"abcdef", b"never seen"]
        begins = [0, 5, 13]
        known = [at for at in begins if at + 2 <= len(there)]
        assert [body for _, _, body in frames] == [
            there[at + 2 : at + 2 + len(body)] for at, body in zip(known, wanted, strict=False)
        ]
        lost = begins[len(known)] if len(known) < 3 else None
        assert losses == ([] if lost is None else [(1, 0, lost, len(data) - lost, "snaplen")])


def test_frames_tell_the_sender(oriented: Compared) -> None:
    """The instance and the side are those of the packet, of whatever frame."""
    packets = [packet(frame(b"ask")), packet(frame(b"tell") + b"\1", 2, 1), packet(frame(b"x"), 3, 4)]
    frames, losses = seen(oriented, packets)
    assert frames == [(1, 0, b"ask"), (1, 1, b"tell"), (2, 0, b"x")]
    assert losses == [(1, 1, 6, 1, "short")]


def test_without_instances_there_is_no_sender(stateless: Compared) -> None:
    assert seen(stateless, [packet(frame(b"ask") + b"\1", 2, 1)]) == (
        [(0, 0, b"ask")],
        [(0, 0, 5, 1, "short")],
    )


def test_messages_in_messages() -> None:
    """What a message carries may be cut again; it tells whose packet that was."""
    inner: Any = Connectionless("inner")
    inner.header = frame_hdr + frame_length
    inner.message = Length(inner.cursor + inner.header.length)
    inner.event.part = Assign(got.body, inner.payload) + Callback(got)
    s = describe()
    s.inner = inner
    s += (s.frame >> s.inner) + Pred(s.frame.header.kind == 2)
    made = compiled(s)
    packets = [packet(frame(frame(b"a") + frame(b"b"), 2) + frame(b"c"), 2, 1), packet(frame(frame(b"d") + b"\1", 2))]
    assert_same(made, packets, SETTINGS)
    events, _ = run_compiled(made, packets, SETTINGS)
    assert [(i, s, v[-1]) for _, name, i, s, v in events if name == "part"] == [
        (1, 0, b"a"),
        (1, 0, b"b"),
        (1, 1, b"d"),
    ]
    assert [(layer, i, s, v) for layer, name, i, s, v in events if name == "lost"] == [
        ("inner", 1, 1, (3, 1, LOSS_CAUSES.index("short")))
    ]


IN_C = """
#include "sluice.h"

struct sender { uint64_t parts; };
SLUICE_STATE(struct sender)

SLUICE_ON(inner, part) { sl_report(event->box, event->owner->name, ++SLUICE_STATE_OF(event)->parts); }
"""


def test_a_layer_with_its_own_instances_takes_the_messages() -> None:
    """Each message finds its instance there."""
    stream: Any = Connectionless("numbered")
    stream.header = frame_hdr + frame_length + number_hdr
    stream.message = Length(stream.header.length)
    stream.selector = [stream.below.src, stream.header.kind]
    stream.seq = Sequence(meta=stream.header.number, data=stream.payload)
    s = Stack("numbers")
    s.lower, s.numbered = lower_parser(True), stream
    s += (s.lower >> s.numbered) + Pred(1)
    stream.event.asm = Assemble()
    made = compiled(s)
    packets = [packet(bytes([7, 5, 2]) + b"cd" + bytes([7, 5, 0]) + b"ab" + bytes([8, 4, 0]) + b"x")]
    assert_same(made, packets, SETTINGS)
    _, counters = run_compiled(made, packets, SETTINGS)
    assert counters["numbered"]["instances"] == 2
    assert counters["numbered"]["bytes:in"] == 5


def test_a_function_in_c_keeps_its_state_with_the_sender(tmp_path: Path) -> None:
    inner: Any = Connectionless("inner")
    inner.header = frame_hdr + frame_length
    inner.message = Length(inner.cursor + inner.header.length)
    inner.event.part = Assign(got.body, inner.payload) + Callback(got)
    s = describe()
    s.inner = inner
    s += (s.frame >> s.inner) + Pred(s.frame.header.kind == 2)
    made = compile_stack(s, (read_c_function("f", IN_C, str(tmp_path / "f.c")),))
    with Box(made, SETTINGS) as box:
        for one in [packet(frame(frame(b"a") + frame(b"b"), 2)), packet(frame(frame(b"c"), 2), 2, 1)]:
            box.packet(one.data, one.time, one.link_type, one.length)
        box.finish()
        assert box.reports()["lower"] == 1 + 2 + 3


def test_too_deep_a_packet_is_dropped_whole() -> None:
    s = describe()
    s.depth = 1
    made = compiled(s)
    packets = [packet(frame(b"one") + frame(b"two"))]
    assert_same(made, packets, SETTINGS)
    _, counters = run_compiled(made, packets, SETTINGS)
    assert counters["box"]["too deep"] == 1
    assert counters["frame"]["packets"] == 0


def test_any_packets(oriented: Compared, stateless: Compared) -> None:
    rnd = random.Random(1)
    packets: list[Packet] = []
    for _ in range(300):
        parts = [frame(rnd.randbytes(rnd.randrange(9)), rnd.choice([1, 1, 2, NEVER, TO_END])) for _ in range(5)]
        data = b"".join(parts) if rnd.random() < 0.8 else rnd.randbytes(rnd.randrange(40))
        data = data[: rnd.randrange(len(data) + 1)] if rnd.random() < 0.3 else data
        missing = rnd.randrange(len(data) + 1) if rnd.random() < 0.2 else 0
        packets.append(packet(data, rnd.randrange(4), rnd.randrange(4), missing))
    seen(oriented, packets)
    seen(stateless, packets)


def test_the_work_that_one_packet_can_cause_is_bounded() -> None:
    """The shortest messages there may be: as many as the box's setting says, the others are lost and counted."""
    made = stacked(cut_parser("frame", 1))
    _, counters = run_compiled(made, [packet(bytes(60000))], dataclasses.replace(SETTINGS, work=60000))
    assert counters["frame"]["packets"] == 60000
    assert SETTINGS.work == WORK and f"SL_WORK = {WORK}," in (RUNTIME / "driver/embed.h").read_text()
    full = [packet(bytes(1500)), packet(bytes(WORK + 1))]  # a packet of an Ethernet loses nothing
    assert_same(made, full, SETTINGS)
    _, counters = run_compiled(made, full, SETTINGS)
    assert (counters["frame"]["packets"], counters["frame"]["lost:work"]) == (1500 + WORK, 1)
    packets = [packet(bytes(1000)), packet(bytes(65)), packet(bytes(64))]
    for work in (1, 8, 64):
        settings = dataclasses.replace(SETTINGS, work=work)
        assert_same(made, packets, settings)
        _, counters = run_compiled(made, packets, settings)
        of = counters["frame"]
        assert (of["packets"], of["lost:work"]) == (3 * work, 2 if work == 64 else 3)
        assert of["bytes:of packets"] == of["bytes"] + of["bytes:lost"] == 1129


def test_a_message_that_begins_an_instance_counts_three_times() -> None:
    flow = cut_parser("frame", 1, bundled=True)
    flow.selector = [flow.header.kind]
    made = stacked(flow)
    begin = -(-BUNDLE // 3)
    packets = [packet(bytes(range(BUNDLE + 9))), packet(bytes(number % begin for number in range(BUNDLE + 9)))]
    settings = dataclasses.replace(SETTINGS, max_instances=BUNDLE)
    assert_same(made, packets, settings)
    of = run_compiled(made, packets, settings)[1]["frame"]
    assert (of["instances"], of["packets"], of["lost:bundle"]) == (begin, begin + BUNDLE, 2)


def test_the_messages_that_cost_as_much_as_a_packet_are_bounded_apart() -> None:
    """As many as the box's setting says, of all layers together; the others are lost and counted."""
    made = stacked(cut_parser("frame", 2, bundled=True), cut_parser("inner", 1))
    assert SETTINGS.bundle == BUNDLE and f"SL_BUNDLE = {BUNDLE}," in (RUNTIME / "driver/embed.h").read_text()
    packets = [
        packet(bytes(2 * BUNDLE)),
        packet(bytes(2 * BUNDLE + 2)),
        packet(bytes(4 * BUNDLE + 1)),
        packet(bytes(4)),
    ]
    for most, lost in ((BUNDLE, 2), (1, 4), (3 * BUNDLE, 0)):
        settings = dataclasses.replace(SETTINGS, bundle=most)
        assert_same(made, packets, settings)
        events, counters = run_compiled(made, packets, settings)
        of = counters["frame"]
        cut = [min(most, (len(one.data) - 2) // 2) for one in packets]
        assert (of["packets"], of["lost:bundle"], of["lost:short"]) == (sum(cut), lost, most == 3 * BUNDLE)
        assert counters["inner"]["packets"] == sum(cut) and "lost:bundle" not in counters["inner"]
        causes = [event[-1][-1] for event in events if event[1] == "lost"]
        assert causes.count(LOSS_CAUSES.index("bundle")) == lost


def test_bundled_messages_are_bounded_on_average() -> None:
    """Packets with fewer save for others, up to a bound; one that begins an instance counts nine times."""
    flow = cut_parser("frame", 1, bundled=True)
    flow.selector = If(flow.header.kind != 0) >> [flow.header.kind]
    made = stacked(flow)
    embed = (RUNTIME / "driver/embed.h").read_text()
    assert SETTINGS.bundle_mean == BUNDLE_MEAN and f"SL_BUNDLE_MEAN = {BUNDLE_MEAN}," in embed
    assert f"SL_BUNDLE_SAVED = {BUNDLE_SAVED}," in embed
    settings = dataclasses.replace(SETTINGS, bundle=1 << 16, work=1 << 16, bundle_mean=1)
    saved = BUNDLE_SAVED  # no more, although the first packet adds one
    units = [packet(bytes(saved + 1)), packet(bytes(5)), *[packet(b"")] * 3, packet(b"\0"), packet(bytes(9))]
    units += [packet(b"\1\0"), packet(b"\1\1\1")]
    assert_same(made, units, settings)
    events, counters = run_compiled(made, units, settings)
    cut = [saved, 1, 0, 0, 0, 1, 4, 1, 1]
    assert counters["frame"]["packets"] == sum(cut)
    assert [event[-1][-2] for event in events if event[1] == "lost"] == [1, 4, 5, 1, 2]
    assert counters["frame"]["lost:bundle"] == 5


def test_bundled_messages_of_which_two_cost_as_much_as_a_packet_count_half() -> None:
    made = stacked(cut_parser("frame", 1, bundled=True, half=True))
    settings = dataclasses.replace(SETTINGS, bundle=1 << 16, work=1 << 16, bundle_mean=1)
    units = [packet(bytes(2 * BUNDLE_SAVED)), packet(b"\0\0"), packet(bytes(3))]
    assert_same(made, units, settings)
    of = run_compiled(made, units, settings)[1]["frame"]
    assert of["packets"] == 2 * BUNDLE_SAVED + 2 + 2 and of["lost:bundle"] == 1


def test_a_packet_earns_bundled_messages_whichever_layer_cuts_it_first() -> None:
    """Also one whose messages are not bounded, and have the bundled ones."""
    made = stacked(cut_parser("frame", 2), cut_parser("inner", 1, bundled=True))
    settings = dataclasses.replace(SETTINGS, bundle=1 << 16, work=1 << 16, bundle_mean=1)
    units = [packet(bytes(2 * BUNDLE_SAVED)), *[packet(bytes(2))] * 3, packet(bytes(6))]
    assert_same(made, units, settings)
    of = run_compiled(made, units, settings)[1]["inner"]
    assert of["packets"] == BUNDLE_SAVED + 3 + 1 and of["lost:bundle"] == 2


def test_messages_that_begin_instances_are_bounded_with_the_bundled_ones() -> None:
    outer = cut_parser("frame", 1, begins=True)
    outer.sdu = outer.unit
    flow: Any = Connectionless("flow")
    flow.header = frame_hdr
    flow.selector = If(flow.header.kind != 0) >> [flow.header.kind]
    made = stacked(outer, flow)
    units = [packet(bytes(60) + bytes(range(1, 61)) + bytes(60)), packet(bytes(200))]
    settings = dataclasses.replace(SETTINGS, max_instances=256, bundle=22)
    assert_same(made, units, settings)
    counters = run_compiled(made, units, settings)[1]
    assert counters["flow"]["instances"] == 11 and counters["frame"]["lost:bundle"] == 1  # each counts for two
    assert counters["frame"]["packets"] == 60 + 11 + 200
    # 8,192 are saved, of which each instance takes eight
    settings = dataclasses.replace(SETTINGS, max_instances=1, bundle=1 << 16, bundle_mean=1)
    begun = BUNDLE_SAVED // 8
    units = [packet(bytes([1 + number % 255, 0])) for number in range(2 * begun)]
    assert_same(made, units, settings)
    of = run_compiled(made, units, settings)[1]["frame"]
    assert 0.8 * begun < of["lost:bundle"] < begun


def test_a_stream_has_no_end_to_ask_for() -> None:
    """What is there of a stream depends on how it was cut."""
    below: Any = Connectionless("below")
    below.header = lower_hdr
    below.selector = [below.header.src]
    below.seq = Sequence(meta=below.header.dst, data=below.payload)
    s = Stack("stream")
    f: Any = Connectionless("frame")
    f.header = frame_hdr
    f.message = Length(f.cursor + f.payload_len)
    s.below, s.frame = below, f
    s += (s.below >> s.frame) + Pred(1)
    with pytest.raises(DescriptionError, match="'payload_len' is read before the message is there"):
        build(s)
