"""Dispatch of events as C: calls of the subscribers of an event, and the user-defined events that are based on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sluice.codegen.c.names import identifier
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.keep import NAME as KEEPER
from sluice.hooks.published import CHAIN
from sluice.hooks.subscription import UserEvent, handler, means
from sluice.hooks.withheld import is_withheld
from sluice.ir.graph import LayerProgram


@dataclass(frozen=True)
class Subscriber:
    """A handler of a function.

    bit: the bit of an on-demand handler, which is called only while registered. stops: the number of its function, if
    the function may unsubscribe from single instances. before: bits of the functions of which each, when it drops the
    packet, withholds the event from the handler. off: the bit of its function, if the function may be left out while
    packets are processed (sl_fail_by, sl_box_overloaded). traced: the number of its function from 1, if the report of a crash is
    to name it.
    """

    handler: str
    bit: int | None
    stops: int | None
    before: int = 0
    off: int = 0
    traced: int = 0

    @property
    def call(self) -> str:
        """The statement that calls it."""
        call = f"{self.handler}(&event, &data)"
        return f"SL_CALL(event, {self.traced}, {call});" if self.traced else f"{call};"

    @property
    def always(self) -> bool:
        """Whether it is called for every event."""
        return self.bit is None and self.stops is None


MANY = 8
"""An event with at least this many on-demand handlers has a separate path for the case that all are registered."""


def has_subscriber(subscribers: Sequence[Subscriber], tested: bool = True) -> str:
    """The C condition, on `watched` (`watched1`, ... for handlers from number 64 on) and `stopped`, that one of these gets
    an event; "" if one always gets it.

    tested: whether the condition tests the registration of on-demand handlers; otherwise all are known to be registered.
    """
    if not tested:
        subscribers = [replace(subscriber, bit=None) for subscriber in subscribers]
    if any(subscriber.always for subscriber in subscribers):
        return ""
    bits = {item.bit for item in subscribers if item.bit is not None and item.stops is None}
    numbers = sum({1 << item.stops for item in subscribers if item.stops is not None and item.bit is None})
    either = [f"({watched_variable(word)} & {mask:#x}ull)" for word, mask in _masks(bits)]
    either += [f"(~stopped & {numbers:#x}ull)"] if numbers else []
    both = dict.fromkeys((item.bit, item.stops) for item in subscribers)
    either += [
        f"({watched_variable(b // 64)} >> {b % 64} & ~stopped >> {n} & 1)"
        for b, n in both
        if b is not None and n is not None
    ]
    return either[0] if len(either) == 1 else f"({' || '.join(either)})"


def withheld_from_all(subscribers: Sequence[Subscriber]) -> str:
    """The C condition that an event is withheld from all of these; "" if it never is."""
    if not all(subscriber.before for subscriber in subscribers):
        return ""
    masks = dict.fromkeys(subscriber.before for subscriber in subscribers)
    return " && ".join(f"sl_withheld(event.box, {mask:#x}ull)" for mask in masks)


def _guard(subscribers: Sequence[Subscriber], tested: bool) -> str:
    """The C condition that one of these is called; "" if one always is."""
    withheld, when = withheld_from_all(subscribers), has_subscriber(subscribers, tested)
    if all(subscriber.off for subscriber in subscribers):
        bits = [f"!(event.box->output.off & {bit:#x}ull)" for bit in dict.fromkeys(one.off for one in subscribers)]
        runs = f"SL_LIKELY({bits[0] if len(bits) == 1 else ' || '.join(bits)})"
        when = f"({runs} && {when})" if when else f"({runs})"
    if not withheld:
        return when
    passed = f"SL_LIKELY(!({withheld}))" if " && " in withheld else f"SL_LIKELY(!{withheld})"
    return f"({passed} && {when})" if when else f"({passed})"


def _bits(subscribers: Sequence[Subscriber]) -> set[int]:
    return {subscriber.bit for subscriber in subscribers if subscriber.bit is not None}


def _masks(bits: set[int]) -> list[tuple[int, int]]:
    """The words in which these bits of on-demand handlers are, and the bits within each."""
    return [(word, sum(1 << bit % 64 for bit in bits if bit // 64 == word)) for word in watched_words(bits)]


def watched_words(bits: set[int]) -> list[int]:
    """The words in which these bits of on-demand handlers are."""
    return sorted({bit // 64 for bit in bits})


def watched_variable(word: int) -> str:
    """The C variable of a word of the on-demand handlers that receive an event."""
    return f"watched{word or ''}"


def watched_variables(bits: set[int], function: str = "sl_watched") -> list[str]:
    """C declarations of the words that have these bits, for the event `event`. function: what gives the first one."""
    return [
        f"uint64_t {watched_variable(word)} = {f'{function}_word(&event, {word})' if word else f'{function}(&event)'};"
        for word in watched_words(bits)
    ]


def _guarded(when: str, statement: str) -> list[str]:
    return [f"if {when} {statement}" if when else statement]


def _result(event: UserEvent) -> str:
    """The C variable for the result of an event's filter. No user's function has a name of this form."""
    return f"sl_is_{event.filter}"


@dataclass(frozen=True)
class Part:
    """Statements that call some subscribers, and the number of tests that they begin with."""

    subscribers: Sequence[Subscriber]
    lines: list[str]
    tests: int = 1


def _joined(parts: Sequence[Part]) -> list[str]:
    """The statements of all parts. One test guards consecutive parts that are only for on-demand handlers."""
    out: list[str] = []
    for demanded, group in groupby(
        parts, lambda part: all(subscriber.bit is not None for subscriber in part.subscribers)
    ):
        row = list(group)
        lines = [line for part in row for line in part.lines]
        if demanded and sum(part.tests for part in row) > 1:
            bits = {bit for part in row for bit in _bits(part.subscribers)}
            any_is = [f"{watched_variable(word)} & {mask:#x}ull" for word, mask in _masks(bits)]
            when = any_is[0] if len(any_is) == 1 else " || ".join(f"({one})" for one in any_is)
            lines = [f"if ({when}) {{", *("    " + line for line in lines), "}"]
        out += lines
    return out


class Dispatcher:
    """Writes statements that emit the events of one layer, given `event`, `data` and, if needed, `watched` and
    `stopped`. streams: the layers of streams (sluice.hooks.withheld), needed for statements only.
    """

    def __init__(self, functions: Functions, layer: LayerProgram, streams: frozenset[str] = frozenset()) -> None:
        self.functions = functions
        self.layer = layer
        self.streams = streams
        self.events = functions.events
        self.bits = functions.bits()

    def on_demand(self, event: str) -> set[int]:
        """The bits of the on-demand handlers of an event and of the events based on it."""
        return _bits(self.subscribers(event))

    def tests_stopped(self, event: str) -> bool:
        """Whether a function that subscribes to an event, or to one based on it, may unsubscribe from instances."""
        return any(subscriber.stops is not None for subscriber in self.subscribers(event))

    def statements(self, event: str) -> list[str]:
        """Statements that emit an event.

        As in mOS, user-defined events follow their base, depth first. A filter is called only if its event has a
        subscriber, and only once. If an event has many on-demand handlers, one test finds that none is registered.
        Another test finds that all are registered, and the statements after it test no single registration.
        """
        bits = _bits(self.subscribers(event))
        if len(bits) < MANY:
            return self._statements(event, tested=True)
        all_are = " && ".join(
            f"(({watched_variable(word)} & {mask:#x}ull) == {mask:#x}ull)" for word, mask in _masks(bits)
        )
        return [
            f"if {all_are} {{" if len(watched_words(bits)) == 1 else f"if ({all_are}) {{",
            *("    " + line for line in self._statements(event, tested=False)),
            "} else {",
            *("    " + line for line in self._statements(event, tested=True)),
            "}",
        ]

    def _statements(self, event: str, tested: bool) -> list[str]:
        """The same. tested: whether the statements must test the registration of on-demand handlers."""
        entries = [([subscriber], _guard([subscriber], tested), subscriber) for subscriber in self._handlers(event)]
        entries += [([self._columns(event)], "", self._columns(event))] if self.in_columns(event) else []
        python = self._python(event)
        entries += [(python, has_subscriber(python, tested), python[0])] if python else []
        parts = [Part(all_, _guarded(when, first.call)) for all_, when, first in entries]
        derived = [one for one in self.events.with_base(self.layer, event) if self.subscribers(one.name)]
        parts += [self._derived(derived, tested)] if derived else []
        return _joined(parts) if tested else [line for part in parts for line in part.lines]

    def _derived(self, events: Sequence[UserEvent], tested: bool) -> Part:
        """Statements that emit the user-defined events based on an event. If there are several, all filters run first.

        So the code for an event that happens is off the path on which none happens. With | in place of ||, comparisons
        of one value with near numbers need fewer instructions, but all other filters need more
        (bench/instructions.py).
        """
        subscribers = [subscriber for event in events for subscriber in self.subscribers(event.name)]
        filters: list[str] = []
        emitted: list[str] = []
        for event in events:
            when = _guard(self.subscribers(event.name), tested)
            condition = f"{event.filter}(&event, &data)"
            condition = f"{when} && {condition}" if when else condition
            filters.append(f"const bool {_result(event)} = {condition};")
            inner = self._statements(event.name, tested)
            holds = condition if len(events) == 1 else _result(event)
            emitted += [f"if ({holds}) {{", *("    " + line for line in inner), "}"]
        if len(events) == 1:
            return Part(subscribers, emitted)
        any_holds = " || ".join(f"SL_UNLIKELY({_result(event)})" for event in events)
        lines = [*filters, f"if ({any_holds}) {{", *("    " + line for line in emitted), "}"]
        return Part(subscribers, lines, len(events))

    def _handlers(self, event: str) -> list[Subscriber]:
        """The handlers of an event. What stores bytes comes first: the others may need them."""
        return [
            Subscriber(
                handler(function.name, hook),
                self.bits.get((function.name, hook)),
                number if function.controls(self.layer) else None,
                self._before(function, event),
                1 << number % 64 if function.inline else 0,
                number + 1 if self.functions.traced else 0,
            )
            for number, function in sorted(enumerate(self.functions.c), key=lambda one: one[1].name != KEEPER)
            for hook in function.hooks
            if means(hook, self.layer, event)
        ]

    def _before(self, function: CFunction, event: str) -> int:
        """The functions that withhold an event by a drop. Published events are no packet's."""
        if self.layer.name == CHAIN or not is_withheld(self.layer, self.events.root(self.layer, event), self.streams):
            return 0
        return self.functions.dropping(function.after)

    def _python(self, event: str) -> list[Subscriber]:
        """The functions in Python that subscribe to an event: one record serves all of them."""
        record = f"record_{identifier(self.layer.name)}_{identifier(event)}"
        found: list[Subscriber] = []
        if any(means(hook, self.layer, event) for hook in self.functions.python):
            found.append(Subscriber(record, None, None))
        for bit, hooks in enumerate(self.functions.demanded, self.functions.first_demanded):
            if any(means(hook, self.layer, event) for hook in hooks):
                found.append(Subscriber(record, bit, None))
        return found

    def in_python(self, event: str) -> bool:
        """Whether functions in Python subscribe to an event."""
        return bool(self._python(event))

    def in_columns(self, event: str) -> bool:
        """Whether functions in Python take many of an event at once."""
        return any(means(hook, self.layer, event) for hook in self.functions.many)

    def _columns(self, event: str) -> Subscriber:
        return Subscriber(f"columns_{identifier(self.layer.name)}_{identifier(event)}", None, None)

    def subscribers(self, event: str) -> list[Subscriber]:
        """All subscribers of an event and of the events based on it."""
        found = self._handlers(event) + self._python(event)
        found += [self._columns(event)] if self.in_columns(event) else []
        for happens in self.events.with_base(self.layer, event):
            found += self.subscribers(happens.name)
        return found
