"""What says something else than it seems to is refused, or warned of with its line; what is sensible is neither."""

# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false
from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from sluice.lang import Assign, Bit, Connectionless, DescriptionError, DescriptionWarning, If, layout, one_of
from sluice.lower.build import build
from sluice.stacks.tcp_ip import tcp_ip
from tests.lang.refusal import alone


class doubtful(layout):
    kind = Bit(8)
    length = Bit(8)
    flag = Bit(1)
    nibble = Bit(7)
    number = Bit(32, serial=True)
    wide = Bit(64)


class count(layout):
    total = Bit(8)


class extra(layout):
    more = Bit(8)


def describe(condition: Callable[[Any], Any]) -> str | None:
    """The warning that a condition brings about, without its place, which is that of the condition."""
    p: Any = Connectionless("p")
    p.header = doubtful + (If(doubtful.flag) >> extra)
    p.selector = [p.header.kind]
    p.temp = count
    p.prep = If(condition(p)) >> Assign(p.temp.total, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(alone(p))
    if not caught:
        return None
    (warning,) = caught
    assert issubclass(warning.category, DescriptionWarning)
    place, _, text = str(warning.message).partition(": ")
    line = condition.__code__.co_firstlineno
    assert place == f"{inspect.getsourcefile(condition)}:{line}"
    return text


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda p: p.header.length == 6 & ((p.header.kind == 3) | (p.header.kind == 16)), "'&' of 6 and a comparison"),
    (lambda p: p.header.length == 6 | (p.header.kind == 3), "'|' of 6 and a comparison"),
    (lambda p: p.header.length == 6 ^ (p.header.kind == 3), "'^' of 6 and a comparison"),
    (lambda p: (p.header.kind == 3) & 6 == p.header.length, "'&' of 6 and a comparison"),
    (lambda p: p.header.length == 6 & ~(p.header.kind == 3), "'&' of 6 and a comparison"),
    (lambda p: p.header.length == 6 & one_of(p.header.kind, 3, 16), "'&' of 6 and a comparison"),
    (lambda p: p.header.length == 6 & p.header_contain(extra), "'&' of 6 and a comparison"),
    (lambda p: p.header.length == 6 & p.created, "'&' of 6 and a comparison"),
    (lambda p: p.header.length == 80 & p.header.flag, "'&' of 80 and a field of one bit"),
]


@pytest.mark.parametrize("condition, what", REFUSED)
def test_a_constant_beside_a_bit_is_refused(condition: Callable[[Any], Any], what: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        describe(condition)
    assert caught.value.what.startswith(what)
    number, sign = what.split()[2], what[1]
    assert caught.value.advice == (
        f"'{sign}' binds more tightly than comparisons: write (x == {number}) {sign} ..., with each comparison in "
        "parentheses."
    )
    assert (caught.value.where.file, caught.value.where.line) == (__file__, condition.__code__.co_firstlineno)


WARNED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda p: p.header.kind == 256, "a comparison with 256 ('==') never holds; the greatest number on the other"),
    (lambda p: 256 == p.header.kind, "a comparison with 256 ('==') never holds; the greatest number on the other"),
    (lambda p: p.header.kind > 255, "a comparison with 255 ('>') never holds; the greatest number on the other side"),
    (lambda p: 255 < p.header.kind, "a comparison with 255 ('>') never holds; the greatest number on the other side"),
    (lambda p: p.header.kind >= 256, "a comparison with 256 ('>=') never holds;"),
    (lambda p: p.header.kind < 0, "a comparison with 0 ('<') never holds; no number is less than 0."),
    (lambda p: p.header.kind != 256, "a comparison with 256 ('!=') always holds;"),
    (lambda p: p.header.kind < 256, "a comparison with 256 ('<') always holds;"),
    (lambda p: p.header.kind <= 300, "a comparison with 300 ('<=') always holds;"),
    (lambda p: (p.header.kind & 3) == 4, "a comparison with 4 ('==') never holds; the greatest number on the other"),
    (lambda p: (p.header.kind == 3) == 2, "a comparison with 2 ('==') never holds;"),
    (lambda p: p.header.kind + p.header.length == 600, "a comparison with 600 ('==') never holds;"),
    (lambda p: p.header.kind % 3 == 3, "a comparison with 3 ('==') never holds;"),
    (lambda p: one_of(p.header.kind, 1, 300), "a comparison with 300 ('==') never holds;"),
    (lambda p: p.header.kind == -1, "a comparison with -1: numbers are not negative, they count modulo 2^64."),
    (lambda p: p.header.kind - p.header.length < -1, "a comparison with -1: numbers are not negative"),
    (lambda p: p.header.kind // 0 == p.header.length, "'//' by 0 gives 0; divide by another number."),
    (lambda p: p.header.kind % 0 == p.header.length, "'%' by 0 gives 0; divide by another number."),
    (lambda p: p.header.wide << 64 == p.header.length, "a shift by 64 gives 0; shift by 0 to 63."),
    (lambda p: p.header.wide >> -1 == p.header.length, "a shift by -1 gives 0; shift by 0 to 63."),
    (lambda p: p.payload_len & (p.header.kind == 3), "'&' of a comparison and a number keeps the number's lowest bit"),
    (lambda p: p.header.kind == p.header.length | (p.header.kind == 3), "'==' compares with all of what '|' joins"),
    (lambda p: p.header.kind == 6 | p.header.flag, "'==' compares with all of what '|' joins"),
]


@pytest.mark.parametrize("condition, text", WARNED)
def test_what_is_probably_not_meant_is_warned_of(condition: Callable[[Any], Any], text: str) -> None:
    assert (describe(condition) or "").startswith(text)


SENSIBLE: list[Callable[[Any], Any]] = [
    lambda p: (p.header.length == 6) & ((p.header.kind == 3) | (p.header.kind == 16)),
    lambda p: 1 & (p.header.kind == 3),
    lambda p: p.header.flag & (p.header.kind == 3),
    lambda p: p.header.kind & 0x0F == 3,
    lambda p: (p.header.kind << 1) | (p.header.length == 3),
    lambda p: (p.header.flag | 6) + 1,
    lambda p: p.header.kind == 255,
    lambda p: p.header.kind >= 0,
    lambda p: p.header.kind <= 255,
    lambda p: p.header.wide == -1,
    lambda p: p.header.kind - p.header.length == -1,
    lambda p: p.header.number - 5 < 0,
    lambda p: p.header.number > -1,
    lambda p: p.header.kind << 8 == 0xFF00,
    lambda p: p.header.kind * p.header.length == 65025,
    lambda p: ~p.header.nibble == 127,
    lambda p: p.header.wide << 63 == p.header.length,
    lambda p: p.header.kind // p.header.length == 0,
]


@pytest.mark.parametrize("condition", SENSIBLE)
def test_what_is_sensible_is_not(condition: Callable[[Any], Any]) -> None:
    assert describe(condition) is None


def test_one_line_is_warned_of_once() -> None:
    p: Any = Connectionless("p")
    p.header = doubtful
    p.temp = count
    never = p.header.kind > 300
    p.prep = (If(never) >> Assign(p.temp.total, 1)) + (If(never) >> Assign(p.temp.total, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(alone(p))
    assert len(caught) == 1


def test_our_own_stack_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DescriptionWarning)
        build(tcp_ip())
