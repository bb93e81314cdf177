"""Actions of a layer on a packet: assign, assemble, call back, and combinations of these under conditions."""

from __future__ import annotations

from typing import Any

from sluice.lang.choice import Choice, Else, If, Part, joined_by_comma
from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import BYTES, NUMBER, Below, Expression, to_expression
from sluice.lang.field_value import FieldValue
from sluice.lang.layout import Field, LayoutType, VarintField
from sluice.lang.where import here


class Action(Part):
    """An action. Actions joined by `+` form a block."""

    def __init__(self) -> None:
        self.where = here()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    @classmethod
    def sum_of(cls, parts: list[Any]) -> Block:
        return Block(parts)

    def __add__(self, other: object) -> Block:
        return Block([self]) + other


class Block(Action):
    """Actions that run one after another, made by `a + b`. Use this type for functions that return actions."""

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
    """Assign the value of `expression` to `register`, in prep or in an event.

    register: a field of this parser's temp or perm (`p.temp.x`), or of a callback's layout (`that_layout.x`). A field
        of n bits stores the low n bits of a number. A field of more than 64 bits is set to a byte slice.

    Raises DescriptionError for another register, and if one side is bytes and the other a number.
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
    """Deliver all bytes of this side's sequence that are now contiguous, and make them the SDU.

    Only in events of a parser that has p.seq. Event `data` carries the bytes. A packet that does not satisfy the
    condition of p.seq keeps its SDU.
    """


class Callback(Action):
    """Pass the fields of `data` (a layout), as assigned earlier in this event, to the subscribers of the event.

    Fields that were not assigned have their init= (default 0, or no bytes). Only in events. Raises DescriptionError if
    `data` is not a layout, or has const= or a field of variable length.
    """

    def __init__(self, data: object) -> None:
        super().__init__()
        if not isinstance(data, LayoutType):
            raise DescriptionError(
                "Callback needs a layout", "declare class name(layout) with the fields to hand over."
            )
        self.data: LayoutType = checked_layout("a callback", data)


class SwapSides(Action):
    """Swaps the active and the passive side."""


def swap_sides() -> SwapSides:
    """Swap the active and the passive side of a connection, in prep of a ConnectionOriented parser.

    Use it under If(p.created & ...): the sender of the packet that creates the instance then becomes the passive side,
    as for a connection whose first packet seen is its SYN/ACK. to_active, to_passive and the sides of events change
    accordingly.
    """
    return SwapSides()


def checked_layout(what: str, value: LayoutType) -> LayoutType:
    """Check a layout for temp, perm or a callback. Raises DescriptionError for fields that only headers may have."""
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
                "give it a number of bits, or write Bytes() for bytes of any length.",
                field.where,
            )
    return value


def block(value: object) -> Block:
    """Convert a user's action, choice or block to a block."""
    if isinstance(value, Block):
        return value
    return Block([value])
