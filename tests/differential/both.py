"""Runs the same packets through the interpreter and compiled code, and holds what came out against each other."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from sluice.codegen.events.manifest import value_names
from sluice.engine.box import TLS_KEY_LOG, Box, CompiledStack, Frame, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.events import PythonFunction, Seen
from sluice.engine.program_cache import content
from sluice.hooks.function import CFunction, Functions
from sluice.ir.graph import CONTEXTS_GAVE_UP, GAVE_UP, LayerProgram, Program
from sluice.ir.hook import Hook
from sluice.ir.interpreter import Interpreter
from sluice.lang.events import BUILT_IN
from sluice.lang.stack import Stack
from sluice.lower.build import build

MOST = 40
"""Packets of a burst: more than a group."""

_REFUSED = Path(__file__).resolve().parents[1] / "support/refused.c"
REFUSED = read_c_function("refused", _REFUSED.read_text(), str(_REFUSED))
"""A function that reports what Pressure needs."""

NOT_MODELLED = ("no memory", "bytes:no memory")
"""Counters of what the interpreter, which has all the memory it wants, never does."""


@dataclass(frozen=True)
class Packet:
    """A packet as a capture gives it."""

    data: bytes
    time: int
    link_type: int = 1
    length: int | None = None


@dataclass(frozen=True)
class Secrets:
    """What keys come between packets."""

    data: bytes
    kind: int = TLS_KEY_LOG


Input = Packet | Secrets


def everything(stack: Stack) -> frozenset[Hook]:
    """Hooks for every event of a stack."""
    defined = {name for layer in stack.layers.values() for name in layer.prototype.events.defined}
    return frozenset(Hook("*", name) for name in defined | set(BUILT_IN))


@dataclass
class Pressure:
    """A run with little memory, in bursts of at most `most` packets, no more than a group.

    moments: for each burst, how many holders of memory gave up after it. refused: requests for memory that failed while
    a packet was processed.
    """

    most: int
    moments: list[int] = field(default_factory=lambda: [])
    refused: int = 0


@dataclass
class Compared(CompiledStack):
    """A stack as a library, and its program as it was built: what the library must do, whatever passes made of it."""

    built: Program


def compared(made: CompiledStack, stack: Stack, options: frozenset[str] = frozenset()) -> Compared:
    """A compiled stack with what it is held against."""
    return Compared(**vars(made), built=build(stack, made.functions.hooks(), options))


def compiled(
    stack: Stack,
    passes: str | list[str] = "all",
    options: frozenset[str] = frozenset(),
    functions: tuple[CFunction, ...] = (),
) -> Compared:
    """The stack as a library that tells every event; one for all descriptions of the same content."""
    hooks = everything(stack)
    found = content(stack, Functions(functions, hooks), passes, options)
    key = found, os.environ.get("CC"), os.environ.get("SLUICE_CFLAGS"), os.environ.get("SLUICE_CACHE")
    if found is None or key not in _compiled:
        made = compile_stack(stack, functions, python=hooks, passes=passes, options=options)
        _compiled[key] = compared(made, stack, options)
    return _compiled[key]


_compiled: dict[tuple[str | None, ...], Compared] = {}


def run_compiled(
    made: CompiledStack,
    packets: Iterable[Input],
    settings: Settings,
    pressure: Pressure | None = None,
) -> tuple[list[Any], dict[str, dict[str, int]]]:
    """Events and counters of compiled code."""
    gave_up = 0
    events: list[Any] = []

    def saw(event: Seen) -> None:
        layer = made.program.layers[event.layer]
        values = tuple(_number(layer, event.name, name, value) for name, value in event.values.items())
        events.append((event.layer, event.name, event.instance, event.side, values))

    handlers = [(hook.layer, hook.event, saw) for hook in made.functions.python]
    with Box(made, settings, [PythonFunction("all", handlers, [])]) as box:
        for burst in bursts(packets, pressure.most if pressure else MOST):
            if isinstance(burst, Secrets):
                box.secrets(burst.data, burst.kind)
            else:
                box.burst([(packet.data, packet.time, packet.link_type, packet.length) for packet in burst])
            if pressure is not None:
                before, gave_up = gave_up, holders_that_gave_up(box.counters())
                pressure.moments.append(gave_up - before)
        box.finish()
        if pressure is not None:
            assert box.reports()["pool left"] == 0
            pressure.refused = box.reports()["pool refused"]
        return events, box.counters()


def holders_that_gave_up(counters: dict[str, dict[str, int]]) -> int:
    """How many holders of memory have given up."""
    return counters["box"].get(CONTEXTS_GAVE_UP, 0) + sum(own.get(GAVE_UP, 0) for own in counters.values())


def bursts(packets: Iterable[Input], most: int = MOST) -> Iterator[Secrets | list[Packet]]:
    """The packets in bursts of 1, 2, 3 and so on to `most`, and again; ended by secrets."""
    burst: list[Packet] = []
    size = 1
    for packet in packets:
        if isinstance(packet, Packet):
            burst.append(packet)
        if burst and (len(burst) == size or isinstance(packet, Secrets)):
            yield burst
            burst, size = [], size % most + 1
        if isinstance(packet, Secrets):
            yield packet
    if burst:
        yield burst


def _number(layer: LayerProgram, event: str, name: str, value: Any) -> Any:
    names = value_names(layer, layer.events[event], name)
    return names.index(value) if names is not None and isinstance(value, str) else value


def run_interpreted(
    made: Compared,
    packets: Iterable[Input],
    settings: Settings,
    pressure: Pressure | None = None,
) -> tuple[list[Any], dict[str, dict[str, int]]]:
    """Events and counters of the interpreter, on which no pass had an influence."""
    interpreter = Interpreter(
        made.built,
        timeouts=settings.timeouts,
        idle=settings.idle,
        lifetime=settings.lifetime,
        max_instances=settings.max_instances,
        work=settings.work,
        bundle=settings.bundle,
        bundle_mean=settings.bundle_mean,
        library=made.compiled.path,
        natives=settings.natives,
    )
    pressure = pressure or Pressure(MOST)
    for burst, count in zip(bursts(packets, pressure.most), chain(pressure.moments, repeat(0)), strict=False):
        if isinstance(burst, Secrets):
            interpreter.secrets(burst.data, burst.kind)
        else:
            for packet in burst:
                interpreter.packet(packet.data, packet.time, packet.link_type, packet.length)
        interpreter.give_up(count)
    interpreter.close()
    assert interpreter.conserves()
    events = [(e.layer, e.name, e.instance, e.side, e.values) for e in interpreter.events]
    return events, {**interpreter.counters, "box": interpreter.box}


def assert_same(
    made: Compared, packets: Sequence[Input], settings: Settings | None = None, pressure: Pressure | None = None
) -> None:
    """Both say the same: same events in the same order, same bytes, same counters.

    With `pressure`, the interpreter's holders of memory give up when those of compiled code do. Nothing is compared if
    compiled code had no memory for a packet. The stack was compiled with the function REFUSED.
    """
    settings = settings or Settings(timeouts=True, memory=1 << 26, max_instances=1 << 16, seed=1)
    events, counters = run_compiled(made, packets, settings, pressure)
    if pressure is not None and pressure.refused:
        return
    expected, expected_counters = run_interpreted(made, packets, settings, pressure)
    for number, (one, other) in enumerate(zip(events, expected, strict=False)):
        assert one == other, f"event {number}: compiled {one}, interpreted {other}"
    assert len(events) == len(expected), (
        f"compiled {events[len(expected) :][:3]}, interpreted {expected[len(events) :][:3]}"
    )
    for layer, own in counters.items():
        for name, value in own.items():
            if name not in NOT_MODELLED:
                assert value == expected_counters[layer].get(name, 0), f"counter '{name}' of layer '{layer}'"


def read_capture(made: CompiledStack, path: Path) -> Iterator[Packet]:
    """The packets of a capture file, by the reader that the library carries."""
    library = ctypes.CDLL(str(made.compiled.path))
    library.sl_capture_open.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.sl_capture_next.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.sl_capture_close.argtypes = [ctypes.c_void_p]
    capture, message, frame = ctypes.c_void_p(), ctypes.create_string_buffer(512), Frame()
    if library.sl_capture_open(ctypes.byref(capture), str(path).encode(), message, 512):
        raise OSError(message.value.decode())
    try:
        while library.sl_capture_next(capture, ctypes.byref(frame)) == 1:
            data = ctypes.string_at(_address(frame), frame.captured) if frame.captured else b""
            yield Packet(data, frame.time, frame.link_type, frame.length)
    finally:
        library.sl_capture_close(capture)


def _address(frame: Frame) -> int:
    """The pointer itself: ctypes would read `at` as a text that ends at a zero."""
    return ctypes.c_void_p.from_buffer(frame, Frame.at.offset).value or 0
