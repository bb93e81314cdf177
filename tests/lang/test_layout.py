"""Layouts keep the order of their fields, headers that of their parts."""

from __future__ import annotations

import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ir.text import print_program
from sluice.lang import AnyUntil, Bit, Connectionless, Else, If, Stack, UInt, both_sides, layout
from sluice.lang.errors import DescriptionError
from sluice.lang.layout import HeaderFormat, LayoutType, header_format
from sluice.lower.build import build

names = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), min_size=1, max_size=12, unique=True).filter(
    lambda found: not {"fields", "where"} & set(found)
)


def make(name: str, fields: list[tuple[str, int]]) -> Any:
    """A layout as a class statement makes it."""

    def body(members: dict[str, Any]) -> None:
        for key, bits in fields:
            members[key] = Bit(bits)

    return types.new_class(name, (layout,), exec_body=body)


@given(names, st.data())
def test_fields_keep_their_order_and_length(keys: list[str], data: st.DataObject) -> None:
    fields = [(key, data.draw(st.integers(1, 256))) for key in keys]
    made = make("h", fields)
    assert [(name, field.bits) for name, field in made.fields.items()] == fields
    for name, bits in fields:
        field = getattr(made, name)
        assert (field.name, field.layout, field.kind) == (name, made, "number" if bits <= 64 else "bytes")


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.data())
def test_parts_of_a_header_keep_their_order_however_they_are_joined(groups: list[int], data: st.DataObject) -> None:
    parts: list[Any] = []
    for number in range(sum(groups)):
        part = make(f"part{number}", [(f"field{number}", 8)])
        if data.draw(st.booleans()):
            part = If(1) >> part
        parts.append(part)
    rest, joined = list(parts), None
    for size in groups:
        group, rest = rest[:size], rest[size:]
        inner = group[0]
        for part in group[1:]:
            inner = inner + part
        joined = inner if joined is None else joined + inner
    assert header_format(joined).parts == parts
    p = Connectionless("p")
    p.header = joined
    assert list(p.header_fields()) == [f"field{number}" for number in range(len(parts))]


def test_header_is_extended_in_place() -> None:
    class first(layout):
        a = Bit(8)

    class second(layout):
        b = UInt(16)

    class third(layout):
        c = UInt(16)

    p = Connectionless("p")
    p.header = first
    p.header += If(p.header.a == 1) >> second >> Else() >> third
    p.header += AnyUntil([third], p.cursor < p.header.a)
    assert isinstance(p.format, HeaderFormat)
    assert [part.__name__ for part in p.format.layouts()] == ["first", "second", "third", "third"]
    assert list(p.header_fields()) == ["a", "b", "c"]


def test_uint_is_bit() -> None:
    assert UInt is Bit


def test_init_and_const_reach_the_fields() -> None:
    class h(layout):
        a = Bit(4, const=15)
        b = UInt(32, init=7, serial=True)
        c = UInt(16, order="little")

    assert isinstance(h, LayoutType)
    assert (h.a.const, h.b.init.value, h.b.serial, h.b.width, h.c.order) == (15, 7, True, 32, "little")


def test_annotated_and_assigned_is_a_field() -> None:
    class h(layout):
        """What it is for."""

        a: Any = Bit(8)

    assert list(h.fields) == ["a"]


def test_one_field_of_several_of_one_name_is_named_by_its_layout() -> None:
    class first(layout):
        a = Bit(8)

    class second(layout):
        a = Bit(16)

    p = Connectionless("p")
    p.header = first + second
    p.require(second.a == 5, "a")
    stack = Stack("s")
    stack.only = p
    assert "second.a == 5" in print_program(build(stack))


def test_a_layout_that_a_program_makes() -> None:
    made: Any = type("made", (layout,), {"kind": Bit(4), "rest": Bit(4)})
    assert list(made.fields) == ["kind", "rest"] and made.kind.name == "kind"
    with pytest.raises(DescriptionError, match="'size' in layout 'made' is not a field"):
        type("made", (layout,), {"size": 8})


def test_fields_for_both_sides() -> None:
    class side(layout):
        first = UInt(32, serial=True)
        scale = Bit(8, init=14)

    class shared(layout):
        closing = Bit(1)

    made: Any = both_sides(side, shared)
    assert list(made.fields) == ["active_first", "active_scale", "passive_first", "passive_scale", "closing"]
    assert (made.passive_first.serial, made.passive_scale.init.value, made.closing.width) == (True, 14, 1)
    assert made.active_first.layout is made and side.fields["first"].layout is side
    assert list(both_sides(side).fields) == ["active_first", "active_scale", "passive_first", "passive_scale"]


def test_fields_for_both_sides_that_are_none() -> None:
    class side(layout):
        first = Bit(8)

    class shared(layout):
        active_first = Bit(8)

    with pytest.raises(DescriptionError, match="field 'active_first' is there for a side already"):
        both_sides(side, shared)
    with pytest.raises(DescriptionError, match="both_sides is given 7"):
        both_sides(7)
