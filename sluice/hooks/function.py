"""Functions on events: what a C file hooks, and the stack that carries it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sluice.hooks.declaration import Counters, read_counters, read_parameters
from sluice.hooks.includes import with_own_includes
from sluice.hooks.parameter import Parameter, ParameterError
from sluice.hooks.subscription import (
    MAX_ON_DEMAND,
    HookError,
    UserEvent,
    UserEvents,
    is_named,
    read_events,
    read_hooks,
)
from sluice.ir.graph import LayerProgram
from sluice.ir.hook import Hook

_KEEP = re.compile(r"^SLUICE_KEEP\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_PEEK = re.compile(r"\bsl_(?:view|peek)\b")
_CONTROL = re.compile(r"^SLUICE_CONTROL\(\s*(\w+)\s*\)", re.MULTILINE)
_TIMER = re.compile(r"^SLUICE_TIMER\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_DESTROY = re.compile(r"^SLUICE_DESTROY\b", re.MULTILINE)
_INLINE = re.compile(r"^SLUICE_INLINE\b", re.MULTILINE)
_SOURCE = re.compile(r'^SLUICE_SOURCE\(\s*"([^"\n]+)"\s*\)', re.MULTILINE)
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


_READS_PATH = re.compile(r"(?:->|\.)\s*(?:path|depth)\b|\bsl_path\b")
"""The layers that a packet is in, in C: box->path, box->depth, sl_path."""

_READS_UNITS = re.compile(r"\bsl_layer_unit\b")
"""The headers of these layers, in C: sl_layer_unit."""

_READS_PACKET = re.compile(r"(?:->|\.)\s*(?:frame|time|number)\b")
"""The packet in hand in C: box->frame, box->time, box->number."""

_INCLUDED = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)", re.MULTILINE)
_KNOWN_HEADERS = frozenset(
    [path.name for path in (Path(__file__).parent.parent / "runtime").rglob("*.h")]
    + [f"{name}.h" for name in "assert ctype errno inttypes limits math stdalign stdbool stddef stdint".split()]
    + [f"{name}.h" for name in "stdio stdlib string time unistd arpa/inet netinet/in".split()]
)
"""Headers in which nobody asks what a packet is or by which way it came; others are not looked into."""


def _may_ask(text: str, words: re.Pattern[str]) -> bool:
    """Whether the text of a function may have these words, or files that it includes."""
    return bool(words.search(text)) or not _KNOWN_HEADERS.issuperset(_INCLUDED.findall(text))


@dataclass(frozen=True)
class CFunction:
    """What a function in C declares: name, text and path of its source, its subscriptions, and the rest.

    on_demand: those of its subscriptions that it registers at run time, for single instances.
    events: the events that it defines.
    kept: how many delivered bytes it reads again, by layer; 0 when it only peeks at bytes that are buffered.
    controlled: the layers whose instances it controls.
    destroys: whether it has a destructor for its state.
    inline: whether it drops, changes or sends packets.
    sources: paths of other C files that it is linked with.
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
    sources: tuple[str, ...] = ()

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
    def needs_path(self) -> bool:
        """Whether a function may ask which layers the packet is in: it has the words, or files that may have them."""
        return self.needs_units or any(_may_ask(function.text, _READS_PATH) for function in self.c)

    @cached_property
    def needs_units(self) -> bool:
        """Whether a function reads the headers of the layers that the packet is in: only where it has the word."""
        return any(_READS_UNITS.search(function.text) for function in self.c)

    @cached_property
    def needs_packet(self) -> bool:
        """Whether a function may read the current packet or its time. Records for Python do, and output does."""
        asks = any(_may_ask(function.text, _READS_PACKET) for function in self.c)
        return asks or self.inline or bool(self.python or self.many or self.demanded)

    @property
    def sources(self) -> tuple[str, ...]:
        """Paths of other C files that functions are linked with, each once."""
        return tuple(dict.fromkeys(source for function in self.c for source in function.sources))

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
        if count > MAX_ON_DEMAND:
            raise HookError(f"{count} handlers on demand: a box has at most {MAX_ON_DEMAND}")
        return {handler: bit for bit, handler in enumerate(found)}

    @property
    def first_demanded(self) -> int:
        """The bit of the first handler on demand in Python: behind those of C."""
        return len(self.bits())


def read_c_function(name: str, text: str, path: str) -> CFunction:
    """What the text of a C function declares by its SLUICE_ lines.

    Raises HookError when it hooks nothing, or declares a parameter that could not be read.
    """
    text = with_own_includes(text, path)
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
        sources=tuple(_read_sources(text, path)),
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


def _read_sources(text: str, path: str) -> Iterator[str]:
    for match in _SOURCE.finditer(text):
        source = Path(path).parent / match[1]
        if not source.is_file():
            raise HookError(
                f'{path}: SLUICE_SOURCE("{match[1]}"): there is no file {source}\n'
                "    name a C file by its place, seen from the function's folder."
            )
        yield str(source.resolve())


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
