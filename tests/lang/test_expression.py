"""Operators of expressions build what they say."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ir.expression import calculate
from sluice.lang import Bit, Connectionless, layout, one_of
from sluice.lang.expression import BYTES, NUMBER, Binary, Expression, Invert, Number, Slice, children
from sluice.lang.field_value import FieldValue

MASK = (1 << 64) - 1


class values(layout):
    a = Bit(8)
    b = Bit(16)
    c = Bit(64)
    text = Bit(128)


p = Connectionless("p")
p.header = values
FIELDS = [p.header.a, p.header.b, p.header.c]

OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "+": (operator.add, lambda x, y: (x + y) & MASK),
    "-": (operator.sub, lambda x, y: (x - y) & MASK),
    "*": (operator.mul, lambda x, y: (x * y) & MASK),
    "<<": (operator.lshift, lambda x, y: (x << y) & MASK if y < 64 else 0),
    ">>": (operator.rshift, lambda x, y: x >> y),
    "&": (operator.and_, operator.and_),
    "|": (operator.or_, operator.or_),
    "^": (operator.xor, operator.xor),
    "==": (operator.eq, lambda x, y: int(x == y)),
    "!=": (operator.ne, lambda x, y: int(x != y)),
    "<": (operator.lt, lambda x, y: int(x < y)),
    "<=": (operator.le, lambda x, y: int(x <= y)),
    ">": (operator.gt, lambda x, y: int(x > y)),
    ">=": (operator.ge, lambda x, y: int(x >= y)),
}

Tree = int | str | tuple[str, "Tree", "Tree"]
"""What a person writes: a number, a field's name, or two of these with an operator between."""

trees: st.SearchStrategy[Tree] = st.recursive(
    st.integers(0, MASK) | st.sampled_from("abc"),
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATORS)), inner, inner),
    max_leaves=12,
)


def written(tree: Tree) -> Any:
    """The expression (or the number) that Python makes of it."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return getattr(p.header, tree)
    name, left, right = tree
    x, y = written(left), written(right)
    if isinstance(x, int) and isinstance(y, int):
        return OPERATORS[name][1](x, y)
    return OPERATORS[name][0](x, y)


def meant(tree: Tree, fields: dict[str, int]) -> int:
    """Its value by Python's own arithmetic, modulo 2^64."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return fields[tree]
    name, left, right = tree
    return OPERATORS[name][1](meant(left, fields), meant(right, fields))


def value(expression: Expression, fields: dict[str, int]) -> int:
    """The value of an expression without serial numbers and `~`."""
    match expression:
        case Number():
            return expression.value
        case FieldValue():
            return fields[expression.field.name]
        case Binary():
            return calculate(expression.operator, value(expression.left, fields), value(expression.right, fields))
        case _:
            raise AssertionError(expression)


@given(trees, st.fixed_dictionaries({"a": st.integers(0, 255), "b": st.integers(0, 65535), "c": st.integers(0, MASK)}))
def test_expressions_mean_what_python_would(tree: Tree, fields: dict[str, int]) -> None:
    made = written(tree)
    found = made if isinstance(made, int) else value(made, fields)
    assert found == meant(tree, fields)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in ("<", "<=", ">", ">=")])
def test_a_number_may_stand_on_the_left(name: str) -> None:
    made = OPERATORS[name][0](3, p.header.a)
    assert isinstance(made, Binary) and made.operator == name
    sides = [made.left, made.right] if name not in ("==", "!=") else [made.right, made.left]
    assert isinstance(sides[0], Number) and sides[0].value == 3
    assert isinstance(sides[1], FieldValue)


@given(st.integers(-(1 << 63), MASK))
def test_numbers_are_kept_modulo_2_to_the_64(number: int) -> None:
    made = p.header.c + number
    assert isinstance(made.right, Number) and made.right.value == number % (1 << 64)


def test_division_is_written_either_way() -> None:
    assert (p.header.a / 2).operator == (p.header.a // 2).operator == "/"
    assert (p.header.a % 2).operator == "%"


def test_truth_values_are_one_and_zero() -> None:
    assert [(p.header.a == flag).right.value for flag in (True, False)] == [1, 0]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(0, 300))
def test_one_of_holds_for_those_and_no_other(alternatives: list[int], number: int) -> None:
    made = one_of(p.header.b, *alternatives)
    assert value(made, {"b": number}) == int(number in alternatives)


def test_one_of_takes_expressions_and_numbers_on_either_side() -> None:
    fields = {"a": 7, "b": 9}
    assert value(one_of(7, p.header.b, p.header.a), fields) == 1
    assert value(one_of(8, p.header.b, p.header.a), fields) == 0


@given(
    st.none() | st.integers(0, 1000),
    st.none() | st.integers(0, 1000),
)
def test_slices_keep_their_limits(low: int | None, high: int | None) -> None:
    made = p.header.text[low:high]
    assert isinstance(made, Slice) and made.kind == BYTES and made.length.kind == NUMBER
    for limit, kept in ((low, made.low), (high, made.high)):
        assert (limit is None) == (kept is None)
        assert kept is None or (isinstance(kept, Number) and kept.value == limit)


def test_operands_are_found_in_order() -> None:
    a, b, c = FIELDS
    both = a + b
    assert children(both) == (a, b)
    part = p.header.text[a:c]
    assert children(part)[1:] == (a, c)
    assert children(~both) == (both,)
    assert children(part.length) == (part,)
    assert isinstance(~both, Invert)
