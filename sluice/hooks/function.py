"""The model of functions on events: what each declares, and what all of a box declare together."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.hooks.declaration import Counters, read_counters, read_parameters
from sluice.hooks.marks import Mark
from sluice.hooks.parameter import Parameter, ParameterError
from sluice.hooks.published import CHAIN, PublishedEvent, PublishedEvents, read_published
from sluice.hooks.shared import Operation, Shared, SharedError, Stored, read_operations, read_shared, read_stored
from sluice.hooks.subscription import (
    HookError,
    UserEvent,
    UserEvents,
    is_named,
    read_events,
    read_hooks,
)
from sluice.ir.graph import LayerProgram
from sluice.ir.hook import Hook

ANY_FIELD = "*"

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


@dataclass(frozen=True)
class Reload:
    """How a running box got this version of a function (`sluice reload`).

    former: bytes of state of earlier versions that instances of the tables still have. beside: the state of this
    version is not in instances but next to them, by slot, as its type is another one. fresh: what starts again when the
    box gets this version: "state", "workers", "parameters", "function_counters"; empty if the box has the version.
    """

    former: int = 0
    tables: tuple[str, ...] = ()
    beside: bool = False
    fresh: tuple[str, ...] = ()


@dataclass(frozen=True)
class CFunction:
    """What a function in C declares: name, text and path of its source, its subscriptions, and the rest.

    on_demand: those of its subscriptions that it registers at run time, for single instances.
    events: the events that it defines.
    kept: how many delivered bytes it reads again, by layer; 0 when it only peeks at bytes that are buffered.
    controlled: the layers whose instances it controls.
    destroys: whether it has a destructor for its state.
    inline: whether it drops, changes or sends packets.
    shared: the shared objects that it declares. operations: those of its own on them. stored: what of its state in
        instances a store may hold; None: nothing.
    needs: what the box maintains for its accessors: "path" (the packet's layers), "units" (their headers),
        "packet" (its time, number, frame).
    sources, libraries: paths of other C files that it is linked with, and names of libraries, as for -l.
    published: the events that it publishes.
    drops, rewrites, redirects: whether it drops, changes and redirects packets.
    writes: layer, field and FILE:LINE of the header fields that it declares to change.
    after: the functions that decide before it, in a chain: an event of a packet that one of them dropped is withheld.
    label: its name in a chain, which its figures have in the summary; "" outside of chains.
    lines: FILE:LINE of each subscription.
    common: whether it has an object that all workers share.
    fields: the fields of instances that it reads, by name; ANY_FIELD for names that are known at run time only.
    key: whether it reads the keys of instances.
    resubscribes: whether it replaces its subscriptions for single flows (mb_up_sub of compat/microboxes).
    arrives: whether it translates packets when they arrive, before the stack reads them.
    reload: how a running box got it; None: the box began with it.
    generated: whether its text is Sluice's own, which may name members of struct sl_box.
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
    generated: bool = False
    inline: bool = False
    needs: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    shared: tuple[Shared, ...] = ()
    operations: tuple[Operation, ...] = ()
    stored: Stored | None = None
    published: tuple[PublishedEvent, ...] = ()
    drops: bool = False
    rewrites: bool = False
    redirects: bool = False
    writes: tuple[tuple[str, str, str], ...] = ()
    after: tuple[str, ...] = ()
    label: str = ""
    lines: tuple[tuple[Hook, str], ...] = ()
    common: bool = False
    fields: frozenset[str] = frozenset()
    key: bool = False
    resubscribes: bool = False
    arrives: bool = False
    reload: Reload | None = None

    @property
    def publishes(self) -> tuple[PublishedEvent, ...]:
        """The events that it publishes, of those that it declares."""
        return tuple(event for event in self.published if not event.expected)

    @property
    def beside(self) -> bool:
        """Whether its state is next to instances, not in them."""
        return self.reload is not None and self.reload.beside

    def line_of(self, hook: Hook) -> str:
        """FILE:LINE of a subscription; the file where it is not known."""
        return dict(self.lines).get(hook, self.path)

    def controls(self, layer: LayerProgram) -> bool:
        """Whether it decides something for instances of a layer."""
        return any(is_named(name, layer) for name in self.controlled)


@dataclass(frozen=True)
class Functions:
    """All functions that are compiled with a stack.

    python: events that functions in Python want. demanded: those for each of their handlers on demand. many: those that
    they take many at once. decides: one in Python drops packets, so each packet's events are delivered before its
    verdict. embedded: the built-in events for functions of the program that embeds the stack; None: there is none.
    """

    c: tuple[CFunction, ...] = ()
    python: frozenset[Hook] = field(default_factory=lambda: frozenset[Hook]())
    demanded: tuple[frozenset[Hook], ...] = ()
    many: frozenset[Hook] = field(default_factory=lambda: frozenset[Hook]())
    decides: bool = False
    embedded: frozenset[Hook] | None = None

    def hooks(self) -> frozenset[Hook]:
        """Every event of the stack that has a subscriber, also of an event based on it."""
        events = self.events
        found = self.python.union(self.many, *self.demanded, self.embedded or ()) | frozenset(
            hook for function in self.c for hook in function.hooks
        )
        return frozenset(needed for hook in found for needed in events.needed(hook))

    @property
    def events(self) -> UserEvents:
        """The events that functions define. Raises HookError for those that cannot be."""
        return UserEvents([event for function in self.c for event in function.events])

    @property
    def published(self) -> PublishedEvents:
        """The events that functions in C publish. Raises HookError for those that cannot be."""
        return PublishedEvents(tuple(event for function in self.c for event in function.published))

    def reached(self, hooks: Iterable[Hook]) -> list[Hook]:
        """Hooks, and those of the functions that publish what they name: by these, events of instances reach them."""
        found = list(hooks)
        seen = set[str]()
        published = self.published
        for hook in found:
            if hook.layer == CHAIN and hook.event in published.names and hook.event not in seen:
                seen.add(hook.event)
                publishers = set(published.publishers(hook.event))
                for function in self.c:
                    if function.name in publishers:
                        timers = (Hook(timer.layer, timer.name) for timer in function.timers)
                        events = (Hook(event.layer, event.name) for event in function.events)
                        found += [*function.hooks, *timers, *events]
        return found

    def dropping(self, names: Collection[str]) -> int:
        """The bits of those of some functions that may drop a packet."""
        return sum(1 << n for n, function in enumerate(self.c) if function.drops and function.name in names)

    @property
    def kept(self) -> frozenset[tuple[str, int]]:
        """Delivered bytes that functions want to see again, by layer; 0 where they look at those that are there."""
        return frozenset(kept for function in self.c for kept in function.kept)

    @property
    def needs_path(self) -> bool:
        """Whether a function reads the path of layers of the current packet."""
        return any(function.needs & {"path", "units"} for function in self.c)

    @property
    def needs_units(self) -> bool:
        """Whether a function reads the headers of the layers that the packet is in."""
        return any("units" in function.needs for function in self.c)

    @property
    def needs_packet(self) -> bool:
        """Whether a function reads the current packet, its number or its time; records for Python and output do."""
        reads = any(function.needs & {"packet", "crash"} for function in self.c)
        embeds = self.embedded is not None
        return reads or embeds or self.inline or self.shares or bool(self.python or self.many or self.demanded)

    @property
    def traced(self) -> bool:
        """Whether a crash is to be reported with its function (SL_CALL): that of one of several workers."""
        return any("crash" in function.needs for function in self.c)

    @property
    def sources(self) -> tuple[str, ...]:
        """Paths of other C files that functions are linked with, each once."""
        return tuple(dict.fromkeys(source for function in self.c for source in function.sources))

    @property
    def libraries(self) -> tuple[str, ...]:
        """Names of the libraries that functions are linked with, each once."""
        return tuple(dict.fromkeys(library for function in self.c for library in function.libraries))

    @property
    def timers(self) -> list[Timer]:
        """The timers of all functions, by number."""
        return [timer for function in self.c for timer in function.timers]

    @property
    def inline(self) -> bool:
        """Whether some function drops, changes or sends packets."""
        return self.decides or any(function.inline for function in self.c)

    @property
    def arriving(self) -> list[tuple[int, str]]:
        """Number and name of those that translate packets when they arrive; later ones than 64 decide nothing."""
        return [(number, function.name) for number, function in enumerate(self.c[:64]) if function.arrives]

    @property
    def shares(self) -> bool:
        """Whether some function declares shared objects, whose updates carry the packet's number as logical clock."""
        return any(function.shared for function in self.c)

    def bits(self) -> dict[tuple[str, Hook], int]:
        """The number of each handler on demand: its bit, in words of 64."""
        found = [(function.name, hook) for function in self.c for hook in function.on_demand]
        return {handler: bit for bit, handler in enumerate(found)}

    @property
    def watch_words(self) -> int:
        """The 64-bit words that have a bit for each handler on demand: at least one."""
        return max(1, -(-(self.first_demanded + len(self.demanded)) // 64))

    @property
    def first_demanded(self) -> int:
        """The bit of the first handler on demand in Python: after those of C."""
        return len(self.bits())


def declared_function(name: str, text: str, path: str, marks: Sequence[Mark]) -> CFunction:
    """A function by the marks that its declarations left.

    Raises HookError for a declaration that makes no sense, and for a function that would never be called.
    """
    kinds = {mark.kind for mark in marks}
    needs = frozenset(mark.arguments[0] for mark in marks if mark.kind == "needs")
    hooks, on_demand = read_hooks(marks)
    timers, events = tuple(_timers(name, marks)), read_events(name, marks)
    if not (hooks or timers or events):
        raise HookError(
            f"{path}: no SLUICE_ON(layer, event), no SLUICE_TIMER and no SLUICE_EVENT: nothing would be called"
        )
    controlled = tuple(_layer(mark.arguments[0]) for mark in marks if mark.kind == "control")
    may_read = any(mark.kind == "source" for mark in marks)  # other files leave no marks
    _check_needs(marks, controlled)
    try:
        parameters, counters = read_parameters(marks), read_counters(marks)
        shared, operations, stored = read_shared(marks), read_operations(name, marks), read_stored(marks)
    except (ParameterError, SharedError) as error:
        raise HookError(str(error)) from None
    return CFunction(
        name=name,
        text=text,
        path=path,
        hooks=hooks,
        state="state" in kinds,
        worker="worker" in kinds,
        common="common" in kinds,
        opens="open" in kinds,
        closes="close" in kinds,
        parameters=parameters,
        counters=counters,
        on_demand=on_demand,
        events=events,
        kept=tuple(_kept(marks, needs)),
        timers=timers,
        destroys="destroy" in kinds,
        inline="inline" in kinds | needs,
        controlled=controlled,
        needs=needs & {"path", "units", "packet"},
        sources=tuple(_sources(marks, path)),
        published=read_published(name, marks),
        lines=tuple((Hook(_layer(mark.arguments[0]), mark.arguments[1]), mark.where) for mark in marks if _hooks(mark)),
        drops="drop" in needs,
        rewrites="rewrite" in needs,
        redirects="redirect" in needs,
        writes=tuple(
            (_layer(mark.arguments[0]), mark.arguments[1], mark.where) for mark in marks if mark.kind == "writes"
        ),
        libraries=tuple(_libraries(marks)),
        shared=shared,
        operations=operations,
        stored=stored,
        fields=frozenset([*_fields(marks), *([ANY_FIELD] if may_read or "fields" in needs else [])]),
        key=may_read or bool(shared) or "key" in needs,
        resubscribes="resubscribe" in needs,
        arrives="arrival" in kinds,
    )


def _fields(marks: Sequence[Mark]) -> Iterator[str]:
    """The names of fields that a function reads; sl_layer_field leaves them as they are written."""
    for mark in marks:
        if mark.kind == "field":
            literal = re.fullmatch(r'\\?"(\w+)\\?"', mark.arguments[0])
            yield literal[1] if literal else ANY_FIELD


def _layer(name: str) -> str:
    return "*" if name == "any" else name


def _hooks(mark: Mark) -> bool:
    return mark.kind in ("on", "on_demand")


def _check_needs(marks: Sequence[Mark], controlled: tuple[str, ...]) -> None:
    for mark in marks:
        if mark.kind == "needs" and mark.arguments[0] == "control" and not controlled:
            raise HookError(f"{mark.where}: this controls an instance: declare SLUICE_CONTROL(layer)")
        if mark.kind == "destroy" and not any(other.kind == "state" for other in marks):
            raise HookError(f"{mark.where}: SLUICE_DESTROY without SLUICE_STATE(type): there is no state to destroy")


def _kept(marks: Sequence[Mark], needs: frozenset[str]) -> Iterator[tuple[str, int]]:
    for mark in marks:
        if mark.kind == "keep":
            layer, octets = mark.arguments
            if not octets.isdecimal():
                raise HookError(
                    f"{mark.where}: SLUICE_KEEP({layer}, {octets}): write a number of bytes, as in "
                    "SLUICE_KEEP(tcp, 4096)"
                )
            yield _layer(layer), int(octets)
    if "peek" in needs:
        yield "*", 0


def _sources(marks: Sequence[Mark], path: str) -> Iterator[str]:
    for mark in marks:
        if mark.kind == "source":
            source = Path(path).parent / mark.arguments[0]
            if not source.is_file():
                raise HookError(
                    f'{mark.where}: SLUICE_SOURCE("{mark.arguments[0]}"): there is no file {source}\n'
                    "    name a C file by its place, relative to the function's folder."
                )
            yield str(source.resolve())


def _libraries(marks: Sequence[Mark]) -> Iterator[str]:
    for mark in marks:
        if mark.kind == "library":
            name = mark.arguments[0]
            if not re.fullmatch(r"[\w.+-]+", name):
                raise HookError(f'{mark.where}: SLUICE_LIBRARY("{name}"): write a name, as in SLUICE_LIBRARY("z")')
            yield name


def _timers(function: str, marks: Sequence[Mark]) -> Iterator[Timer]:
    seen: set[tuple[str, str]] = set()
    for mark in marks:
        if mark.kind == "timer":
            layer, name = mark.arguments
            if (layer, name) in seen:
                raise HookError(f"{mark.where}: timer '{name}' of '{layer}' is declared twice: give one another name")
            seen.add((layer, name))
            yield Timer(function, _layer(layer), name)
