"""Further keys of an instance: connection ids, verification tags, whatever else packets may be known by."""

from __future__ import annotations

from typing import cast

from sluice.lang.action import Action
from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import Expression, to_expression
from sluice.lang.prototype import Parser, instance_of


class AddAlias(Action):
    """From now on a packet whose `p.alias` has these values, and whose selector finds nothing, belongs to the instance.

    parser: this parser, or one below that every packet passes; it has `p.alias`. The instance is the one that the
        packet being processed came to there.
    values: one for each part of p.alias, of the same width. Or p.selector, of this parser: a packet that an alias found
        is one of its instance by its own key, too, and so are packets the other way.
    to_sender: such packets are sent to the sender of the packet being processed; without it, by that sender. Of a
        connection-oriented parser only, and as its sides are called by then (see swap_sides).

    The last one to claim an alias has it. There are as many aliases in a box as instances in a table; where there is no
    more room the oldest goes, counted as `aliases:evicted`. Raises DescriptionError for another kind of parser, for a
    list that is not as long as p.alias, for `to_sender` without sides, and for p.selector where p.alias has none.
    """

    def __init__(self, parser: object, values: object, to_sender: bool = False) -> None:
        super().__init__()
        if not isinstance(parser, Parser):
            raise DescriptionError(
                f"AddAlias of {described(parser)}", "write AddAlias(p, [values]) with this parser or one below."
            )
        aliases = parser.prototype.alias_keys
        if aliases is None:
            raise DescriptionError(
                f"{parser.title} has no p.alias", "say what packets are found by: p.alias = [...], before this."
            )
        self.parser = parser
        self.by_selector = values is parser.prototype.keys
        self.number, self.place, side = instance_of(parser)
        self.side = ~side if side is not None and to_sender else side
        self.values: list[Expression] = []
        if self.by_selector:
            if not parser.prototype.alias_by_selector:
                raise DescriptionError(
                    f"{parser.title} looks for no packet by a selector that it got by AddAlias",
                    "write p.alias = [...], p.selector before this.",
                )
            if to_sender:
                raise DescriptionError("to_sender of a selector", "leave it out: it is given for both sides.")
            return
        given = cast(list[object], values) if isinstance(values, list) else [values]
        if len(given) != len(aliases[0]):
            raise DescriptionError(
                f"AddAlias with {len(given)} of {len(aliases[0])} values",
                "give one for each part of p.alias, as a list.",
            )
        if to_sender and not parser.prototype.oriented:
            raise DescriptionError(
                "to_sender of a parser without sides", "leave it out, or make the parser by ConnectionOriented()."
            )
        self.values = [to_expression(value) for value in given]

    def expressions(self) -> list[Expression]:
        """Everything that it asks."""
        return [*self.values, self.number, self.place, *([self.side] if self.side is not None else [])]
