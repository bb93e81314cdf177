"""Values that are assigned to a prototype, checked."""

from __future__ import annotations

from sluice.lang.action import checked_layout
from sluice.lang.choice import Choice, If
from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import (
    NUMBER,
    Expression,
    to_expression,
)
from sluice.lang.layout import LayoutType
from sluice.lang.native import NativeCall


def under_condition(value: object, what: str, otherwise: str) -> tuple[Expression | None, object]:
    """The condition and the body of `If(condition) >> body`. Any other value is a body without a condition."""
    if isinstance(value, If):
        raise value.without_body()
    if not isinstance(value, Choice):
        return None, value
    value.check_closed()
    if value.otherwise is not None:
        raise DescriptionError(f"{what} with an Else()", otherwise)
    return value.condition, value.body


def is_link_type(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 16


def checked_layout_of(what: str, value: object) -> LayoutType:
    if not isinstance(value, LayoutType):
        raise DescriptionError(
            f"p.{what} is {described(value)}, not a layout",
            f"write p.{what} = some_layout, a class derived from layout.",
        )
    for field in value.fields.values():
        if what == "perm" and isinstance(field.bits, int) and field.bits > 64:
            raise DescriptionError(
                "a field of more than 64 bits in perm", "a perm field has at most 64 bits.", field.where
            )
    return checked_layout(what, value)


def checked_sdu(value: object) -> Choice | Expression | NativeCall:
    """Bytes, a call that returns bytes, or a choice with an SDU in either case."""
    if isinstance(value, If):
        raise value.without_body()
    if isinstance(value, NativeCall):
        if not value.function.limit:
            raise DescriptionError(
                f"p.sdu is a call of '{value.function.name}', which gives no bytes",
                "say limit=, the most that it gives.",
            )
        return value
    if not isinstance(value, Choice):
        expression = to_expression(value)
        if expression.kind == NUMBER:
            raise DescriptionError("p.sdu is a number, not bytes", "write p.sdu = p.payload[:n].")
        return expression
    if value.otherwise is None:
        raise DescriptionError("p.sdu with an If and no Else", "say what goes up in the other case.")
    body, otherwise = checked_sdu(value.body), checked_sdu(value.otherwise)
    return Choice(value.condition, body, otherwise, value.where)
