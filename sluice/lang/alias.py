"""Further keys of an instance, such as connection ids and verification tags."""

from __future__ import annotations

from typing import cast

from sluice.lang.action import Action
from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import Expression, to_expression
from sluice.lang.parser import Parser, instance_of


class AddAlias(Action):
    """From now on, a packet whose `p.alias` has these values, and whose selector finds no instance, belongs to the
    instance.

    parser: this parser, or a parser below it that every packet passes; it has `p.alias`. The instance is that of the
        current packet in this parser.
    values: one for each part of p.alias, of the same width. Alternatively p.selector of this parser: a packet that was
        found by an alias then adds its own key to its instance, in both directions.
    to_sender: whether such packets are sent to the sender of the current packet; without it, they are sent by that
        sender. Only for a connection-oriented parser, with its sides as they are at that time (see swap_sides).

    If several instances claim an alias, the last one gets it. A box has as many aliases as a table has instances. When
    there is no more room, the oldest is removed, counted as `aliases:evicted`. Raises DescriptionError for another kind
    of parser, for a list whose length differs from that of p.alias, for `to_sender` without sides, and for p.selector
    if p.alias does not include it.
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
        """All expressions that the action evaluates."""
        return [*self.values, self.number, self.place, *([self.side] if self.side is not None else [])]
