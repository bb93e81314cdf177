"""`If(condition) >> this >> Else() >> that`, for header parts, actions, selectors and sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import Expression, to_number
from sluice.lang.where import Where, here


class Else:
    """The body after it applies if the condition of the preceding If does not hold.

    In `If(a) >> x >> Else() >> If(b) >> y >> Else() >> z`, an Else belongs to the nearest preceding If without one.
    """

    def __init__(self) -> None:
        self.where = here()

    def without_if(self) -> DescriptionError:
        """The error for an Else() that does not follow the body of an If."""
        return DescriptionError("an Else() without its If(...)", "write If(condition) >> a >> Else() >> b.", self.where)

    def __repr__(self) -> str:
        return "Else()"

    def _alone(self, other: object) -> Any:
        raise self.without_if()

    __rshift__ = __rrshift__ = __add__ = __radd__ = _alone


class If:
    """The beginning of a choice: `If(condition) >> body`, optionally followed by `>> Else() >> other`.

    The condition is a number, and holds if it is not 0. Items joined by '+' form one body, because '+' binds more
    tightly than '>>'. A choice that is joined to something else needs parentheses.

    A choice may be used in a header (its bodies are parts of headers), in prep and events (actions), in p.selector and
    p.seq (without Else), and in p.sdu (with Else). Raises DescriptionError if the condition is bytes.
    """

    def __init__(self, condition: object) -> None:
        self.where = here()
        self.condition = to_number(condition, "a condition", "compare something, as in If(x == 1).")

    def __repr__(self) -> str:
        return "If(...)"

    def __rshift__(self, body: object) -> Choice:
        if isinstance(body, (If, Else)):
            raise self.without_body()
        return Choice(self.condition, body, None, self.where)

    def __add__(self, other: object) -> Any:
        raise self.without_body()

    def without_body(self) -> DescriptionError:
        """The error for an If(...) without a body."""
        return DescriptionError(
            "an If(...) without a body",
            "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
            self.where,
        )


def joined_by_comma(value: object) -> str | None:
    """Advice if the value is a tuple, which a comma makes in Python; None otherwise."""
    if not isinstance(value, tuple):
        return None
    if any(isinstance(item, If) for item in cast("tuple[object, ...]", value)):
        return "write If(condition) >> body, with '>>' where the comma is."
    return "join the parts with '+', not with a comma."


class Part:
    """What `+` joins, and what is the body of a choice: a part of a header, or an action."""

    of_header = False

    @classmethod
    def sum_of(cls, parts: list[Any]) -> Any:
        """The sum of parts of this kind: of a header, or of actions."""
        raise NotImplementedError


class Choice:
    """A condition, a body, and an optional alternative. It is immutable."""

    def __init__(self, condition: Expression, body: Any, otherwise: Any, where: Where) -> None:
        self.condition = condition
        self.body = body
        self.otherwise = otherwise
        self.where = where

    def __repr__(self) -> str:
        return f"If(...) >> {self.body!r}" + ("" if self.otherwise is None else f" >> Else() >> {self.otherwise!r}")

    def __rshift__(self, other: object) -> Choice:
        if isinstance(self.otherwise, (Choice, If)):
            return Choice(self.condition, self.body, self.otherwise >> other, self.where)
        if isinstance(other, Else):
            if self.otherwise is not None:
                raise DescriptionError(
                    "a second Else() for one If(...)",
                    "an If has one Else; put another If after the first Else.",
                )
            return Choice(self.condition, self.body, other, self.where)
        if not isinstance(self.otherwise, Else):
            raise DescriptionError(
                "a second body for one If(...)", "join what is done together with '+', or put Else() between."
            )
        return Choice(self.condition, self.body, other, self.where)

    def __add__(self, other: object) -> Any:
        self.check_closed()
        body = self.body
        while isinstance(body, Choice):
            body = body.body
        kinds = [type(part) for part in (body, other) if isinstance(part, Part)]
        if not kinds:
            raise DescriptionError(
                f"{described(body)} is neither an action nor a part of a header",
                "write If(condition) >> something, in parentheses where '+' joins it: '+' binds before '>>'.",
                self.where,
            )
        of_header = [kind for kind in kinds if kind.of_header]
        return (of_header or kinds)[0].sum_of([self]) + other

    def check_closed(self) -> None:
        """Raise DescriptionError if nothing follows an Else() or If()."""
        if isinstance(self.otherwise, Else):
            raise DescriptionError("Else() with nothing after it", "write Else() >> something.", self.otherwise.where)
        if isinstance(self.otherwise, If):
            raise self.otherwise.without_body()
        for branch in (self.body, self.otherwise):
            if isinstance(branch, Choice):
                branch.check_closed()

    def branches(self) -> Iterator[Any]:
        """The body and the alternative, if they exist."""
        self.check_closed()
        yield self.body
        if self.otherwise is not None:
            yield self.otherwise
