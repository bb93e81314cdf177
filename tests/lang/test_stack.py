"""Stacks: what a layer offers and is asked, where packets begin, the order of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sluice.ir.text import print_program
from sluice.ir.verify import verify
from sluice.lang import (
    PSM,
    Assign,
    Bit,
    Callback,
    Connectionless,
    DescriptionError,
    If,
    Pred,
    PSMState,
    Stack,
    UInt,
    layout,
    one_of,
)
from sluice.lang.events import event_order
from sluice.lang.expression import Expression, Property, children
from sluice.lang.field_value import Contains, FieldValue
from sluice.lang.layer import of_layer
from sluice.lang.owner import Owner
from sluice.lang.psm import Taken
from sluice.lower.build import build


class head(layout):
    kind = Bit(8)
    size = Bit(8)
    port = UInt(16)


class extra(layout):
    more = Bit(8)
    tail = Bit(128)


class memory(layout):
    count = UInt(32)


def lower_parser() -> Connectionless:
    p = Connectionless("lower")
    p.header = head + (If(head.kind == 1) >> extra)
    p.selector = [p.header.port]
    p.perm = memory
    p.temp = memory_of_packet
    p.prep = Assign(p.temp.twice, p.header.kind << 1)
    A, B = PSMState(start=True), PSMState(name="B")
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(p.header.kind == 2)
    p.offer(
        sum=p.header.kind + p.temp.twice * p.perm.count,
        not_kind=~p.header.kind,
        more=p.header_contain(extra),
        went=p.psm.go,
        state=p.cur_state == B,
        length=p.payload[p.header.size : 20].length,
        bare=head.port,
        bare_temp=memory_of_packet.twice,
        bare_perm=memory.count,
        constant=7,
    )
    return p


class memory_of_packet(layout):
    twice = UInt(16)


def stack_with(predicate: Callable[[Any], Any]) -> str:
    """The program of two layers of one prototype and one above, which is reached as the predicate says."""
    lower = lower_parser()
    s = Stack("s")
    s.first = lower
    s.second = s.first
    s.upper = Connectionless("upper")
    s += (s.first >> s.second) + Pred(1)
    s += (s.second >> s.upper) + Pred(predicate(s))
    program = build(s)
    verify(program)
    return print_program(program, lines=False)


@pytest.mark.parametrize(
    ("offered", "same"),
    [
        (
            lambda s: s.second.offers.sum == 3,
            lambda s: s.second.header.kind + s.second.temp.twice * s.second.perm.count == 3,
        ),
        (lambda s: s.second.offers.not_kind, lambda s: ~s.second.header.kind),
        (lambda s: s.second.offers.more, lambda s: s.second.header_contain(extra)),
        (lambda s: s.second.offers.went, lambda s: s.second.psm.go),
        (
            lambda s: s.second.offers.state,
            lambda s: s.second.cur_state == s.second.prototype.psm.states()[1],
        ),
        (
            lambda s: s.second.offers.length,
            lambda s: s.second.payload[s.second.header.size : 20].length,
        ),
        (lambda s: s.second.offers.bare, lambda s: s.second.header.port),
        (lambda s: s.second.offers.bare_temp, lambda s: s.second.temp.twice),
        (lambda s: s.second.offers.bare_perm, lambda s: s.second.perm.count),
        (lambda s: s.second.offers.constant, lambda s: 7),
        (lambda s: s.first.offers.sum, lambda s: s.first.header.kind + s.first.temp.twice * s.first.perm.count),
        (
            lambda s: one_of(s.second.header.kind, 1, 5, s.second.header.size),
            lambda s: (
                (s.second.header.kind == 1)
                | (s.second.header.kind == 5)
                | (s.second.header.kind == s.second.header.size)
            ),
        ),
    ],
)
def test_offer_of_a_layer_is_its_expression(offered: Callable[[Any], Any], same: Callable[[Any], Any]) -> None:
    assert stack_with(offered) == stack_with(same)


def twin(name: str, number: Callable[[Any], Any]) -> Connectionless:
    p = Connectionless(name)
    p.header = head + extra
    p.offer(next=number(p), tail=p.header.tail)
    return p


def fork() -> Stack:
    """Two layers that a third leads to, and two that may follow both."""
    s = Stack("fork")
    s.root = twin("root", lambda p: p.header.size)
    s.a = twin("a", lambda p: p.header.kind)
    s.b = twin("b", lambda p: p.header.port)
    s.upper, s.rest = Connectionless("upper"), Connectionless("rest")
    s += (s.root >> s.a) + Pred(s.root.header.kind == 1)
    s += (s.root >> s.b) + Pred(s.root.header.kind == 2)
    return s


def text(s: Stack) -> str:
    program = build(s)
    verify(program)
    return print_program(program, lines=False)


def test_step_from_any_of_several_layers_is_a_step_from_each() -> None:
    short, long = fork(), fork()
    either = short.a | short.b
    short += (either >> short.upper) + Pred(one_of(either.offers.next, 6, 17) & (short.root.header.size != 0))
    short += ((short.root | either) >> short.rest) + Pred(~(short.root | either).offers.next << 1 != 0)
    for one, number in ((long.a, long.a.header.kind), (long.b, long.b.header.port)):
        long += (one >> long.upper) + Pred(one_of(number, 6, 17) & (long.root.header.size != 0))
    for one, number in ((long.root, long.root.header.size), (long.a, long.a.header.kind), (long.b, long.b.header.port)):
        long += (one >> long.rest) + Pred(~number << 1 != 0)
    assert text(short) == text(long)


def test_one_of_several_layers_may_ask_for_what_all_offer() -> None:
    short, long = fork(), fork()
    either = short.a | short.b
    for one in (short.a, short.b):
        short += (one >> short.upper) + Pred(either.offers.tail[: one.header.size].length == 4)
        short += (one >> short.rest) + Pred(1)
    for one in (long.a, long.b):
        long += (one >> long.upper) + Pred(one.header.tail[: one.header.size].length == 4)
        long += (one >> long.rest) + Pred(1)
    assert text(short) == text(long)


def test_layers_are_counted_once() -> None:
    s = fork()
    either = s.a | s.b | s.a | (s.b | s.a)
    assert either.layers == (s.a, s.b) and repr(either) == "<layer 'a' or 'b'>"


def test_chain_is_layers_and_steps() -> None:
    short, long = Stack("chain"), Stack("chain")
    short += lower_parser() >> (twin("a", lambda p: 1) >> twin("b", lambda p: 2))
    long.lower, long.a, long.b = lower_parser(), twin("a", lambda p: 1), twin("b", lambda p: 2)
    long += (long.lower >> long.a) + Pred(1)
    long += (long.a >> long.b) + Pred(1)
    assert text(short) == text(long)


def test_offer_of_another_layer_is_another_value() -> None:
    assert stack_with(lambda s: s.first.offers.sum) != stack_with(lambda s: s.second.offers.sum)


def test_every_offer_asks_the_layer() -> None:
    lower = lower_parser()
    s = Stack("s")
    s.first = lower
    for name, expression in lower.offers.items():
        asked = getattr(s.first.offers, name)
        assert isinstance(asked, Expression) and asked.kind == expression.kind
        assert lower not in owners(asked), name


def owners(expression: Expression) -> list[Owner]:
    """Of whom an expression asks something."""
    found = [item for child in children(expression) for item in owners(child)]
    if isinstance(expression, (Contains, FieldValue, Property, Taken)):
        found.append(expression.owner)
    return found


def test_what_is_not_the_layers_stays() -> None:
    lower, other = lower_parser(), lower_parser()
    s = Stack("s")
    s.first = lower
    foreign = other.header.kind
    assert of_layer(foreign, s.first) is foreign


def test_state_of_a_layer_below_is_a_state_of_its_own_machine() -> None:
    lower = lower_parser()
    s = Stack("s")
    s.low = lower
    upper = Connectionless("upper")
    upper.header = head
    state = lower.psm.states()[1]
    upper.require((s.low.cur_state == state) & (state == s.low.cur_state), "state")
    s.high = upper
    s += (s.low >> s.high) + Pred(1)
    program = build(s)
    verify(program)
    assert "((slot.low.cur_state == 1) & (slot.low.cur_state == 1))" in print_program(program)


def test_first_layers() -> None:
    s = Stack("s")
    s.alone = Connectionless("alone")
    assert [layer.name for layer in s.roots()] == ["alone"]
    s = Stack("s")
    s.eth, s.raw, s.ip = (
        Connectionless("eth", link_types=(1,)),
        Connectionless("raw", link_types=(101,)),
        Connectionless("ip"),
    )
    s += (s.eth >> s.ip) + Pred(1)
    s += (s.raw >> s.ip) + Pred(1)
    s += (s.ip >> s.ip) + Pred(0)
    assert [layer.name for layer in s.roots()] == ["eth", "raw"]


def test_a_parser_is_called_like_its_function_or_its_layer() -> None:
    def http_parser() -> Connectionless:
        return Connectionless()

    assert http_parser().name == "http"
    assert http_parser().title == "parser 'http'"
    assert (lambda: Connectionless())().title == "this parser"
    s = Stack("s")
    s.web = (lambda: Connectionless())()
    assert s.web.prototype.name == "web"


def test_states_are_called_like_their_variables() -> None:
    p = Connectionless("p")
    FIRST, SECOND = PSMState(start=True), PSMState()
    p.psm = PSM(FIRST, [SECOND, PSMState(), PSMState(name="LAST")])
    assert [state.name for state in p.psm.states()] == ["FIRST", "SECOND", "S2", "LAST"]


# --- the order of events -----------------------------------------------------------------------------------

EVENTS = "abcdef"
relations = st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(EVENTS), st.booleans()), max_size=12)


def reaches(edges: set[tuple[str, str]], start: str, end: str) -> bool:
    seen = {start}
    while True:
        more = {b for a, b in edges if a in seen} | seen
        if more == seen:
            return end in seen
        seen = more


@given(relations)
def test_relations_are_refused_when_they_close_a_circle_and_else_obeyed(
    wanted: list[tuple[str, str, bool]],
) -> None:
    p = Connectionless("p")
    for name in EVENTS:
        setattr(p.event, name, Callback(memory))
    edges: set[tuple[str, str]] = set()
    effects: dict[str, list[str]] = {}
    for first, second, along in wanted:
        cause, effect = getattr(p.event, first), getattr(p.event, second)
        relation = cause >> effect if along else (cause, effect)
        if reaches(edges, second, first):
            with pytest.raises(DescriptionError, match="run in a circle"):
                p.event_relation += relation
            continue
        p.event_relation += relation
        edges.add((first, second))
        if along:
            effects.setdefault(first, []).append(second)
    standing, along_with = event_order(p.event.defined, p.event_relation)
    order = [event.name for event in standing]
    caused = {name for names in effects.values() for name in names}
    assert sorted(order) == sorted(set(EVENTS) - caused)
    assert {name: [event.name for event in found] for name, found in along_with.items()} == effects
    for first in order:
        for second in order:
            if first != second and reaches(edges, first, second):
                assert order.index(first) < order.index(second)


@given(st.permutations(EVENTS))
def test_events_without_relations_keep_their_order(names: list[str]) -> None:
    p = Connectionless("p")
    assume(len(names) == len(set(names)))
    for name in names:
        setattr(p.event, name, Callback(memory))
    assert [event.name for event in event_order(p.event.defined, p.event_relation)[0]] == names
