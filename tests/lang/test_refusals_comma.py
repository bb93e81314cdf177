"""Commas where `>>` or `+` belongs: Python makes tuples of them, and the message says what to write instead."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false
from typing import Any

import pytest

from sluice.lang import Assemble, Assign, Else, If, Sequence, swap_sides
from tests.lang.refusal import Refusals, keyed, memory, paired, plain, small, wide

refused = Refusals()
test_refused = refused.test()
ARROW = "write If(condition) >> body, with '>>' where the comma is."
PLUS = "join the parts with '+', not with a comma."


@refused("event 'go' is (If(...), Assemble(...)), not an action", ARROW)
def event():
    p = keyed()
    p.event.go = If(p.header.kind == 1), Assemble()  # wrong


@refused("(If(...), Assign(...)) is not an action", ARROW)
def prep():
    p = keyed()
    p.prep = If(p.header.kind == 1), Assign(p.temp.count, 1)  # wrong


@refused("(Assign(...), Assign(...)) is not an action", PLUS)
def two_actions():
    p = keyed()
    p.prep = Assign(p.temp.count, 1), Assign(p.temp.count, 2)  # wrong


@refused("(Assign(...),) is not an action", PLUS)
def comma_at_the_end():
    p = keyed()
    p.prep = (Assign(p.temp.count, 1),)  # wrong


@refused("(If(...), wide) cannot be part of a header", ARROW)
def header():
    p = plain()
    p.header = If(small.kind == 1), wide  # wrong


@refused("p.seq is (If(...), Sequence(...)), not a sequence", ARROW)
def sequence():
    p = keyed()
    p.seq = If(p.header.kind == 1), Sequence(meta=p.header.seq, data=p.payload)  # wrong


@refused("a selector is a list, or a pair of lists", ARROW)
def selector():
    p = keyed()
    p.selector = If(p.header.kind == 1), [p.header.src]  # wrong


def shown() -> list[tuple[Any, str]]:
    p = paired()
    assign = Assign(p.temp.count, 1)
    return [
        (If(1), "If(...)"),
        (Else(), "Else()"),
        (assign, "Assign(...)"),
        (swap_sides(), "SwapSides(...)"),
        (assign + Assemble(), "Assign(...) + Assemble(...)"),
        (If(1) >> assign, "If(...) >> Assign(...)"),
        (If(1) >> (assign + assign), "If(...) >> Assign(...) + Assign(...)"),
        (If(1) >> assign >> Else() >> Assemble(), "If(...) >> Assign(...) >> Else() >> Assemble(...)"),
        (p.header.kind == 1, "an expression"),
        (memory.count, "memory.count"),
    ]


@pytest.mark.parametrize("thing, text", shown())
def test_things_of_the_language_show_what_they_are(thing: Any, text: str) -> None:
    assert repr(thing) == text
