"""`If(...) >> a >> Else() >> b` chains associate as documented, whatever stands in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluice.lang import Assign, Bit, Connectionless, Else, If, layout
from sluice.lang.action import Block, block
from sluice.lang.choice import Choice
from sluice.lang.layout import AnyUntil, HeaderFormat


class marks(layout):
    mark = Bit(32)


class flags(layout):
    flag = Bit(32)


p = Connectionless("p")
p.header = flags
p.temp = marks


@dataclass
class Arm:
    """An If with its body: numbers of actions, or a chain in parentheses."""

    condition: int
    body: list[int] | Chain


@dataclass
class Chain:
    """If, Else If, ..., perhaps an Else."""

    arms: list[Arm]
    otherwise: list[int] | Chain | None


def chains(depth: int) -> st.SearchStrategy[Chain]:
    plain = st.lists(st.integers(0, 99), min_size=1, max_size=3)
    body: st.SearchStrategy[list[int] | Chain] = plain if depth == 0 else plain | chains(depth - 1)
    arms = st.lists(st.builds(Arm, st.integers(0, 7), body), min_size=1, max_size=4)
    return st.builds(Chain, arms, st.none() | body)


def written_body(body: list[int] | Chain) -> Any:
    if isinstance(body, Chain):
        return written(body)
    result: Any = Assign(p.temp.mark, body[0])
    for number in body[1:]:
        result = result + Assign(p.temp.mark, number)
    return result


def written(chain: Chain) -> Any:
    """The chain as a person writes it, from left to right without parentheses around the Else Ifs."""
    first, *others = chain.arms
    result: Any = If(p.header.flag == first.condition) >> written_body(first.body)
    for arm in others:
        result = result >> Else() >> If(p.header.flag == arm.condition) >> written_body(arm.body)
    if chain.otherwise is not None:
        result = result >> Else() >> written_body(chain.otherwise)
    return result


def meant(body: list[int] | Chain | None, flag: int) -> list[int]:
    """What is done: as `if`, `elif`, `else` of Python."""
    if body is None:
        return []
    if isinstance(body, list):
        return body
    for arm in body.arms:
        if arm.condition == flag:
            return meant(arm.body, flag)
    return meant(body.otherwise, flag)


def done(action: Any, flag: int) -> list[int]:
    """What the choice that was built does."""
    if isinstance(action, Block):
        return [number for part in action.actions for number in done(part, flag)]
    if isinstance(action, Choice):
        holds = action.condition.right.value == flag  # pyright: ignore[reportAttributeAccessIssue]
        if holds:
            return done(action.body, flag)
        return [] if action.otherwise is None else done(action.otherwise, flag)
    assert isinstance(action, Assign)
    return [action.expression.value]  # pyright: ignore[reportAttributeAccessIssue]


@given(chains(2))
def test_chains_are_if_elif_else(chain: Chain) -> None:
    made = block(written(chain))
    for flag in range(9):
        assert done(made, flag) == meant(chain, flag)


@given(chains(1), chains(1))
def test_what_is_joined_is_done_one_after_the_other(first: Chain, second: Chain) -> None:
    made = written(first) + written(second)
    for flag in range(9):
        assert done(made, flag) == meant(first, flag) + meant(second, flag)


@given(chains(1), st.lists(st.integers(0, 99), min_size=1))
def test_a_chain_is_not_changed_by_what_is_built_on_it(chain: Chain, body: list[int]) -> None:
    chain.otherwise = None
    made = written(chain)
    longer = made >> Else() >> written_body(body)
    for flag in range(9):
        assert done(made, flag) == meant(chain, flag)
        assert done(longer, flag) == meant(Chain(chain.arms, body), flag)


def test_pieces_may_be_put_after_one_after_the_other() -> None:
    made: Any = If(p.header.flag == 1) >> Assign(p.temp.mark, 1)
    made >>= Else()
    made >>= If(p.header.flag == 2)
    made >>= Assign(p.temp.mark, 2)
    assert [done(made, flag) for flag in range(4)] == [[], [1], [2], []]


def test_an_inner_choice_in_parentheses_keeps_its_else() -> None:
    x, y, z = (Assign(p.temp.mark, number) for number in range(3))
    inner: Any = If(p.header.flag == 2) >> x
    one: Any = If(p.header.flag != 5) >> inner >> Else() >> y
    assert one.body is inner and one.otherwise is y
    two: Any = If(p.header.flag != 5) >> (inner >> Else() >> z) >> Else() >> y
    assert two.body.otherwise is z and two.otherwise is y


class one(layout):
    a = Bit(8)


class two(layout):
    b = Bit(8)


def test_choices_of_layouts_add_up_to_a_header() -> None:
    first, second = If(p.header.flag == 1) >> one, If(p.header.flag == 2) >> two
    made = first + second
    assert isinstance(made, HeaderFormat) and made.parts == [first, second]
    assert isinstance(first + one, HeaderFormat)
    assert isinstance(first + AnyUntil([one], 1), HeaderFormat)
    assert isinstance((If(p.header.flag == 1) >> first) + second, HeaderFormat)
