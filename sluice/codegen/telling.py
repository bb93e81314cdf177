"""What telling of an event becomes in C: calls of those who listen, and the events of users' that happen with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.codegen.functions import Functions
from sluice.codegen.hooks import handler, means
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


def any_hears(listeners: Sequence[Listener]) -> str:
    """The condition, on `watched` and `stopped`, that one of these hears of an event; nothing where one always does."""
    if any(listener.always for listener in listeners):
        return ""
    bits = sum({1 << item.bit for item in listeners if item.bit is not None and item.stops is None})
    numbers = sum({1 << item.stops for item in listeners if item.stops is not None and item.bit is None})
    either = [f"(watched & {bits:#x}ull)"] if bits else []
    either += [f"(~stopped & {numbers:#x}ull)"] if numbers else []
    both = dict.fromkeys((item.bit, item.stops) for item in listeners)
    either += [f"(watched >> {b} & ~stopped >> {n} & 1)" for b, n in both if b is not None and n is not None]
    return either[0] if len(either) == 1 else f"({' || '.join(either)})"


class Teller:
    """Writes statements that tell of events of one layer, given `event`, `data` and, where needed, `watched` and
    `stopped`.
    """

    def __init__(self, functions: Functions, layer: LayerProgram) -> None:
        self.functions = functions
        self.layer = layer
        self.events = functions.events
        self.bits = functions.bits()

    def asks_watched(self, event: str) -> bool:
        """Whether some of those who listen to an event, or to what happens with it, do so only while registered."""
        return any(listener.bit is not None for listener in self.listening(event))

    def asks_stopped(self, event: str) -> bool:
        """Whether some of them may stop hearing of an instance."""
        return any(listener.stops is not None for listener in self.listening(event))

    def statements(self, event: str, python: list[str]) -> list[str]:
        """Tell of an event. python: the statements for functions in Python, which hear of the stack's events only.

        As in mOS, users' events happen behind their base, depth first. A filter is asked only where somebody would hear
        of its event, and once.
        """
        out: list[str] = []
        for listener in self._handlers(event):
            when = any_hears([listener])
            out.append(f"{f'if {when} ' if when else ''}{listener.handler}(&event, &data);")
        out += python
        for happens in self.events.with_base(self.layer, event):
            listening = self.listening(happens.name)
            if listening:
                inner = self.statements(happens.name, [])
                when = any_hears(listening)
                condition = f"{f'{when} && ' if when else ''}{happens.filter}(&event, &data)"
                out += [f"if ({condition}) {{", *("    " + line for line in inner), "}"]
        return out

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

    def listening(self, event: str) -> list[Listener]:
        """All who listen to an event or to what happens with it."""
        found = self._handlers(event)
        for happens in self.events.with_base(self.layer, event):
            found += self.listening(happens.name)
        return found
