"""Events of a layer: built-in ones and the user's, and the order among them (paper, 4.5 and 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.lang.action import Block, block
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.expression import BYTES, NUMBER, EventValue
from sluice.lang.where import Where, here

if TYPE_CHECKING:
    from sluice.lang.prototype import Parser

BUILT_IN: dict[str, dict[str, str]] = {
    "created": {},
    "packet": {"length": NUMBER},
    "data": {"offset": NUMBER, "bytes": BYTES},
    "rexmit": {"offset": NUMBER, "length": NUMBER, "new": BYTES, "old": BYTES},
    "out_of_wnd": {},
    "gap": {"offset": NUMBER, "length": NUMBER, "cause": NUMBER},
    "end": {"reason": NUMBER},
}
"""Built-in events and what each brings along:

created: the instance begins. packet: once for each packet of an instance, after its steps; `length` is that of its
payload on the wire. data: `bytes` were delivered at stream offset `offset`. rexmit: `length` bytes at `offset` were
known already, `old` (empty when no longer kept) beside `new`. gap: `length` bytes at `offset` were given up, for
`cause` (see GAP_CAUSES). end: the instance ends, for `reason` (see END_REASONS).
"""

GAP_CAUSES = ("limit", "timeout", "close", "snaplen")
END_REASONS = ("accept", "timeout", "reused", "evicted", "eof", "limit")


class Event:
    """Something that happens at a layer, built-in or defined by an action."""

    def __init__(self, owner: Parser, name: str, action: Block | None, where: Where) -> None:
        self.owner = owner
        self.name = name
        self.action = action
        self.where = where

    @property
    def built_in(self) -> bool:
        return self.action is None

    def __rshift__(self, other: object) -> HappensWith:
        if not isinstance(other, Event):
            raise DescriptionError("an event is related to an event", "write p.event.a >> p.event.b.")
        return HappensWith(self, other)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = BUILT_IN[self.name] if self.built_in else {}
        if name not in values:
            raise DescriptionError(f"event '{self.name}' brings no '{name}' along", did_you_mean(name, values))
        return EventValue(self, name, values[name])


class HappensWith:
    """`effect` is checked each time `cause` happens."""

    def __init__(self, cause: Event, effect: Event) -> None:
        self.where = here()
        self.cause = cause
        self.effect = effect


class HappensBefore:
    """When both happen for one packet, `first` happens before `second`."""

    def __init__(self, first: Event, second: Event) -> None:
        self.where = here()
        self.first = first
        self.second = second


class Events:
    """`p.event`: assign an action to define an event, read one to relate it to others."""

    def __init__(self, owner: Parser) -> None:
        self.__dict__["owner"] = owner
        self.__dict__["defined"] = {}

    owner: Parser
    defined: dict[str, Event]

    def __setattr__(self, name: str, value: object) -> None:
        if name in BUILT_IN:
            raise DescriptionError(
                f"'{name}' is a built-in event", f"define an event of your own and relate it: p.event.{name} >> p.event.yours."
            )
        if name in self.defined:
            raise DescriptionError(f"event '{name}' is defined twice", "give the second one another name.")
        if not isinstance(value, (Choice, Block)) and not hasattr(value, "where"):
            raise DescriptionError(f"event '{name}' is not an action", "write p.event.x = If(cond) >> Assemble(), or Callback(...).")
        self.defined[name] = Event(self.owner, name, block(value), here())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.defined:
            return self.defined[name]
        if name in BUILT_IN:
            return Event(self.owner, name, None, here())
        raise DescriptionError(f"there is no event '{name}'", did_you_mean(name, [*self.defined, *BUILT_IN]))


class Relations:
    """`p.event_relation += a, b` (a before b) and `+= a >> b` (b when a happens)."""

    def __init__(self) -> None:
        self.before: list[HappensBefore] = []
        self.along: list[HappensWith] = []

    def __iadd__(self, other: object) -> Relations:
        if isinstance(other, HappensWith):
            self.along.append(other)
        elif isinstance(other, tuple) and len(other) == 2 and all(isinstance(item, Event) for item in other):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            first, second = other  # pyright: ignore[reportUnknownVariableType]
            self.before.append(HappensBefore(first, second))  # pyright: ignore[reportUnknownArgumentType]
        else:
            raise DescriptionError(
                "a relation joins two events", "write += p.event.a, p.event.b (before) or += p.event.a >> p.event.b (with)."
            )
        return self


def event_order(owner: Parser, relations: Relations) -> tuple[list[Event], dict[str, list[Event]]]:
    """The user's events that are checked on their own, in order, and for each event those that happen with it.

    Raises DescriptionError when the relations contradict each other.
    """
    defined = owner.event.defined
    along: dict[str, list[Event]] = {}
    effects: set[str] = set()
    edges: dict[str, list[tuple[str, Where]]] = {name: [] for name in [*defined, *BUILT_IN]}
    for relation in relations.along:
        along.setdefault(relation.cause.name, []).append(relation.effect)
        if relation.effect.built_in:
            raise DescriptionError(
                f"'{relation.effect.name}' is built in and happens by itself", "put it on the left side of >>.", relation.where
            )
        effects.add(relation.effect.name)
        edges[relation.cause.name].append((relation.effect.name, relation.where))
    for relation in relations.before:
        edges[relation.first.name].append((relation.second.name, relation.where))
    order: list[str] = []
    done: set[str] = set()

    def visit(name: str, path: list[str], where: Where | None) -> None:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            raise DescriptionError(f"the relations of events run in a circle: {circle}", "take one of them out.", where)
        if name in done:
            return
        for target, line in reversed(edges[name]):
            visit(target, [*path, name], line)
        done.add(name)
        order.append(name)

    for name in reversed(list(defined)):
        visit(name, [], None)
    for name in BUILT_IN:
        visit(name, [], None)
    standing = [defined[name] for name in reversed(order) if name in defined and name not in effects]
    return standing, along
