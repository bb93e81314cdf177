"""`If(condition) >> this >> Else() >> that`, for header parts, actions, selectors and sequences alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluice.lang.errors import DescriptionError
from sluice.lang.expression import Expression, to_expression
from sluice.lang.where import Where, here


class Else:
    """What stands behind it is done when the condition of the If before it does not hold."""

    def __init__(self) -> None:
        self.where = here()

    def __rshift__(self, other: object) -> Any:
        raise DescriptionError("an Else() without its If(...)", "write If(condition) >> a >> Else() >> b.", self.where)


class If:
    """The beginning of a choice: `If(condition) >> body`."""

    def __init__(self, condition: object) -> None:
        self.where = here()
        self.condition = to_expression(condition)
        if self.condition.kind == "bytes":
            raise DescriptionError("a condition is a number, not bytes", "compare something, as in If(x == 1).")

    def __rshift__(self, body: object) -> Choice:
        if isinstance(body, (If, Else)):
            raise DescriptionError("If(...) needs something to do before the next If or Else", "write If(c) >> a >> Else() >> b.")
        return Choice(self.condition, body, None, self.where)

    def __add__(self, other: object) -> Any:
        raise DescriptionError("an If(...) without a body", "write If(condition) >> something.", self.where)


class Choice:
    """A condition, what is done when it holds, and perhaps what is done otherwise. Never changed once made."""

    def __init__(self, condition: Expression, body: Any, otherwise: Any, where: Where) -> None:
        self.condition = condition
        self.body = body
        self.otherwise = otherwise
        self.where = where

    def __rshift__(self, other: object) -> Choice:
        hanging = isinstance(self.otherwise, (Else, If))
        if isinstance(self.otherwise, Choice):
            return Choice(self.condition, self.body, self.otherwise >> other, self.where)
        if isinstance(other, Else):
            if self.otherwise is not None:
                raise DescriptionError("a second Else() for one If(...)", "an If has one Else; nest another If inside.")
            return Choice(self.condition, self.body, other, self.where)
        if not hanging:
            raise DescriptionError(
                "a second body for one If(...)", "join what is done together with '+', or put Else() between."
            )
        otherwise: object = other
        if isinstance(self.otherwise, If):
            otherwise = self.otherwise >> other
        return Choice(self.condition, self.body, otherwise, self.where)

    def __add__(self, other: object) -> Any:
        from sluice.lang.action import Block
        from sluice.lang.layout import AnyUntil, HeaderFormat, LayoutType

        self.check_closed()
        if isinstance(other, (LayoutType, AnyUntil, HeaderFormat)):
            return HeaderFormat([self]) + other
        return Block([self]) + other

    def check_closed(self) -> None:
        """Raise DescriptionError when an Else() has nothing behind it."""
        if isinstance(self.otherwise, (Else, If)):
            raise DescriptionError("Else() with nothing behind it", "write Else() >> something.", self.otherwise.where)
        if isinstance(self.otherwise, Choice):
            self.otherwise.check_closed()

    def branches(self) -> Iterator[Any]:
        """Body and alternative, as far as they exist."""
        self.check_closed()
        yield self.body
        if self.otherwise is not None:
            yield self.otherwise
