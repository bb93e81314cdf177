"""Variable-length integers (RFC 9000, section 16): the examples of its appendix A.1, each length, what is too short."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.lang import AnyUntil, Assign, Bit, Callback, Connectionless, If, Pred, Stack, UInt, Varint, layout
from tests.differential.both import Packet, assert_same, compiled
from tests.support.run import run, watch_all


class head(layout):
    kind = UInt(8)
    number = Varint()
    after = UInt(8)


class told(layout):
    number = UInt(62)
    after = UInt(8)
    rest = Bit(999)


def numbers() -> Stack:
    p: Any = Connectionless("p")
    p.header = head
    p.event.told = (
        Assign(told.number, p.header.number)
        + Assign(told.after, p.header.after)
        + Assign(told.rest, p.payload)
        + Callback(told)
    )
    stack = Stack("numbers")
    stack.p = p
    return stack


EXAMPLES = [
    ("c2197c5eff14e88c", 151288809941952652),
    ("9d7f3e7d", 494878333),
    ("7bbd", 15293),
    ("25", 37),
    ("4025", 37),
    ("00", 0),
    ("ffffffffffffffff", (1 << 62) - 1),
]


@pytest.mark.parametrize(("encoded", "number"), EXAMPLES)
@pytest.mark.parametrize("passes", ["all", "none"])
def test_an_integer_of_each_length(encoded: str, number: int, passes: str) -> None:
    result = run(watch_all(numbers(), ("p", "told"), passes=passes), [b"\7" + bytes.fromhex(encoded) + b"\x2arest"])
    assert [(e.number, e.after, e.rest) for e in result.named("told")] == [(number, 42, b"rest")]


def test_one_that_ends_early_is_malformed_and_one_that_the_snap_length_cut_is_cut() -> None:
    whole = b"\7" + bytes.fromhex("c2197c5eff14e88c") + b"\x2a"
    short = [whole[:size] for size in range(1, len(whole))]
    cut = [(whole[:size], len(whole)) for size in range(1, len(whole))]
    result = run(watch_all(numbers(), ("p", "told")), [*short, *cut, whole])
    assert result.count("p", "malformed:header too short") == len(short)
    assert result.count("p", "cut:header") == len(cut)
    assert len(result.named("told")) == 1


class marked(layout):
    mark = Varint(const=300)


class part(layout):
    length = Varint()
    text = Bit(length << 3)


def test_const_and_lengths_and_lists() -> None:
    """A list of parts, each as long as a variable-length integer before it says, after a constant one."""
    p: Any = Connectionless("p")
    p.header = marked
    p.header += AnyUntil([part], (part.length != 0) | (p.cursor == 2))
    p.event.told = Assign(told.number, part.length) + Assign(told.rest, p.payload) + Callback(told)
    stack = Stack("parts")
    stack.p = p
    good = b"\x41\x2c" + b"\x03abc" + b"\x40\x02de" + b"\x00" + b"rest"
    wide = b"\x80\x00\x01\x2c" + b"\x01abc" + b"\x40\x02de" + b"\x00" + b"rest"
    huge = b"\x41\x2c" + b"\xff\xff\xff\xff\xff\xff\xff\xffrest"
    made = watch_all(stack, ("p", "told"))
    result = run(made, [good, b"\x41\x2d\0", huge])
    assert [(e.number, e.rest) for e in result.named("told")] == [(0, b"rest"), ((1 << 62) - 1, huge[2:])]
    assert result.count("p", "malformed:const") == 1
    assert result.count("p", "list broken") == 1
    assert_same(compiled(stack), [Packet(data, n) for n, data in enumerate([good, wide, huge, good[:5], good[:3]])])


def test_a_key_and_a_condition_made_of_one() -> None:
    p: Any = Connectionless("p")
    p.header = head
    p.selector = If(p.header.number > 1000) >> [p.header.number]
    p.event.told = Assign(told.number, p.header.number) + Assign(told.after, p.created) + Callback(told)
    q: Any = Connectionless("q")
    q.header = head
    stack = Stack("keys")
    stack.p, stack.q = p, q
    stack += (stack.p >> stack.q) + Pred(stack.p.header.number == (1 << 62) - 1)
    large = b"\7" + b"\xff" * 8 + b"\1"
    packets = [large + b"\1\2\3", large, b"\7\x40\x25\1", b"\7\x43\xe9\1", b"\7\x80\x00\x03\xe9\1"]
    result = run(watch_all(stack, ("p", "told")), packets)
    assert [e.after for e in result.named("told")] == [1, 0, 1, 1, 0]
    assert result.count("q", "packets") == 2
    assert_same(compiled(stack), [Packet(data, n) for n, data in enumerate(packets)])
