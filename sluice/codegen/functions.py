"""Functions on events: what a C file hooks, and the stack that carries it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sluice.codegen.declared import Counters, read_counters, read_parameters
from sluice.codegen.hooks import (
    MOST_ON_DEMAND,
    HookError,
    UserEvent,
    UserEvents,
    is_named,
    means,
    read_events,
    read_hooks,
)
from sluice.codegen.layout import Table
from sluice.codegen.names import C_WORDS, identifier
from sluice.codegen.parameter import Parameter, ParameterError
from sluice.ir.build import Hook
from sluice.ir.graph import EventShape, LayerProgram, Program

_KEEP = re.compile(r"^SLUICE_KEEP\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_PEEK = re.compile(r"\bsl_(?:view|peek)\b")
_CONTROL = re.compile(r"^SLUICE_CONTROL\(\s*(\w+)\s*\)", re.MULTILINE)
_TIMER = re.compile(r"^SLUICE_TIMER\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_DESTROY = re.compile(r"^SLUICE_DESTROY\b", re.MULTILINE)
_INLINE = re.compile(r"^SLUICE_INLINE\b", re.MULTILINE)
_STATE = re.compile(r"^SLUICE_STATE\(", re.MULTILINE)
_WORKER = re.compile(r"^SLUICE_WORKER\(", re.MULTILINE)
_OPEN = re.compile(r"^SLUICE_OPEN\b", re.MULTILINE)
_CLOSE = re.compile(r"^SLUICE_CLOSE\b", re.MULTILINE)


BOX = "box"
"""In place of a layer: a timer of the box."""


@dataclass(frozen=True)
class Timer:
    """A timer of a function: one for each instance of a layer ("*": of all), or for the box."""

    function: str
    layer: str
    name: str

    @property
    def handler(self) -> str:
        """The C function that is called when it fires, and its name in instances."""
        return f"{self.function}_{'any' if self.layer == '*' else self.layer}_{self.name}_timer"

    def is_of(self, layer: LayerProgram) -> bool:
        """Whether instances of a layer have it."""
        return is_named(self.layer, layer)


_ASKS_WAY = re.compile(r"(?:->|\.)\s*(?:path|depth)\b|\bsl_way\b")
"""The way of a packet in C: box->path, box->depth, sl_way."""

_ASKS_PACKET = re.compile(r"(?:->|\.)\s*(?:frame|time|number)\b")
"""The packet in hand in C: box->frame, box->time, box->number."""

_INCLUDED = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)", re.MULTILINE)
_KNOWN_HEADERS = frozenset(
    [path.name for path in (Path(__file__).parent.parent / "runtime").glob("*.h")]
    + [f"{name}.h" for name in "assert ctype errno inttypes limits math stdalign stdbool stddef stdint".split()]
    + [f"{name}.h" for name in "stdio stdlib string time unistd arpa/inet netinet/in".split()]
)
"""Headers in which nobody asks what a packet is or by which way it came; others are not looked into."""


def _may_ask(text: str, words: re.Pattern[str]) -> bool:
    """Whether the text of a function may have these words, or files that it includes."""
    return bool(words.search(text)) or not _KNOWN_HEADERS.issuperset(_INCLUDED.findall(text))


@dataclass(frozen=True)
class CFunction:
    """A function in C: its name, its text, where the text stands, what it hooks, and what else it declares.

    on_demand: those of its hooks that are registered while it runs. events: those that it defines. kept: delivered bytes
    that it wants to see again, by layer; 0 of any when it looks at those that are there. controlled: layers of whose instances it decides something. destroys: whether it
    gives up what it keeps of an instance in a way of its own. inline: whether it drops, changes or sends packets.
    """

    name: str
    text: str
    path: str
    hooks: tuple[Hook, ...]
    state: bool
    worker: bool
    opens: bool
    closes: bool
    parameters: tuple[Parameter, ...] = ()
    counters: Counters = ()
    on_demand: tuple[Hook, ...] = ()
    events: tuple[UserEvent, ...] = ()
    kept: tuple[tuple[str, int], ...] = ()
    controlled: tuple[str, ...] = ()
    timers: tuple[Timer, ...] = ()
    destroys: bool = False
    inline: bool = False

    def controls(self, layer: LayerProgram) -> bool:
        """Whether it decides something for instances of a layer."""
        return any(is_named(name, layer) for name in self.controlled)


@dataclass(frozen=True)
class Functions:
    """All functions that are compiled with a stack.

    python: events that functions in Python want. demanded: those for each of their handlers on demand. many: those that
    they take many at once.
    """

    c: tuple[CFunction, ...] = ()
    python: frozenset[Hook] = field(default_factory=lambda: frozenset[Hook]())
    demanded: tuple[frozenset[Hook], ...] = ()
    many: frozenset[Hook] = field(default_factory=lambda: frozenset[Hook]())

    def hooks(self) -> frozenset[Hook]:
        """Every event of the stack that somebody listens to, or to what happens with it."""
        events = self.events
        found = self.python.union(self.many, *self.demanded) | frozenset(
            hook for function in self.c for hook in function.hooks
        )
        return frozenset(needed for hook in found for needed in events.needed(hook))

    @property
    def events(self) -> UserEvents:
        """The events that functions define. Raises HookError for those that cannot be."""
        return UserEvents([event for function in self.c for event in function.events])

    @property
    def kept(self) -> frozenset[tuple[str, int]]:
        """Delivered bytes that functions want to see again, by layer; 0 where they look at those that are there."""
        return frozenset(kept for function in self.c for kept in function.kept)

    @cached_property
    def asks_way(self) -> bool:
        """Whether a function may ask which layers the packet is in: it has the words, or files that may have them."""
        return any(_may_ask(function.text, _ASKS_WAY) for function in self.c)

    @cached_property
    def asks_packet(self) -> bool:
        """Whether somebody may ask which packet is in hand, and when it came: so do records for Python, and what leaves the
        box.
        """
        asks = any(_may_ask(function.text, _ASKS_PACKET) for function in self.c)
        return asks or self.inline or bool(self.python or self.many or self.demanded)

    @property
    def timers(self) -> list[Timer]:
        """The timers of all functions, by number."""
        return [timer for function in self.c for timer in function.timers]

    @property
    def inline(self) -> bool:
        """Whether some function drops, changes or sends packets."""
        return any(function.inline for function in self.c)

    def bits(self) -> dict[tuple[str, Hook], int]:
        """The bit of each handler on demand. Raises HookError for more of them than there are."""
        found = [(function.name, hook) for function in self.c for hook in function.on_demand]
        count = len(found) + len(self.demanded)
        if count > MOST_ON_DEMAND:
            raise HookError(f"{count} handlers on demand: a box has at most {MOST_ON_DEMAND}")
        return {handler: bit for bit, handler in enumerate(found)}

    @property
    def first_demanded(self) -> int:
        """The bit of the first handler on demand in Python: behind those of C."""
        return len(self.bits())


def read_c_function(name: str, text: str, path: str) -> CFunction:
    """What the text of a C function declares by its SLUICE_ lines.

    Raises HookError when it hooks nothing, or declares a parameter that could not be read.
    """
    hooks, on_demand = read_hooks(text, path)
    timers, events = tuple(_read_timers(name, text, path)), read_events(name, text, path)
    if not (hooks or timers or events):
        raise HookError(f"{path}: no line begins with SLUICE_ON(layer, event), so the function would never be called")
    try:
        parameters, counters = read_parameters(text, path), read_counters(text, path)
    except ParameterError as error:
        raise HookError(str(error)) from None
    return CFunction(
        name=name,
        text=text,
        path=path,
        hooks=hooks,
        state=bool(_STATE.search(text)),
        worker=bool(_WORKER.search(text)),
        opens=bool(_OPEN.search(text)),
        closes=bool(_CLOSE.search(text)),
        parameters=parameters,
        counters=counters,
        on_demand=on_demand,
        events=events,
        kept=tuple(_read_kept(text, path)),
        timers=timers,
        destroys=_destroys(text, path),
        inline=bool(_INLINE.search(text)),
        controlled=tuple("*" if name == "any" else name for name in _CONTROL.findall(text)),
    )


def _read_kept(text: str, path: str) -> Iterator[tuple[str, int]]:
    for match in _KEEP.finditer(text):
        layer, octets = match.groups()
        if not octets.isdecimal():
            raise HookError(
                f"{path}: SLUICE_KEEP({layer}, {octets}): write a number of bytes, as in SLUICE_KEEP(tcp, 4096)"
            )
        yield "*" if layer == "any" else layer, int(octets)
    if _PEEK.search(text):
        yield "*", 0


def _read_timers(function: str, text: str, path: str) -> Iterator[Timer]:
    seen: set[tuple[str, str]] = set()
    for match in _TIMER.finditer(text):
        layer, name = match.groups()
        if (layer, name) in seen:
            raise HookError(f"{path}: timer '{name}' of '{layer}' is there twice: give one another name")
        seen.add((layer, name))
        yield Timer(function, "*" if layer == "any" else layer, name)


def _destroys(text: str, path: str) -> bool:
    found = bool(_DESTROY.search(text))
    if found and not _STATE.search(text):
        raise HookError(f"{path}: SLUICE_DESTROY without SLUICE_STATE(type): there is nothing that it could be given")
    return found


def function_states(table: Table, functions: Functions) -> list[str]:
    """Names of the functions that keep something in the instances of a table."""
    found: list[str] = []
    for function in functions.c:
        events = (Hook(event.layer, event.name) for event in function.events)
        timers = (Hook(timer.layer, timer.name) for timer in function.timers)
        if function.state and _about(table, (*function.hooks, *events, *timers)):
            found.append(function.name)
    return found


def destructors(table: Table, functions: Functions) -> list[str]:
    """Statements that give up what functions keep in an instance of a table."""
    kept = function_states(table, functions)
    names = [function.name for function in functions.c if function.destroys and function.name in kept]
    return [f"{name}_destroy(&box->base, &inst->{name}_state);" for name in names]


def is_watched(table: Table, functions: Functions) -> bool:
    """Whether handlers on demand may be registered for single instances of a table."""
    hooks = [function.on_demand for function in functions.c] + [tuple(hooks) for hooks in functions.demanded]
    return any(_about(table, wanted) for wanted in hooks)


def _about(table: Table, hooks: tuple[Hook, ...]) -> bool:
    """Whether a hook means events that tell of a table's instances."""
    layers = [*table.layers, *table.takers]
    return any(is_named(hook.layer, layer) for hook in hooks for layer in layers)


def callback_name(program: Program, layer: LayerProgram, event: str) -> str:
    """The C function that the user may define for an event: its name alone where that is enough (as in the paper)."""
    same = {other.layer for other in program.layers.values() if event in other.events and other.events[event].callback}
    return identifier(event) if len(same) == 1 else identifier(f"{layer.layer}_{event}")


def callback_functions(program: Program) -> dict[str, EventShape]:
    """The functions that the user may define, with the data that each gets."""
    found: dict[str, EventShape] = {}
    for layer in program.layers.values():
        for event, shape in layer.events.items():
            if shape.callback:
                found[callback_name(program, layer, event)] = shape
    return found


def event_struct(shape: EventShape) -> str:
    """The C struct of an event's data: the user's layout by its name, where C and the runtime leave that free."""
    if not shape.callback:
        return f"struct sl_on_{shape.name}"
    taken = shape.callback in C_WORDS or shape.callback.startswith("sl_")
    return f"struct {shape.callback}{'_' if taken else ''}"


def data_names(program: Program, functions: Functions, function: CFunction) -> list[str]:
    """Definitions that give `data` its type in each handler and each filter of a function.

    Raises HookError where a hook means events of one name that bring different data along.
    """
    out: list[str] = []
    for hook in dict.fromkeys([*function.hooks, *(Hook(event.layer, event.name) for event in function.events)]):
        structs: dict[str, str] = {}
        root = hook.event
        for layer in program.layers.values():
            if means(hook, layer, hook.event):
                root = functions.events.root(layer, hook.event)
                if root in layer.events:
                    structs.setdefault(event_struct(layer.events[root]), layer.layer)
        if len(structs) > 1:
            layers = " and ".join(f"'{layer}'" for layer in structs.values())
            raise HookError(
                f"{function.path}: event '{hook.event}' brings different data along in the layers {layers}\n"
                "    write a SLUICE_ON for each layer, by its name."
            )
        struct = next(iter(structs), f"struct sl_on_{root}")  # built-in where no layer has it
        who = "any" if hook.layer == "*" else hook.layer
        out.append(f"#define sl_data_{who}_{hook.event} {struct}")
    return out
