"""What a layer does for a packet: assign, assemble, call back, and these under conditions."""

from __future__ import annotations

from typing import Any

from sluice.lang.choice import Choice, If
from sluice.lang.errors import DescriptionError
from sluice.lang.expression import BYTES, NUMBER, Below, Expression, FieldValue, to_expression
from sluice.lang.layout import Field, LayoutType
from sluice.lang.where import here


class Action:
    """Something done; actions add up to a block."""

    def __init__(self) -> None:
        self.where = here()

    def __add__(self, other: object) -> Block:
        return Block([self]) + other


class Block(Action):
    """Actions one after the other."""

    def __init__(self, actions: list[Any]) -> None:
        super().__init__()
        for action in actions:
            if isinstance(action, If):
                raise DescriptionError("an If(...) without a body", "write If(condition) >> something.", action.where)
            if isinstance(action, Choice):
                action.check_closed()
            elif not isinstance(action, Action):
                raise DescriptionError(
                    f"{getattr(action, '__name__', repr(action))} is not an action",
                    "actions are Assign, Assemble, Callback, swap_sides, and these behind If(...).",
                )
        self.actions = actions

    def __add__(self, other: object) -> Block:
        return Block(self.actions + block(other).actions)


class Assign(Action):
    """Put the value of `expression` into a field of temp or perm, or of a callback's layout."""

    def __init__(self, register: object, expression: object) -> None:
        super().__init__()
        if isinstance(register, FieldValue):
            if register.group not in ("temp", "perm"):
                what = "a virtual packet" if register.group == "v" else "the header"
                raise DescriptionError(f"a field of {what} cannot be assigned to", "assign to a field of temp or perm.")
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
    """Deliver all bytes of this side's sequence that are contiguous now, and make them the SDU."""


class Callback(Action):
    """Hand the data of `data` (a layout) to whoever hooked the event."""

    def __init__(self, data: object) -> None:
        super().__init__()
        if not isinstance(data, LayoutType):
            raise DescriptionError("Callback needs a layout", "declare class name(layout) with the fields to hand over.")
        self.data: LayoutType = data


class SwapSides(Action):
    """Turn which side is called active."""


def swap_sides() -> SwapSides:
    """In prep: the creating packet's sender becomes the passive side (as for a connection first seen from SYN/ACK)."""
    return SwapSides()


def block(value: object) -> Block:
    """A block from what a user wrote: an action, a choice, or a block."""
    if isinstance(value, Block):
        return value
    return Block([value])
