"""When events happen: those whose conditions ask for virtual packets, changes of state, what is malformed, orphans."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    DescriptionError,
    If,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
)
from sluice.stacks.find import find_stack
from tests.support.capture import read_packets
from tests.support.corpus import OWN
from tests.support.packets import TCP
from tests.support.run import run, run_capture, watch_all
from tests.support.stacks import plain_tcp, whole

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "first" / "capture.pcap"
SYN = 2


class numbered(layout):
    key = UInt(8)
    number = UInt(8)
    mark = Bit(8)


class told(layout):
    by = UInt(8)


@cache
def compiled() -> CompiledStack:
    """Event `marked` tells which packet it happened for."""
    p: Any = Connectionless("p")
    p.header = numbered
    p.selector = [p.header.key]
    p.seq = Sequence(meta=p.header.number, data=p.payload)
    p.psm = PSM(PSMState(start=True))
    p.event.all = Assemble()
    p.event.marked = If(p.v.header.mark == 1) >> (Assign(told.by, p.header.number) + Callback(told))
    stack = Stack("marks")
    stack.p = p
    return watch_all(stack, ("p", "marked"))


@pytest.mark.parametrize(
    "order, marks, happened",
    [
        ([0, 1, 2], {1}, [1]),
        ([1, 0], {1}, [0]),  # beyond the next expected one nothing is known of it; 0 lets it follow
        ([1, 2, 0], {1}, [0]),  # in the first of two release steps
        ([1, 2, 0], {2}, [0]),  # in the last
        ([1, 0], {0}, [0]),  # in the arrival step, though the release step after it does not fulfil it
        ([2, 1, 0], {1, 2}, [0]),  # once for a packet, however many steps did
        ([1, 2, 0], set(), []),
        ([2, 1], {1, 2}, []),
    ],
)
def test_a_condition_holds_if_it_held_in_one_step(order: list[int], marks: set[int], happened: list[int]) -> None:
    result = run(compiled(), [bytes([7, number, number in marks]) + b"x" for number in order])
    assert [event.by for event in result.named("marked")] == happened


class kind(layout):
    key = UInt(8)
    number = UInt(8)
    kind = UInt(8)


def machine() -> Stack:
    """START -> OPEN by kind 1, OPEN -> SHUT by kind 2 in virtual order, SHUT -> OVER by 3; kind 4 leads nowhere."""
    START, OPEN, SHUT, OVER = PSMState(start=True), PSMState(), PSMState(), PSMState(accept=True)
    p: Any = Connectionless("p")
    p.header = kind
    p.selector = [p.header.key]
    p.seq = Sequence(meta=p.header.number, data=p.payload)
    p.psm = PSM(START, OPEN, SHUT, OVER)
    p.psm.begin = (START >> OPEN) + Pred(p.header.kind == 1)
    p.psm.stay = (OPEN >> OPEN) + Pred(p.header.kind == 4)
    p.psm.close = (OPEN >> SHUT) + Pred(p.v.header.kind == 2)
    p.psm.end = (SHUT >> OVER) + Pred(p.v.header.kind == 3)
    p.event.all = Assemble()
    p.event.counted = If(p.cur_state == OVER) >> (Assign(told.by, p.header.number) + Callback(told))
    p.event_relation += p.event.state >> p.event.counted
    stack = Stack("machine")
    stack.p = p
    return stack


@pytest.mark.parametrize(
    "kinds, order, steps",
    [
        ([1, 4, 2], [0, 1, 2], [("START", "OPEN"), ("OPEN", "SHUT")]),  # a step to the same state changes nothing
        ([1, 2, 3], [0, 2, 1], [("START", "OPEN"), ("OPEN", "SHUT"), ("SHUT", "OVER")]),  # two steps of one packet
        ([4, 2, 3], [0, 1, 2], []),
        ([1, 0, 3], [0, 2, 1], [("START", "OPEN")]),
    ],
)
def test_every_change_of_the_state_is_told(kinds: list[int], order: list[int], steps: list[tuple[str, str]]) -> None:
    result = run(changes(), [bytes([7, number, kinds[number]]) + b"x" for number in order])
    assert [(event.before, event.after) for event in result.named("state")] == steps
    over = steps[-1:] == [("SHUT", "OVER")]
    assert [event.by for event in result.named("counted")] == [order[-1]] * over


@cache
def changes() -> CompiledStack:
    return watch_all(machine(), ("p", "state"), ("p", "counted"))


def test_nobody_hears_of_the_states_of_a_layer_without_a_machine() -> None:
    p: Any = Connectionless("p")
    p.header = numbered
    p.selector = [p.header.key]
    stack = Stack("plain")
    stack.p = p
    result = run(watch_all(stack, ("p", "state")), [bytes([7, 1, 0])])
    assert result.named("created") and not result.named("state")


def test_the_states_of_a_connection_of_a_capture() -> None:
    """The example's TCP connection, opened and closed from one side, tells each step; its three UDP flows have none."""
    result = run_capture(watch_all(find_stack("tcp_ip"), ("tcp", "state")), EXAMPLE)
    states = ["CLOSED", "SYN_SENT", "SYN_RECEIVED", "ESTABLISHED", "CLOSE_WAIT", "LAST_ACK", "TERMINATED"]
    assert [(event.before, event.after) for event in result.named("state")] == list(pairwise(states))
    assert {event.layer for event in result.named("state")} == {"tcp_over_ipv4"}
    assert {event.layer for event in result.named("created")} > {"tcp_over_ipv4", "udp_over_ipv4"}


class sized(layout):
    kind = UInt(8, const=7)
    key = UInt(8)
    size = UInt(8)


def picky(creates: bool = False) -> Stack:
    """Keys and sizes; a size above 100 is malformed, and by what prep made of it one above 50. Key 0 begins nothing."""

    class doubled(layout):
        size = UInt(8)

    p: Any = Connectionless("p")
    p.header, p.temp = sized, doubled
    p.selector = [p.header.key]
    if creates:
        p.creates = p.header.key != 0
    p.prep = Assign(p.temp.size, p.header.size * 2)
    p.require(p.header.size <= 100, "size")
    p.require(p.temp.size <= 100, 'a "large" size')
    stack = Stack("picky")
    stack.p = p
    return stack


def test_what_is_malformed_is_told_with_the_reason_that_its_counter_has() -> None:
    """Before the instance is known there is none; after prep there is, and if it was made for the packet it began."""
    stack = watch_all(picky())
    found = run(stack, [b"\7\1\1", b"\7", b"\6\1\1", b"\7\1\x65", b"\7\1\x33ab", b"\7\2\x33", b"\7\1\2"])
    assert [(e.reason, e.length, e.instance) for e in found.named("malformed")] == [
        ("header too short", 1, 0),
        ("const", 3, 0),
        ("size", 3, 0),
        ('a "large" size', 5, 1),
        ('a "large" size', 3, 2),
    ]
    told = [(e.name, e.instance) for e in found.named("created", "malformed", "end") if e.instance]
    assert told == [("created", 1), ("malformed", 1), ("created", 2), ("malformed", 2), ("end", 1), ("end", 2)]


def test_what_is_cut_by_the_snap_length_is_not_malformed() -> None:
    found = run(watch_all(picky()), [(b"\7", 3), b"\7\1\1"])
    assert found.counters["p"]["cut:header"] == 1 and not found.named("malformed")


def test_an_event_of_ones_own_when_a_packet_is_malformed() -> None:
    """It knows the reason's number, what was below, and nothing of the header."""

    class bad(layout):
        reason = UInt(8)
        size = UInt(16)

    stack = picky()
    p: Any = stack.p.prototype
    p.event.bad = Assign(bad.reason, p.event.malformed.reason) + Assign(bad.size, p.unit.length) + Callback(bad)
    p.event_relation += p.event.malformed >> p.event.bad
    found = run(watch_all(stack, ("p", "bad")), [b"\7\1\1", b"\7\1\x65abc", b""])
    numbers = found.named("bad")
    assert [event.size for event in numbers] == [6, 0]
    assert [event.reason for event in found.named("malformed")] == ["size", "header too short"]


@pytest.mark.parametrize("asks", ["header", "temp", "cur_state", "payload"])
def test_of_a_malformed_packet_little_is_known(asks: str) -> None:
    stack = picky()
    p: Any = stack.p.prototype
    of_packet = {"header": p.header.key, "temp": p.temp.size, "cur_state": p.instance, "payload": p.payload.length}
    p.event.bad = If(of_packet[asks] > 0) >> Callback(told)
    p.event_relation += p.event.malformed >> p.event.bad
    with pytest.raises(DescriptionError, match="is read before it is known to be there"):
        watch_all(stack)


def test_what_is_malformed_in_captures() -> None:
    """Every packet that a counter says so of (`run` holds all of them against the counters), and no other."""
    found = run_capture(watch_all(find_stack("examples/first/hello.py")), EXAMPLE)
    assert [(e.layer, e.packet, e.reason) for e in found.named("malformed")] == [
        ("hello", 15, "version"),
        ("hello", 17, "header too short"),
    ]
    assert not run_capture(whole(), EXAMPLE).named("malformed")
    broken = run_capture(whole(), OWN / "seladb_PcapPlusPlus__tcp-malformed.pcap").named("malformed")
    assert {event.layer for event in broken} == {"tcp_over_ipv4"}


def test_who_may_not_begin_an_instance_is_an_orphan() -> None:
    """Unless there is one: key 0 never has; and one that has, has no orphans."""
    found = run(watch_all(picky(creates=True)), [b"\7\0\1abc", b"\7\1\1", b"\7\0\2", b"\7\1\1"])
    assert [(event.length, event.instance) for event in found.named("orphan")] == [(3, 0), (0, 0)]
    assert found.count("p", "instances") == 1
    assert not run(watch_all(picky()), [b"\7\0\1abc", b"\7\1\1"]).named("orphan")


def test_an_event_of_ones_own_for_orphans() -> None:
    """Unlike of what is malformed, all of the packet is known."""
    stack = picky(creates=True)
    p: Any = stack.p.prototype
    p.event.lone = Assign(told.by, p.temp.size + p.event.orphan.length) + Callback(told)
    p.event_relation += p.event.orphan >> p.event.lone
    found = run(watch_all(stack, ("p", "lone")), [b"\7\0\1abc", b"\7\1\1", b"\7\0\2"])
    assert [event.by for event in found.named("lone")] == [5, 4]


def test_connections_that_nobody_saw_begin() -> None:
    """A TCP that picks none up: of the example's connection all packets are orphans if its first is not there."""
    stack = plain_tcp(pick_up=False)
    packets = [p.data for p in read_packets(stack.compiled.path, EXAMPLE) if p.data[23] == TCP]
    assert not run(stack, packets).named("orphan")
    middle = [packet for packet in packets if not packet[47] & SYN]
    found = run(stack, middle)
    assert len(found.named("orphan")) == len(middle) and found.count("tcp", "instances") == 0
    assert not found.named("data") and sum(event.length for event in found.named("orphan")) > 0
    assert not run(plain_tcp(), middle).named("orphan")


def test_c_is_told_the_reason_in_words(tmp_path: Path) -> None:
    lines = [
        "SLUICE_ON(any, malformed) {",
        '    printf("%s %s\\n", event->layer->name, event->layer->malformed[data->reason]);',
        "}",
    ]
    function = tmp_path / "reasons.c"
    function.write_text('#include "sluice.h"\n' + "\n".join(lines) + "\n")
    command = [sys.executable, "-m", "sluice", "run", "examples/first/hello.py", "-r", EXAMPLE, "-f", function]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    told_by_c = subprocess.run(
        command, cwd=ROOT, env=buffered, capture_output=True, text=True, check=True, timeout=300
    ).stdout
    assert told_by_c.startswith("hello version\nhello header too short\n")
