"""Events of a layer, built-in and user-defined, and their order (paper, 4.5 and 5.2)."""

from __future__ import annotations

from typing import Any, cast

from sluice.lang.action import Action, Block, block
from sluice.lang.choice import Choice, If, joined_by_comma
from sluice.lang.errors import DescriptionError, described, did_you_mean
from sluice.lang.expression import BYTES, NUMBER, Expression
from sluice.lang.owner import Owner
from sluice.lang.where import Where, here

BUILT_IN: dict[str, dict[str, str]] = {
    "malformed": {"length": NUMBER, "reason": NUMBER},
    "created": {},
    "orphan": {"length": NUMBER},
    "sent": {"length": NUMBER},
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
"""Built-in events and their fields:

malformed: a packet of `length` bytes is not valid in this layer, for `reason`, which is the text after `malformed:` in
    its counter. It is emitted as soon as the error is known, so there may be no instance.
created: an instance was created.
orphan: a packet with a payload of `length` bytes belongs to no instance and may not create one (p.creates).
sent: once for each packet of an instance, or an orphan, after prep and before its steps: what its sender did is known,
    and nothing has reached the other side. `length` is that of its payload on the wire. If a function drops the packet
    then, the packet goes no further in the layer, and its bytes are not part of the stream.
packet: once for each packet of an instance, after its steps. `length` is that of its payload on the wire.
state: the state machine of the instance went from state `before` to another state `after`. It is emitted at once, so
    once for each such step of a packet.
data: `bytes` were delivered at stream offset `offset`.
rexmit: `length` bytes at `offset` were already known. `new` are the bytes received, `old` the bytes known (as much of
    their beginning as is still stored).
out_of_wnd: a packet is outside the window of the sequence.
gap: `length` bytes at `offset` were given up, for `cause` (see GAP_CAUSES).
end: the instance ends, for `reason` (see END_REASONS).
lost: from `offset` of the stream, or of the packet's SDU, the bytes form no message, for `cause` (see LOSS_CAUSES).
    `length` is their number so far.
dropped: `length` bytes go no further up, for `reason` (see DROP_REASONS).
unplaced: `length` captured bytes of a side have no position in its stream, for `cause` (see UNPLACED_CAUSES). It is
    emitted once for several packets, at the latest when the instance ends.

Other offsets count bytes from the first byte of the side's sequence. Lengths are in bytes.
"""

GAP_CAUSES = ("limit", "timeout", "close", "snaplen", "skipped", "acknowledged", "memory")
"""The causes of a gap, by the number in event `gap`: a limit of the sequence was reached; the instance timed out; it
ended for another reason; the snap length cut the bytes off; the sender announced that they will not come; the receiver
has acknowledged them although they were not captured; memory was nearly exhausted, and the side had held data for
longest.
"""

UNPLACED_CAUSES = ("before", "repeated", "outside")
"""Why bytes have no position in the stream, by the number in event `unplaced`: they are before the base; they
are before the base and were counted earlier; the receiver could not have accepted them.
"""

LOSS_CAUSES = ("limit", "gap", "malformed", "close", "short", "snaplen", "memory", "work", "bundle")
"""The causes why bytes form no message, by the number in event `lost`: the message exceeds its length limit; the stream
has a gap; the bytes are no valid message; the stream ended within a message; the packet ended within one; the snap
length cut off the header that holds the length; memory was nearly exhausted, and the part of the message had been held
for longest; the packet contains more messages than one packet may (the box's setting `work`), or more of those that
are bundled (`bundle`).
"""

STREAM_LOSSES = ("limit", "gap", "malformed", "close", "memory", "bundle")
"""The causes in streams."""

PACKET_LOSSES = ("limit", "malformed", "short", "snaplen", "work", "bundle")
"""The causes for messages of a packet."""

END_REASONS = ("accept", "timeout", "reused", "evicted", "eof", "limit")
"""The reasons why an instance ended, by the number in event `end`: its machine reached an accept state; no packet came
for its timeout; a restart transition; it was evicted for another instance or for memory; end of input; a limit was
reached (in a sequence that delivers only the whole).
"""

DROP_REASONS = ("too deep", "nested in itself", "no instance", "too many records")
"""The reasons why bytes go no further up, by the number in event `dropped`: the maximum number of layers is nested; the
packet is nested in a packet of the same instance; all instances are in use by packets that enclose this one; or the
message has more records than one packet may pass.
"""

NAMED_VALUES = {
    ("gap", "cause"): GAP_CAUSES,
    ("lost", "cause"): LOSS_CAUSES,
    ("end", "reason"): END_REASONS,
    ("dropped", "reason"): DROP_REASONS,
    ("unplaced", "cause"): UNPLACED_CAUSES,
}
"""Fields of built-in events whose numbers stand for names: the names, by event and field."""


class Event:
    """An event of a layer: built-in, or defined by an action."""

    def __init__(self, owner: Owner, name: str, action: Block | None, where: Where) -> None:
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


class EventValue(Expression):
    """A field of a built-in event, such as `tcp.event.gap.length`."""

    def __init__(self, event: Event, name: str, kind: str) -> None:
        super().__init__()
        self.event = event
        self.name = name
        self._kind = kind

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self._kind


class HappensWith:
    """`effect` is checked each time `cause` happens."""

    def __init__(self, cause: Event, effect: Event) -> None:
        self.where = here()
        self.cause = cause
        self.effect = effect


class HappensBefore:
    """If both happen for one packet, `first` happens before `second`."""

    def __init__(self, first: Event, second: Event) -> None:
        self.where = here()
        self.first = first
        self.second = second


class Events:
    """`p.event`: assign an action to define an event; read an event to relate it to others.

    `p.event.name = If(condition) >> actions` happens for a packet that satisfies the condition. See BUILT_IN for the
    built-in events. Raises DescriptionError for a name that is taken or unknown.
    """

    def __init__(self, owner: Owner) -> None:
        self.__dict__["owner"] = owner
        self.__dict__["defined"] = {}

    owner: Owner
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

    def __init__(self, owner: Owner) -> None:
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
        """Refuse events of another parser, and a relation that closes a cycle."""
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
        """The names from `start` to `end`, inclusive, along the relations so far; None if there is no path."""
        if start == end:
            return [start]
        for name in self.followers(start):
            path = self._path(name, end)
            if path is not None:
                return [start, *path]
        return None

    def followers(self, name: str) -> list[str]:
        """Events that come after event `name` in some relation."""
        with_it = [item.effect.name for item in self.along if item.cause.name == name]
        return with_it + [item.second.name for item in self.before if item.first.name == name]


def event_order(defined: dict[str, Event], relations: Relations) -> tuple[list[Event], dict[str, list[Event]]]:
    """The user's events that are checked independently, in order, and for each event the events that happen with it."""
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
