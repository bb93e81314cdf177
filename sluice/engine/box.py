"""A box: a compiled stack with its functions, loaded and ready for packets."""

from __future__ import annotations

import ctypes
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.codegen.stack import Generated, generate
from sluice.engine.cache import cache_folder
from sluice.engine.compiler import Compiled, compile_library
from sluice.engine.events import Decoder, Handler, PythonFunction, Seen, place_of
from sluice.engine.interrupt import noted
from sluice.engine.program_cache import Made, content, noted_warnings, outline, recall
from sluice.engine.program_cache import keep as keep_made
from sluice.hooks.function import CFunction, Functions
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.lang.stack import Stack
from sluice.lower.build import build
from sluice.passes.pipeline import run as run_passes
from sluice.passes.pipeline import uncollected

_DELIVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
MESSAGE_SIZE = 512
TLS_KEY_LOG = 0x544C534B
"""The kind of secrets that are text as SSLKEYLOGFILE has it: SL_SECRETS_TLS_KEY_LOG."""


class RunError(Exception):
    """A box that cannot run: no memory, a file that cannot be read, a function that refuses."""


class _Bytes(ctypes.Structure):
    """sl_bytes."""

    _fields_ = (("at", ctypes.c_char_p), ("captured", ctypes.c_uint32), ("length", ctypes.c_uint32))


class Frame(ctypes.Structure):
    """struct sl_frame."""

    _fields_ = (
        ("at", ctypes.c_char_p),
        ("captured", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
        ("time", ctypes.c_uint64),
        ("link_type", ctypes.c_uint32),
        ("interface", ctypes.c_uint32),
        ("number", ctypes.c_uint64),
    )


class CounterInfo(ctypes.Structure):
    """struct sl_counter_info."""

    _fields_ = (("layer", ctypes.c_char_p), ("name", ctypes.c_char_p))


class Report(ctypes.Structure):
    """struct sl_report: a number of a function's own."""

    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_uint64))


HOLD = 1 << 24
"""Bytes that one side of a connection may hold out of order, unless the user says otherwise."""


class COptions(ctypes.Structure):
    """struct sl_options."""

    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("memory", ctypes.c_uint64),
        ("max_instances", ctypes.c_uint32),
        ("timeouts", ctypes.c_bool),
        ("idle", ctypes.c_double),
        ("function_options", ctypes.POINTER(ctypes.c_char_p)),
        ("deliver", _DELIVER),
        ("user", ctypes.c_void_p),
        ("native_options", ctypes.POINTER(ctypes.c_char_p)),
        ("prefault", ctypes.c_bool),
        ("forward", ctypes.c_void_p),
        ("forward_user", ctypes.c_void_p),
        ("hold", ctypes.c_uint64),
    )


@dataclass
class Settings:
    """Bounds and choices of a box.

    memory: bytes that all sequences together may hold. max_instances: of each table. timeouts: whether anything times
    out. idle: seconds in place of each layer's general timeout. seed: of the hashes, random when None. natives: by the
    names of their options, what native modules get. prefault: whether all memory that these bounds allow is taken when
    the box is opened, so that no packet waits for it. hold: bytes that one side of a connection may hold out of order,
    where its sequence has no limit of its own.
    """

    memory: int = 1 << 30
    max_instances: int = 1 << 22
    timeouts: bool = True
    idle: float | None = None
    seed: int | None = None
    natives: dict[str, str] = field(default_factory=lambda: {})
    prefault: bool = False
    hold: int = HOLD


def c_options(
    settings: Settings, functions: list[str], count: int, natives: list[str], deliver: Any = None
) -> COptions:
    """The settings as C takes them.

    functions: the options of the first of `count` functions in C. natives: names of the options that native modules
    take. deliver: a _DELIVER, called with batches of events for functions in Python.
    """
    texts = _texts(functions + [""] * count)
    seed = settings.seed if settings.seed is not None else secrets.randbits(64)
    return COptions(
        seed,
        settings.memory,
        settings.max_instances,
        settings.timeouts,
        settings.idle or 0.0,
        texts,
        deliver or _DELIVER(),
        None,
        _texts([settings.natives.get(option, "") for option in natives]),
        settings.prefault,
        None,
        None,
        settings.hold,
    )


def _texts(texts: list[str]) -> Any:
    """Texts as C takes them, and an empty one behind them, as there is no array of none."""
    array = (ctypes.c_char_p * (len(texts) + 1))(*(text.encode() for text in texts), b"")
    return ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p))


@dataclass
class CompiledStack:
    """A stack with its functions as a library. The program's graphs are empty."""

    program: Program
    generated: Generated
    compiled: Compiled
    functions: Functions
    seconds: float


def compile_stack(
    stack: Stack,
    functions: tuple[CFunction, ...] = (),
    python: frozenset[Hook] = frozenset(),
    passes: str | list[str] = "all",
    options: frozenset[str] = frozenset(),
    fresh: bool = False,
    check: Callable[[Program], None] = lambda _: None,
    demanded: tuple[frozenset[Hook], ...] = (),
    many: frozenset[Hook] = frozenset(),
) -> CompiledStack:
    """Description to library. `seconds` of the result is what Sluice itself took, without the C compiler.

    A later call for the same description finds what this one made. fresh: neither is looked for, nor kept. check: looks
    at the program before any C of it is compiled; may raise. demanded: the events for each handler on demand in Python.
    many: those that Python takes many at once of.
    """
    begin = time.perf_counter()
    hooked = Functions(functions, python, demanded, many)
    found = content(stack, hooked, passes, options) if not fresh else None
    made = recall(cache_folder(), stack.name, found) if found is not None else None
    warned = False
    if made is None:
        with uncollected():
            with noted_warnings() as given:
                program = run_passes(build(stack, hooked.hooks(), options, hooked.kept), passes)
            warned = bool(given)
            check(program)
            made = Made(outline(program), generate(program, hooked))
    else:
        check(made.program)
        found = None
    seconds = time.perf_counter() - begin
    compiled = CompiledStack(made.program, made.generated, compile_library(made.generated, fresh), hooked, seconds)
    if found is not None and not warned:  # who is warned is warned each time
        keep_made(cache_folder(), stack.name, found, made)
    return compiled


@dataclass
class Outcome:
    """What a run came to.

    counters: by layer ("box" for the whole) and name. reports: figures of functions. failure: what a function could
    not do, None when nothing. fault: what is wrong with the
    file, None when nothing is. stopped: whether the user stopped it.
    """

    packets: int
    counters: dict[str, dict[str, int]]
    reports: dict[str, int]
    fault: str | None = None
    failure: str | None = None
    stopped: bool = False
    seconds: float = 0.0


@dataclass
class Box:
    """A running box. Feed it packets or files, then `finish` and `close` (or use it in a `with`).

    output: a capture file for the packets that leave the box, where a function drops, changes or sends packets.
    """

    stack: CompiledStack
    settings: Settings = field(default_factory=Settings)
    python: list[PythonFunction] = field(default_factory=lambda: [])
    function_options: list[str] = field(default_factory=lambda: [])
    output: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        self._library = ctypes.CDLL(str(self.stack.compiled.path))
        self._prefix = self.stack.generated.name
        self._decoder = Decoder(
            self.stack.program,
            self.stack.generated.events,
            self.stack.generated.roots,
            self.stack.generated.columns,
            self.stack.generated.column_roots,
        )
        self._route: dict[type, list[Callable[[Any], object]]] = {}
        """The handlers of each kind of event."""
        for kind, (layer_name, event) in zip(self._decoder.types, self.stack.generated.events, strict=True):
            layer = self.stack.program.layers[layer_name]
            calls: list[Handler] = []
            bit = self.stack.functions.first_demanded
            for function in self.python:
                calls += function.called(layer, event, bit)
                bit += len(function.on_demand)
            self._route[kind] = calls
        for many, (layer_name, event) in zip(self._decoder.many, self.stack.generated.columns, strict=True):
            layer = self.stack.program.layers[layer_name]
            self._route[many] = [call for function in self.python for call in function.called_with_many(layer, event)]
        self._error: BaseException | None = None
        self._in_function = False
        self._number = 0
        self._deliver = _DELIVER(self._batch) if self._route else _DELIVER()
        natives = [module.option for module in self.stack.program.natives]
        functions = len(self.stack.functions.c)
        self._options = c_options(self.settings, self.function_options, functions, natives, self._deliver)
        self._writer = ctypes.c_void_p()
        if self.output is not None:
            self._open_output(self.output)
        self._open = self._function("open", ctypes.c_void_p, ctypes.POINTER(COptions))
        self._process = self._function("process", None, ctypes.c_void_p, ctypes.POINTER(Frame), ctypes.c_size_t)
        self._finish = self._function("finish", None, ctypes.c_void_p)
        self._close = self._function("close", None, ctypes.c_void_p)
        box = self._open(ctypes.byref(self._options))
        if not box:
            self._close_output()
            raise RunError(
                f"the box cannot be opened: a function refused, or the machine has no room for tables of "
                f"{self.settings.max_instances} instances and {self.settings.memory} bytes of held data"
            )
        self._box = ctypes.c_void_p(box)
        self._switches()
        self._finished = False
        self._output_fault: str | None = None

    def _open_output(self, path: str | os.PathLike[str]) -> None:
        """Create the capture file that takes what leaves the box."""
        library, message = self._library, ctypes.create_string_buffer(MESSAGE_SIZE)
        library.sl_writer_open.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t,
        ]  # fmt: skip
        link_type = 0xFFFFFFFF  # that of the first packet
        if library.sl_writer_open(ctypes.byref(self._writer), os.fsencode(path), link_type, 0, message, MESSAGE_SIZE):
            raise RunError(message.value.decode(errors="replace"))
        self._options.forward = ctypes.cast(library.sl_writer_forward, ctypes.c_void_p)
        self._options.forward_user = self._writer

    def _close_output(self) -> None:
        """End that file; what it could not take is told in `_output_fault`."""
        if not self._writer.value:
            return
        library, message = self._library, ctypes.create_string_buffer(MESSAGE_SIZE)
        library.sl_writer_fault.restype = ctypes.c_char_p
        library.sl_writer_fault.argtypes = [ctypes.c_void_p]
        library.sl_writer_close.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        fault = library.sl_writer_fault(self._writer)
        failed = library.sl_writer_close(self._writer, message, MESSAGE_SIZE)
        self._writer = ctypes.c_void_p()
        text = fault or (message.value if failed else b"")
        self._output_fault = f"{self.output}: {text.decode(errors='replace')}" if text else None

    def _function(self, name: str, result: type | None, *arguments: type) -> Callable[..., int]:
        function = self._library[f"{self._prefix}_{name}"]
        function.restype = result
        function.argtypes = arguments
        return function

    def _batch(self, _user: int, at: int, size: int) -> None:
        """Hand a batch of events to the functions; an exception of theirs is raised again where Python called."""
        if self._error is not None:
            return
        try:
            self._in_function = True
            calls = self._route
            for seen in self._decoder.decode(ctypes.string_at(at, size)):
                for call in calls[type(seen)]:
                    call(seen)
        except BaseException as error:
            self._error = error
        finally:
            self._in_function = False

    def _interrupted(self) -> None:
        """Ctrl-C: stop as soon as C code asks, and a function of the user's at once."""
        self._error = KeyboardInterrupt()
        if self._in_function:
            raise self._error

    def _switches(self) -> None:
        """Let the handlers on demand of functions in Python register themselves."""
        if not self.stack.functions.demanded:
            return
        number, numbers = ctypes.c_uint32, ctypes.c_uint64
        watch = self._function("watch", None, ctypes.c_void_p, number, number, numbers, numbers, ctypes.c_bool)
        handlers = [handler for function in self.python for _, _, handler in function.on_demand]
        for bit, handler in enumerate(handlers, self.stack.functions.first_demanded):
            on_demand: Any = handler

            def switch(seen: Seen | None, registered: bool, handlers: int = 1 << bit) -> None:
                place = (0, 0, 0) if seen is None else place_of(seen)
                if seen is None or seen.instance:
                    watch(self._box, *place, handlers, registered)

            on_demand.switch = switch
            if on_demand.registered:
                switch(None, True)

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def packet(self, data: bytes, time_ns: int = 0, link_type: int = 1, length: int | None = None) -> None:
        """Process one packet; `length` is that on the wire, where not all of it was captured."""
        self.burst([(data, time_ns, link_type, length)])

    def burst(self, packets: Sequence[tuple[bytes, int, int, int | None]]) -> None:
        """Process packets in order, each with its time, its link type and its length (see `packet`)."""
        # memory of exactly a packet's size, so that a read behind its end is one that sanitizers see
        held = [ctypes.create_string_buffer(data, len(data)) if data else None for data, *_ in packets]
        frames = (Frame * len(packets))()
        for frame, at, (data, time_ns, link_type, length) in zip(frames, held, packets, strict=True):
            self._number += 1
            frame.at = ctypes.cast(at, ctypes.c_char_p) if at is not None else None
            frame.captured, frame.length = len(data), len(data) if length is None else length
            frame.time, frame.link_type, frame.number = time_ns, link_type, self._number
        self._process(self._box, frames, len(packets))
        self._raise()

    def secrets(self, data: bytes, kind: int = TLS_KEY_LOG) -> None:
        """Hand secrets to the native modules, for the packets from now on; those of a capture file `run` hands on."""
        hand = self._library.sl_box_secrets
        hand.restype, hand.argtypes = None, [ctypes.c_void_p, ctypes.c_uint32, _Bytes]
        hand(self._box, kind, _Bytes(data, len(data), len(data)))

    def run(self, path: str | os.PathLike[str], progress: Callable[[int, int, int], bool] | None = None) -> Outcome:
        """Process a capture file. `progress(bytes done, bytes, packets)` may return True to stop.

        Raises RunError when the file cannot be read at all; a fault in its middle is told in the outcome.
        """
        library = self._library
        capture = ctypes.c_void_p()
        message = ctypes.create_string_buffer(MESSAGE_SIZE)
        library.sl_capture_open.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_size_t,
        ]
        if library.sl_capture_open(ctypes.byref(capture), os.fsencode(path), message, MESSAGE_SIZE):
            raise RunError(message.value.decode(errors="replace"))

        def report(_user: int, done: int, size: int, packets: int) -> int:
            if self._error is not None:
                return 1
            try:
                return int(progress(done, size, packets)) if progress is not None else 0
            except BaseException as error:
                self._error = error
                return 1

        stopped = ctypes.c_int()
        library.sl_run.restype = ctypes.c_uint64
        library.sl_run.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, _PROGRESS, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int),
        ]  # fmt: skip
        process = ctypes.cast(library[f"{self._prefix}_process"], ctypes.c_void_p)
        callback = _PROGRESS(report)
        library.sl_capture_fault.restype = ctypes.c_char_p
        library.sl_capture_fault.argtypes = [ctypes.c_void_p]
        library.sl_capture_close.argtypes = [ctypes.c_void_p]
        begin = time.perf_counter()
        try:
            with noted(self._interrupted):
                packets = library.sl_run(process, self._box, capture, callback, None, ctypes.byref(stopped))
            fault = library.sl_capture_fault(capture)
            self._raise()
            self.finish()
        finally:
            library.sl_capture_close(capture)
        return Outcome(
            packets=packets,
            counters=self.counters(),
            reports=self.reports(),
            failure=self.failure(),
            fault=f"{Path(path)}: {fault.decode(errors='replace')}" if fault else None,
            stopped=stopped.value == 2,
            seconds=time.perf_counter() - begin,
        )

    def finish(self) -> None:
        """The end of input: every instance ends, functions report."""
        if not self._finished:
            self._finished = True
            with noted(self._interrupted):
                self._finish(self._box)
            # what functions in C printed stands before what is said of the run, also where nobody watches
            ctypes.CDLL(None).fflush(None)
            self._close_output()
            self._raise()
            for function in self.python:
                for ending in function.endings:
                    ending()

    def counters(self) -> dict[str, dict[str, int]]:
        """All counters, by layer and name."""
        self._library.sl_box_counters.restype = ctypes.POINTER(ctypes.c_uint64)
        self._library.sl_box_counters.argtypes = [ctypes.c_void_p]
        pointer = self._library.sl_box_counters(self._box)
        found: dict[str, dict[str, int]] = {}
        for number, (layer, name) in enumerate(self.stack.generated.counters):
            found.setdefault(layer, {})[name] = pointer[number]
        return found

    def failure(self) -> str | None:
        """What a function could not do; None when all is well."""
        self._library.sl_box_failure.restype = ctypes.c_char_p
        self._library.sl_box_failure.argtypes = [ctypes.c_void_p]
        text = self._library.sl_box_failure(self._box)
        return text.decode(errors="replace") if text else self._output_fault

    def reports(self) -> dict[str, int]:
        """Figures that functions reported."""
        self._library.sl_box_reports.argtypes = [ctypes.c_void_p, ctypes.POINTER(Report), ctypes.c_uint32]
        rows = (Report * 64)()
        count = self._library.sl_box_reports(self._box, rows, 64)
        found = {rows[n].name.decode(): rows[n].value for n in range(count)}
        for function in self.python:
            found |= function.counted()
        return found

    def close(self) -> None:
        """Give the memory back. Without `finish` before, what was held is forgotten."""
        if self._box.value:
            self._close(self._box)
            self._box = ctypes.c_void_p()
            self._close_output()
            for function in self.python:
                for _, _, handler in function.on_demand:
                    on_demand: Any = handler
                    on_demand.switch = None

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
