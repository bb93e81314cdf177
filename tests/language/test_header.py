"""Lists in a header that end with a part, as the manual shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluice.lang import AnyUntil, Assign, Bit, Callback, Connectionless, Else, If, Stack, UInt, layout
from tests.support.run import run, watch_all


class begin(layout):
    id = UInt(8)


class root(layout):
    root_length = UInt(8, const=0)


class label(layout):
    length = UInt(8)
    text = Bit(length << 3)


class after(layout):
    type = UInt(8)


class told(layout):
    type = UInt(8)
    last = Bit(999)


def by_its_part(p: Any) -> Any:
    return AnyUntil([root, label], ~p.header_contain(root))


def by_its_length(p: Any) -> Any:
    return AnyUntil([label], (label.length != 0) | (p.cursor == 1))


@pytest.mark.parametrize("names", [by_its_part, by_its_length])
def test_a_list_is_read_until_its_end_part(names: Callable[[Any], Any]) -> None:
    p: Any = Connectionless("p")
    p.header = begin + names(p) + after
    p.event.told = Assign(told.type, p.header.type) + Assign(told.last, p.payload) + Callback(told)
    stack = Stack("names")
    stack.p = p
    packets = [b"\x09\x03www\x02de\x00\x2arest", b"\x09\x00\x2a", b"\x09\x03www\x02de"]
    result = run(watch_all(stack, ("p", "told")), packets)
    assert [(event.type, event.last) for event in result.named("told")] == [(42, b"rest"), (42, b"")]
    assert result.count("p", "malformed:header too short") == 1


class counted_hdr(layout):
    count = UInt(8)


@pytest.mark.parametrize(
    ("packet", "kept", "broken"),
    [
        (b"\2\1a\2bcrest", (b"bc", b"rest"), 0),
        (b"\0rest", (b"", b"rest"), 0),
        (b"\3\1a\2bc", (b"bc", b""), 1),
    ],
)
def test_a_list_of_so_many_parts(packet: bytes, kept: tuple[bytes, bytes], broken: int) -> None:
    p: Any = Connectionless("p")
    p.header = counted_hdr
    p.header += AnyUntil([label], count=counted_hdr.count)
    p.event.told = Assign(counted_told.last, label.text) + Assign(counted_told.rest, p.payload) + Callback(counted_told)
    stack = Stack("counted")
    stack.p = p
    result = run(watch_all(stack, ("p", "told")), [packet])
    assert [(event.last, event.rest) for event in result.named("told")] == [kept]
    assert result.count("p", "list broken") == broken


class counted_told(layout):
    last = Bit(999)
    rest = Bit(999)


class stop(layout):
    stop_type = UInt(8, const=0)


class number(layout):
    number_type = UInt(8, const=1)
    long = UInt(8)


class short_value(layout):
    short = UInt(8)


class long_value(layout):
    wide = UInt(16)


class mark(layout):
    mark = UInt(8)


class numbers_told(layout):
    short = UInt(8)
    wide = UInt(16)
    mark = UInt(8)
    last = Bit(999)


@pytest.mark.parametrize(
    ("packet", "kept", "broken"),
    [
        (b"\x09\1\0\7\xaa\0rest", (7, 0, 0xAA, b"rest"), 0),
        (b"\x09\1\1\2\3\xbb\0rest", (0, 0x203, 0xBB, b"rest"), 0),
        (b"\x09\1\0\7\xaa\1\1\2\3\xbb\0rest", (7, 0x203, 0xBB, b"rest"), 0),
        (b"\x09\1\0\7\xaa\2\0rest", (7, 0, 0xAA, b"\2\0rest"), 1),
        (b"\x09\1\1\2", (0, 0, 0, b"\1\1\2"), 1),
    ],
)
def test_an_alternative_may_have_parts_of_its_own(
    packet: bytes, kept: tuple[int, int, int, bytes], broken: int
) -> None:
    p: Any = Connectionless("p")
    value = If(number.long != 0) >> long_value >> Else() >> short_value
    p.header = begin + AnyUntil([stop, number + value + mark], ~p.header_contain(stop))
    told = Assign(numbers_told.short, short_value.short) + Assign(numbers_told.wide, long_value.wide)
    told += Assign(numbers_told.mark, mark.mark) + Assign(numbers_told.last, p.payload)
    p.event.told = told + Callback(numbers_told)
    stack = Stack("numbers")
    stack.p = p
    result = run(watch_all(stack, ("p", "told")), [packet])
    assert [(event.short, event.wide, event.mark, event.last) for event in result.named("told")] == [kept]
    assert result.count("p", "list broken") == broken
