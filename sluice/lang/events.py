"""Events of a layer: built-in ones and the user's, and the order among them (paper, 4.5 and 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sluice.lang.action import Action, Block, block
from sluice.lang.choice import Choice, If, joined_by_comma
from sluice.lang.errors import DescriptionError, described, did_you_mean
from sluice.lang.expression import BYTES, NUMBER, EventValue
from sluice.lang.where import Where, here

if TYPE_CHECKING:
    from sluice.lang.prototype import Parser

BUILT_IN: dict[str, dict[str, str]] = {
    "malformed": {"length": NUMBER, "reason": NUMBER},
    "created": {},
    "orphan": {"length": NUMBER},
    "packet": {"length": NUMBER},
    "state": {"before": NUMBER, "after": NUMBER},
    "data": {"offset": NUMBER, "bytes": BYTES},
    "rexmit": {"offset": NUMBER, "length": NUMBER, "new": BYTES, "old": BYTES},
    "out_of_wnd": {},
    "gap": {"offset": NUMBER, "length": NUMBER, "cause": NUMBER},
    "end": {"reason": NUMBER},
    "lost": {"offset": NUMBER, "length": NUMBER, "cause": NUMBER},
    "dropped": {"length": NUMBER, "reason": NUMBER},
    "unplaced": {"length": NUMBER, "cause": NUMBER},
}
"""Built-in events and what each brings along:

malformed: a packet of `length` bytes is none of this layer's, for `reason`, as its counter says it behind `malformed:`;
told as soon as it is known, so perhaps of no instance. created: the instance begins. orphan: a packet with a payload of
`length` bytes belongs to no instance, and may not begin one (p.creates). packet: once for each packet of an instance,
after its steps; `length` is that of its payload on the wire. state: the machine of the instance went from state
`before` to another one, `after`; told at once, so for each step that a packet takes. data: `bytes` were delivered at
stream offset `offset`. rexmit: `length` bytes at `offset` were known already, `old` (as much of its beginning as is
still kept) beside `new`. out_of_wnd: a packet lies outside the window of the sequence. gap: `length` bytes at `offset`
were given up, for `cause` (see GAP_CAUSES). end: the instance ends, for `reason` (see END_REASONS). lost: from offset
`offset` of the stream, or of the packet's SDU, on the bytes make no message, for `cause` (see LOSS_CAUSES), `length` of
them so far. dropped: `length` bytes go no further up, for `reason` (see DROP_REASONS). unplaced: `length` captured
bytes of a side
have no place in its stream, for `cause` (see UNPLACED_CAUSES); not emitted for each packet, but at the latest when the
instance ends. Other offsets count bytes from
the first of the side's sequence, lengths are in bytes.
"""

GAP_CAUSES = ("limit", "timeout", "close", "snaplen", "skipped", "acknowledged")
"""Why bytes were given up, by the number that event `gap` brings along: a limit of the sequence was reached,
the instance timed out, it ended otherwise, the snap length cut them off, the sender said that they will not come, the
receiver has acknowledged them though they were not captured."""

UNPLACED_CAUSES = ("before", "repeated", "outside")
"""Why bytes have no place in the stream, by the number that event `unplaced` brings along: they lie before the base;
they lie there and came before; the receiver could not have taken them."""

LOSS_CAUSES = ("limit", "gap", "malformed", "close", "short", "snaplen")
"""Why bytes make no message, by the number that event `lost` brings along: a message said to be longer than its limit,
a gap in the stream, something that is no message, the stream ended within one, the packet ended within one, or the snap
length cut off what says how long it is."""

STREAM_LOSSES = LOSS_CAUSES[:4]
"""Those of a stream."""

PACKET_LOSSES = ("limit", "malformed", "short", "snaplen")
"""Those of the messages of a packet."""

END_REASONS = ("accept", "timeout", "reused", "evicted", "eof", "limit")
"""Why an instance ended, by the number that event `end` brings along: its machine reached a state that
accepts, no packet for its timeout, a restart transition, it made room for others, end of input, a limit (of a
sequence that only counts whole)."""

DROP_REASONS = ("too deep", "nested in itself", "no instance")
"""Why bytes go no further up, by the number that event `dropped` brings along: as many layers are nested as the
stack allows; the packet came out of the very instance that it belongs to; or all instances that there may be are in use
by packets that this one came out of."""

NAMED_VALUES = {
    ("gap", "cause"): GAP_CAUSES,
    ("lost", "cause"): LOSS_CAUSES,
    ("end", "reason"): END_REASONS,
    ("dropped", "reason"): DROP_REASONS,
    ("unplaced", "cause"): UNPLACED_CAUSES,
}
"""Values of built-in events that are numbers of names: by event and value the names."""


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
            raise DescriptionError(
                f"an event is related to an event, not to {described(other)}", "write p.event.a >> p.event.b."
            )
        return HappensWith(self, other)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = BUILT_IN[self.name] if self.built_in else {}
        if name not in values:
            advice = did_you_mean(name, values) if values else "only some built-in events bring values along."
            raise DescriptionError(f"event '{self.name}' brings no '{name}' along", advice)
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
    """`p.event`: assign an action to define an event, read one to relate it to others.

    `p.event.name = If(condition) >> actions` happens for a packet for which the condition holds; see BUILT_IN
    for those that happen by themselves. Raises DescriptionError for a name that is taken or not known.
    """

    def __init__(self, owner: Parser) -> None:
        self.__dict__["owner"] = owner
        self.__dict__["defined"] = {}

    owner: Parser
    defined: dict[str, Event]

    def __setattr__(self, name: str, value: object) -> None:
        if name in BUILT_IN:
            raise DescriptionError(
                f"'{name}' is a built-in event",
                f"define an event of your own and relate it: p.event.{name} >> p.event.yours.",
            )
        if name in self.defined:
            raise DescriptionError(f"event '{name}' is defined twice", "give the second one another name.")
        if name in ("owner", "defined"):
            raise DescriptionError(f"'{name}' cannot be the name of an event", "choose another name.")
        if not isinstance(value, (Choice, Action, If)):
            raise DescriptionError(
                f"event '{name}' is {described(value)}, not an action",
                joined_by_comma(value)
                or f"write p.event.{name} = If(condition) >> Assemble(), or Callback(...), or another action.",
            )
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

    def __init__(self, owner: Parser) -> None:
        self.owner = owner
        self.before: list[HappensBefore] = []
        self.along: list[HappensWith] = []

    def __iadd__(self, other: object) -> Relations:
        if isinstance(other, HappensWith):
            self._check(other.cause, other.effect)
            if other.effect.built_in:
                raise DescriptionError(
                    f"'{other.effect.name}' is built in and happens by itself",
                    "put it on the left side of >>.",
                )
            self.along.append(other)
            return self
        if isinstance(other, tuple):
            events = [item for item in cast(tuple[object, ...], other) if isinstance(item, Event)]
            if len(events) == 2 and len(cast(tuple[object, ...], other)) == 2:
                self._check(*events)
                for event in events:
                    if event.built_in:
                        raise DescriptionError(
                            f"'{event.name}' is built in, and when it happens is settled",
                            f"relate it by p.event.{event.name} >> p.event.yours.",
                        )
                self.before.append(HappensBefore(*events))
                return self
        raise DescriptionError(
            "a relation joins two events",
            "write p.event_relation += p.event.a, p.event.b (before) or += p.event.a >> p.event.b (with).",
        )

    def _check(self, first: Event, second: Event) -> None:
        """Refuse events of another parser, and a relation that closes a circle."""
        for event in (first, second):
            if event.owner is not self.owner:
                raise DescriptionError(
                    f"event '{event.name}' belongs to {event.owner.title}", "relate events of one parser."
                )
        path = self._path(second.name, first.name)
        if path is not None:
            circle = " -> ".join([first.name, *path])
            raise DescriptionError(f"the relations of events run in a circle: {circle}", "take one of them out.")

    def _path(self, start: str, end: str) -> list[str] | None:
        """Names from `start` to `end`, both included, along the relations so far; None: no way."""
        if start == end:
            return [start]
        for name in self.followers(start):
            path = self._path(name, end)
            if path is not None:
                return [start, *path]
        return None

    def followers(self, name: str) -> list[str]:
        """Events that come behind event `name` in one relation."""
        with_it = [item.effect.name for item in self.along if item.cause.name == name]
        return with_it + [item.second.name for item in self.before if item.first.name == name]


def event_order(owner: Parser, relations: Relations) -> tuple[list[Event], dict[str, list[Event]]]:
    """The user's events that are checked on their own, in order, and for each event those that happen with
    it.
    """
    defined = owner.event.defined
    along: dict[str, list[Event]] = {}
    for relation in relations.along:
        along.setdefault(relation.cause.name, []).append(relation.effect)
    effects = {relation.effect.name for relation in relations.along}
    backwards: list[str] = []

    def visit(name: str) -> None:
        if name in backwards:
            return
        for follower in reversed(relations.followers(name)):
            visit(follower)
        backwards.append(name)

    for name in reversed(list(defined)):
        visit(name)
    return [defined[name] for name in reversed(backwards) if name not in effects], along
