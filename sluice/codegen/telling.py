"""What telling of an event becomes in C: calls of those who listen, and the events of users' that happen with it."""

from __future__ import annotations

from sluice.codegen.functions import Functions
from sluice.codegen.hooks import handler, means
from sluice.ir.graph import LayerProgram


class Teller:
    """Writes statements that tell of events of one layer, given `event`, `data` and, where needed, `watched`."""

    def __init__(self, functions: Functions, layer: LayerProgram) -> None:
        self.functions = functions
        self.layer = layer
        self.events = functions.events
        self.bits = functions.bits()

    def on_demand(self, event: str) -> bool:
        """Whether some of those who listen to an event, or to what happens with it, do so only while registered."""
        return any(bit is not None for bit in self._listening(event))

    def statements(self, event: str, python: list[str]) -> list[str]:
        """Tell of an event. python: the statements for functions in Python, which hear of the stack's events only.

        As in mOS, users' events happen behind their base, depth first. A filter is asked only where somebody would hear
        of its event, and once.
        """
        out: list[str] = []
        for name, bit in self._handlers(event):
            when = "" if bit is None else f"if (watched >> {bit} & 1) "
            out.append(f"{when}{name}(&event, &data);")
        out += python
        for happens in self.events.with_base(self.layer, event):
            listening = self._listening(happens.name)
            if listening:
                inner = self.statements(happens.name, [])
                condition = f"{_registered(listening)}{happens.filter}(&event, &data)"
                out += [f"if ({condition}) {{", *("    " + line for line in inner), "}"]
        return out

    def _handlers(self, event: str) -> list[tuple[str, int | None]]:
        """The handlers of an event, and the bit of each that is called only while registered."""
        return [
            (handler(function.name, hook), self.bits.get((function.name, hook)))
            for function in self.functions.c
            for hook in function.hooks
            if means(hook, self.layer, event)
        ]

    def _listening(self, event: str) -> list[int | None]:
        """The bits of all who listen to an event or to what happens with it; None for one who always does."""
        found = [bit for _, bit in self._handlers(event)]
        for happens in self.events.with_base(self.layer, event):
            found += self._listening(happens.name)
        return found


def _registered(listening: list[int | None]) -> str:
    """The condition that one of these is registered; nothing where one always is."""
    bits = {bit for bit in listening if bit is not None}
    if len(bits) < len(set(listening)):
        return ""
    return f"watched & {sum(1 << bit for bit in bits):#x}ull && "
