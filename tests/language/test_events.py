"""When events happen whose conditions ask for virtual packets."""

from __future__ import annotations

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
    If,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
)
from sluice.stacks.find import find_stack
from tests.support.run import run, run_capture, watch_all

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "first" / "capture.pcap"


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
        ([1, 0], {0}, [0]),  # in the arrival step, though the release step behind it does not fulfil it
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
