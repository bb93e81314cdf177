"""The order of the steps from a layer, and steps that no packet takes."""

from __future__ import annotations

import warnings

import pytest

from sluice.lang import Bit, Connectionless, DescriptionError, DescriptionWarning, Pred, Stack, layout, one_of
from sluice.lang.check import check
from tests.support.run import run, watch_all


class step_hdr(layout):
    kind = Bit(8)


def parser(name: str) -> Connectionless:
    made = Connectionless(name)
    made.header = step_hdr
    return made


def stack() -> Stack:
    s = Stack("steps")
    s.low, s.a, s.b, s.c = parser("low"), parser("a"), parser("b"), parser("c")
    return s


def above(s: Stack) -> list[str]:
    return [branch.upper.name for branch in s.above(s.low)]


def test_steps_are_tried_in_the_order_of_their_definition() -> None:
    s = stack()
    s += (s.low >> s.a) + Pred(s.low.header.kind == 1)
    s += (s.low >> s.b) + Pred(s.low.header.kind == 2)
    assert above(s) == ["a", "b"]


def test_a_step_with_before_precedes_the_one_that_it_names() -> None:
    s = stack()
    s += (s.low >> s.a) + Pred(s.low.header.kind == 1)
    s += (s.low >> s.b) + Pred(s.low.header.kind == 2)
    s += (s.low >> s.c) + Pred(s.low.header.kind == 1, before=s.b)
    assert above(s) == ["a", "c", "b"]


def test_a_fallback_stays_after_steps_that_are_added_later() -> None:
    s = stack()
    s += (s.low >> s.a) + Pred(1, fallback=True)
    s += (s.low >> s.b) + Pred(s.low.header.kind == 2)
    s += (s.low >> s.c) + Pred(s.low.header.kind == 3, fallback=True)
    assert above(s) == ["b", "a", "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run(watch_all(s), [b"\2x", b"\3x"])
    assert [result.count(layer) for layer in "abc"] == [1, 1, 0]


def test_before_names_a_layer_that_follows() -> None:
    s = stack()
    with pytest.raises(DescriptionError, match="no step leads from layer 'low' to layer 'b'"):
        s += (s.low >> s.a) + Pred(1, before=s.b)


def test_before_is_a_layer() -> None:
    s = stack()
    with pytest.raises(DescriptionError, match="before="):
        s += (s.low >> s.a) + Pred(1, before="b")  # type: ignore[arg-type]


def test_a_step_has_one_place() -> None:
    s = stack()
    with pytest.raises(DescriptionError, match="before= and fallback="):
        Pred(1, before=s.a, fallback=True)


UNREACHED = {
    "after one that takes everything": lambda kind: (1, kind == 2),
    "after the same condition": lambda kind: (kind == 2, kind == 2),
    "after alternatives that include its own": lambda kind: (one_of(kind, 1, 2, 3), one_of(kind, 3, 1)),
}


@pytest.mark.parametrize("conditions", UNREACHED.values(), ids=UNREACHED)
def test_a_step_that_no_packet_takes_is_warned_of(conditions) -> None:
    s = stack()
    first, second = conditions(s.low.header.kind)
    s += (s.low >> s.a) + Pred(first)
    s += (s.low >> s.b) + Pred(second)
    with pytest.warns(DescriptionWarning, match="no packet takes the step from 'low' to 'b'.*before=stack.a"):
        check(s)


def test_steps_with_alternatives_of_their_own_are_not_warned_of() -> None:
    s = stack()
    s += (s.low >> s.a) + Pred(one_of(s.low.header.kind, 1, 2))
    s += (s.low >> s.b) + Pred(one_of(s.low.header.kind, 2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(s)
