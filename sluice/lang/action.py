"""What a layer does for a packet: assign, assemble, call back, and these under conditions."""

from __future__ import annotations

from typing import Any

from sluice.lang.choice import Choice, Else, If, joined_by_comma
from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import BYTES, NUMBER, Below, Expression, FieldValue, to_expression
from sluice.lang.layout import Field, LayoutType, VarintField
from sluice.lang.where import here


class Action:
    """Something done; actions add up to a block."""

    def __init__(self) -> None:
        self.where = here()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __add__(self, other: object) -> Block:
        return Block([self]) + other


class Block(Action):
    """Actions one after the other, as `a + b` makes them: the type to name where a function returns actions."""

    def __init__(self, actions: list[Any]) -> None:
        super().__init__()
        for action in actions:
            if isinstance(action, If):
                raise action.without_body()
            if isinstance(action, Else):
                raise action.without_if()
            if isinstance(action, Choice):
                for branch in action.branches():
                    block(branch)
            elif not isinstance(action, Action):
                raise DescriptionError(
                    f"{described(action)} is not an action",
                    joined_by_comma(action)
                    or "actions: Assign(...), Assemble(), Callback(...), swap_sides(), If(...) >> action.",
                )
        self.actions = actions

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.actions))

    def __add__(self, other: object) -> Block:
        return Block(self.actions + block(other).actions)


class Assign(Action):
    """Put the value of `expression` into `register`, in prep or in an event.

    register: a field of temp or perm (`p.temp.x`), or of a callback's layout (`that_layout.x`), of this
        parser. A field of n bits keeps the low n bits of a number; one of more than 64 bits is made to name a
        byte slice.

    Raises DescriptionError for another register, and for bytes where a number is kept or the other way round.
    """

    def __init__(self, register: object, expression: object) -> None:
        super().__init__()
        if isinstance(register, FieldValue):
            if register.group not in ("temp", "perm"):
                what = "a virtual packet" if register.group == "v" else "the header"
                raise DescriptionError(
                    f"a field of {what} cannot be assigned to", "assign to a field of temp or perm instead."
                )
        elif not isinstance(register, Field):
            raise DescriptionError(
                "only a field of temp, perm or of a callback's layout can be assigned to",
                "declare it in a layout, and set p.temp = that_layout or p.perm = that_layout.",
            )
        self.register: FieldValue | Field = register
        self.expression: Expression = to_expression(expression)
        wants = register.kind
        if not isinstance(self.expression, Below) and self.expression.kind != wants:
            have = "a byte slice" if self.expression.kind == BYTES else "a number"
            need = "a number" if wants == NUMBER else "bytes"
            raise DescriptionError(
                f"{have} assigned to a field that holds {need}",
                "a field of at most 64 bits holds a number, a longer one bytes.",
            )


class Assemble(Action):
    """Deliver all bytes of this side's sequence that are contiguous now, and make them the SDU.

    Stands in events of a parser that has p.seq; event `data` tells of the bytes. A packet outside the
    condition of p.seq keeps the SDU that it has.
    """


class Callback(Action):
    """Hand the fields of `data` (a layout), as assigned in this event before, to whoever hooked the event.

    Fields that were not assigned have their init= (default 0, or no bytes). Stands in events only. Raises
    DescriptionError when `data` is not a layout, or has const= or a field of variable length.
    """

    def __init__(self, data: object) -> None:
        super().__init__()
        if not isinstance(data, LayoutType):
            raise DescriptionError(
                "Callback needs a layout", "declare class name(layout) with the fields to hand over."
            )
        self.data: LayoutType = checked_layout("a callback", data)


class SwapSides(Action):
    """Turn which side is called active."""


def swap_sides() -> SwapSides:
    """Turn which side of a connection is called active, in prep of a ConnectionOriented parser.

    Put it behind If(p.created & ...): the sender of the packet that creates the instance is then the passive
    side, as for a connection first seen from its SYN/ACK. to_active, to_passive and the sides of events
    follow from there on.
    """
    return SwapSides()


def checked_layout(what: str, value: LayoutType) -> LayoutType:
    """A layout for temp, perm or a callback. Raises DescriptionError for fields that only headers have."""
    for field in value.fields.values():
        if field.const is not None:
            raise DescriptionError(
                f"const= in a layout for {what}", "const= is what a header must have; use init=.", field.where
            )
        if isinstance(field, VarintField):
            raise DescriptionError(
                f"a Varint() in a layout for {what}",
                "only headers have them; keep its value in a UInt(62).",
                field.where,
            )
        if not isinstance(field.bits, int):
            raise DescriptionError(
                f"a field of variable length in a layout for {what}",
                "give it a number of bits; 65 or more hold bytes.",
                field.where,
            )
    return value


def block(value: object) -> Block:
    """A block from what a user wrote: an action, a choice, or a block."""
    if isinstance(value, Block):
        return value
    return Block([value])
