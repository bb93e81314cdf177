"""What a packet of one side does to the fields of that side and of the other, at random, and its mirror image."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

from sluice.lang import Assign, Bit, Else, If, layout

SIDES = "active", "passive"
NAMES = "bit", "three", "serial", "wide", "long"
"""What there is of each side: a bit, a field that would share a byte, numbers that wrap, 32 and 64 bits."""

OfSide = Callable[[int], Any]
"""What something is for a packet of side 0 or 1."""


class sided(layout):
    # what layout `kept` has, which the rest of a random parser asks for
    n = Bit(8)
    m = Bit(32, init=3)
    last = Bit(8, serial=True)
    # in no order, so that either side has the first one of a pair
    active_bit = Bit(1)
    active_three = Bit(3, init=5)
    passive_three = Bit(3)
    passive_serial = Bit(8, serial=True, init=200)
    active_long = Bit(64)
    active_serial = Bit(8, serial=True)
    passive_bit = Bit(1, init=1)
    active_wide = Bit(32)
    passive_long = Bit(64, init=9)
    passive_wide = Bit(32)


def of_both_sides(rnd: random.Random, p: Any) -> Any:
    """The same for packets of either side, whose fields are exchanged."""
    does = statements(rnd, p, 2)
    return If(p.to_passive == 1) >> does(0) >> Else() >> does(1)


def all_fields(p: Any) -> Any:
    """A number that depends on every field of either side."""
    found = p.perm.active_bit
    for side in range(2):
        for name in NAMES:
            found = found * 3 + field(p, side, name)
    return found


def field(p: Any, side: int, name: str) -> Any:
    """A field of a side."""
    return getattr(p.perm, f"{SIDES[side]}_{name}")


def statements(rnd: random.Random, p: Any, depth: int) -> OfSide:
    """One to three, of which some are asked for."""
    does = [statement(rnd, p, depth) for _ in range(rnd.randrange(1, 4))]

    def of_side(side: int) -> Any:
        first, *others = (one(side) for one in does)
        for one in others:
            first += one
        return first

    return of_side


def statement(rnd: random.Random, p: Any, depth: int) -> OfSide:
    """One that changes a field of this side or the other, or keeps the highest number in it, or several if they are."""
    name, turned = rnd.choice(NAMES), rnd.randrange(2)
    value = number(rnd, p)
    match rnd.randrange(4 if depth else 2):
        case 0:
            return lambda side: Assign(field(p, side ^ turned, name), value(side))
        case 1:
            return lambda side: (
                If(field(p, side ^ turned, name) < value(side)) >> Assign(field(p, side ^ turned, name), value(side))
            )
        case 2:
            then = statements(rnd, p, depth - 1)
            return lambda side: If(field(p, side ^ turned, name) < value(side)) >> then(side)
        case _:
            then, other = statements(rnd, p, depth - 1), statements(rnd, p, depth - 1)
            return lambda side: If((value(side) + 0) % 3 == 1) >> then(side) >> Else() >> other(side)


def number(rnd: random.Random, p: Any, depth: int = 1) -> OfSide:
    """A number made of fields of this side and the other, and of what has no side."""
    match rnd.randrange(4 if depth else 2):
        case 0:
            name, turned = rnd.choice(NAMES), rnd.randrange(2)
            return lambda side: field(p, side ^ turned, name)
        case 1:
            leaf = rnd.choice([p.header.one, p.header.number, p.temp.x, p.perm.m])
            return lambda _: leaf
        case _:
            combined = rnd.choice([operator.add, operator.sub, operator.xor, operator.and_])
            left, right = number(rnd, p, depth - 1), number(rnd, p, depth - 1)
            return lambda side: combined(left(side), right(side))
