"""What telling of an event becomes in C: calls of those who listen, and the events of users' that happen with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sluice.codegen.c.names import identifier
from sluice.hooks.function import Functions
from sluice.hooks.subscription import UserEvent, handler, means
from sluice.ir.graph import LayerProgram


@dataclass(frozen=True)
class Listener:
    """A handler of a function. bit: of one that is called only while registered. stops: the number of its function, where
    that may stop hearing of an instance.
    """

    handler: str
    bit: int | None
    stops: int | None

    @property
    def always(self) -> bool:
        """Whether it hears of everything."""
        return self.bit is None and self.stops is None


MANY = 8
"""Handlers on demand of one event, from which on it is told in a way of its own when all of them are registered."""


def has_subscriber(listeners: Sequence[Listener], asked: bool = True) -> str:
    """The condition, on `watched` and `stopped`, that one of these hears of an event; nothing where one always does.

    asked: whether handlers on demand are registered is a question; else all are.
    """
    if not asked:
        listeners = [replace(listener, bit=None) for listener in listeners]
    if any(listener.always for listener in listeners):
        return ""
    bits = sum({1 << item.bit for item in listeners if item.bit is not None and item.stops is None})
    numbers = sum({1 << item.stops for item in listeners if item.stops is not None and item.bit is None})
    either = [f"(watched & {bits:#x}ull)"] if bits else []
    either += [f"(~stopped & {numbers:#x}ull)"] if numbers else []
    both = dict.fromkeys((item.bit, item.stops) for item in listeners)
    either += [f"(watched >> {b} & ~stopped >> {n} & 1)" for b, n in both if b is not None and n is not None]
    return either[0] if len(either) == 1 else f"({' || '.join(either)})"


def _bits(listeners: Sequence[Listener]) -> set[int]:
    return {listener.bit for listener in listeners if listener.bit is not None}


def _guarded(when: str, statement: str) -> list[str]:
    return [f"if {when} {statement}" if when else statement]


def _answer(event: UserEvent) -> str:
    """The variable that says whether an event happens: named by its filter, and as no function of users' is."""
    return f"sl_is_{event.filter}"


@dataclass(frozen=True)
class Part:
    """Statements that tell some listeners, and how many questions they begin with."""

    listeners: Sequence[Listener]
    lines: list[str]
    questions: int = 1


def _joined(parts: Sequence[Part]) -> list[str]:
    """The statements of all parts; those in a row that are for handlers on demand alone behind one question."""
    out: list[str] = []
    for demanded, group in groupby(parts, lambda part: all(listener.bit is not None for listener in part.listeners)):
        row = list(group)
        lines = [line for part in row for line in part.lines]
        if demanded and sum(part.questions for part in row) > 1:
            bits = {bit for part in row for bit in _bits(part.listeners)}
            mask = sum(1 << bit for bit in bits)
            lines = [f"if (watched & {mask:#x}ull) {{", *("    " + line for line in lines), "}"]
        out += lines
    return out


class Dispatcher:
    """Writes statements that tell of events of one layer, given `event`, `data` and, where needed, `watched` and
    `stopped`.
    """

    def __init__(self, functions: Functions, layer: LayerProgram) -> None:
        self.functions = functions
        self.layer = layer
        self.events = functions.events
        self.bits = functions.bits()

    def tests_on_demand(self, event: str) -> bool:
        """Whether some of those who listen to an event, or to what happens with it, do so only while registered."""
        return any(listener.bit is not None for listener in self.listening(event))

    def tests_stopped(self, event: str) -> bool:
        """Whether some of them may stop hearing of an instance."""
        return any(listener.stops is not None for listener in self.listening(event))

    def statements(self, event: str) -> list[str]:
        """Tell of an event.

        As in mOS, users' events happen behind their base, depth first. A filter is asked only where somebody would hear
        of its event, and once. Where many listen on demand, none of them being registered is one question, and all of
        them one more, behind which nobody is asked for.
        """
        bits = _bits(self.listening(event))
        if len(bits) < MANY:
            return self._statements(event, asked=True)
        mask = f"{sum(1 << bit for bit in bits):#x}ull"
        return [
            f"if ((watched & {mask}) == {mask}) {{",
            *("    " + line for line in self._statements(event, asked=False)),
            "} else {",
            *("    " + line for line in self._statements(event, asked=True)),
            "}",
        ]

    def _statements(self, event: str, asked: bool) -> list[str]:
        """The same; asked: whether handlers on demand are registered is not known."""
        told = [([listener], has_subscriber([listener], asked), listener) for listener in self._handlers(event)]
        told += [([self._columns(event)], "", self._columns(event))] if self.in_columns(event) else []
        python = self._python(event)
        told += [(python, has_subscriber(python, asked), python[0])] if python else []
        parts = [Part(all_, _guarded(when, f"{first.handler}(&event, &data);")) for all_, when, first in told]
        heard = [one for one in self.events.with_base(self.layer, event) if self.listening(one.name)]
        parts += [self._happening(heard, asked)] if heard else []
        return _joined(parts) if asked else [line for part in parts for line in part.lines]

    def _happening(self, events: Sequence[UserEvent], asked: bool) -> Part:
        """Tell of the events of users' that happen with one: of several the filters are asked first, all of them.

        So what follows when one of them happens stands aside from the way on which none does. With | in place of ||
        comparisons of one value with near numbers become few, and all others a half more: 746 instructions a packet, or
        905, where 64 are registered, instead of 834 and 846 (bench/instructions.py).
        """
        listeners = [listener for event in events for listener in self.listening(event.name)]
        asks: list[str] = []
        told: list[str] = []
        for event in events:
            when = has_subscriber(self.listening(event.name), asked)
            question = f"{event.filter}(&event, &data)"
            question = f"{when} && {question}" if when else question
            asks.append(f"const bool {_answer(event)} = {question};")
            inner = self._statements(event.name, asked)
            is_so = question if len(events) == 1 else _answer(event)
            told += [f"if ({is_so}) {{", *("    " + line for line in inner), "}"]
        if len(events) == 1:
            return Part(listeners, told)
        any_is = " || ".join(f"SL_UNLIKELY({_answer(event)})" for event in events)
        lines = [*asks, f"if ({any_is}) {{", *("    " + line for line in told), "}"]
        return Part(listeners, lines, len(events))

    def _handlers(self, event: str) -> list[Listener]:
        """The handlers of an event."""
        return [
            Listener(
                handler(function.name, hook),
                self.bits.get((function.name, hook)),
                number if function.controls(self.layer) else None,
            )
            for number, function in enumerate(self.functions.c)
            for hook in function.hooks
            if means(hook, self.layer, event)
        ]

    def _python(self, event: str) -> list[Listener]:
        """Functions in Python that hear of an event: all by one record."""
        record = f"record_{identifier(self.layer.name)}_{identifier(event)}"
        found: list[Listener] = []
        if any(means(hook, self.layer, event) for hook in self.functions.python):
            found.append(Listener(record, None, None))
        for bit, hooks in enumerate(self.functions.demanded, self.functions.first_demanded):
            if any(means(hook, self.layer, event) for hook in hooks):
                found.append(Listener(record, bit, None))
        return found

    def in_python(self, event: str) -> bool:
        """Whether functions in Python hear of an event."""
        return bool(self._python(event))

    def in_columns(self, event: str) -> bool:
        """Whether functions in Python take many of an event at once."""
        return any(means(hook, self.layer, event) for hook in self.functions.many)

    def _columns(self, event: str) -> Listener:
        return Listener(f"columns_{identifier(self.layer.name)}_{identifier(event)}", None, None)

    def listening(self, event: str) -> list[Listener]:
        """All who listen to an event or to what happens with it."""
        found = self._handlers(event) + self._python(event)
        found += [self._columns(event)] if self.in_columns(event) else []
        for happens in self.events.with_base(self.layer, event):
            found += self.listening(happens.name)
        return found
